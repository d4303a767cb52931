-- Which start of a server has its name now: a copy of its data folder is told from the folder itself by it.
alter table nodes add column incarnation text collate "C";
