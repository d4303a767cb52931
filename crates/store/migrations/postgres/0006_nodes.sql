-- The servers that share this database, and where each can be reached by the others.
create table nodes (
    node    text collate "C" not null primary key,
    url     text,
    seen_at bigint not null
);
-- The one whose data folder holds a session; none where any can go on with it, or where none was noted yet.
alter table sessions add column node text collate "C";
create index sessions_without_node on sessions (runtime, num) where node is null;
