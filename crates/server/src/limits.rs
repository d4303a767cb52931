//! How much one connection may take, in time.

use std::time::Duration;

use crate::body::BODY_TIME;

/// What connections are held to. The defaults suit everybody; tests have less patience.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a client may take to send its request's head.
    pub head: Duration,
    /// A WebSocket is pinged this often.
    pub ping: Duration,
    /// A WebSocket from which nothing came for so long is closed.
    pub silence: Duration,
    /// How long one message may be on its way to us.
    pub message: Duration,
    /// How long a client may leave unread what is sent to it.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            ping: Duration::from_secs(20),
            silence: Duration::from_secs(60),
            message: BODY_TIME,
            unread: Duration::from_secs(30),
        }
    }
}
