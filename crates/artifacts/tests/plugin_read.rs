//! One file of a run: who may read it, and that it is what was promised.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, os::unix::fs::symlink};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::{
    host::{Host, K, SCOPE, call, run_params, texts, turn, with},
    put, sha,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_artifacts::{ArtifactIdentity, KeyRing, LINK_SECONDS, Service};
use threadline_contract::{ArtifactPath, RunId, SessionKey, plugin::ReadParams};

/// A host with a run that has one file, and the file's reference.
fn host_with(path: &str, content: &[u8]) -> (Host, Value) {
    let host = Host::prepared();
    put(&host.scope(), path, content);
    let listed = host.list(turn(json!({}))).unwrap();
    let reference = listed["artifacts"][0]["artifactRef"].clone();
    (host, reference)
}

fn content(read: &Value) -> Vec<u8> {
    STANDARD
        .decode(read["artifacts"][0]["content"].as_str().unwrap())
        .unwrap()
}

fn refusal(answer: Result<Value, (String, String)>) -> String {
    answer.unwrap_err().0
}

#[test]
fn a_reference_and_a_path_read_the_same() {
    let (host, reference) = host_with("reports/final.md", b"# Done\n");
    for by in [
        json!({"artifactRef": reference}),
        json!({"artifactRef": reference, "relativePath": "reports/final.md", "artifactScope": SCOPE}),
        json!({"artifactScope": format!("{SCOPE}/"), "relativePath": "reports/final.md"}),
        json!({"artifactScope": SCOPE, "relativePath": "reports/final.md/"}),
    ] {
        let read = host.read(turn(by)).unwrap();
        assert_eq!(content(&read), b"# Done\n");
        assert_eq!(
            (
                &read["offset"],
                &read["length"],
                &read["eof"],
                &read["artifactScope"]
            ),
            (&json!(0), &json!(7), &json!(true), &json!(SCOPE))
        );
        assert_eq!(
            (&read["artifacts"][0]["label"], &read["warnings"]),
            (&json!("final.md"), &json!([]))
        );
    }
}

/// What no listing has is not read, and nobody waits for its digest.
#[test]
fn a_path_that_no_listing_has_is_not_found() {
    let host = Host::prepared();
    let huge = fs::File::create(host.scope().join("huge.bin")).unwrap();
    huge.set_len((16 << 30) + 1).unwrap();
    let long = "x".repeat(5_000);
    for path in ["huge.bin", long.as_str(), ".git/config"] {
        let by_path = turn(json!({"artifactScope": SCOPE, "relativePath": path}));
        assert_eq!(refusal(host.read(by_path)), "artifact_not_found", "{path}");
    }
}

#[test]
fn p84_a_reference_of_another_session_or_run_is_refused() {
    let (host, reference) = host_with("f.md", b"x");
    host.prepare(run_params("turn-2")).unwrap();
    let other =
        json!({"openclawSessionKey": "agent:main:other", "runId": "turn-1", "appThreadKey": "o"});
    host.prepare(other.clone()).unwrap();
    for whose in [run_params("turn-2"), other] {
        let answer = host.read(with(whose, json!({"artifactRef": reference})));
        let want = (
            "INVALID_REQUEST".to_owned(),
            "`artifactRef` does not match this session and run.".to_owned(),
        );
        assert_eq!(answer, Err(want));
    }
}

#[test]
fn p85_what_is_no_reference_is_refused() {
    let (host, reference) = host_with("f.md", b"x");
    let text = reference.as_str().unwrap();
    let (bare, _) = text.rsplit_once(";t=").unwrap();
    for bad in [
        "eyJ2IjoxfQ.c2lnbmF0dXJl",
        "x",
        "a::b::c::d",
        bare,
        &format!("{text}x"),
    ] {
        assert_eq!(
            refusal(host.read(turn(json!({"artifactRef": bad})))),
            "INVALID_REQUEST",
            "{bad}"
        );
    }
    // The expiry may travel beside it, and is signed too.
    let expires: i64 = text.rsplit_once(";t=").unwrap().1.parse().unwrap();
    let read = |t: i64| host.read(turn(json!({"artifactRef": bare, "t": t})));
    assert_eq!(content(&read(expires).unwrap()), b"x");
    assert_eq!(refusal(read(expires + 1)), "LINK_FORGED");
    let forged = text.replace("::f.md::", "::g.md::");
    assert_eq!(
        refusal(host.read(turn(json!({"artifactRef": forged})))),
        "LINK_FORGED"
    );
}

#[test]
fn p86_a_path_needs_its_scope() {
    let (host, _) = host_with("f.md", b"x");
    for params in [
        json!({"relativePath": "f.md"}),
        json!({}),
        json!({"artifactScope": SCOPE}),
    ] {
        assert_eq!(
            host.read(turn(params)),
            Err((
                "INVALID_REQUEST".into(),
                "Name the file: `artifactRef`, or `artifactScope` and `relativePath`.".into()
            ))
        );
    }
}

