-- Requests that may be sent again, and what came of each: for a turn, its run. `scope` says what a key is unique in: for
-- a turn, its owner. Written in the transaction that carries the request out.
create table idempotency (
    account  text collate "C" not null,
    scope    text collate "C" not null,
    key      text collate "C" not null,
    digest   bytea  not null,
    outcome  text   not null,
    asked_by text,
    asked_at bigint not null,
    primary key (account, scope, key)
);
insert into idempotency (account, scope, key, digest, outcome, asked_at)
    select q.account, q.owner, q.request_id, q.digest, q.run, coalesce((select r.created_at from runs r where r.id = q.run), 0)
    from requests q;
drop table requests;
