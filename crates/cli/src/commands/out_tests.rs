use std::fs;

use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::ArtifactPath;

use super::*;
use crate::screen::fixtures::{thread, view};

fn file(path: &str, content: &str) -> SyncedFile {
    SyncedFile {
        path: ArtifactPath::new(path).unwrap(),
        size: content.len() as u64,
        sha256: Sha256(Hasher::digest(content).into()),
        content_type: "text/plain".into(),
        changed: false,
        missing: false,
    }
}

#[test]
fn files_are_copied_whole_and_nothing_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (work, out_path) = (folder.path().join("w"), folder.path().join("o/p"));
    fs::create_dir_all(work.join("a")).unwrap();
    fs::write(work.join("a/b.txt"), "one").unwrap();
    fs::write(work.join("c.txt"), "two").unwrap();
    let mut thread = thread();
    thread.workspace_binding.workspace_path = work.display().to_string();
    thread.context_state.last_artifacts = vec![file("a/b.txt", "one"), file("c.txt", "two")];

    let mut turn = TurnView::current(&view(thread));
    let out = Out::open(&out_path).unwrap();
    let want = format!("2 files to {}", out_path.display());
    assert_eq!(out.fill(&turn), Ok(Some(want)));
    assert_eq!(fs::read_to_string(out_path.join("a/b.txt")).unwrap(), "one");
    out.fill(&turn).unwrap();

    fs::remove_file(out_path.join("a/b.txt")).unwrap();
    fs::write(out_path.join("c.txt"), "mine").unwrap();
    let fault = out.fill(&turn).unwrap_err();
    assert_eq!(fault.code, Code::OutFileExists);
    assert_eq!(
        fault.message,
        format!(
            "{} holds other files under these names. Nothing was replaced, and nothing was copied:\n  c.txt",
            out_path.display()
        )
    );
    assert_eq!(fs::read_to_string(out_path.join("c.txt")).unwrap(), "mine");
    assert!(!out_path.join("a/b.txt").exists(), "all or nothing");

    fs::remove_file(out_path.join("c.txt")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", out_path.join("c.txt")).unwrap();
    assert_eq!(out.fill(&turn).unwrap_err().code, Code::OutFileExists);
    fs::remove_file(out_path.join("c.txt")).unwrap();
    fs::write(work.join("c.txt"), "TWO").unwrap();
    assert_eq!(out.fill(&turn).unwrap_err().code, Code::ArtifactChanged);
    assert!(!out_path.join("c.txt").exists());

    // One that moved when the next run delivered is found where it lies now.
    let moved = folder.path().join("moved");
    fs::create_dir_all(&moved).unwrap();
    fs::write(moved.join("c.txt"), "two").unwrap();
    turn.folders.push(moved.display().to_string());
    out.fill(&turn).unwrap();
    assert_eq!(fs::read_to_string(out_path.join("c.txt")).unwrap(), "two");

    // Not all of its files are known by name: a part is not passed off as the whole.
    turn.result.files = 3;
    assert_eq!(out.fill(&turn).unwrap_err().code, Code::ReceiptInvalid);
}