#[test]
fn p88_p97_links_and_folders_are_no_files() {
    let (host, _) = host_with("dir/f.md", b"x");
    put(host.temp.path(), "secret", "secret");
    symlink(host.temp.path().join("secret"), host.scope().join("link")).unwrap();
    symlink("dir", host.scope().join("linkdir")).unwrap();
    put(&host.scope(), "node_modules/x.js", "x");
    let read = |path: &str| {
        refusal(host.read(turn(json!({"artifactScope": SCOPE, "relativePath": path}))))
    };
    assert_eq!(read("link"), "symlink_rejected");
    assert_eq!(read("linkdir/f.md"), "symlink_rejected");
    assert_eq!(read("dir"), "not_a_file");
    for path in [
        "none",
        "dir/none",
        "dir/f.md/x",
        "node_modules/x.js",
        ".xworkmate/scope.json",
    ] {
        assert_eq!(read(path), "artifact_not_found", "{path}");
    }
    for path in [
        "../f.md",
        "./dir/f.md",
        "/etc/hostname",
        "dir//f.md",
        "a\0b",
        "",
        "/",
    ] {
        assert_eq!(read(path), "INVALID_REQUEST", "{path}");
    }
}

#[test]
fn p89_a_reference_of_another_file_is_refused() {
    let (host, reference) = host_with("a.txt", b"a");
    put(&host.scope(), "b.txt", "a");
    let answer = host.read(turn(
        json!({"artifactRef": reference, "relativePath": "b.txt"}),
    ));
    let want = "`artifactRef` and `relativePath` name different files.";
    assert_eq!(answer, Err(("INVALID_REQUEST".into(), want.into())));
}

#[test]
fn p90_a_file_that_changed_is_not_what_was_promised() {
    let (host, reference) = host_with("a.txt", b"before");
    for other in ["after!", "longer than before", ""] {
        put(&host.scope(), "a.txt", other);
        assert_eq!(
            refusal(host.read(turn(json!({"artifactRef": reference})))),
            "artifact_changed"
        );
    }
    fs::remove_file(host.scope().join("a.txt")).unwrap();
    assert_eq!(
        refusal(host.read(turn(json!({"artifactRef": reference})))),
        "artifact_not_found"
    );
}

#[test]
fn p92_a_rotation_keeps_old_references_good() {
    let (host, reference) = host_with("a.txt", b"a");
    let old = Host::keys(host.temp.path());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    host.service.use_keys(old.rotated(now));
    host.read(turn(json!({"artifactRef": reference}))).unwrap();
    let listed = host.list(turn(json!({}))).unwrap();
    let fresh = &listed["artifacts"][0]["artifactRef"];
    host.read(turn(json!({"artifactRef": fresh}))).unwrap();
    // A ring that never had the key knows nothing of it.
    host.service.use_keys(KeyRing::generate(now));
    for text in [&reference, fresh] {
        assert_eq!(
            refusal(host.read(turn(json!({"artifactRef": text})))),
            "LINK_FORGED"
        );
    }
    // Good signature, past its time.
    host.service.use_keys(old.clone());
    let identity = ArtifactIdentity {
        session: SessionKey::new(K).unwrap(),
        run: RunId::new("turn-1").unwrap(),
        path: ArtifactPath::new("a.txt").unwrap(),
        size: 1,
        sha256: sha(b"a"),
    };
    let expired = old.sign_whole(&identity, now - LINK_SECONDS);
    assert_eq!(
        refusal(host.read(turn(json!({"artifactRef": expired})))),
        "LINK_EXPIRED"
    );
}

#[test]
fn p93_references_outlive_the_process() {
    let (host, reference) = host_with("a.txt", b"a");
    let again = host.restarted();
    let read = call(turn(json!({"artifactRef": reference})), |p: ReadParams| {
        again.read(&p)
    })
    .unwrap();
    assert_eq!(content(&read), b"a");
}

#[test]
fn p94_a_large_file_is_read_in_parts() {
    let big: Vec<u8> = (0..64 * 1024 * 1024_u32)
        .map(|i| (i ^ (i >> 8)) as u8)
        .collect();
    let (host, reference) = host_with("big.bin", &big);
    let mut got = Vec::new();
    loop {
        let part = json!({"artifactRef": reference, "offset": got.len(), "length": 3_000_001});
        let read = host.read(turn(part)).unwrap();
        let bytes = content(&read);
        assert_eq!(read["length"], bytes.len());
        got.extend(bytes);
        if read["eof"] == json!(true) {
            break;
        }
    }
    assert!(got == big);
    // Without a range it is described, not given.
    let read = host.read(turn(json!({"artifactRef": reference}))).unwrap();
    let item = &read["artifacts"][0];
    assert_eq!(
        (item.get("content"), &item["notInlined"]),
        (None, &json!("over_max_inline_bytes"))
    );
    assert_eq!(
        (&item["sha256"], &read["eof"]),
        (&json!(sha(&big)), &json!(false))
    );
    assert_eq!(texts(&read["warnings"]).len(), 1);
    // No more than a frame of the gateway can carry, however much a caller allows.
    let all = json!({"artifactRef": reference, "maxInlineBytes": 64 * 1024 * 1024});
    let read = host.read(turn(all)).unwrap();
    assert_eq!(read["artifacts"][0].get("content"), None);
    assert_eq!(texts(&read["warnings"]).len(), 1);
}

