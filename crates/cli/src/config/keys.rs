//! Every setting there is: its name, its environment variables, and who may set it.

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Its name in `threadline.toml` and for `--set`.
    pub(crate) name: &'static str,
    /// Its environment variables; the first is the one we tell people.
    pub(crate) env: &'static [&'static str],
    /// Never shown.
    pub(crate) secret: bool,
    /// Whether the file of the folder that one happens to be in may set it. What decides who may
    /// come in, or where agents may work, is the person's own to say: a folder can be anybody's.
    pub(crate) by_folder: bool,
    /// What it is, in a line.
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, env: &'static [&'static str], about: &'static str) -> Key {
    Key {
        name,
        env,
        secret: false,
        by_folder: true,
        about,
    }
}
const fn own(name: &'static str, env: &'static [&'static str], about: &'static str) -> Key {
    Key {
        by_folder: false,
        ..key(name, env, about)
    }
}
const fn secret(name: &'static str, env: &'static [&'static str], about: &'static str) -> Key {
    Key {
        secret: true,
        ..own(name, env, about)
    }
}

/// What the environment variables begin with.
pub(crate) const PREFIX: &str = "THREADLINE_";

/// Every setting, in the order of the documentation.
pub(crate) const KEYS: [Key; 44] = [
    key("data", &["THREADLINE_DATA"], "the data folder"),
    key(
        "workspaces",
        &["THREADLINE_WORKSPACES"],
        "where threads get their folders",
    ),
    own(
        "work_roots",
        &["THREADLINE_WORK_ROOTS"],
        "folders beneath which `run --in` may let an agent work",
    ),
    key(
        "auto_runtime",
        &["THREADLINE_AUTO_RUNTIME"],
        "where a task runs when nobody says; `openclaw` where `openclaw.url` is set and `model.url` is not",
    ),
    key(
        "server.listen",
        &["THREADLINE_LISTEN"],
        "the address to listen on",
    ),
    own(
        "server.allow_remote",
        &["THREADLINE_ALLOW_REMOTE"],
        "whether that may be beyond this machine",
    ),
    own(
        "server.public_url",
        &["THREADLINE_PUBLIC_URL"],
        "how people reach the server, when not by that address",
    ),
    own(
        "server.advertise",
        &["THREADLINE_ADVERTISE"],
        "how other servers on the same database reach this one, such as http://10.0.0.2:8787",
    ),
    own(
        "server.allowed_origins",
        &["THREADLINE_ALLOWED_ORIGINS"],
        "origins whose pages may call with a bearer token",
    ),
    secret(
        "server.token",
        &["THREADLINE_TOKEN"],
        "a token of your own, beside the one in the token file",
    ),
    own(
        "server.pages",
        &["THREADLINE_PAGES"],
        "whether `threadline serve` serves pages, where people sign in with a token",
    ),
    own(
        "server.rate_per_second",
        &["THREADLINE_RATE_PER_SECOND"],
        "requests that one token may make in a second; 0 is any number",
    ),
    own(
        "server.metrics_listen",
        &["THREADLINE_METRICS_LISTEN"],
        "an address that serves /metrics for Prometheus, to whoever reaches it",
    ),
    secret(
        "store.url",
        &["THREADLINE_DATABASE"],
        "the database: sqlite:<path> or postgres://…",
    ),
    key(
        "model.url",
        &["THREADLINE_MODEL_URL"],
        "base URL of an OpenAI-compatible endpoint",
    ),
    key(
        "model.model",
        &["THREADLINE_MODEL", "THREADLINE_MODEL_MODEL"],
        "the model's name there",
    ),
    secret(
        "model.key",
        &["THREADLINE_MODEL_KEY"],
        "its key, when it wants one",
    ),
    key(
        "builtin.max_steps",
        &["THREADLINE_BUILTIN_MAX_STEPS"],
        "model calls in one turn",
    ),
    key(
        "builtin.demo_pause_ms",
        &["THREADLINE_BUILTIN_DEMO_PAUSE_MS"],
        "how long the demonstration pauses between steps",
    ),
    key(
        "lanes.builtin.max_active",
        &["THREADLINE_BUILTIN_MAX_ACTIVE"],
        "turns that run at once",
    ),
    key(
        "lanes.builtin.max_queued",
        &["THREADLINE_BUILTIN_MAX_QUEUED"],
        "turns that may wait",
    ),
    key(
        "lanes.queue_minutes",
        &["THREADLINE_QUEUE_MINUTES"],
        "how long a turn may wait for a place in its runtime's lane before it fails with QUEUE_TIMEOUT; neither the wait for its own thread's run nor the time in which the server is down counts; 0 is for ever",
    ),
    own(
        "openclaw.url",
        &["THREADLINE_OPENCLAW_URL"],
        "the OpenClaw gateway, such as ws://127.0.0.1:18789",
    ),
    secret(
        "openclaw.token",
        &["THREADLINE_OPENCLAW_TOKEN"],
        "its token (`gateway.auth.token` in openclaw.json)",
    ),
    own(
        "openclaw.ca",
        &["THREADLINE_OPENCLAW_CA"],
        "a PEM file with the authorities to believe behind its wss:// address, instead of the public ones",
    ),
    own(
        "openclaw.admin",
        &["THREADLINE_OPENCLAW_ADMIN"],
        "whether to ask it for administrator's rights: to be asked for leave when agents run commands; an earlier plugin needs it too",
    ),
    own(
        "openclaw.agent",
        &["THREADLINE_OPENCLAW_AGENT"],
        "the gateway's agent that works for new threads, when not its default one",
    ),
    key(
        "lanes.openclaw.max_active",
        &["THREADLINE_OPENCLAW_MAX_ACTIVE"],
        "turns that run there at once, if it takes as many",
    ),
    key(
        "lanes.openclaw.max_queued",
        &["THREADLINE_OPENCLAW_MAX_QUEUED"],
        "turns that may wait for it",
    ),
    key(
        "openclaw.silence_minutes",
        &["THREADLINE_OPENCLAW_SILENCE_MINUTES"],
        "how long it may be silent about a run and unreachable before it counts as lost",
    ),
    own(
        "permissions.policy",
        &["THREADLINE_PERMISSIONS"],
        "what becomes of permissions where a thread does not say: ask, allow, or by kind such as ask,read=allow",
    ),
    own(
        "permissions.wait_minutes",
        &["THREADLINE_PERMISSIONS_WAIT_MINUTES"],
        "how long a question waits for its answer before it expires; 0 is for ever",
    ),
    key(
        "budgets.short_minutes",
        &["THREADLINE_BUDGETS_SHORT_MINUTES"],
        "how long a task of class short_task may take",
    ),
    key(
        "budgets.long_minutes",
        &["THREADLINE_BUDGETS_LONG_MINUTES"],
        "how long one of class long_task may take, which is any that names no class",
    ),
    key(
        "budgets.complex_minutes",
        &["THREADLINE_BUDGETS_COMPLEX_MINUTES"],
        "how long one of class complex_chain_task may take",
    ),
    own(
        "hosts",
        &["THREADLINE_HOSTS"],
        "where the hosts of agents keep sockets and journals",
    ),
    own(
        "artifacts.keep_days",
        &["THREADLINE_ARTIFACTS_KEEP_DAYS"],
        "how many days the files of runs stay in the data folder; 0 is for ever",
    ),
    own(
        "artifacts.keep_bytes",
        &["THREADLINE_ARTIFACTS_KEEP_BYTES"],
        "how many bytes they may have, such as 10GB, before the oldest go; 0 is any number",
    ),
    own(
        "artifacts.cache_bytes",
        &["THREADLINE_ARTIFACTS_CACHE_BYTES"],
        "how many bytes of a gateway's files are kept in the data folder, so that they are fetched once",
    ),
    key(
        "bridge.url",
        &["THREADLINE_BRIDGE"],
        "another bridge for new threads",
    ),
    secret("bridge.token", &["THREADLINE_BRIDGE_TOKEN"], "its token"),
    key(
        "owner.idle_seconds",
        &["THREADLINE_IDLE_SECONDS"],
        "when an idle background process ends; 0 is never",
    ),
    key(
        "log.level",
        &["THREADLINE_LOG"],
        "error, warn, info, debug or trace",
    ),
    key("log.format", &["THREADLINE_LOG_FORMAT"], "text or json"),
];

/// Finds a setting by its name.
pub(crate) fn named(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name)
}

/// What somebody may have meant by a variable that is none of ours.
pub(crate) fn meant_by_env(variable: &str) -> Option<String> {
    // Compared without what they all begin with, which would make all of them alike.
    let known = KEYS.iter().filter_map(|k| k.env[0].strip_prefix(PREFIX));
    meant(variable.strip_prefix(PREFIX)?, known).map(|name| format!("{PREFIX}{name}"))
}

/// Finds a setting by one of its environment variables.
pub(crate) fn of_env(variable: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.env.contains(&variable))
}

