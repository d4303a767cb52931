-- Ids are text, times are milliseconds, JSON is text. `num` is the order of creation: clocks jump, it does not.

create table accounts (
    id         text    not null primary key,
    created_at integer not null
) strict;

create table tokens (
    id         text    not null primary key,
    account    text    not null references accounts (id),
    hash       blob    not null unique,
    label      text    not null,
    created_at integer not null,
    revoked_at integer
) strict;
create index tokens_by_account on tokens (account, created_at, id);

create table sessions (
    num               integer not null primary key,
    account           text    not null,
    thread            text    not null,
    runtime           text    not null,
    session_key       text    not null unique,
    expected_dirs     text    not null,
    working_directory text,
    state             text    not null check (state in ('open', 'closed')),
    created_at        integer not null,
    updated_at        integer not null,
    unique (account, thread, runtime)
) strict;

-- `message` and `text` hold JSON strings: what agents say may contain NUL, which PostgreSQL text cannot.
-- `anomalies` holds one JSON object per line, so that adding one is a plain concatenation.
create table runs (
    num                 integer not null primary key,
    id                  text    not null unique,
    account             text    not null,
    thread              text    not null,
    runtime             text    not null,
    session_key         text    not null,
    method              text    not null,
    phase               text    not null,
    status              text    not null default 'running',
    code                text,
    message             text,
    text                text,
    usage               text,
    missing             text    not null default '[]',
    cancel_requested_at integer,
    created_at          integer not null,
    started_at          integer,
    ended_at            integer,
    closed_at           integer,
    artifact_state      text    not null default 'pending',
    omitted             text    not null default '[]',
    empty_reason        text,
    anomalies           text    not null default '',
    lease_owner         text,
    lease_epoch         integer not null default 0,
    lease_until         integer not null default 0
) strict;
create index runs_by_thread on runs (account, thread, num);
create index runs_open on runs (num) where phase <> 'closed';
create index runs_lane on runs (runtime, num) where phase <> 'closed';
create index runs_claimable on runs (lease_until, num) where phase <> 'closed';

-- Apart from `runs`, because a turn may carry megabytes and a run's row is read and written often.
create table turns (
    run  text not null primary key references runs (id),
    turn text not null
) strict;

-- Written in one transaction with its run, before it: a reference back would have to be deferred, and then SQLite
-- looks through this table for every run that is made.
create table requests (
    account    text not null,
    thread     text not null,
    request_id text not null,
    digest     blob not null,
    run        text not null,
    primary key (account, thread, request_id)
) strict;

create table questions (
    num       integer not null primary key,
    id        text    not null unique,
    account   text    not null,
    thread    text    not null,
    run       text    not null references runs (id),
    body      text    not null,
    state     text    not null,
    asked_at  integer not null,
    closed_at integer,
    answer    text,
    closed_by text
) strict;
create index questions_by_account on questions (account, num);
create index questions_by_thread on questions (account, thread, num);
create index questions_open on questions (account, thread, num) where state = 'open';
create index questions_by_run on questions (run, num);

-- Found by the digest of the path: a path may be longer than an index entry.
create table artifacts (
    run          text    not null references runs (id),
    ordinal      integer not null,
    path         text    not null,
    path_digest  blob    not null,
    size         integer not null,
    sha256       blob    not null,
    content_type text    not null,
    primary key (run, ordinal),
    unique (run, path_digest)
) strict, without rowid;

create table signing_keys (
    kid        text    not null primary key,
    secret     blob    not null,
    created_at integer not null,
    retired_at integer
) strict;
