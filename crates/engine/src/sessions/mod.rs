//! Sessions of owners: which one a turn is one of, whether it can be gone on with, and its end.

mod bind;
mod close;
mod continuation;
mod delete;