/// What somebody may have meant: the word that is spelt most alike, or else the one that has most
/// of its parts in common, as `model.name` has with `model.model`.
pub(crate) fn meant<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).clamp(1, 4);
    let words: Vec<&str> = words.collect();
    let spelt = words
        .iter()
        .map(|w| (distance(word, w), *w))
        .filter(|(d, _)| *d <= most)
        .min_by_key(|(d, _)| *d);
    let akin = || {
        let shared = words.iter().map(|w| (parts_in_common(word, w), *w));
        shared
            .filter(|((shared, _), _)| *shared > 0)
            .min_by_key(|((shared, other), _)| (std::cmp::Reverse(*shared), *other))
            .map(|(_, w)| w)
    };
    spelt.map(|(_, w)| w).or_else(akin)
}

/// How many parts two names share, and how many of the second one's are its own.
fn parts_in_common(a: &str, b: &str) -> (usize, usize) {
    let parts = |name: &'_ str| -> Vec<String> {
        let parts = name.split(['.', '_']).filter(|p| !p.is_empty());
        parts.map(str::to_lowercase).collect()
    };
    let (a, b) = (parts(a), parts(b));
    let shared = b.iter().filter(|part| a.contains(part)).count();
    (shared, b.len() - shared)
}

/// How many letters must be added, dropped, changed or swapped.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
