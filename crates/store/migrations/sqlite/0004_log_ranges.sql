-- A run's events are found by its part of the thread's log, not by indexes that every append would have to write.
drop index events_by_run;
drop index events_frames;
alter table runs add column log_from integer not null default 0;
alter table runs add column log_to integer;
