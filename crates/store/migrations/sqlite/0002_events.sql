-- One log per stream. The one writer numbers a stream's events densely, from 1.
create table events (
    stream text    not null,
    seq    integer not null,
    run    text,
    frame  integer,
    kind   text    not null,
    body   text    not null,
    at     integer not null,
    primary key (stream, seq)
) strict;
create index events_by_run on events (run, seq) where run is not null;
create index events_frames on events (run, frame) where frame is not null;
