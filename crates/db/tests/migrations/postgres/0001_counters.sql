create table counters (
    name  text   not null primary key,
    value bigint not null
);
