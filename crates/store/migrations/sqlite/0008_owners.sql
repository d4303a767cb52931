-- A thread is one kind of owner of sessions, runs, questions and logs. `owner` holds its text: `thread:<key>`,
-- `board:<task>:<agent>:v<n>`, `board:base:<agent>` or `build:<build>`. The logs of threads keep their names.

drop index runs_by_thread;
drop index questions_by_thread;
drop index questions_open;

-- `version` tells an owner's sessions on one runtime apart, where it may begin one anew.
create table new_sessions (
    num               integer not null primary key,
    account           text    not null,
    owner             text    not null,
    runtime           text    not null,
    version           integer not null,
    session_key       text    not null unique,
    expected_dirs     text    not null,
    working_directory text,
    state             text    not null check (state in ('open', 'closed')),
    created_at        integer not null,
    updated_at        integer not null,
    node              text,
    unique (account, owner, runtime, version)
) strict;
insert into new_sessions
    select num, account, 'thread:' || thread, runtime, 1, session_key, expected_dirs, working_directory, state, created_at, updated_at, node
    from sessions;
drop table sessions;
alter table new_sessions rename to sessions;
create index sessions_by_account on sessions (account, num);
create index sessions_without_node on sessions (runtime, num) where node is null;

alter table runs rename column thread to owner;
update runs set owner = 'thread:' || owner;
create index runs_by_owner on runs (account, owner, num);

-- In two steps: a thread may be called `thread:x`, beside one that is called `x`.
alter table requests rename column thread to owner;
update requests set owner = char(1) || owner;
update requests set owner = 'thread:' || substr(owner, 2);

alter table questions rename column thread to owner;
update questions set owner = 'thread:' || owner;
create index questions_by_owner on questions (account, owner, num);
create index questions_open on questions (account, owner, num) where state = 'open';

alter table deletions rename column thread to owner;
update deletions set owner = char(1) || owner;
update deletions set owner = 'thread:' || substr(owner, 2);
