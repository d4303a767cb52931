create table counters (
    name  text    not null primary key,
    value integer not null
) strict;
