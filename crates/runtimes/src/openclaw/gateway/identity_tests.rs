use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::{assert_eq, assert_ne};
use ring::signature::{ED25519, UnparsedPublicKey};

use super::*;

fn proof<'a>(scopes: &'a [&'a str]) -> Proof<'a> {
    Proof {
        client_id: "gateway-client",
        client_mode: "backend",
        role: "operator",
        scopes,
        signed_at: 17,
        token: "t",
        nonce: "n",
        platform: "Linux",
    }
}

#[test]
fn the_proof_holds_for_what_was_said_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::open(folder.path().join("device.json")).unwrap();
    let device = identity.prove(&proof(&["operator.read", "operator.write"]));
    let public = BASE64.decode(&device.public_key).unwrap();
    assert_eq!(device.id, hex::encode(Sha256::digest(&public)));
    let key = UnparsedPublicKey::new(&ED25519, &public);
    let signature = BASE64.decode(&device.signature).unwrap();
    let said = format!(
        "v3|{}|gateway-client|backend|operator|operator.read,operator.write|17|t|n|linux|",
        device.id
    );
    key.verify(said.as_bytes(), &signature).unwrap();
    let more = said.replace("operator.write", "operator.admin");
    assert!(key.verify(more.as_bytes(), &signature).is_err());
}

#[test]
fn it_is_the_same_machine_after_a_restart_and_nobody_else_reads_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("openclaw/device.json");
    let mut first = Identity::open(path.clone()).unwrap();
    first.keep_token("ws://a", Some("token-a")).unwrap();
    first.keep_token("ws://b", Some("token-b")).unwrap();
    first.keep_token("ws://b", Some("token-b2")).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = Identity::open(path.clone()).unwrap();
    assert_eq!(again.kept.device_id, first.kept.device_id);
    assert_eq!(
        [
            again.token("ws://a"),
            again.token("ws://b"),
            again.token("ws://c")
        ],
        [Some("token-a"), Some("token-b2"), None]
    );
    first.keep_token("ws://a", None).unwrap();
    assert_eq!(Identity::open(path).unwrap().token("ws://a"), None);
}

#[test]
fn a_damaged_identity_is_replaced_and_a_swapped_key_counts_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device.json");
    let first = Identity::open(path.clone()).unwrap();
    let other = Identity::open(folder.path().join("other.json")).unwrap();
    let mixed = Kept {
        private_key: other.kept.private_key,
        ..first.kept.clone()
    };
    std::fs::write(&path, serde_json::to_vec(&mixed).unwrap()).unwrap();
    let new = Identity::open(path.clone()).unwrap();
    assert_ne!(new.kept.device_id, first.kept.device_id);
    std::fs::write(&path, b"{").unwrap();
    assert_ne!(
        Identity::open(path).unwrap().kept.device_id,
        new.kept.device_id
    );
}
