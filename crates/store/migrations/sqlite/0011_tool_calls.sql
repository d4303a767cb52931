-- Calls of tools that came with a turn. `arguments` and `result` hold JSON.
create table tool_calls (
    num       integer not null primary key,
    run       text    not null references runs (id) on delete cascade,
    call      text    not null,
    name      text    not null,
    arguments text    not null,
    result    text,
    called_at integer not null,
    ended_at  integer,
    unique (run, call)
) strict;