#[test]
fn an_older_caller_that_allows_for_it_gets_as_much_as_a_frame_carries() {
    let most = vec![7; 16 * 1024 * 1024];
    let (host, reference) = host_with("most.bin", &most);
    let all = json!({"artifactRef": reference, "maxInlineBytes": 64 * 1024 * 1024});
    assert!(content(&host.read(turn(all)).unwrap()) == most);
}

#[test]
fn p96_the_edges_of_a_range() {
    let (host, reference) = host_with("digits.txt", b"0123456789");
    let read = |offset: Value, length: Value| {
        host.read(turn(
            json!({"artifactRef": reference, "offset": offset, "length": length}),
        ))
    };
    for (offset, length, want, eof) in [
        (json!(2), json!(3), "234", false),
        (json!("7"), json!(null), "789", true),
        (json!(null), json!(4), "0123", false),
        (json!(10), json!(1), "", true),
    ] {
        let got = read(offset, length).unwrap();
        assert_eq!(
            (content(&got).as_slice(), &got["eof"]),
            (want.as_bytes(), &json!(eof))
        );
        assert_eq!(got["artifacts"][0]["sizeBytes"], 10);
    }
    for (offset, length) in [(11, 1), (0, 0), (10, 0), (-1, 5), (0, -5)] {
        assert_eq!(
            refusal(read(json!(offset), json!(length))),
            "range_invalid",
            "{offset} {length}"
        );
    }
}

/// P98: the path is swapped for a link to a secret of the same size, as fast as possible.
#[cfg(target_os = "linux")]
#[test]
fn p98_a_swap_race_never_serves_the_secret() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let host = Host::prepared();
    put(&host.scope(), "sub/f", "mine");
    put(host.temp.path(), "out/f", "them");
    symlink(host.temp.path().join("out"), host.scope().join("trap")).unwrap();
    let (stop, mut served, mut refused) = (AtomicBool::new(false), 0, 0);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) {
                let (a, b) = (host.scope().join("sub"), host.scope().join("trap"));
                renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let end = std::time::Instant::now() + std::time::Duration::from_secs(1);
        while std::time::Instant::now() < end {
            for path in ["sub/f", "trap/f"] {
                match host.read(turn(json!({"artifactScope": SCOPE, "relativePath": path}))) {
                    Ok(read) => {
                        assert_eq!(content(&read), b"mine");
                        served += 1;
                    }
                    Err((code, _)) => {
                        assert!(
                            ["symlink_rejected", "artifact_not_found"].contains(&code.as_str()),
                            "{code}"
                        );
                        refused += 1;
                    }
                }
            }
            let exported = host.export(turn(json!({}))).unwrap();
            for item in exported["artifacts"].as_array().unwrap() {
                assert_eq!(item["content"], STANDARD.encode("mine"));
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(
        served > 0 && refused > 0,
        "served {served}, refused {refused}"
    );
}

/// P82 end to end: where the operator still has the secret, references of the earlier plugin hold.
#[test]
fn p82_an_earlier_plugins_reference_is_honoured_where_its_secret_is_known() {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use sha2::Digest as _;
    let host = Host::new();
    let (session, run, scope) = (
        "agent::main:main",
        "run alpha",
        "tasks/agent_main_main/run_alpha",
    );
    put(&host.ws(), &format!("{scope}/f.md"), "# Done\n");
    let root = fs::canonicalize(host.ws()).unwrap();
    let payload = format!(
        r#"{{"v":2,"workspaceRootHash":"{}","scopeKind":"task","sessionScope":"tasks/agent_main_main","runScope":"{scope}","artifactScope":"{scope}","relativePath":"f.md","sizeBytes":7,"sha256":"{}"}}"#,
        hex::encode(sha2::Sha256::digest(root.to_str().unwrap())),
        sha(b"# Done\n"),
    );
    let coder = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let body = coder.encode(payload);
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"a secret").unwrap();
    mac.update(body.as_bytes());
    let token = format!("{body}.{}", coder.encode(mac.finalize().into_bytes()));
    let params = json!({"openclawSessionKey": session, "runId": run, "artifactRef": token});
    assert_eq!(
        refusal(host.read(params.clone())),
        "INVALID_REQUEST",
        "nobody knows the secret"
    );
    let mut settings = Host::settings(host.temp.path());
    settings.peer_secret = Some("a secret".into());
    let service = Service::new(settings, Host::keys(host.temp.path()));
    let read = |params: Value| call(params, |p: ReadParams| service.read(&p));
    assert_eq!(content(&read(params.clone()).unwrap()), b"# Done\n");
    let other = with(params, json!({"runId": "run beta"}));
    assert_eq!(
        read(other).unwrap_err().1,
        "`artifactRef` does not match this session and run."
    );
}
