use pretty_assertions::assert_eq;

use super::*;

const DONE: &str = "1c756e4db5b787b6e660c80caf23f7c10b6b9543e53c38e1eff47837eaad1338";

fn payload() -> Payload {
    Payload {
        v: 2,
        workspace_root_hash: root_hash(Path::new("/ws")),
        scope_kind: "task".into(),
        session_scope: "tasks/s".into(),
        run_scope: "tasks/s/r".into(),
        artifact_scope: "tasks/s/r".into(),
        relative_path: "f.md".into(),
        size_bytes: 7,
        sha256: Sha256::from_hex(DONE).unwrap(),
    }
}

fn token(payload: &Payload) -> String {
    let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(payload).unwrap());
    let mac = signature(b"k", &body).unwrap().finalize().into_bytes();
    format!("{body}.{}", URL_SAFE_NO_PAD.encode(mac))
}

fn read(text: &str, session: &str, run: &str, root: &str) -> Result<String, PeerRefError> {
    let (session, run) = (SessionKey::new(session).unwrap(), RunId::new(run).unwrap());
    verify(text, b"k", Path::new(root), &session, &run).map(|id| id.path.to_string())
}

/// P82.
#[test]
fn p82_the_earlier_plugins_signature() {
    let text = token(&payload());
    let (_, mac) = text.split_once('.').unwrap();
    assert_eq!(mac, "7Gy1wDox6iK82tToDLuaS11CXEIKBNQOpHmWBA8WT3M");
    let hash = root_hash(Path::new("/ws"));
    assert!(hash.starts_with("0c65a812") && hash.ends_with("f5ff"));
    assert!(looks_like(&text));
    assert_eq!(read(&text, "s", "r", "/ws"), Ok("f.md".into()));
}

/// P84, P85, and everything else that is wrong with one.
#[test]
fn p84_p85_only_what_is_meant_is_honoured() {
    use PeerRefError::{Foreign, Invalid};
    let text = token(&payload());
    assert_eq!(read(&text, "other", "r", "/ws"), Err(Foreign));
    assert_eq!(read(&text, "s", "r2", "/ws"), Err(Foreign));
    assert_eq!(read(&text, "s", "r", "/elsewhere"), Err(Foreign));
    let change = |change: fn(&mut Payload)| {
        let mut changed = payload();
        change(&mut changed);
        read(&token(&changed), "s", "r", "/ws")
    };
    assert_eq!(change(|p| p.v = 1), Err(Invalid));
    assert_eq!(change(|p| p.scope_kind = "global".into()), Err(Invalid));
    assert_eq!(change(|p| p.session_scope = "tasks/t".into()), Err(Invalid));
    assert_eq!(
        change(|p| p.session_scope = "tasks/s/r".into()),
        Err(Invalid)
    );
    assert_eq!(change(|p| p.relative_path = "../f.md".into()), Err(Invalid));
    assert_eq!(
        change(|p| p.artifact_scope = "tasks/s/q".into()),
        Err(Foreign)
    );
    let (body, mac) = text.split_once('.').unwrap();
    for bad in [
        String::new(),
        ".".into(),
        body.to_owned(),
        format!("{body}."),
        format!("{body}.{mac}x"),
        format!("{body}x.{mac}"),
        format!("{body}.{}", "A".repeat(43)),
        format!("{mac}.{body}"),
    ] {
        assert_eq!(read(&bad, "s", "r", "/ws"), Err(Invalid), "{bad}");
    }
    let other = verify(
        &text,
        b"K",
        Path::new("/ws"),
        &SessionKey::new("s").unwrap(),
        &RunId::new("r").unwrap(),
    );
    assert_eq!(other, Err(Invalid));
}
