-- One log per stream. The counter on the stream's row numbers its events densely, from 1: the row lock makes the order
-- of numbers the order of commits, so that a reader who goes by number never misses one.
create table streams (
    stream   text collate "C" not null primary key,
    last_seq bigint not null
) with (fillfactor = 50);

create table events (
    stream text collate "C" not null,
    seq    bigint not null,
    run    text collate "C",
    frame  bigint,
    kind   text   not null,
    body   text   not null,
    at     bigint not null,
    primary key (stream, seq)
);
create index events_by_run on events (run, seq) where run is not null;
create index events_frames on events (run, frame) where frame is not null;
