//! Trees that no honest agent would write.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]
#![cfg(target_os = "linux")]

mod common;
#[path = "../../files/tests/common/nobody.rs"]
mod nobody;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::symlink, net::UnixListener},
    time::{Duration, Instant},
};

use common::{World, omit, paths, put, sha};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};
use threadline_artifacts::{ArtifactIdentity, ExportOptions, KeyRing, MAX_DEPTH, Workspace};
use threadline_contract::{ArtifactPath, OmitReason, Sha256};
use threadline_files::Resolver;

/// The same workspace, once per way of resolving paths.
fn both(w: &World) -> [Workspace; 2] {
    [Resolver::Kernel, Resolver::StepByStep]
        .map(|how| Workspace::open(w.root()).unwrap().with_resolver(how))
}

/// Everything that is listed can be signed, verified and read back, byte for byte.
fn read_back(w: &World, ws: &Workspace) -> BTreeMap<String, Vec<u8>> {
    let ring = KeyRing::generate(0);
    let export = ws.manifest(&w.session, &w.run).unwrap();
    let signer = ring.signer(&w.session, &w.run, 1_000);
    export
        .artifacts
        .iter()
        .map(|artifact| {
            let reference = signer.sign(artifact);
            let identity = ArtifactIdentity::of(&w.session, &w.run, artifact);
            assert_eq!(reference, ring.sign(&identity, 1_000));
            let back = ring.verify(&reference, 1_000, 0).unwrap();
            let reader = ws.read(&back).unwrap();
            let bytes = if reader.size() == 0 {
                Vec::new()
            } else {
                reader.read_range(0, 1 << 20).unwrap().bytes
            };
            assert_eq!(sha(&bytes), artifact.sha256);
            (artifact.path.to_string(), bytes)
        })
        .collect()
}

