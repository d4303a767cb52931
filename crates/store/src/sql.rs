//! Every statement of the store, in one place, so that a test can have both databases explain each
//! of them: none may read a whole table that grows.
//!
//! The text is common to both databases (`$n`, `returning`, `on conflict`). Where they differ, the
//! two forms stand side by side in a `Both`.

use threadline_db::Both;

use crate::{
    Dialect,
    lease_table::{LeaseTable, lease_table},
};

/// Leases of open runs. Who drove a run last stays known when it is closed: notes about it may lie there.
pub(crate) const RUN_LEASES: LeaseTable = lease_table!("runs", "id", "phase <> 'closed'");

macro_rules! statements {
    (
        common { $($name:ident = $sql:expr;)* }
        both { $($both:ident = { sqlite: $sqlite:expr, postgres: $postgres:expr };)* }
        postgres { $($p_name:ident = $p_sql:expr;)* }
    ) => {
        $(pub(crate) const $name: &str = $sql;)*
        $(pub(crate) const $both: Both = Both { sqlite: $sqlite, postgres: $postgres };)*
        $(pub(crate) const $p_name: &str = $p_sql;)*

        /// The name and text of every statement that is used with this database.
        pub fn statements(dialect: Dialect) -> Vec<(&'static str, &'static str)> {
            let mut all = vec![
                $((stringify!($name), $name),)*
                $((stringify!($both), $both.of(dialect)),)*
            ];
            if dialect == Dialect::Postgres {
                all.extend([$((stringify!($p_name), $p_name),)*]);
            }
            all.extend(RUN_LEASES.statements(dialect));
            all
        }
    };
}

macro_rules! session_columns {
    () => {
        "account, owner, runtime, version, session_key, expected_dirs, working_directory, state, created_at, updated_at, node, closed_by"
    };
}
macro_rules! run_columns {
    () => {
        "id, account, owner, runtime, session_key, method, phase, status, code, message, text, usage, missing, \
         cancel_requested_at, created_at, started_at, ended_at, closed_at, artifact_state, omitted, empty_reason, \
         anomalies, lease_owner, lease_epoch, lease_until, log_from, log_to, begun_by, cancel_requested_by"
    };
}
macro_rules! overview_columns {
    () => {
        "num, id, owner, runtime, session_key, phase, status, code, message, usage, cancel_requested_at, created_at, \
         started_at, ended_at, artifact_state, lease_owner, lease_until, log_from, begun_by, cancel_requested_by"
    };
}
macro_rules! event_columns {
    () => {
        "seq, run, frame, kind, body, at"
    };
}
macro_rules! question_columns {
    () => {
        "id, account, owner, run, body, state, asked_at, closed_at, answer, closed_by, closed_by_principal"
    };
}

