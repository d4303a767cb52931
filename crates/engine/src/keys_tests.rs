use pretty_assertions::assert_eq;
use threadline_artifacts::{ArtifactIdentity, RefError};
use threadline_contract::{ArtifactPath, RunId, SessionKey, Sha256};
use threadline_store::StoreConfig;

use super::*;

#[tokio::test]
async fn an_old_key_gives_way_and_its_links_stay_good() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    let store = Store::open(StoreConfig::new(format!("sqlite:{}", file.display())))
        .await
        .unwrap();
    let now = Millis::now();
    let made = now.0 - KEY_MILLIS - 1;
    store
        .add_signing_key("old", &[7; 32], Millis(made))
        .await
        .unwrap();
    let identity = ArtifactIdentity {
        session: SessionKey::new("builtin:main:draft:1").unwrap(),
        run: RunId::fresh(),
        path: ArtifactPath::new("report.md").unwrap(),
        size: 3,
        sha256: Sha256([1; 32]),
    };
    let (seconds, expires) = (now.0 / 1000, now.0 / 1000 + 60);
    let before = KeyRing::from_keys(vec![Key::new("old", [7; 32], made / 1000)]).unwrap();
    let link = before.sign(&identity, expires);

    let ring = key_ring(&store).await.unwrap();
    let kids = |ring: &KeyRing| ring.keys().map(|k| k.kid.clone()).collect::<Vec<_>>();
    let [fresh, old] = kids(&ring).try_into().unwrap();
    assert_eq!(old, "old");
    assert_eq!(ring.verify(&link, expires, seconds), Ok(identity.clone()));
    let signed = ring.sign(&identity, expires);
    assert_eq!(
        before.verify(&signed, expires, seconds),
        Err(RefError::UnknownKey)
    );
    // The next start finds a young key and leaves it.
    assert_eq!(kids(&key_ring(&store).await.unwrap()), [fresh, old]);
}
