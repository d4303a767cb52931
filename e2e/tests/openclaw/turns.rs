//! What turns come to while the gateway stays up.

use std::time::Duration;

use base64::Engine as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::bench::{Bench, Outcome, completed, outcome, turn};

/// Everything that a model can do to a turn, on threads of their own, at once: the slow ones take no
/// time from the others.
#[tokio::test(flavor = "multi_thread")]
async fn each_turn_ends_truthfully() {
    let Some(bench) = Bench::start(json!({})).await else {
        return;
    };
    // The first run after a start is slow; the others shall not wait for it.
    assert_eq!(
        bench.run("draft:text", "[[say first answer]]").await,
        completed("first answer", &[])
    );
    tokio::join!(
        dead_model(&bench),
        failing_models(&bench),
        stopped(&bench),
        files(&bench),
        sent_twice(&bench),
        attached(&bench),
    );
    tokio::join!(hostile_keys(&bench), five_at_once(&bench));
    // Nothing that the model was asked is still open: a stop reached it.
    assert_eq!(bench.model.seen.open(), 0);
}

/// 500 for ever: the gateway tries for more than a minute, and the run is running all that time.
async fn dead_model(bench: &Bench) {
    let thread = "draft:dead";
    bench.send(thread, "[[fail 500]] [[say never]]").await;
    bench.model_hears("[[fail 500]] [[say never]]").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.status(thread).await["status"], json!("running"));
    let ended = bench.ended(thread).await;
    assert_eq!(
        ended,
        Outcome {
            status: "failed".into(),
            code: Some("MODEL_FAILED".into()),
            text: None,
            files: vec![],
        }
    );
}

/// A model that refuses, then one that recovers, on a session that has an answer already.
async fn failing_models(bench: &Bench) {
    let thread = "draft:failing";
    let first = bench.run(thread, "[[say the answer before]]").await;
    assert_eq!(first, completed("the answer before", &[]));
    let refused = bench.run(thread, "[[fail 400]] [[say never]]").await;
    assert_eq!(
        refused,
        Outcome {
            status: "failed".into(),
            code: Some("MODEL_FAILED".into()),
            // Not the answer before.
            text: None,
            files: vec![],
        }
    );
    let message = bench.status(thread).await["message"].clone();
    assert!(message.as_str().is_some_and(|m| m.len() > 10), "{message}");
    let recovered = bench.run(thread, "[[fail 500 2]] [[say recovered]]").await;
    assert_eq!(recovered, completed("recovered", &[]));
    let last = bench.run(thread, "[[say last]]").await;
    assert_eq!(last, completed("last", &[]));
}

/// A run that is asked to stop ends as cancelled, with none of the session's earlier words.
async fn stopped(bench: &Bench) {
    let thread = "draft:stopped";
    bench.run(thread, "[[say earlier words]]").await;
    bench
        .send(thread, "[[sleep 15000]] [[say never said]]")
        .await;
    bench.model_hears("never said").await;
    bench.stop(thread).await;
    assert_eq!(bench.ended(thread).await, Outcome::of("cancelled"));
    // The session is free again. (What the model makes of the two messages that it now sees is its own.)
    let next = bench.run(thread, "[[say after the stop]]").await;
    assert_eq!(next.status, "completed");
}

/// Files in the run's folder and in a declared folder come home, with their bytes; a later run does
/// not bring them again.
async fn files(bench: &Bench) {
    let thread = "draft:files";
    let prompt = "[[write reports/a.md = one]] [[say written]]";
    let ended = bench.run(thread, prompt).await;
    assert_eq!(ended, completed("written", &["reports/a.md"]));
    let snapshot = bench.status(thread).await;
    let url = snapshot["artifacts"]["items"][0]["url"].as_str().unwrap();
    let url = match url.starts_with("http") {
        true => url.to_owned(),
        false => format!("{}{url}", bench.world.url),
    };
    let get = bench.world.http.get(url).bearer_auth(&bench.world.token);
    let answer = get.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.bytes().await.unwrap(), "one");
    let next = bench.run(thread, "[[say nothing new]]").await;
    assert_eq!(next, completed("nothing new", &[]));
}

