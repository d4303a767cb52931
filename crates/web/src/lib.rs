//! The pages, and the local API that the command line shares with them.
