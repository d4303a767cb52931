-- Calls of tools that came with a turn. `arguments` and `result` hold JSON.
create table tool_calls (
    num       bigint generated always as identity primary key,
    run       text collate "C" not null references runs (id) on delete cascade,
    call      text collate "C" not null,
    name      text   not null,
    arguments text   not null,
    result    text,
    called_at bigint not null,
    ended_at  bigint,
    unique (run, call)
);
