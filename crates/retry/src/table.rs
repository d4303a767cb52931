//! Every number of every pause that grows: who tries what again, how soon, and how rarely at last. How long
//! it is tried in all stands beside the code that gives up.

use super::Backoff;

// The app.

/// The bridge does not answer: requests, streams, downloads. Given up after the time and the tries that the
/// app's settings allow.
pub const BRIDGE_AWAY: Backoff = Backoff::from_millis(250, 5_000).with_chance(50);
/// A deletion is not done at the bridge yet. Never given up.
pub const DELETION_AT_BRIDGE: Backoff = Backoff::from_millis(250, 300_000);

// The engine.

/// The code that drives a run broke. Never given up.
pub const DRIVER_BROKE: Backoff = Backoff::from_millis(1_000, 30_000);
/// A run's next step cannot be stored. Never given up: trying costs little, and whoever made room on the
/// disk looks at once whether it helped.
pub const RUN_STEP: Backoff = Backoff::from_millis(200, 5_000);
/// A run cannot be followed at its runtime. Never given up.
pub const FOLLOW_RUN: Backoff = Backoff::from_millis(200, 10_000);
/// A run's files cannot be collected.
pub const COLLECT_FILES: Backoff = Backoff::from_millis(250, 15_000);
/// A wish to stop a run cannot be stored. Never given up.
pub const STORE_CANCEL: Backoff = Backoff::from_millis(200, 5_000);
/// A thread that is being deleted still has runs or files. Never given up.
pub const REMOVE_THREAD: Backoff = Backoff::from_millis(20, 1_000);
/// Somebody waits until a thread is deleted.
pub const AWAIT_REMOVAL: Backoff = Backoff::from_millis(10, 1_000);
/// A file cannot be read at its runtime while it is downloaded.
pub const READ_AT_RUNTIME: Backoff = Backoff::from_millis(250, 2_000);
/// Another server did not answer: it is not asked for so long.
pub const SERVER_SILENT: Backoff = Backoff::from_millis(5_000, 30_000);

// The databases.

/// A transaction met another one. Given up after ten tries, or the patience that the database was opened with.
pub const TRANSACTIONS_MET: Backoff = Backoff::from_millis(4, 250).with_chance(75);

// The runtimes.

/// A run's journal has no room on the disk. Never given up.
pub const JOURNAL_FULL: Backoff = Backoff::from_millis(200, 2_000);
/// An agent's host cannot be reached. Never given up.
pub const AGENT_HOST_AWAY: Backoff = Backoff::from_millis(50, 2_000);
/// A model does not answer, or refuses and may take it later. Given up after the tries that the settings allow.
pub const MODEL: Backoff = Backoff::from_millis(1_000, 32_000);
/// A gateway that was there a moment ago is restarting, or a turn waits for it.
pub const GATEWAY_NEAR: Backoff = Backoff::from_millis(600, 600).with_chance(60);
/// A gateway is away. Never given up.
pub const GATEWAY_AWAY: Backoff = Backoff::from_millis(500, 30_000).with_chance(50);
/// A gateway refuses us. Never given up: somebody may do what it asks for at any time. Gateways shut out who
/// shows a wrong token ten times a minute, and one try may show two.
pub const GATEWAY_REFUSES: Backoff = Backoff::from_millis(5_000, 60_000).with_chance(20);
