//! Manifests: replaced as a whole, paged in the order of their paths.

use pretty_assertions::assert_eq;
use threadline_contract::{
    Artifact, ArtifactPath, EmptyReason, OmitReason, Omitted, RunId, Sha256,
};
use threadline_store::{ArtifactState, Run, StoreError};

use crate::world::{World, account, on_both, other};

on_both![
    a_manifest_comes_back_and_is_replaced_whole,
    a_large_manifest_is_paged,
    names_of_any_kind_are_found,
    a_manifest_is_refused_whole,
    a_list_that_breaks_off_changes_nothing,
    a_manifest_is_fenced,
    accounts_do_not_see_each_others_files,
];

fn artifact(path: &str) -> Artifact {
    Artifact {
        path: ArtifactPath::new(path).unwrap(),
        size: path.len() as u64,
        sha256: Sha256([path.len() as u8; 32]),
        content_type: "text/plain".into(),
    }
}

/// As they come from a list on disk.
fn each(files: &[Artifact]) -> impl Iterator<Item = std::io::Result<Artifact>> + Send + 'static {
    let all: Vec<_> = files.iter().cloned().map(Ok).collect();
    all.into_iter()
}

async fn a_manifest_comes_back_and_is_replaced_whole(world: World) {
    let (run, lease) = world.leased().await;
    let store = &world.store;
    assert_eq!(
        store.artifacts(&account(), &run.id, 0, 9).await.unwrap(),
        []
    );
    let omitted = vec![Omitted {
        path: "big \"x\".bin".to_owned(),
        reason: OmitReason::TooLarge,
    }];
    let files = ["B.txt", "a b.txt", "a/z.txt", "b.txt", "ä.txt"].map(artifact);
    for _ in 0..2 {
        let wanted = Run {
            omitted: omitted.clone(),
            empty_reason: None,
            artifact_state: ArtifactState::Done,
            ..store.run_any(&run.id).await.unwrap()
        };
        let put = store
            .put_manifest(&lease, each(&files), &omitted, None)
            .await;
        assert_eq!(put.unwrap(), wanted);
        assert_eq!(store.run_any(&run.id).await.unwrap(), wanted);
        let found = store.artifacts(&account(), &run.id, 0, 9).await.unwrap();
        assert_eq!(found, files);
        assert_eq!(store.artifact_count(&account(), &run.id).await.unwrap(), 5);
    }
    let put = store
        .put_manifest(&lease, each(&[]), &[], Some(EmptyReason::ScopeEmpty))
        .await
        .unwrap();
    assert_eq!(put.empty_reason, Some(EmptyReason::ScopeEmpty));
    assert_eq!(put.omitted, []);
    assert_eq!(store.artifact_count(&account(), &run.id).await.unwrap(), 0);
    let gone = store.artifact(&account(), &run.id, &files[0].path).await;
    assert!(matches!(gone, Err(StoreError::NotFound)), "{gone:?}");
}

async fn a_large_manifest_is_paged(world: World) {
    let (run, lease) = world.leased().await;
    let files: Vec<Artifact> = (0..3000)
        .map(|n| artifact(&format!("out/{n:05}.txt")))
        .collect();
    let store = &world.store;
    store
        .put_manifest(&lease, each(&files), &[], None)
        .await
        .unwrap();
    let mut seen = vec![];
    loop {
        let page = store
            .artifacts(&account(), &run.id, seen.len() as u64, 700)
            .await
            .unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, files);
}

async fn names_of_any_kind_are_found(world: World) {
    let (run, lease) = world.leased().await;
    // Longer than an index entry may be, and not compressible.
    let long: String = (0..4000u32)
        .map(|n| char::from_u32(0x4e00 + n * 7919 % 20_000).unwrap())
        .collect();
    let mut files = [
        "%2F.txt",
        "a:b",
        "q\"uote'.txt",
        "line\nbreak",
        "e\u{301}",
        "é",
        long.as_str(),
    ]
    .map(artifact);
    files[0].size = i64::MAX as u64;
    let store = &world.store;
    store
        .put_manifest(&lease, each(&files), &[], None)
        .await
        .unwrap();
    for file in &files {
        let found = store.artifact(&account(), &run.id, &file.path).await;
        assert_eq!(found.unwrap(), *file);
    }
}

async fn a_manifest_is_refused_whole(world: World) {
    let (run, lease) = world.leased().await;
    let store = &world.store;
    store
        .put_manifest(&lease, each(&[artifact("kept")]), &[], None)
        .await
        .unwrap();
    let before = store.run_any(&run.id).await.unwrap();
    let endless = Artifact {
        size: u64::MAX,
        ..artifact("endless")
    };
    for files in [
        vec![artifact("a"), artifact("b"), artifact("a")],
        vec![artifact("a"), endless],
    ] {
        let omitted = [Omitted {
            path: "x".to_owned(),
            reason: OmitReason::Symlink,
        }];
        let put = store
            .put_manifest(&lease, each(&files), &omitted, None)
            .await;
        assert!(matches!(put, Err(StoreError::Invalid(_))), "{put:?}");
        let found = store.artifacts(&account(), &run.id, 0, 9).await.unwrap();
        assert_eq!(found, [artifact("kept")]);
        assert_eq!(store.run_any(&run.id).await.unwrap(), before);
    }
}

/// What was there before stays when the list breaks off.
async fn a_list_that_breaks_off_changes_nothing(world: World) {
    let (run, lease) = world.leased().await;
    let store = &world.store;
    let kept = [artifact("kept")];
    store
        .put_manifest(&lease, each(&kept), &[], None)
        .await
        .unwrap();
    let files: Vec<Artifact> = (0..9_000).map(|n| artifact(&format!("{n:05}"))).collect();
    let broken = each(&files).chain([Err(std::io::Error::other("gone"))]);
    let put = store.put_manifest(&lease, broken, &[], None).await;
    assert!(matches!(put, Err(StoreError::Invalid(_))), "{put:?}");
    let found = store.artifacts(&account(), &run.id, 0, 9).await.unwrap();
    assert_eq!(found, kept);
}

async fn a_manifest_is_fenced(world: World) {
    let (run, stale) = world.stale().await;
    let store = &world.store;
    let put = store
        .put_manifest(&stale, each(&[artifact("a")]), &[], None)
        .await;
    assert!(matches!(put, Err(StoreError::Stale)), "{put:?}");
    assert_eq!(store.artifact_count(&account(), &run.id).await.unwrap(), 0);
    let run = store.run_any(&run.id).await.unwrap();
    assert_eq!(run.artifact_state, ArtifactState::Pending);
}

async fn accounts_do_not_see_each_others_files(world: World) {
    let (run, lease) = world.leased().await;
    let (store, file) = (&world.store, artifact("a"));
    store
        .put_manifest(&lease, each(std::slice::from_ref(&file)), &[], None)
        .await
        .unwrap();
    for (who, run) in [(other(), run.id.clone()), (account(), RunId::fresh())] {
        let listed = store.artifacts(&who, &run, 0, 9).await;
        assert!(matches!(listed, Err(StoreError::NotFound)), "{listed:?}");
        let counted = store.artifact_count(&who, &run).await;
        assert!(matches!(counted, Err(StoreError::NotFound)), "{counted:?}");
        let found = store.artifact(&who, &run, &file.path).await;
        assert!(matches!(found, Err(StoreError::NotFound)), "{found:?}");
    }
}
