use pretty_assertions::assert_eq;

use threadline_contract::{Code, turn::ATTACHMENT_BYTES};

use super::*;

fn outbox() -> (tempfile::TempDir, Outbox) {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(&dir.path().join("outbox")).unwrap();
    (dir, outbox)
}
fn request(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}
fn inline(name: &str, bytes: &[u8]) -> InlineAttachment {
    InlineAttachment {
        name: name.into(),
        mime_type: Some("text/plain".into()),
        content: STANDARD.encode(bytes),
        size_bytes: None,
        sha256: None,
    }
}

#[test]
fn a_sealed_request_comes_back_with_its_files() {
    let (dir, outbox) = outbox();
    let file = dir.path().join("note.txt");
    std::fs::write(&file, "from disk").unwrap();
    let link = dir.path().join("link.txt");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let id = request("r/1");
    let paths = [file, link].map(|p| p.display().to_string());
    let aside = outbox
        .attach(&id, &paths, &[inline("x.txt", b"inside")])
        .unwrap();
    assert_eq!(aside.places.len(), 3);
    let second = std::fs::read_to_string(&aside.places[1]).unwrap();
    assert_eq!(second, "from disk");
    let outline = |name, bytes: &[u8]| AttachmentOutline::of(name, bytes);
    assert_eq!(
        aside.outlines,
        [
            outline("note.txt", b"from disk"),
            outline("link.txt", b"from disk"),
            outline("x.txt", b"inside"),
        ]
    );
    assert_eq!(outbox.sealed(&id).unwrap(), None);

    let params = serde_json::from_value(serde_json::json!({"sessionId": "t"})).unwrap();
    let sealed = Sealed {
        asked_at_ms: Millis(7),
        method: "session.start".into(),
        params,
    };
    outbox.seal(&id, &sealed).unwrap();
    let (back, body) = outbox.sealed(&id).unwrap().unwrap();
    assert_eq!(back, sealed);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let files: Vec<InlineAttachment> =
        serde_json::from_value(body["params"]["inlineAttachments"].clone()).unwrap();
    let names: Vec<_> = files
        .iter()
        .map(|f| (f.name.as_str(), f.size_bytes))
        .collect();
    assert_eq!(
        names,
        [
            ("note.txt", Some(9)),
            ("link.txt", Some(9)),
            ("x.txt", Some(6))
        ]
    );
    assert_eq!(body["id"], "r/1");

    let open = |outbox: &Outbox| outbox.unfinished().unwrap().remove(0).open;
    assert_eq!(open(&outbox), Some(AppThreadKey::new("t").unwrap()));
    outbox.closed(&id).unwrap();
    assert_eq!(open(&outbox), None);

    let again = request("r/2");
    outbox.reattach(&id, &again).unwrap();
    outbox.remove(&id).unwrap();
    assert_eq!(outbox.attachments(&again).unwrap(), files);
}

#[test]
fn bad_attachments_are_named() {
    let (dir, outbox) = outbox();
    let big = dir.path().join("big");
    std::fs::write(&big, vec![0; ATTACHMENT_BYTES + 1]).unwrap();
    let path = |p: &Path| p.display().to_string();
    let missing = dir.path().join("missing");
    for (paths, code) in [
        (vec![path(&big)], Code::AttachmentTooLarge),
        (vec!["relative".to_owned()], Code::AttachmentInvalid),
        (vec![path(&missing)], Code::AttachmentInvalid),
        (vec![path(dir.path())], Code::AttachmentInvalid),
    ] {
        let fault = outbox.attach(&request("r"), &paths, &[]).unwrap_err();
        assert_eq!(fault.code, code, "{fault}");
    }
    let mut wrong = inline("w", b"abc");
    wrong.sha256 = Some(Sha256([0; 32]));
    let mut short = inline("s", b"abc");
    short.size_bytes = Some(2);
    let mut noise = inline("n", b"abc");
    noise.content = "***".into();
    for bad in [wrong, short, noise] {
        let fault = outbox.attach(&request("r"), &[], &[bad]).unwrap_err();
        assert_eq!(fault.code, Code::AttachmentInvalid);
    }
    let many = vec![inline("m", &vec![0; ATTACHMENT_BYTES]); 3];
    let fault = outbox.attach(&request("r"), &[], &many).unwrap_err();
    assert_eq!(fault.code, Code::AttachmentTooLarge);
    assert_eq!(outbox.unfinished().unwrap().len(), 0);
}

#[test]
fn what_is_left_to_do_is_found_again_in_order() {
    let (_dir, outbox) = outbox();
    let thread = AppThreadKey::new("t").unwrap();
    let (first, second) = (request("r1"), request("r2"));
    let stop = TaskToCancel {
        thread_id: thread.clone(),
        run_id: None,
        keeps_waiting: false,
    };
    outbox.note_cancel(&second, &stop).unwrap();
    let session_key = threadline_contract::SessionKey::new("s").unwrap();
    let run_id = RunId::new("turn-1").unwrap();
    let sync = ToSync {
        thread_id: thread,
        request_id: first.clone(),
        scope: ArtifactScope::of(&session_key, &run_id).ok(),
        run_id,
    };
    outbox.note_sync(&sync).unwrap();
    let found: Vec<_> = outbox
        .unfinished()
        .unwrap()
        .into_iter()
        .map(|u| (u.request, u.cancel, u.sync))
        .collect();
    let want = vec![
        (first.clone(), None, Some(sync)),
        (second.clone(), Some(stop), None),
    ];
    assert_eq!(found, want);
    outbox.synced(&first).unwrap();
    outbox.synced(&first).unwrap();
    outbox.cancelled(&second).unwrap();
    outbox.remove(&first).unwrap();
    outbox.remove(&first).unwrap();
    assert_eq!(outbox.unfinished().unwrap().len(), 1);
}
