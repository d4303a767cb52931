use std::{fs, os::unix::fs::FileExt as _, path::PathBuf};

use pretty_assertions::assert_eq;
use threadline_contract::{ArtifactPath, RunId, SessionKey};

use super::*;
use crate::{ExportOptions, cache::Known};

struct World {
    _temp: tempfile::TempDir,
    ws: Workspace,
    file: PathBuf,
    identity: ArtifactIdentity,
}

fn content(kind: u8) -> Vec<u8> {
    vec![kind; usize::try_from(LARGE).unwrap() + 1]
}

fn digest(bytes: &[u8]) -> Sha256 {
    Sha256(Hasher::digest(bytes).into())
}

impl World {
    /// A run that delivered a large file, long enough ago, seen by a process that did not list it.
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let ws = Workspace::open(temp.path()).unwrap();
        let session = SessionKey::new("draft:1").unwrap();
        let run = RunId::new("turn-1").unwrap();
        let prepared = ws.prepare(&session, &run).unwrap();
        let file = prepared.artifact_dir.join("large.bin");
        fs::write(&file, content(1)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        ws.export(&session, &run, &ExportOptions::default())
            .unwrap();
        let identity = ArtifactIdentity {
            session,
            run,
            path: ArtifactPath::new("large.bin").unwrap(),
            size: LARGE + 1,
            sha256: digest(&content(1)),
        };
        let ws = Workspace::open(temp.path()).unwrap();
        Self {
            _temp: temp,
            ws,
            file,
            identity,
        }
    }

    fn pass(&self) -> (Arc<Promised>, Proof) {
        let promised = Arc::new(self.ws.read_promised(&self.identity).unwrap());
        assert!(promised.proven().is_none(), "it was read before");
        let mut proof = promised.proof();
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let got = promised.unproven().read_into(&mut buffer, at).unwrap();
            if got == 0 {
                return (promised, proof);
            }
            proof.push(&buffer[..got]);
            at += got as u64;
        }
    }
}

#[test]
fn a_file_that_was_listed_is_proven_as_it_passes_and_then_known() {
    let w = World::new();
    let (promised, proof) = w.pass();
    assert_eq!(w.ws.content_bytes_read(), LARGE + 1, "read once");
    proof.finish().unwrap();
    assert!(promised.proven().is_some());
    let again = w.ws.read_promised(&w.identity).unwrap();
    assert!(again.proven().is_some());
    w.ws.read(&w.identity).unwrap();
    assert_eq!(w.ws.content_bytes_read(), LARGE + 1, "and never again");
}

#[test]
fn whoever_wants_a_part_has_all_of_it_proven_first() {
    let w = World::new();
    let promised = w.ws.read_promised(&w.identity).unwrap();
    let part = promised.prove().unwrap().read_range(LARGE, 9).unwrap();
    assert_eq!((part.bytes, part.eof), (vec![1], true));
    assert_eq!(w.ws.content_bytes_read(), LARGE + 1);
}

/// The listing is believed so far that a delivery begins, never so far that it ends.
#[test]
fn a_forged_digest_never_proves_other_bytes() {
    let mut w = World::new();
    let stamp = w.ws.find(&w.identity).unwrap().1;
    w.identity.sha256 = digest(&content(2));
    let digests = Digests::default();
    let known = Known {
        sha256: w.identity.sha256,
        content_type: None,
    };
    digests.learn(stamp, now_ns(), known);
    let (session, run) = (&w.identity.session, &w.identity.run);
    digests.keep(&w.ws, session, run);
    let (promised, proof) = w.pass();
    assert!(matches!(proof.finish(), Err(Error::Changed { .. })));
    assert!(promised.proven().is_none());
    assert!(matches!(promised.prove(), Err(Error::Changed { .. })));
    let refused = w.ws.read(&w.identity);
    assert!(matches!(refused, Err(Error::Changed { .. })));
}

#[test]
fn a_file_that_changed_is_refused_before_a_byte_is_read_of_it_or_before_its_end() {
    let w = World::new();
    let (promised, proof) = w.pass();
    let file = File::options().write(true).open(&w.file).unwrap();
    file.write_all_at(&[9], 5).unwrap();
    assert!(matches!(proof.finish(), Err(Error::Changed { .. })));
    let read = promised.unproven().read_into(&mut [0; 9], 0);
    assert!(matches!(read, Err(Error::Changed { .. })));
    let refused = w.ws.read_promised(&w.identity);
    assert!(matches!(refused, Err(Error::Changed { .. })));
    // A proof that did not see everything is none.
    let w = World::new();
    let promised = Arc::new(w.ws.read_promised(&w.identity).unwrap());
    let mut proof = promised.proof();
    proof.push(&content(1)[1..]);
    assert!(matches!(proof.finish(), Err(Error::Changed { .. })));
}

#[test]
fn what_nobody_listed_is_hashed_before_it_is_handed_over() {
    let w = World::new();
    w.ws.forget_digests(&w.identity.session, &w.identity.run)
        .unwrap();
    let promised = w.ws.read_promised(&w.identity).unwrap();
    assert!(promised.proven().is_some());
    assert_eq!(w.ws.content_bytes_read(), LARGE + 1);
}
