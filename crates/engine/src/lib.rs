//! The run engine and the rules of the three doors: threads, board, builds.
