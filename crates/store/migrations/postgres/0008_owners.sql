-- A thread is one kind of owner of sessions, runs, questions and logs. `owner` holds its text: `thread:<key>`,
-- `board:<task>:<agent>:v<n>`, `board:base:<agent>` or `build:<build>`. The logs of threads keep their names.

drop index runs_by_thread;
drop index questions_by_thread;
drop index questions_open;

-- `version` tells an owner's sessions on one runtime apart, where it may begin one anew.
alter table sessions rename column thread to owner;
alter table sessions add column version bigint not null default 1;
alter table sessions alter column version drop default;
alter table sessions drop constraint sessions_account_thread_runtime_key;
update sessions set owner = 'thread:' || owner;
alter table sessions add unique (account, owner, runtime, version);

alter table runs rename column thread to owner;
update runs set owner = 'thread:' || owner;
create index runs_by_owner on runs (account, owner, num);

-- In two steps: a thread may be called `thread:x`, beside one that is called `x`.
alter table requests rename column thread to owner;
update requests set owner = chr(1) || owner;
update requests set owner = 'thread:' || substr(owner, 2);

alter table questions rename column thread to owner;
update questions set owner = 'thread:' || owner;
create index questions_by_owner on questions (account, owner, num);
create index questions_open on questions (account, owner, num) where state = 'open';

alter table deletions rename column thread to owner;
update deletions set owner = chr(1) || owner;
update deletions set owner = 'thread:' || substr(owner, 2);
