-- Texts that are compared and sorted use byte order ("C"), as SQLite does, whatever the database's locale.
-- Ids are text, times are milliseconds, JSON is text. `num` is the order of creation: clocks jump, it does not.

create table accounts (
    id         text collate "C" not null primary key,
    created_at bigint  not null
);

create table tokens (
    id         text collate "C" not null primary key,
    account    text collate "C" not null references accounts (id),
    hash       bytea   not null unique,
    label      text    not null,
    created_at bigint  not null,
    revoked_at bigint
);
create index tokens_by_account on tokens (account, created_at, id);

create table sessions (
    num               bigint generated always as identity primary key,
    account           text collate "C" not null,
    thread            text collate "C" not null,
    runtime           text collate "C" not null,
    session_key       text collate "C" not null unique,
    expected_dirs     text    not null,
    working_directory text,
    state             text    not null check (state in ('open', 'closed')),
    created_at        bigint  not null,
    updated_at        bigint  not null,
    unique (account, thread, runtime)
);

-- `message` and `text` hold JSON strings: what agents say may contain NUL, which PostgreSQL text cannot.
-- `anomalies` holds one JSON object per line, so that adding one is a plain concatenation.
create table runs (
    num                 bigint generated always as identity primary key,
    id                  text collate "C" not null unique,
    account             text collate "C" not null,
    thread              text collate "C" not null,
    runtime             text collate "C" not null,
    session_key         text collate "C" not null,
    method              text    not null,
    phase               text    not null,
    status              text    not null default 'running',
    code                text,
    message             text,
    text                text,
    usage               text,
    missing             text    not null default '[]',
    cancel_requested_at bigint,
    created_at          bigint  not null,
    started_at          bigint,
    ended_at            bigint,
    closed_at           bigint,
    artifact_state      text    not null default 'pending',
    omitted             text    not null default '[]',
    empty_reason        text,
    anomalies           text    not null default '',
    lease_owner         text,
    lease_epoch         bigint  not null default 0,
    lease_until         bigint  not null default 0
);
create index runs_by_thread on runs (account, thread, num);
create index runs_open on runs (num) where phase <> 'closed';
create index runs_lane on runs (runtime, num) where phase <> 'closed';
create index runs_claimable on runs (lease_until, num) where phase <> 'closed';

-- Apart from `runs`, because a turn may carry megabytes and a run's row is read and written often.
create table turns (
    run  text collate "C" not null primary key references runs (id),
    turn text not null
);

-- Written in one transaction with its run, before it: a reference back would have to be deferred, and then SQLite
-- looks through this table for every run that is made.
create table requests (
    account    text collate "C" not null,
    thread     text collate "C" not null,
    request_id text collate "C" not null,
    digest     bytea not null,
    run        text collate "C" not null,
    primary key (account, thread, request_id)
);

create table questions (
    num       bigint generated always as identity primary key,
    id        text collate "C" not null unique,
    account   text collate "C" not null,
    thread    text collate "C" not null,
    run       text collate "C" not null references runs (id),
    body      text    not null,
    state     text    not null,
    asked_at  bigint  not null,
    closed_at bigint,
    answer    text,
    closed_by text
);
create index questions_by_account on questions (account, num);
create index questions_by_thread on questions (account, thread, num);
create index questions_open on questions (account, thread, num) where state = 'open';
create index questions_by_run on questions (run, num);

-- Found by the digest of the path: a path may be longer than an index entry.
create table artifacts (
    run          text collate "C" not null references runs (id),
    ordinal      bigint  not null,
    path         text    not null,
    path_digest  bytea   not null,
    size         bigint  not null,
    sha256       bytea   not null,
    content_type text    not null,
    primary key (run, ordinal),
    unique (run, path_digest)
);

create table signing_keys (
    kid        text collate "C" not null primary key,
    secret     bytea   not null,
    created_at bigint  not null,
    retired_at bigint
);
