//! The user's side: TaskThreads, local lane and queue, transport with recovery, artifact sync.
