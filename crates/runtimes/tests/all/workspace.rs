//! Folders on this host: preparing, attachments, reading.

use std::{fs, path::Path};

use futures_util::TryStreamExt as _;
use pretty_assertions::assert_eq;
use threadline_contract::{ArtifactPath, Code, Sha256};
use threadline_runtimes::{
    ArtifactIdentity, Attachment, Files as _, LocalWorkspace, TurnPlan, Turns as _,
};

use crate::world::{World, files, finish, plan};

fn attachment(folder: &Path, name: &str, content: &str) -> Attachment {
    let path = folder.join(format!("input-{}", fs::read_dir(folder).unwrap().count()));
    fs::write(&path, content).unwrap();
    let written = threadline_files::hash::file(&fs::File::open(&path).unwrap()).unwrap();
    let threadline_files::hash::Hashed::Stable { sha256, .. } = written else {
        panic!("nobody else writes here");
    };
    Attachment {
        name: name.into(),
        path,
        sha256: Sha256(sha256),
    }
}

fn with(world: &World, run: &str, attachments: &[(&str, &str)]) -> TurnPlan {
    let inbox = world.path().join("inbox");
    fs::create_dir_all(&inbox).unwrap();
    let attachments = attachments
        .iter()
        .map(|(name, content)| attachment(&inbox, name, content));
    TurnPlan {
        attachments: attachments.collect(),
        ..plan(run, "hello")
    }
}

#[tokio::test]
async fn attachments_lie_in_the_work_folder_and_are_never_delivered() {
    let world = World::new();
    let builtin = world.builtin();
    let plan = with(
        &world,
        "run-1",
        &[
            ("data.csv", "one"),
            ("data.csv", "two"),
            ("../../etc/passwd", "three"),
            ("data.csv", "one"),
            (".hidden", "four"),
            ("..", "five"),
        ],
    );
    let places = builtin.prepare(&plan).await.unwrap();
    assert_eq!(
        places.attachments,
        [
            "attachments/data.csv",
            "attachments/data-2.csv",
            "attachments/..-..-etc-passwd",
            "attachments/data.csv",
            "attachments/.hidden",
            "attachments/_..",
        ]
    );
    let contents: Vec<String> = places
        .attachments
        .iter()
        .map(|path| fs::read_to_string(places.work_folder.join(path)).unwrap())
        .collect();
    assert_eq!(contents, ["one", "two", "three", "one", "four", "five"]);
    // Preparing again changes nothing, even if the agent has changed an input meanwhile.
    fs::write(places.work_folder.join("attachments/data.csv"), "changed").unwrap();
    assert_eq!(builtin.prepare(&plan).await.unwrap(), places);

    let (_, end) = finish(&builtin, &plan).await;
    let files = files(&builtin, &plan, &end).await;
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["attachments/data.csv", "notes.md", "words.csv", "words.svg"],
        "only the input that was changed is an output"
    );
}

#[tokio::test]
async fn a_users_own_file_is_not_replaced_by_an_attachment() {
    let world = World::new();
    let theirs = world.path().join("project");
    fs::create_dir_all(theirs.join("attachments")).unwrap();
    fs::write(theirs.join("attachments/a.txt"), "mine").unwrap();
    let mut plan = with(&world, "run-1", &[("a.txt", "new")]);
    plan.working_directory = Some(theirs.clone());
    let places = world.builtin().prepare(&plan).await.unwrap();
    assert_eq!(places.attachments, ["attachments/a-2.txt"]);
    assert_eq!(
        fs::read_to_string(theirs.join("attachments/a.txt")).unwrap(),
        "mine"
    );
}

#[tokio::test]
async fn an_attachment_that_is_gone_or_damaged_is_refused() {
    let world = World::new();
    let builtin = world.builtin();
    let damaged = with(&world, "run-1", &[("a.txt", "good")]);
    fs::write(&damaged.attachments[0].path, "evil").unwrap();
    let gone = with(&world, "run-2", &[("a.txt", "good")]);
    fs::remove_file(&gone.attachments[0].path).unwrap();
    for plan in [damaged, gone] {
        let fault = builtin.prepare(&plan).await.unwrap_err();
        assert_eq!(fault.code, Code::AttachmentInvalid);
    }
}

#[tokio::test]
async fn preparing_fails_with_a_reason() {
    let world = World::new();
    let builtin = world.builtin();
    let nowhere = Some(world.path().join("nowhere"));
    for mut plan in [plan("run-1", "hello"), with(&world, "run-2", &[("a", "b")])] {
        plan.working_directory = nowhere.clone();
        let fault = builtin.prepare(&plan).await.unwrap_err();
        assert_eq!(fault.code, Code::WorkdirNotAllowed, "{fault}");
        assert!(fault.message.ends_with("nowhere` is not there."), "{fault}");
    }
    let reserved = builtin.prepare(&plan("work", "hello")).await.unwrap_err();
    assert_eq!(reserved.code, Code::InvalidRequest);
}