/// A text that comes with the task reaches the model; files that the gateway would not take are refused
/// before anything is made.
async fn attached(bench: &Bench) {
    let with = |thread: &str, name: &str, content: &[u8]| {
        let mut turn = turn(thread, "[[say read it]]");
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        turn["inlineAttachments"] = json!([{"name": name, "content": content}]);
        turn
    };
    let text = with("draft:attached", "note.txt", b"the words 4711");
    let sent = bench.world.rpc("session.start", text).await;
    assert!(sent["result"]["runId"].is_string(), "{sent:#}");
    let ended = bench
        .world
        .ended_within("draft:attached", super::bench::TURN)
        .await;
    assert_eq!(outcome(&ended), completed("read it", &[]));
    let requests = bench.model.seen.requests();
    let read = |r: &&Value| r.to_string().contains("the words 4711");
    assert_eq!(requests.iter().filter(read).count(), 1);
    // What the model read and wrote is told.
    let used = &ended["usage"];
    assert!(used["inputTokens"].as_u64() > Some(1000), "{ended:#}");
    assert!(used["outputTokens"].as_u64() > Some(0), "{ended:#}");

    let bytes = [0, 159, 146, 150];
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.resize((6 << 20) + 1, 0);
    for (name, content, code) in [
        ("data.bin", &bytes[..], "ATTACHMENT_INVALID"),
        ("large.png", &image, "ATTACHMENT_TOO_LARGE"),
        (
            "long.txt",
            &vec![b'a'; (256 << 10) + 1],
            "ATTACHMENT_TOO_LARGE",
        ),
    ] {
        let turn = with("draft:bytes", name, content);
        let refused = bench.world.rpc("session.start", turn).await;
        assert_eq!(refused["error"]["data"]["code"], json!(code), "{refused:#}");
    }
    let get = json!({"appThreadKey": "draft:bytes"});
    let none = bench.world.rpc("xworkmate.tasks.get", get).await;
    assert_eq!(
        none["error"]["data"]["code"],
        json!("mapping_not_found"),
        "{none:#}"
    );
    // Whoever asks beforehand is told the same.
    let head = base64::engine::general_purpose::STANDARD.encode(bytes);
    let outline = json!({"name": "data.bin", "sizeBytes": 4, "head": head, "isText": false});
    let asked = json!({"routing": turn("draft:bytes", "")["routing"], "attachments": [outline]});
    let refused = bench.world.rpc("xworkmate.routing.resolve", asked).await;
    assert_eq!(
        refused["error"]["data"]["code"],
        json!("ATTACHMENT_INVALID")
    );
}

/// The same request twice is one run, and the model hears it once.
async fn sent_twice(bench: &Bench) {
    let thread = "draft:twice";
    let prompt = "[[sleep 500]] [[say once only]]";
    let one = bench.request(thread, prompt, Some("same")).await;
    let two = bench.request(thread, prompt, Some("same")).await;
    assert_eq!(
        one["result"]["runId"], two["result"]["runId"],
        "{one:#} {two:#}"
    );
    assert_eq!(bench.ended(thread).await, completed("once only", &[]));
    assert_eq!(bench.heard("once only"), 1);
}