statements! {
common {
    ENSURE_ACCOUNT = "insert into accounts (id, created_at) values ($1, $2) on conflict (id) do nothing";
    ADD_TOKEN = "insert into tokens (id, account, hash, label, created_at, scopes, made_by, parent) values ($1, $2, $3, $4, $5, $6, $7, $8)";
    ADMIT_TOKEN = "insert into tokens (id, account, hash, label, created_at, scopes, made_by, parent) values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (hash) do nothing";
    TOKEN_OF_HASH = "select id, account, label, scopes, created_at, made_by, parent, revoked_at from tokens where hash = $1";
    TOKEN_BY_ID = "select id, account, label, scopes, created_at, made_by, parent, revoked_at from tokens where id = $2 and account = $1 and revoked_at is null \
        and not exists (select 1 from tokens p where p.id = tokens.parent and p.revoked_at is not null)";
    TOKEN_BY_HASH = "select id, account, label, scopes, created_at, made_by, parent, revoked_at from tokens where hash = $1 and revoked_at is null \
        and not exists (select 1 from tokens p where p.id = tokens.parent and p.revoked_at is not null)";
    TOKENS = "select id, account, label, scopes, created_at, made_by, parent, revoked_at from tokens where account = $1 order by created_at, id";
    REVOKE_TOKEN = "update tokens set revoked_at = coalesce(revoked_at, $3) where id = $2 and account = $1";

    BIND_SESSION = concat!("insert into sessions (", session_columns!(),
        ") values ($1, $2, $3, $4, $5, $6, $7, 'open', $8, $8, $9, null) on conflict do nothing returning ", session_columns!());
    SESSION = concat!("select ", session_columns!(), " from sessions where account = $1 and owner = $2 and runtime = $3 order by version desc limit 1");
    SESSION_OF_VERSION = concat!("select ", session_columns!(), " from sessions where account = $1 and owner = $2 and runtime = $3 and version = $4");
    SESSION_BY_KEY = concat!("select ", session_columns!(), " from sessions where session_key = $2 and account = $1");
    SESSIONS_OF_OWNER = concat!("select ", session_columns!(), " from sessions where account = $1 and owner = $2 order by num desc");
    REBIND_SESSION = concat!("update sessions set expected_dirs = $2, updated_at = $3 where session_key = $1 returning ", session_columns!());
    SET_SESSION_STATE = concat!("update sessions set state = $3, updated_at = $4, closed_by = $5 where session_key = $2 and account = $1 returning ", session_columns!());

    CLAIM_NODE = "insert into nodes (node, url, seen_at, incarnation) values ($1, $2, $3, $4) \
        on conflict (node) do update set url = excluded.url, seen_at = excluded.seen_at, incarnation = excluded.incarnation \
        where nodes.incarnation is null or nodes.incarnation in ($4, $5) or nodes.seen_at < $6";
    NOTE_NODE = "update nodes set url = $2, seen_at = $3 where node = $1 and incarnation = $4";
    RELEASE_NODE = "update nodes set incarnation = null where node = $1 and incarnation = $2";
    NODE = "select node, url, seen_at from nodes where node = $1";
    SESSIONS_WITHOUT_NODE = concat!("select num, ", session_columns!(),
        " from sessions where runtime = $1 and node is null and num > $2 order by num limit $3");
    MOVE_SESSION = "update sessions set node = $3 where session_key = $1 and node is not distinct from $2";
    LEAVE_SESSIONS = "delete from sessions where account = $1 and owner = $2 and node = $3";
    LEAVE_RUNS = "update runs set lease_owner = null where account = $1 and owner = $2 and lease_owner = $3 and phase = 'closed'";

    OUTCOME = "select digest, outcome from idempotency where account = $1 and scope = $2 and key = $3";
    KEEP_OUTCOME = "insert into idempotency (account, scope, key, digest, outcome, asked_by, asked_at) values ($1, $2, $3, $4, $5, $6, $7)";
    ADD_RUN = concat!("insert into runs (id, account, owner, runtime, session_key, method, phase, created_at, lease_owner, lease_epoch, lease_until, log_from, begun_by) \
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, (select coalesce(max(seq), 0) from events where stream = $12), $13) returning ", run_columns!());
    ADD_TURN = "insert into turns (run, turn) values ($1, $2)";
    CHANGE_TURN = "update turns set turn = $2 where run = $1";
    TURN = "select turn from turns where run = $1";
    RUN = concat!("select ", run_columns!(), " from runs where id = $2 and account = $1");
    RUN_ANY = concat!("select ", run_columns!(), " from runs where id = $1");
    LATEST_RUN = concat!("select ", run_columns!(), " from runs where account = $1 and owner = $2 order by num desc limit 1");
    LAST_BEGUN_RUN = concat!("select ", run_columns!(), " from runs where account = $1 and owner = $2 and session_key = $3 \
        and started_at is not null and num < coalesce((select num from runs where id = $4), 9223372036854775807) order by num desc limit 1");
    RUNS_OF_OWNER = concat!("select ", run_columns!(), " from runs where account = $1 and owner = $2 order by num desc limit $3");
    RUNS_OF_OWNER_BEFORE = concat!("select ", run_columns!(), " from runs where account = $1 and owner = $2 \
        and num < (select num from runs where id = $3 and account = $1) order by num desc limit $4");
    OPEN_RUNS = concat!("select ", run_columns!(), " from runs where phase <> 'closed' \
        and num > coalesce((select num from runs where id = $1), 0) order by num limit $2");
    LANE = "select id, account, owner, session_key, phase, lease_owner from runs where runtime = $1 and phase <> 'closed' order by num";
    CHANGE_RUN = concat!("update runs set phase = coalesce($3, phase), code = coalesce($4, code), message = coalesce($5, message), \
        text = coalesce($6, text), usage = coalesce($7, usage), missing = coalesce($8, missing), started_at = coalesce($9, started_at), \
        ended_at = coalesce($10, ended_at), closed_at = coalesce($11, closed_at), artifact_state = coalesce($12, artifact_state), \
        anomalies = case when length(anomalies) < 65536 then anomalies || $13 else anomalies end \
        where id = $1 and lease_epoch = $2 returning ", run_columns!());
    END_RUN = concat!("update runs set status = $3, code = coalesce($4, code), message = coalesce($5, message), text = coalesce($6, text), \
        usage = coalesce($7, usage), missing = coalesce($8, missing), ended_at = $9, phase = coalesce($10, phase) \
        where id = $1 and lease_epoch = $2 and status = 'running' returning ", run_columns!());
    CLOSE_LOG = "update runs set log_to = $2 where id = $1";
    ADD_ANOMALY = concat!("update runs set anomalies = anomalies || $3 where id = $1 and lease_epoch = $2 and length(anomalies) < 65536 returning ",
        run_columns!());
    REQUEST_CANCEL = concat!("update runs set cancel_requested_at = $3, cancel_requested_by = $4 \
        where id = $2 and account = $1 and status = 'running' and cancel_requested_at is null returning ", run_columns!());

    REOPEN_FILES = "update runs set phase = 'collecting', closed_at = null, artifact_state = 'pending', \
        lease_owner = $2, lease_epoch = lease_epoch + 1, lease_until = $3 \
        where id = $1 and phase = 'closed' and artifact_state = 'failed' returning lease_epoch";
    CLAIMABLE_RUNS = concat!("select ", run_columns!(), " from runs where phase <> 'closed' and lease_until <= $1 order by lease_until, num limit $2");

    EVENTS_AFTER = concat!("select ", event_columns!(), " from events where stream = $1 and seq > $2 order by seq limit $3");
    RUN_EVENTS = concat!("select ", event_columns!(), " from events where stream = $1 and seq > $2 and seq <= $3 and run = $4 order by seq limit $5");
    LAST_SEQ = "select coalesce(max(seq), 0) from events where stream = $1";
    LAST_FRAME = "select frame, at from events where stream = $1 and seq > $2 and run = $3 and frame is not null order by seq desc limit 1";

    RUNS_OF_ACCOUNT = concat!("select ", overview_columns!(), " from runs where account = $1 and num < $2 order by num desc limit $3");
    OPEN_RUNS_OF_ACCOUNT = concat!("select ", overview_columns!(),
        " from runs where account = $1 and num < $2 and phase <> 'closed' order by num desc limit $3");
    FAILED_RUNS_OF_ACCOUNT = concat!("select ", overview_columns!(),
        " from runs where account = $1 and num < $2 and status in ('failed', 'artifact_missing') order by num desc limit $3");
    LAST_FAILURE = concat!("select ", overview_columns!(),
        " from runs where account = $1 and runtime = $2 and status in ('failed', 'artifact_missing') order by num desc limit 1");
    LATEST_RUN_OF_SESSION = concat!("select ", overview_columns!(),
        " from runs where account = $1 and owner = $2 and session_key = $3 order by num desc limit 1");
    COUNT_OPEN_RUNS = "select phase, count(*) from runs where account = $1 and phase <> 'closed' group by phase";
    LAST_EVENT = "select seq, kind, at from events where stream = $1 and seq > $2 and run = $3 order by seq desc limit 1";
    SESSIONS_OF_ACCOUNT = concat!("select num, ", session_columns!(), " from sessions where account = $1 and num < $2 order by num desc limit $3");

    ADD_QUESTION = concat!("insert into questions (", question_columns!(), ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
    CLOSE_QUESTION = concat!("update questions set state = $3, closed_at = $4, answer = $5, closed_by = $6, closed_by_principal = $7 \
        where id = $2 and account = $1 and state = 'open' returning ", question_columns!());
    QUESTION = concat!("select ", question_columns!(), " from questions where id = $2 and account = $1");
    QUESTIONS = concat!("select ", question_columns!(), " from questions where account = $1 order by num desc limit $2");
    QUESTIONS_OF_OWNER = concat!("select ", question_columns!(), " from questions where account = $1 and owner = $2 order by num desc limit $3");
    OPEN_QUESTIONS = concat!("select ", question_columns!(), " from questions where account = $1 and state = 'open' order by num desc limit $2");
    OPEN_QUESTIONS_OF_OWNER = concat!("select ", question_columns!(),
        " from questions where account = $1 and owner = $2 and state = 'open' order by num desc limit $3");
    QUESTIONS_OF_THREADS = concat!("select ", question_columns!(),
        " from questions where account = $1 and substr(owner, 1, 7) = 'thread:' order by num desc limit $2");
    OPEN_QUESTIONS_OF_THREADS = concat!("select ", question_columns!(),
        " from questions where account = $1 and state = 'open' and substr(owner, 1, 7) = 'thread:' order by num desc limit $2");
    OPEN_QUESTIONS_OF_RUN = concat!("select ", question_columns!(), " from questions where run = $1 and state = 'open' order by num");
    QUESTIONS_OF_RUN = concat!("select ", question_columns!(), " from questions where run = $1 order by num");
    WITHDRAW_QUESTIONS = concat!("update questions set state = 'withdrawn', closed_at = $2, closed_by = $3, closed_by_principal = $4 \
        where run = $1 and state = 'open' returning ", question_columns!());

    ADD_TOOL_CALL = "insert into tool_calls (run, call, name, arguments, called_at) values ($1, $2, $3, $4, $5) on conflict (run, call) do nothing";
    END_TOOL_CALL = "update tool_calls set result = coalesce(result, $3), ended_at = coalesce(ended_at, $4) where run = $1 and call = $2 returning result";
    TOOL_CALLS = "select call, name, arguments, result from tool_calls where run = $1 order by num";

    PUT_MANIFEST = concat!("update runs set omitted = $3, empty_reason = $4, artifact_state = 'done' \
        where id = $1 and lease_epoch = $2 returning ", run_columns!());
    DROP_ARTIFACTS = "delete from artifacts where run = $1";
    ARTIFACTS = "select a.path, a.size, a.sha256, a.content_type from runs r join artifacts a on a.run = r.id \
        where r.id = $2 and r.account = $1 and a.ordinal > $3 order by a.ordinal limit $4";
    ARTIFACT_COUNT = "select coalesce((select max(ordinal) from artifacts a where a.run = r.id), 0) from runs r where r.id = $2 and r.account = $1";
    ARTIFACT = "select a.path, a.size, a.sha256, a.content_type from runs r join artifacts a on a.run = r.id \
        where r.id = $2 and r.account = $1 and a.path_digest = $3 and a.path = $4";

    ASK_DELETION = "insert into deletions (account, owner, node, asked_at, asked_by) values ($1, $2, $3, $4, $5) on conflict do nothing";
    DELETION = "select 1 from deletions where account = $1 and owner = $2";
    // The wishes that are under way are few.
    DELETIONS = "select account, owner, node, asked_by from deletions order by asked_at";
    OPEN_RUN_OF_OWNER = "select 1 from runs where account = $1 and owner = $2 and phase <> 'closed' limit 1";
    DELETE_EVENTS = "delete from events where stream = $1 and seq in (select seq from events where stream = $1 order by seq limit $2)";
    DELETE_ARTIFACTS = "delete from artifacts where run in (select id from runs where account = $1 and owner = $2)";
    DELETE_QUESTIONS = "delete from questions where account = $1 and owner = $2";
    DELETE_TURNS = "delete from turns where run in (select id from runs where account = $1 and owner = $2)";
    DELETE_REQUESTS = "delete from idempotency where account = $1 and scope = $2";
    DELETE_RUNS = "delete from runs where account = $1 and owner = $2";
    DELETE_SESSIONS = "delete from sessions where account = $1 and owner = $2";
    DELETE_DELETION = "delete from deletions where account = $1 and owner = $2";

    ADD_SIGNING_KEY = "insert into signing_keys (kid, secret, created_at) values ($1, $2, $3)";
    SIGNING_KEYS = "select kid, secret, created_at, retired_at from signing_keys order by created_at desc, kid desc";
    RETIRE_SIGNING_KEY = "update signing_keys set retired_at = coalesce(retired_at, $2) where kid = $1";
}
both {
    LOCK_SESSION = {
        sqlite: concat!("select ", session_columns!(), " from sessions where session_key = $2 and account = $1"),
        postgres: concat!("select ", session_columns!(), " from sessions where session_key = $2 and account = $1 for update")
    };
    LOCK_RUN = {
        sqlite: concat!("select ", run_columns!(), " from runs where id = $2 and account = $1"),
        postgres: concat!("select ", run_columns!(), " from runs where id = $2 and account = $1 for update")
    };
    LOCK_LEASED_RUN = {
        sqlite: concat!("select ", run_columns!(), " from runs where id = $1 and lease_epoch = $2"),
        postgres: concat!("select ", run_columns!(), " from runs where id = $1 and lease_epoch = $2 for update")
    };
}
postgres {
    NEXT_NUMBERS = "insert into streams (stream, last_seq) values ($1, $2) \
        on conflict (stream) do update set last_seq = streams.last_seq + excluded.last_seq returning last_seq";
    DELETE_STREAM = "delete from streams where stream = $1";
    // Whoever changes the ring of keys does it alone. Held until the transaction ends.
    LOCK_KEYS = "select pg_advisory_xact_lock(hashtext('threadline_signing_keys'))";
    NOTIFY = "select pg_notify('threadline_events', $1)";
}
}
