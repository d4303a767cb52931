//! Whose a file is, for random histories: no file is delivered without evidence of its own run, none by two runs, and every
//! file that changed is delivered or named with a reason.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
    thread::sleep,
    time::Duration,
};

use common::{World, copied, host::Host, host::call, put, tree};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};
use threadline_artifacts::{Change, ChangeKind, Collected, Service, ServiceSettings, WorkFolder};
use threadline_contract::{OmitReason, Omitted, plugin};

// ---- a session's work folder, and a user's own -------------------------------------------------

const PATHS: [&str; 5] = ["a.md", "b.csv", "sub/c.md", "sub/d.csv", ".env"];

/// Something that happens to the folder.
#[derive(Clone, Debug)]
enum Deed {
    Write(usize),
    Remove(usize),
    Move(usize, usize),
}

#[derive(Clone, Debug)]
struct Turn {
    /// By people, before it.
    before: Vec<Deed>,
    /// By the turn.
    during: Vec<Deed>,
    /// What its tool calls name.
    named: BTreeSet<usize>,
    /// Whether tables are declared.
    declares: bool,
}

fn deed() -> impl Strategy<Value = Deed> {
    let path = || 0..PATHS.len();
    prop_oneof![
        4 => path().prop_map(Deed::Write),
        1 => path().prop_map(Deed::Remove),
        1 => (path(), path()).prop_map(|(from, to)| Deed::Move(from, to)),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let deeds = || prop::collection::vec(deed(), 0..6);
    let named = prop::collection::btree_set(0..PATHS.len(), 0..3);
    (deeds(), deeds(), named, any::<bool>()).prop_map(|(before, during, named, declares)| Turn {
        before,
        during,
        named,
        declares,
    })
}

/// A folder, and what is in it.
struct Folder {
    root: PathBuf,
    files: BTreeMap<&'static str, String>,
    written: u32,
}

impl Folder {
    fn new(root: PathBuf) -> Self {
        fs::create_dir_all(root.join("sub")).unwrap();
        Self {
            root,
            files: BTreeMap::new(),
            written: 0,
        }
    }

    fn does(&mut self, deed: &Deed) {
        match deed {
            Deed::Write(at) => {
                self.written += 1;
                let text = format!("text {}", self.written);
                put(&self.root, PATHS[*at], &text);
                self.files.insert(PATHS[*at], text);
            }
            Deed::Remove(at) => {
                if self.files.remove(PATHS[*at]).is_some() {
                    fs::remove_file(self.root.join(PATHS[*at])).unwrap();
                }
            }
            Deed::Move(from, to) => {
                if from != to
                    && let Some(text) = self.files.remove(PATHS[*from])
                {
                    fs::rename(self.root.join(PATHS[*from]), self.root.join(PATHS[*to])).unwrap();
                    self.files.insert(PATHS[*to], text);
                }
            }
        }
    }
}

/// What must come of a turn.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    delivered: BTreeMap<String, String>,
    omitted: Vec<Omitted>,
    /// What else changed in a user's folder.
    changes: Vec<Change>,
}

impl Expected {
    fn of(turn: &Turn, before: &BTreeMap<&str, String>, after: &Folder, is_users: bool) -> Self {
        let mut expected = Self::default();
        let mut paths = PATHS;
        paths.sort_unstable();
        for path in paths {
            let is_named = turn.named.iter().any(|at| PATHS[*at] == path);
            let is_declared = turn.declares && path.ends_with(".csv");
            let (was, is) = (before.get(path), after.files.get(path));
            let kind = match (was, is) {
                (None, Some(_)) => ChangeKind::Created,
                (Some(was), Some(is)) if was != is => ChangeKind::Modified,
                (Some(_), None) => ChangeKind::Removed,
                (Some(_), Some(_)) if is_named => {
                    expected.omit(path, OmitReason::ChangedOutsideRun);
                    continue;
                }
                _ => continue,
            };
            match is {
                Some(text) if is_named || (!is_users || is_declared) && !path.starts_with('.') => {
                    expected.delivered.insert(path.into(), text.clone());
                }
                Some(_) if !is_users => expected.omit(path, OmitReason::Skipped),
                _ if is_users => expected.changes.push(Change {
                    path: path.into(),
                    kind,
                }),
                _ => {}
            }
        }
        expected
    }

    fn omit(&mut self, path: &str, reason: OmitReason) {
        self.omitted.push(Omitted {
            path: path.into(),
            reason,
        });
    }

    /// What did come of it.
    fn found(collected: Collected, scope: &Path) -> Self {
        let delivered: BTreeMap<String, String> = tree(scope)
            .into_iter()
            .map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap()))
            .collect();
        let mut told: Vec<&str> = delivered.keys().map(String::as_str).collect();
        told.sort_unstable();
        assert_eq!(copied(&collected), told);
        let mut changes = collected.summary.unwrap_or_default().first;
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Self {
            delivered,
            omitted: collected.omitted.named,
            changes,
        }
    }
}

