-- Threads that somebody asked to delete. The row goes last, so that a deletion that was cut short is finished.
create table deletions (
    account  text    not null,
    thread   text    not null,
    node     text    not null,
    asked_at integer not null,
    primary key (account, thread)
) strict, without rowid;