/// Keys that differ only in case, keys that would leave a folder, keys that are the gateway's own.
async fn hostile_keys(bench: &Bench) {
    let mut sessions = vec![];
    for (thread, word) in [
        ("Draft:Twin", "upper"),
        ("draft:twin", "lower"),
        ("draft:../../../etc/passwd", "climber"),
        ("draft:a/b\\c*?<>|\"", "signs"),
        ("draft:☃ snow", "snow"),
    ] {
        let ended = bench.run(thread, &format!("[[say {word}]]")).await;
        assert_eq!(ended, completed(word, &[]), "{thread}");
        let snapshot = bench.status(thread).await;
        let scope = snapshot["artifactScope"].as_str().unwrap().to_owned();
        assert_eq!(scope.split('/').count(), 3, "{scope}");
        assert!(bench.gateway.workspace().join(&scope).is_dir(), "{scope}");
        sessions.push(snapshot["openclawSessionKey"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        sessions[..2],
        ["agent:main:draft:twin", "agent:main:draft:twin-2"]
    );
    for reserved in ["acp:codex:x", "cron:nightly", "draft:subagent:1"] {
        let refused = bench.request(reserved, "[[say no]]", None).await;
        assert_eq!(
            refused["error"]["data"]["code"],
            json!("INVALID_REQUEST"),
            "{refused:#}"
        );
    }
}

/// Five threads at once: each has its own words and its own files.
async fn five_at_once(bench: &Bench) {
    let one = |n: usize| async move {
        let thread = format!("draft:five-{n}");
        let prompt = format!("[[sleep 1500]] [[write reports/five-{n}.md = {n}]] [[say I am {n}]]");
        (n, bench.run(&thread, &prompt).await)
    };
    let all = tokio::join!(one(1), one(2), one(3), one(4), one(5));
    for (n, ended) in [all.0, all.1, all.2, all.3, all.4] {
        let file = format!("reports/five-{n}.md");
        assert_eq!(ended, completed(&format!("I am {n}"), &[&file]));
    }
}

/// Two bridges on one gateway do not hear each other's runs, and a thread key is the first one's.
#[tokio::test(flavor = "multi_thread")]
async fn two_bridges_share_a_gateway_that_keeps_its_workspace_elsewhere() {
    let elsewhere = tempfile::tempdir().unwrap();
    let shared = tempfile::tempdir().unwrap();
    let [media, tmp] = ["media", "tmp"].map(|name| shared.path().join(name));
    for folder in [&media, &tmp] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let config = json!({
        // No agent is called main.
        "agents": {
            "defaults": {"workspace": elsewhere.path()},
            "list": [{"id": "writer", "default": true}, {"id": "reader"}],
        },
        "plugins": {"entries": {"openclaw-multi-session-plugins": {"config": {
            "openClawMediaDir": media, "openClawTmpDir": tmp,
        }}}},
    });
    let Some(bench) = Bench::start(config).await else {
        return;
    };
    let other = super::bench::bridge(&bench.gateway, &[]).await;
    let send = |prompt: &'static str| other.rpc("session.start", turn("draft:theirs", prompt));
    let (ours, theirs) = tokio::join!(
        bench.run(
            "draft:ours",
            "[[sleep 800]] [[write reports/o.md = o]] [[say ours]]"
        ),
        async {
            send("[[sleep 800]] [[write reports/t.md = t]] [[say theirs]]").await;
            outcome(&other.ended_within("draft:theirs", super::bench::TURN).await)
        }
    );
    assert_eq!(ours, completed("ours", &["reports/o.md"]));
    assert_eq!(theirs, completed("theirs", &["reports/t.md"]));
    let status = bench.status("draft:ours").await;
    assert_eq!(
        status["openclawSessionKey"],
        json!("agent:writer:draft:ours")
    );
    let mut named = turn("draft:named", "[[say named]]");
    named["agentId"] = json!("reader");
    bench.world.rpc("session.start", named).await;
    assert_eq!(bench.ended("draft:named").await, completed("named", &[]));
    let named = bench.status("draft:named").await["openclawSessionKey"].clone();
    assert_eq!(named, json!("agent:reader:draft:named"));
    let scope = status["artifactDirectory"].clone();
    let folder = elsewhere.path().canonicalize().unwrap();
    assert!(
        scope
            .as_str()
            .unwrap()
            .starts_with(folder.to_str().unwrap()),
        "{scope}"
    );
    super::places::each_run_brings_its_own_files_home(&bench, &media, &tmp).await;
    let runtimes: Value = bench.world.rpc("acp.capabilities", json!({})).await;
    let lane = &runtimes["result"]["gatewayProviders"][0];
    assert_eq!(
        (&lane["providerId"], &lane["maxActive"], &lane["maxQueued"]),
        (&json!("openclaw"), &json!(5), &json!(20)),
        "{runtimes:#}"
    );
}
