//! One trait, three runtimes.