fn check_turns(turns: &[Turn], is_users: bool) {
    let mut world = World::new();
    let (root, folder) = match is_users {
        true => {
            let root = world.temp.path().join("project");
            (root.clone(), WorkFolder::User(root))
        }
        false => (world.work(), WorkFolder::Session),
    };
    let mut files = Folder::new(root);
    for (n, turn) in turns.iter().enumerate() {
        for deed in &turn.before {
            files.does(deed);
        }
        world.run = common::run(&format!("turn-{n}"));
        world.prepare(&world.run);
        world
            .ws
            .list_before(&world.session, &world.run, &folder)
            .unwrap();
        let before = files.files.clone();
        for deed in &turn.during {
            files.does(deed);
        }
        let named: Vec<&str> = turn.named.iter().map(|at| PATHS[*at]).collect();
        let globs: &[&str] = if turn.declares { &["**/*.csv"] } else { &[] };
        let collected = world.collect_from(&folder, &named, globs).unwrap();
        assert_eq!(
            Expected::found(collected, &world.scope()),
            Expected::of(turn, &before, &files, is_users),
            "turn {n}"
        );
        // Said twice, done once.
        let again = world.collect_from(&folder, &named, globs).unwrap();
        assert_eq!(again.copied, vec![]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn in_a_sessions_folder_a_turn_delivers_what_it_changed_and_nothing_else(
        turns in prop::collection::vec(turn(), 1..4)
    ) {
        check_turns(&turns, false);
    }

    #[test]
    fn in_a_users_folder_a_turn_delivers_what_is_named_or_declared_and_tells_the_rest(
        turns in prop::collection::vec(turn(), 1..4)
    ) {
        check_turns(&turns, true);
    }
}

// ---- folders that all runs of a gateway share --------------------------------------------------

/// Files in an output folder, each written at a time of its own. Histories differ; the files are the same.
struct Timeline {
    temp: tempfile::TempDir,
    /// When each was written, in milliseconds since 1970.
    times: Vec<i64>,
}

const FILES: usize = 8;
const SLOT_MS: i64 = 30;

static TIMELINE: LazyLock<Timeline> = LazyLock::new(|| {
    let temp = tempfile::tempdir().unwrap();
    let times = (0..FILES).map(|n| {
        sleep(Duration::from_millis(SLOT_MS as u64));
        let name = format!("file-{n}.png");
        put(temp.path(), &name, format!("content {n}"));
        let stat = fs::metadata(temp.path().join(name)).unwrap();
        stat.ctime() * 1_000 + stat.ctime_nsec() / 1_000_000
    });
    let times = times.collect();
    Timeline { temp, times }
});

impl Timeline {
    fn path(&self, file: usize) -> PathBuf {
        self.temp.path().join(format!("file-{file}.png"))
    }

    /// A time before a file and well after the one before it.
    fn before(&self, file: usize) -> i64 {
        match self.times.get(file) {
            Some(time) => time - SLOT_MS / 2,
            None => self.times[FILES - 1] + SLOT_MS / 2,
        }
    }
}

/// Who wrote a file. Only what a run's tool calls name, and what changed while its commands alone ran, shows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Writer {
    Tool(usize),
    Command(usize),
    Somebody,
}

const RUNS: usize = 3;

#[derive(Clone, Debug)]
struct History {
    /// From which file to which each run goes on.
    runs: Vec<(usize, usize)>,
    /// Whose commands run while each file is written.
    commands: Vec<BTreeSet<usize>>,
    writers: Vec<Writer>,
    /// In which order the runs are collected, also more than once.
    collected: Vec<usize>,
}

fn history() -> impl Strategy<Value = History> {
    let run = (0..FILES, 1..=FILES).prop_map(|(from, many)| (from, (from + many).min(FILES)));
    let writer = prop_oneof![
        (0..RUNS).prop_map(Writer::Tool),
        (0..RUNS).prop_map(Writer::Command),
        Just(Writer::Somebody),
    ];
    (
        prop::collection::vec(run, RUNS),
        prop::collection::vec(prop::collection::btree_set(0..RUNS, 0..3), FILES),
        prop::collection::vec(writer, FILES),
        prop::collection::vec(0..RUNS, 1..5),
    )
        .prop_map(|(runs, commands, writers, again)| {
            let mut history = History {
                runs,
                commands,
                writers,
                collected: (0..RUNS).chain(again).collect(),
            };
            history.make_true();
            history
        })
}

impl History {
    fn is_open(&self, run: usize, file: usize) -> bool {
        let (from, until) = self.runs[run];
        (from..until).contains(&file)
    }

    /// Only a run that goes on has commands and tools, and a command that writes runs.
    fn make_true(&mut self) {
        for file in 0..FILES {
            let open: BTreeSet<usize> = (0..RUNS).filter(|run| self.is_open(*run, file)).collect();
            self.writers[file] = match self.writers[file] {
                Writer::Tool(run) | Writer::Command(run) if !open.contains(&run) => {
                    Writer::Somebody
                }
                writer => writer,
            };
            self.commands[file].retain(|run| open.contains(run));
            if let Writer::Command(run) = self.writers[file] {
                self.commands[file].insert(run);
            }
        }
    }

    /// What the plugin tells of a run.
    fn proof(&self, run: usize) -> Value {
        let timeline = &*TIMELINE;
        let by_tools = |mine: bool| -> Vec<PathBuf> {
            let named = |file: &usize| match self.writers[*file] {
                Writer::Tool(by) => (by == run) == mine,
                _ => false,
            };
            (0..FILES).filter(named).map(|f| timeline.path(f)).collect()
        };
        let alone = (0..FILES).filter(|file| self.is_alone(run, *file));
        let spans: Vec<Value> = alone
            .map(|file| {
                let (since, until) = (timeline.before(file), timeline.before(file + 1) - 1);
                json!({"sinceUnixMs": since, "untilUnixMs": until})
            })
            .collect();
        let (from, until) = self.runs[run];
        json!({
            "sinceUnixMs": timeline.before(from),
            "untilUnixMs": timeline.before(until),
            "writtenFiles": by_tools(true),
            "commandSpans": spans,
            "othersFiles": by_tools(false),
        })
    }

    fn is_alone(&self, run: usize, file: usize) -> bool {
        self.commands[file] == BTreeSet::from([run])
    }

    /// Whether something speaks for a file being a run's, and nothing against it.
    fn speaks_for(&self, run: usize, file: usize) -> bool {
        let by_tool = self.writers[file] == Writer::Tool(run);
        let anothers = matches!(self.writers[file], Writer::Tool(by) if by != run);
        self.is_open(run, file) && (by_tool || self.is_alone(run, file) && !anothers)
    }
}

fn params(run: usize, more: Value) -> Value {
    let whose = json!({
        "schemaVersion": 1,
        "appThreadKey": format!("draft:{run}"),
        "openclawSessionKey": format!("agent:main:draft:{run}"),
        "runId": format!("turn-{run}"),
    });
    common::host::with(whose, more)
}

/// A gateway's host whose output folder is the timeline's.
fn host() -> Host {
    let mut host = Host::new();
    let temp = host.temp.path();
    let mut settings: ServiceSettings = Host::settings(temp);
    settings.output_roots.truncate(1);
    settings.output_roots[0].folder = TIMELINE.temp.path().to_owned();
    host.service = Service::new(settings, Host::keys(temp));
    host
}

fn file_of(path: &str) -> usize {
    let number = path.rsplit_once("file-").unwrap().1;
    number.strip_suffix(".png").unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn in_shared_folders_files_go_to_the_run_that_something_speaks_for(history in history()) {
        let host = host();
        for run in 0..RUNS {
            host.prepare(params(run, json!({}))).unwrap();
        }
        let mut delivered: BTreeMap<usize, usize> = BTreeMap::new();
        let mut named: BTreeSet<(usize, usize)> = BTreeSet::new();
        for run in history.collected.clone() {
            let result = call(params(run, history.proof(run)), |p: plugin::CollectParams| host.service.collect(&p));
            let result = result.unwrap();
            for path in common::host::texts(&result["copiedFiles"]) {
                let before = delivered.insert(file_of(path), run);
                assert_eq!(before, None, "{path} was delivered before");
            }
            for (path, reason) in common::host::omitted(&result) {
                prop_assert!(!reason.is_empty());
                named.insert((run, file_of(path)));
            }
        }
        let expected: BTreeMap<usize, usize> = (0..FILES)
            .filter_map(|file| {
                let run = (0..RUNS).find(|run| history.speaks_for(*run, file))?;
                Some((file, run))
            })
            .collect();
        assert_eq!(delivered, expected, "which run delivered which file");
        // What changed in a run is delivered by it, known to be another's, or named with a reason.
        for file in 0..FILES {
            for run in (0..RUNS).filter(|run| history.is_open(*run, file)) {
                let is_anothers = matches!(history.writers[file], Writer::Tool(by) if by != run)
                    || delivered.get(&file).is_some_and(|by| *by != run);
                let is_told = delivered.get(&file) == Some(&run) || named.contains(&(run, file));
                prop_assert!(is_told || is_anothers, "run {run} says nothing of file {file}: {history:?}");
            }
        }
    }
}
