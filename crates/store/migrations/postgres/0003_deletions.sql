-- Threads that somebody asked to delete. The row goes last, so that a deletion that was cut short is finished.
create table deletions (
    account  text collate "C" not null,
    thread   text collate "C" not null,
    node     text collate "C" not null,
    asked_at bigint  not null,
    primary key (account, thread)
);
