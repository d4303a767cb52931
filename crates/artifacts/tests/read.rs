//! Serving bytes that are the promised ones, or none.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, os::unix::fs::symlink};

use common::{World, age, put, run, session, settle};
use pretty_assertions::assert_eq;
use threadline_artifacts::{ArtifactIdentity, Chunk, Error, MAX_CHUNK, ScopeStyle};
use threadline_contract::{ArtifactPath, Code, Fault};

fn refusal(w: &World, path: &str, content: &[u8]) -> Error {
    w.ws.read(&w.identity(path, content)).unwrap_err()
}

/// D07, D09, D14, P96.
#[test]
fn ranges_are_exact() {
    let w = World::new();
    put(&w.scope(), "digits.txt", "0123456789");
    put(&w.scope(), "empty", "");
    let reader = w.ws.read(&w.identity("digits.txt", b"0123456789")).unwrap();
    assert_eq!((reader.size(), reader.content_type()), (10, "text/plain"));
    let chunk = |bytes: &str, eof| Chunk {
        bytes: bytes.into(),
        eof,
    };
    assert_eq!(reader.read_range(2, 3).unwrap(), chunk("234", false));
    assert_eq!(reader.read_range(0, 10).unwrap(), chunk("0123456789", true));
    assert_eq!(reader.read_range(7, u64::MAX).unwrap(), chunk("789", true));
    assert_eq!(reader.read_range(10, 1).unwrap(), chunk("", true));
    for (offset, length) in [(11, 1), (u64::MAX, 1), (0, 0), (10, 0)] {
        let refused = reader.read_range(offset, length).unwrap_err();
        assert!(matches!(refused, Error::RangeInvalid { size: 10, .. }));
        assert_eq!(refused.code(), Code::RangeInvalid);
    }
    let empty = w.ws.read(&w.identity("empty", b"")).unwrap();
    assert_eq!(empty.read_range(0, 1).unwrap(), chunk("", true));
}

/// P90, P97, P88, P84.
#[test]
fn only_the_promised_file_is_served() {
    let w = World::new();
    let s = w.scope();
    put(&s, "a.txt", "before");
    put(&s, "dir/f", "f");
    put(&s, "node_modules/x.js", "x");
    put(w.temp.path(), "secret", "secret");
    symlink(w.temp.path().join("secret"), s.join("link")).unwrap();
    symlink("dir", s.join("linkdir")).unwrap();

    w.ws.read(&w.identity("a.txt", b"before")).unwrap();
    assert!(
        matches!(refusal(&w, "a.txt", b"after!"), Error::Changed { .. }),
        "same size"
    );
    assert!(matches!(
        refusal(&w, "a.txt", b"longer one"),
        Error::Changed { .. }
    ));
    fs::write(s.join("a.txt"), "after!").unwrap();
    assert!(matches!(
        refusal(&w, "a.txt", b"before"),
        Error::Changed { .. }
    ));
    w.ws.read(&w.identity("a.txt", b"after!")).unwrap();

    assert!(matches!(refusal(&w, "dir", b""), Error::NotAFile { .. }));
    assert!(matches!(refusal(&w, "none", b""), Error::NotFound { .. }));
    assert!(matches!(
        refusal(&w, "a.txt/deeper", b""),
        Error::NotFound { .. }
    ));
    assert!(matches!(
        refusal(&w, "link", b"secret"),
        Error::SymlinkRejected { .. }
    ));
    assert!(matches!(
        refusal(&w, "linkdir/f", b"f"),
        Error::SymlinkRejected { .. }
    ));
    // What no export lists, nobody reads: our own notes least of all.
    assert!(matches!(
        refusal(&w, "node_modules/x.js", b"x"),
        Error::NotFound { .. }
    ));
    let stamp = fs::read(s.join(".xworkmate/scope.json")).unwrap();
    assert!(matches!(
        refusal(&w, ".xworkmate/scope.json", &stamp),
        Error::NotFound { .. }
    ));

    w.prepare(&run("turn-2"));
    let elsewhere = ArtifactIdentity {
        run: run("turn-2"),
        ..w.identity("a.txt", b"after!")
    };
    assert!(matches!(w.ws.read(&elsewhere), Err(Error::NotFound { .. })));
    let elsewhere = ArtifactIdentity {
        session: session("other"),
        ..w.identity("a.txt", b"after!")
    };
    assert!(matches!(w.ws.read(&elsewhere), Err(Error::NotFound { .. })));

    let fault = Fault::from(refusal(&w, "link", b"secret"));
    assert_eq!(fault.code, Code::SymlinkRejected);
    assert_eq!(Fault::from(refusal(&w, "dir", b"")).code, Code::NotAFile);
    assert_eq!(
        Fault::from(refusal(&w, "a.txt", b"before")).code,
        Code::ArtifactChanged
    );
}

