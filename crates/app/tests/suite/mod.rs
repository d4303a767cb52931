mod events;
mod files;
mod records;
mod recovery;
mod threads;
mod turns;
