//! What cannot be is told before a thread exists, in a sentence that says what to change.

use pretty_assertions::assert_eq;
use threadline_app::api::{BridgeParams, SendParams};
use threadline_contract::{Code, Deliverable, Fault, turn::InlineAttachment};

use crate::support::{World, prompt_of};

fn expects(glob: &str) -> Vec<Deliverable> {
    vec![Deliverable {
        glob: glob.into(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    }]
}

fn attached(name: &str, content: String) -> Vec<InlineAttachment> {
    vec![InlineAttachment {
        name: name.into(),
        mime_type: None,
        content,
        size_bytes: None,
        sha256: None,
    }]
}

/// Sends what must be refused, and sees that nothing is left of it.
async fn refused(world: &World, params: SendParams) -> (Code, String) {
    let Fault { code, message, .. } = world.app.send(params).await.unwrap_err();
    let left = world.app.list(&Default::default()).await.unwrap();
    assert_eq!(left.threads, [], "{message}");
    let entries = |folder: std::path::PathBuf| match std::fs::read_dir(folder) {
        Ok(entries) => entries.count(),
        Err(_) => 0,
    };
    assert_eq!(entries(world.config.data.join("outbox")), 0, "{message}");
    assert_eq!(entries(world.config.workspaces.clone()), 0, "{message}");
    assert_eq!(world.bridge.turns().len(), 0, "{message}");
    (code, message)
}

#[tokio::test]
async fn what_can_never_run_leaves_no_thread() {
    let world = World::new().await;
    let file = world.dir.path().join("file.txt");
    std::fs::write(&file, "x").unwrap();
    let missing = world.dir.path().join("missing");
    let own = world.config.data.join("threads");
    let of_threads = world.config.workspaces.clone();
    std::fs::create_dir_all(&of_threads).unwrap();
    let folder = |path: &std::path::Path| SendParams {
        working_directory: Some(path.display().to_string()),
        ..prompt_of("x")
    };
    let runtime = |name: &str| SendParams {
        runtime: Some(name.into()),
        ..prompt_of("x")
    };
    let bridge = |url: &str, token: Option<&str>| SendParams {
        bridge: Some(BridgeParams {
            url: url.into(),
            token: token.map(str::to_owned),
        }),
        ..prompt_of("x")
    };
    let cases = [
        (prompt_of(" \n "), Code::PromptRequired, "The turn has no prompt. Say what to do.".to_owned()),
        (
            SendParams { expect: expects("reports/["), ..prompt_of("x") },
            Code::InvalidRequest,
            "`reports/[` is not a pattern that files can match: unclosed character class; missing ']'. Write it like `reports/*.pdf`.".to_owned(),
        ),
        (
            SendParams { expect: expects("/tmp/*.md"), ..prompt_of("x") },
            Code::InvalidRequest,
            "`/tmp/*.md` is not a pattern that files can match: it must be relative to the run's folder. Write it like `reports/*.pdf`.".to_owned(),
        ),
        (
            runtime("acp:codex"),
            Code::ProviderNotFound,
            "There is no runtime `acp:codex` at this bridge. Choose one of: builtin, openclaw.".to_owned(),
        ),
        (
            folder(std::path::Path::new("relative")),
            Code::WorkdirNotAllowed,
            "The working directory `relative` must be named by its absolute path.".to_owned(),
        ),
        (
            folder(&missing),
            Code::WorkdirNotAllowed,
            format!("The working directory `{}` does not exist. Make it, or name another.", missing.display()),
        ),
        (
            folder(&file),
            Code::WorkdirNotAllowed,
            format!("The working directory `{}` is not a folder.", file.display()),
        ),
        (
            folder(&own),
            Code::WorkdirNotAllowed,
            format!("The working directory `{}` lies in a folder of Threadline's own. Name another, or copy the files there.", own.display()),
        ),
        // The bridge would take a thread's folder for a hint, and work elsewhere.
        (
            folder(&of_threads),
            Code::WorkdirNotAllowed,
            format!("The working directory `{}` lies in a folder of Threadline's own. Name another, or copy the files there.", of_threads.display()),
        ),
        // What only the bridge can know.
        (
            folder(std::path::Path::new("/")),
            Code::WorkdirNotAllowed,
            "The working directory `/` lies beneath none of the allowed `work_roots`.".to_owned(),
        ),
        (
            SendParams { inline: attached("a.zip", "UEsDBA==".into()), ..prompt_of("x") },
            Code::AttachmentInvalid,
            "`a.zip` is no text.".to_owned(),
        ),
        (
            bridge("not an address", None),
            Code::InvalidRequest,
            "The bridge's address `not an address` cannot be read (relative URL without a base).".to_owned(),
        ),
        (
            bridge("ftp://bridge.example", None),
            Code::InvalidRequest,
            "The bridge's address `ftp://bridge.example` must begin with http:// or https://.".to_owned(),
        ),
        (
            bridge(&world.bridge.url(), Some("wrong")),
            Code::Unauthorized,
            "The bridge does not take the token. It wants that of its own machine, which `threadline token show` prints there: give it in THREADLINE_BRIDGE_TOKEN (`bridge.token`).".to_owned(),
        ),
        (
            SendParams { inline: attached(" ", "aGk=".into()), ..prompt_of("x") },
            Code::AttachmentInvalid,
            "An attachment has no name. Give it one.".to_owned(),
        ),
        (
            SendParams { inline: attached("big.bin", "A".repeat(14 << 20)), ..prompt_of("x") },
            Code::AttachmentTooLarge,
            "The attachment `big.bin` is too large: 10 MiB each and 25 MiB together are allowed. Put larger ones where the runtime can read them.".to_owned(),
        ),
    ];
    for (params, code, message) in cases {
        assert_eq!(refused(&world, params).await, (code, message));
    }
}

#[tokio::test]
async fn a_thread_that_is_there_is_not_touched_by_a_bad_turn() {
    let world = World::new().await;
    let thread = world.done("one").await;
    for (params, code) in [
        (
            SendParams {
                expect: expects("a["),
                ..prompt_of("two")
            },
            Code::InvalidRequest,
        ),
        (
            SendParams {
                runtime: Some("acp:codex".into()),
                ..prompt_of("two")
            },
            Code::ProviderNotFound,
        ),
        (
            SendParams {
                inline: attached("a.zip", "UEsDBA==".into()),
                ..prompt_of("two")
            },
            Code::AttachmentInvalid,
        ),
    ] {
        let params = SendParams {
            thread: Some(thread.name.clone()),
            ..params
        };
        assert_eq!(world.app.send(params).await.unwrap_err().code, code);
        assert_eq!(world.thread(&thread.name).await, thread);
    }
}

#[tokio::test]
async fn a_bridge_that_is_away_does_not_hinder_a_thread() {
    let world = World::new().await;
    world.bridge.down().await;
    let thread = world.send("later").await.thread;
    world.bridge.up().await;
    world.settled(thread.thread_id.as_str()).await;
    assert_eq!(world.bridge.turns().len(), 1);
}