/// A digest that is remembered is trusted only while the stamp would show a change.
#[test]
fn a_remembered_digest_does_not_hide_a_change() {
    let w = World::new();
    put(&w.scope(), "f", "one");
    settle();
    w.ws.read(&w.identity("f", b"one")).unwrap();
    w.ws.read(&w.identity("f", b"one")).unwrap();
    assert!(
        matches!(refusal(&w, "f", b"two"), Error::Changed { .. }),
        "remembered as another"
    );

    // The same size and the same modification time: only the attribute time tells.
    let time = fs::metadata(w.scope().join("f"))
        .unwrap()
        .modified()
        .unwrap();
    fs::write(w.scope().join("f"), "two").unwrap();
    let file = fs::File::options()
        .write(true)
        .open(w.scope().join("f"))
        .unwrap();
    file.set_modified(time).unwrap();
    assert!(matches!(refusal(&w, "f", b"one"), Error::Changed { .. }));
    w.ws.read(&w.identity("f", b"two")).unwrap();

    // Written again and again within one tick of the clock.
    for i in 0..200u32 {
        let (now, before) = (
            format!("{i:05}"),
            format!("{:05}", i.wrapping_sub(1) % 1000),
        );
        fs::write(w.scope().join("f"), &now).unwrap();
        w.ws.read(&w.identity("f", now.as_bytes())).unwrap();
        assert!(matches!(
            refusal(&w, "f", before.as_bytes()),
            Error::Changed { .. }
        ));
    }
}

/// A file that changes while it is served ends the answer; bytes of two states are never mixed.
#[test]
fn a_change_during_the_answer_ends_it() {
    let w = World::new();
    put(&w.scope(), "f", "0123456789");
    age(&w.scope(), "f", 100);
    let reader = w.ws.read(&w.identity("f", b"0123456789")).unwrap();
    assert_eq!(reader.read_range(0, 5).unwrap().bytes, b"01234");
    fs::write(w.scope().join("f"), "abcdefghij").unwrap();
    assert!(matches!(
        reader.read_range(5, 5),
        Err(Error::Changed { .. })
    ));
    fs::write(w.scope().join("f"), "short").unwrap();
    assert!(matches!(
        reader.read_range(5, 5),
        Err(Error::Changed { .. })
    ));

    // Replaced or removed by name only: the open file is still the promised one.
    put(&w.scope(), "g", "promised");
    let reader = w.ws.read(&w.identity("g", b"promised")).unwrap();
    fs::write(w.scope().join("new"), "replaced").unwrap();
    fs::rename(w.scope().join("new"), w.scope().join("g")).unwrap();
    match reader.read_range(0, 8) {
        Ok(chunk) => assert_eq!(chunk.bytes, b"promised"),
        Err(e) => assert!(matches!(e, Error::Changed { .. })),
    }
}

/// P94.
#[test]
fn a_large_file_is_read_in_bounded_pieces() {
    let w = World::new();
    let big: Vec<u8> = (0..64 * 1024 * 1024u32)
        .map(|i| (i ^ (i >> 8)) as u8)
        .collect();
    put(&w.scope(), "big.bin", &big);
    let reader = w.ws.read(&w.identity("big.bin", &big)).unwrap();
    let mut got = Vec::new();
    loop {
        let chunk = reader.read_range(got.len() as u64, u64::MAX).unwrap();
        assert!(chunk.bytes.len() as u64 <= MAX_CHUNK);
        got.extend(chunk.bytes);
        if chunk.eof {
            break;
        }
    }
    assert!(got == big);
}

/// P98: somebody swaps the file and a link to a secret of the same size, as fast as possible.
#[cfg(target_os = "linux")]
#[test]
fn a_swap_race_never_serves_the_secret() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let w = World::new();
    put(&w.scope(), "sub/f", "mine");
    put(w.temp.path(), "out/f", "theirs");
    symlink(w.temp.path().join("out"), w.scope().join("trap")).unwrap();
    let (stop, mut served, mut refused) = (AtomicBool::new(false), 0, 0);
    let secret = w.identity("sub/f", b"theirs");
    let promised = w.identity("sub/f", b"mine");
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) {
                let (a, b) = (w.scope().join("sub"), w.scope().join("trap"));
                renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
        while std::time::Instant::now() < end {
            assert!(w.ws.read(&secret).is_err(), "the secret must not be found");
            match w.ws.read(&promised) {
                Ok(reader) => {
                    assert_eq!(reader.read_range(0, 9).unwrap().bytes, b"mine");
                    served += 1;
                }
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(
        served > 0 && refused > 0,
        "served {served}, refused {refused}"
    );
}

#[test]
fn a_scope_that_became_a_link_is_not_read() {
    let w = World::new();
    put(&w.scope(), "a.txt", "a");
    let away = w.temp.path().join("away");
    fs::rename(w.scope(), &away).unwrap();
    symlink(&away, w.scope()).unwrap();
    let refused = w.ws.read(&w.identity("a.txt", b"a")).unwrap_err();
    assert!(
        matches!(refused, Error::SymlinkRejected { .. }),
        "{refused}"
    );
    let path = ArtifactPath::new("a.txt").unwrap();
    let refused = w.ws.read_path(ScopeStyle::Own, &w.session, &w.run, &path);
    assert!(matches!(refused, Err(Error::SymlinkRejected { .. })));
}