#[tokio::test]
async fn what_is_read_is_what_was_exported_or_an_error() {
    let world = World::new();
    let builtin = world.builtin();
    let plan = plan("run-1", "hello");
    let (_, end) = finish(&builtin, &plan).await;
    let manifest = builtin.collect(&plan, &end).await.unwrap();
    assert_eq!(manifest, builtin.collect(&plan, &end).await.unwrap());
    let notes = manifest
        .artifacts
        .iter()
        .map(Result::unwrap)
        .find(|a| a.path.as_str() == "notes.md")
        .unwrap();
    let identity = ArtifactIdentity {
        session: plan.session.clone(),
        run: plan.run.clone(),
        path: notes.path.clone(),
        size: notes.size,
        sha256: notes.sha256,
    };
    let body = builtin.open(&identity).await.unwrap();
    assert_eq!(body.artifact, notes);
    let read = body.reader.read_at(2, 5).await.unwrap();
    assert_eq!(read, "Notes".as_bytes());
    for at in [notes.size, notes.size + 1] {
        assert!(body.reader.read_at(at, 5).await.unwrap().is_empty());
    }
    let missing = ArtifactIdentity {
        path: ArtifactPath::new("nothing.md").unwrap(),
        ..identity.clone()
    };
    let code =
        async |identity: &ArtifactIdentity| builtin.open(identity).await.err().map(|f| f.code);
    assert_eq!(code(&missing).await, Some(Code::ArtifactNotFound));
    let scope = builtin.prepare(&plan).await.unwrap().artifact_directory;
    fs::write(scope.join("notes.md"), "changed").unwrap();
    assert_eq!(code(&identity).await, Some(Code::ArtifactChanged));
    let fault = body.reader.read_at(0, 5).await.unwrap_err();
    assert_eq!(fault.code, Code::ArtifactChanged);
}

/// A large file is not hashed before it is handed over, but its end is not given before it was.
#[tokio::test]
async fn a_large_file_is_proven_while_it_is_handed_over() {
    const SIZE: u64 = 20 << 20;
    let world = World::new();
    let builtin = world.builtin();
    let plan = plan("run-1", "hello");
    let (_, end) = finish(&builtin, &plan).await;
    let scope = builtin.prepare(&plan).await.unwrap().artifact_directory;
    let content: Vec<u8> = (0..SIZE).map(|n| (n % 251) as u8).collect();
    fs::write(scope.join("large.bin"), &content).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let manifest = builtin.collect(&plan, &end).await.unwrap();
    let mut artifacts = manifest.artifacts.iter().map(Result::unwrap);
    let large = artifacts.find(|a| a.size == SIZE).unwrap();
    let identity = ArtifactIdentity {
        session: plan.session.clone(),
        run: plan.run.clone(),
        path: large.path,
        size: large.size,
        sha256: large.sha256,
    };
    // Processes that never read it.
    let fresh = || LocalWorkspace::at(&world.path().join("data")).unwrap();

    let reads = fresh();
    let body = reads.open(&identity).await.unwrap();
    assert_eq!(reads.content_bytes_read(), 0);
    let pieces: Vec<_> = body.reader.pieces(0..SIZE).try_collect().await.unwrap();
    assert!(pieces.concat() == content);
    assert_eq!(reads.content_bytes_read(), SIZE);
    let again = reads.open(&identity).await.unwrap();
    let pieces: Vec<_> = again.reader.pieces(7..9).try_collect().await.unwrap();
    assert_eq!(pieces.concat(), content[7..9]);
    assert_eq!(reads.content_bytes_read(), SIZE, "it is known");

    let reads = fresh();
    let body = reads.open(&identity).await.unwrap();
    let pieces: Vec<_> = body.reader.pieces(7..9).try_collect().await.unwrap();
    assert_eq!(pieces.concat(), content[7..9]);
    assert_eq!(reads.content_bytes_read(), SIZE, "a part of what is proven");

    let body = fresh().open(&identity).await.unwrap();
    let mut pieces = body.reader.pieces(0..SIZE);
    let mut got = pieces.try_next().await.unwrap().unwrap().len() as u64;
    fs::write(scope.join("large.bin"), vec![0; content.len()]).unwrap();
    let fault = loop {
        match pieces.try_next().await {
            Ok(piece) => got += piece.unwrap().len() as u64,
            Err(fault) => break fault,
        }
    };
    assert_eq!((fault.code, got < SIZE), (Code::ArtifactChanged, true));
    let refused = fresh().open(&identity).await.err();
    assert_eq!(refused.map(|f| f.code), Some(Code::ArtifactChanged));
}

#[tokio::test]
async fn collecting_again_reads_no_file_that_did_not_change() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = plan("run-1", "[[write a.md = one]] [[write b.md = two]]");
    let (_, end) = finish(&builtin, &plan).await;
    let first = builtin.collect(&plan, &end).await.unwrap();
    // File systems cannot tell what changes within a moment; after it, what was read is known.
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    assert_eq!(builtin.collect(&plan, &end).await.unwrap(), first);
    let read = world.config.workspace.content_bytes_read();
    assert_eq!(builtin.collect(&plan, &end).await.unwrap(), first);
    assert_eq!(world.config.workspace.content_bytes_read(), read);
    // Another process knows it too.
    let again = LocalWorkspace::at(&world.path().join("data")).unwrap();
    assert_eq!(again.collect(&plan, &end).await.unwrap(), first);
    assert_eq!(again.content_bytes_read(), 0);
}
