//! The records and event logs, on SQLite or PostgreSQL, and the live event bus.