#[test]
fn what_is_no_file_is_named_and_nobody_waits_for_it() {
    let w = World::new();
    let at = |name: &str| w.scope().join(name);
    put(&w.scope(), "real.txt", "real");
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    symlink("real.txt", at("link")).unwrap();
    symlink("/etc", at("folder-link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let mut wanted = vec![
        omit("dangling", OmitReason::Symlink),
        omit("fifo", OmitReason::SpecialFile),
        omit("folder-link", OmitReason::Symlink),
        omit("link", OmitReason::Symlink),
        omit("loop", OmitReason::Symlink),
        omit("socket", OmitReason::SpecialFile),
    ];
    // Devices can only be made by root, and not everywhere.
    let null = rustix::fs::makedev(1, 3);
    if mknodat(CWD, at("zero"), FileType::CharacterDevice, Mode::RUSR, null).is_ok() {
        wanted.push(omit("zero", OmitReason::SpecialFile));
    }
    for ws in both(&w) {
        let begun = Instant::now();
        let export = ws.manifest(&w.session, &w.run).unwrap();
        assert_eq!(
            (paths(&export), &export.omitted.named),
            (vec!["real.txt"], &wanted)
        );
        for omitted in &wanted {
            let refused = ws.read(&ArtifactIdentity {
                session: w.session.clone(),
                run: w.run.clone(),
                path: ArtifactPath::new(&omitted.path).unwrap(),
                size: 4,
                sha256: sha(b"real"),
            });
            assert!(refused.is_err(), "{omitted:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "somebody waited");
    }
}

#[test]
fn names_are_bytes_and_every_text_among_them_comes_through() {
    let w = World::new();
    let good = [
        "new\nline",
        "'quote\"s'",
        "a::b",
        "100%",
        "%2F",
        "%3A%3a",
        " lead",
        "trail ",
        "-rf",
        "$(id)",
        "`id`",
        "na\u{ef}ve",
        "nai\u{308}ve",
        "Case",
        "case",
        "CASE",
        "emoji😀",
        "zero\u{200b}width",
        "...",
        "..a",
        "a..",
        ".hidden",
        "com1",
        "a?b*c",
        "~",
        "{a,b}",
        "[x]",
        "#",
        "&",
        ";",
        "|",
    ];
    for name in good {
        put(&w.scope(), &format!("in {name}/{name}"), name);
    }
    let long = format!("{}é", "n".repeat(253));
    put(&w.scope(), &long, "long");
    for bad in [&b"\xff"[..], b"a\xc3", b"\xed\xa0\x80", b"ok-\xf0\x9f"] {
        fs::write(w.scope().join(OsStr::from_bytes(bad)), "x").unwrap();
        let folder = [b"dir-", bad].concat();
        fs::create_dir(w.scope().join(OsStr::from_bytes(&folder))).unwrap();
        fs::write(
            w.scope().join(OsStr::from_bytes(&folder)).join("inside"),
            "x",
        )
        .unwrap();
    }
    put(&w.scope(), "back\\slash", "x");
    let misleading = [
        ("tab\there", "tab\\there"),
        ("cr\r", "cr\\r"),
        ("bell\u{7}", "bell\\u{7}"),
        ("esc\u{1b}[2J", "esc\\u{1b}[2J"),
        ("del\u{7f}", "del\\u{7f}"),
        ("c1\u{9b}31m", "c1\\u{9b}31m"),
        ("arabic\u{61c}mark", "arabic\\u{61c}mark"),
        ("line\u{2028}two", "line\\u{2028}two"),
        ("paragraph\u{2029}two", "paragraph\\u{2029}two"),
        ("mark\u{200f}s", "mark\\u{200f}s"),
        ("rtl\u{202e}gpj.exe", "rtl\\u{202e}gpj.exe"),
        ("isolate\u{2066}d/inside", "isolate\\u{2066}d/inside"),
    ];
    for (name, _) in misleading {
        put(&w.scope(), name, "x");
    }
    for ws in both(&w) {
        let read = read_back(&w, &ws);
        let mut wanted: BTreeMap<String, Vec<u8>> = good
            .iter()
            .map(|name| (format!("in {name}/{name}"), name.as_bytes().to_vec()))
            .collect();
        wanted.insert(long.clone(), b"long".to_vec());
        assert_eq!(read, wanted);
        let export = ws.manifest(&w.session, &w.run).unwrap();
        // `Case`, `case` and `CASE`, and the two ways to write the same letter.
        let told = |warning: &&String| warning.contains("some systems take for one");
        assert_eq!(export.warnings.iter().filter(told).count(), 3);
        let omitted = export.omitted;
        assert_eq!(
            omitted.counts,
            BTreeMap::from([(OmitReason::NameNotUtf8, 8), (OmitReason::UnsafeName, 13)])
        );
        for (_, shown) in misleading {
            let told = omit(shown, OmitReason::UnsafeName);
            assert!(omitted.named.contains(&told), "{shown} {omitted:?}");
        }
        assert!(
            omitted
                .named
                .contains(&omit("dir-a\\xc3", OmitReason::NameNotUtf8))
        );
    }
}

#[test]
fn hard_links_of_ones_own_are_files() {
    let w = World::new();
    put(&w.scope(), "a.txt", "same bytes");
    fs::hard_link(w.scope().join("a.txt"), w.scope().join("b.txt")).unwrap();
    // Also one that leads to a file outside: the bytes are the same user's.
    put(w.temp.path(), "outside.txt", "outside");
    fs::hard_link(w.temp.path().join("outside.txt"), w.scope().join("c.txt")).unwrap();
    common::settle();
    for ws in both(&w) {
        let read = read_back(&w, &ws);
        assert_eq!(read.len(), 3);
        assert_eq!(read["c.txt"], b"outside");
    }
    // Both names are remembered by one entry, and neither is read again.
    let ws = Workspace::open(w.root()).unwrap();
    ws.manifest(&w.session, &w.run).unwrap();
    assert_eq!(ws.content_bytes_read(), 0);
}

/// Makes `levels` folders inside each other, with a file in each, and leaves a file at the end.
fn dig(w: &World, top: &str, name: &str, levels: usize) {
    fs::create_dir(w.scope().join(top)).unwrap();
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut dir = openat(CWD, w.scope().join(top), flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&dir, name, Mode::RWXU).unwrap();
        dir = openat(&dir, name, flags, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let file = openat(&dir, "end.txt", flags, Mode::RUSR | Mode::WUSR).unwrap();
    fs::File::from(file).write_all(b"deep").unwrap();
}

#[test]
fn depth_ends_with_a_reason_and_length_does_not_end_at_all() {
    let w = World::new();
    // 4,096 bytes are the system's limit for one path; ours go on by descriptors.
    let long = "l".repeat(250);
    dig(&w, "long", &long, 40);
    dig(&w, "deep", "d", 1_000);
    dig(&w, "edge", "d", MAX_DEPTH - 1);
    dig(&w, "over", "d", MAX_DEPTH);
    for ws in both(&w) {
        let read = read_back(&w, &ws);
        let far = format!("long/{}end.txt", format!("{long}/").repeat(40));
        assert!(far.len() > 10_000);
        let edge = format!("edge/{}end.txt", "d/".repeat(MAX_DEPTH - 1));
        assert_eq!(
            read,
            BTreeMap::from([(far, b"deep".to_vec()), (edge, b"deep".to_vec())])
        );
        let omitted = ws.manifest(&w.session, &w.run).unwrap().omitted;
        let at = |top: &str| format!("{top}/{}", vec!["d"; MAX_DEPTH].join("/"));
        assert_eq!(
            omitted.named,
            [
                omit(&at("deep"), OmitReason::TooDeep),
                omit(&at("over"), OmitReason::TooDeep)
            ]
        );
    }
}

#[test]
fn a_hundred_thousand_files_are_all_listed() {
    let w = World::new();
    // Half in one folder, half in many. Links of one file: names are what is many here.
    put(&w.scope(), "seed", "x");
    let mut source = w.scope().join("seed");
    for n in 0..100_000_u32 {
        let folder = if n % 2 == 0 {
            "all".to_owned()
        } else {
            format!("many/{}", n % 997)
        };
        let folder = w.scope().join(folder);
        if n < 2_000 {
            fs::create_dir_all(&folder).unwrap();
        }
        // A file has at most 65,000 names.
        if n == 60_000 {
            source = folder.join("second");
            fs::write(&source, "y").unwrap();
        }
        fs::hard_link(&source, folder.join(format!("{n}.txt"))).unwrap();
    }
    let begun = Instant::now();
    let options = ExportOptions {
        max_files: 40_000,
        ..ExportOptions::default()
    };
    let mut page = w.ws.export(&w.session, &w.run, &options).unwrap();
    let mut seen: Vec<String> = Vec::new();
    loop {
        seen.extend(page.artifacts.iter().map(|a| a.path.to_string()));
        let Some(cursor) = page.next_cursor else {
            break;
        };
        let options = ExportOptions {
            cursor: Some(cursor),
            ..options.clone()
        };
        page = w.ws.export(&w.session, &w.run, &options).unwrap();
    }
    assert_eq!((page.total_candidates, seen.len()), (100_002, 100_002));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 100_002, "each once");
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn sparse_files_cost_time_not_memory_and_limits_are_looked_at_first() {
    let w = World::new();
    let sparse = |name: &str, size: u64| {
        fs::File::create(w.scope().join(name))
            .unwrap()
            .set_len(size)
            .unwrap();
    };
    sparse("huge.bin", 1 << 43);
    sparse("large.bin", 256 << 20);
    put(&w.scope(), "small.txt", "x");
    let before = peak();
    let begun = Instant::now();
    let export = w.export();
    assert_eq!(
        export.omitted.named,
        [omit("huge.bin", OmitReason::TooLarge)]
    );
    let large = export
        .artifacts
        .iter()
        .find(|a| a.path.as_str() == "large.bin")
        .unwrap();
    assert_eq!(
        large.sha256,
        Sha256::from_hex("a6d72ac7690f53be6ae46ba88506bd97302a093f7108472bd9efc3cefda06484")
            .unwrap()
    );
    assert!(peak() - before < 32 << 20, "memory grew with the file");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// The most memory that this process ever had.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn folders_that_may_not_be_read_are_named_and_the_rest_goes_on() {
    if nobody::handed_over("folders_that_may_not_be_read_are_named_and_the_rest_goes_on") {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let w = World::new();
    for path in ["open/a.txt", "locked/b.txt", "blind/c.txt", "secret.txt"] {
        put(&w.scope(), path, path);
    }
    let set = |path: &str, mode| {
        fs::set_permissions(w.scope().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("locked", 0o000);
    // May be passed through, not listed; and listed, not passed through.
    set("blind", 0o100);
    set("secret.txt", 0o000);
    fs::create_dir(w.scope().join("shown")).unwrap();
    put(&w.scope(), "shown/d.txt", "d");
    set("shown", 0o400);
    for ws in both(&w) {
        let export = ws.manifest(&w.session, &w.run).unwrap();
        assert_eq!(paths(&export), ["open/a.txt"]);
        let mut named = export.omitted.named;
        named.sort();
        assert_eq!(
            named,
            [
                omit("blind", OmitReason::Unreadable),
                omit("locked", OmitReason::Unreadable),
                omit("secret.txt", OmitReason::Unreadable),
                omit("shown/d.txt", OmitReason::Unreadable),
            ]
        );
    }
    for path in ["locked", "blind", "shown"] {
        set(path, 0o700);
    }
}

#[test]
fn another_users_file_that_was_linked_in_is_not_delivered() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let w = World::new();
    put(&w.scope(), "theirs.txt", "theirs");
    rustix::fs::chown(
        w.scope().join("theirs.txt"),
        Some(rustix::fs::Uid::from_raw(1)),
        None,
    )
    .unwrap();
    for ws in both(&w) {
        assert_eq!(
            paths(&ws.manifest(&w.session, &w.run).unwrap()),
            ["theirs.txt"]
        );
    }
    common::settle();
    w.export();
    // A second name makes it one that may have been linked in from anywhere; what was remembered
    // about its bytes does not help.
    fs::hard_link(w.scope().join("theirs.txt"), w.temp.path().join("origin")).unwrap();
    for ws in both(&w) {
        let export = ws.manifest(&w.session, &w.run).unwrap();
        assert_eq!(
            export.omitted.named,
            [omit("theirs.txt", OmitReason::HardLink)]
        );
    }
}
