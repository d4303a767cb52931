//! Models that fail, each in its own way.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::Code;
use threadline_runtimes::{
    End, EndStatus, Turns as _, Update,
    builtin::{Builtin, ModelConfig},
};

use crate::world::{World, completed, finish, plan};

fn failed(code: Code, message: String) -> End {
    End {
        status: EndStatus::Failed,
        code: Some(code),
        message: Some(message),
        text: None,
        usage: None,
        wrote: vec![],
    }
}

fn notes(frames: &[threadline_runtimes::Frame]) -> Vec<&str> {
    frames
        .iter()
        .filter_map(|f| match &f.update {
            Update::Note(note) => Some(note.as_str()),
            _ => None,
        })
        .collect()
}

fn host(world: &World) -> String {
    let url = world.config.model.as_ref().unwrap().url.clone();
    url.trim_start_matches("http://")
        .trim_end_matches("/v1/")
        .to_owned()
}

#[tokio::test]
async fn an_error_that_stays_ends_the_run_with_its_status_and_no_secret() {
    let world = World::with_model("no-usage").await;
    let (frames, end) = finish(&world.builtin(), &plan("run-1", "[[fail 400]] [[say x]]")).await;
    let message = format!(
        "The model no-usage at {} answered 400 Bad Request: This failure was asked for. You sent Bearer (key)..",
        host(&world)
    );
    assert_eq!((frames, end), (vec![], failed(Code::ModelFailed, message)));
    assert_eq!(world.seen.requests().len(), 1);
    assert!(!world.records().contains("sk-very-secret"));
}

#[tokio::test]
async fn an_error_that_may_pass_is_waited_out() {
    for status in [429, 500, 503] {
        let world = World::with_model("no-usage").await;
        let prompt = format!("[[fail {status} 2]] [[say at last]]");
        let (frames, end) = finish(&world.builtin(), &plan("run-1", &prompt)).await;
        assert_eq!(end, completed("at last", &[]), "{status}");
        let notes = notes(&frames);
        assert_eq!(notes.len(), 2);
        assert!(
            notes[1].starts_with(&format!("The model answered {status} ")),
            "{notes:?}"
        );
        assert!(notes[1].ends_with("Trying again (2 of 4)."), "{notes:?}");
        assert!(!world.records().contains("sk-very-secret"));
    }
}

#[tokio::test]
async fn patience_ends() {
    let world = World::with_model("no-usage").await;
    let (frames, end) = finish(&world.builtin(), &plan("run-1", "[[fail 503]] [[say x]]")).await;
    assert_eq!(
        (notes(&frames).len(), end.code),
        (4, Some(Code::ModelFailed))
    );
    assert_eq!(world.seen.requests().len(), 5);
}

#[tokio::test]
async fn a_cut_stream_is_asked_for_again_and_half_a_message_is_no_answer() {
    let world = World::with_model("no-usage").await;
    let prompt = "[[slow 50]] [[drop 1]] [[say one two three four five]]";
    let (frames, end) = finish(&world.builtin(), &plan("run-1", prompt)).await;
    assert_eq!(end, completed("one two three four five", &[]));
    // The half that was shown is taken back before it is said anew.
    let texts = frames.iter().filter_map(|f| match &f.update {
        Update::Text(text) => Some(text.clone()),
        Update::Reset { keep } => Some(format!("<keep {keep}>")),
        _ => None,
    });
    let texts: String = texts.collect();
    let (half, whole) = texts.split_once("<keep 0>").unwrap();
    assert!(half.starts_with("one ") && half.len() < 23, "{half}");
    assert_eq!(whole, "one two three four five");
    assert_eq!(notes(&frames).len(), 1);
}

/// An endpoint that answers with one event of so many bytes, in small pieces.
async fn one_long_line(world: &mut World, bytes: usize) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.config.model.as_mut().unwrap().url =
        format!("http://{}/v1/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 1 << 20];
                let _ = socket.read(&mut request).await;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {\"choices\":[{\"finish_reason\":\"stop\",\"delta\":{\"content\":\"";
                let _ = socket.write_all(head.as_bytes()).await;
                for _ in 0..bytes / 4096 {
                    if socket.write_all(&[b'x'; 4096]).await.is_err() {
                        return;
                    }
                }
                let _ = socket.write_all(b"\"}}]}\n\ndata: [DONE]\n\n").await;
            });
        }
    });
}

#[tokio::test]
async fn a_very_long_line_is_read_in_one_pass() {
    let mut world = World::with_model("no-usage").await;
    one_long_line(&mut world, 9 << 20).await;
    let since = std::time::Instant::now();
    let (frames, end) = finish(&world.builtin(), &plan("run-1", "hello")).await;
    assert_eq!(end.text.map(|t| t.len()), Some(9 << 20));
    let longest = frames.iter().filter_map(|f| match &f.update {
        Update::Text(text) => Some(text.len()),
        _ => None,
    });
    assert_eq!(longest.max(), Some(32 << 10));
    // Looking at the whole line again with every piece would take minutes.
    assert!(
        since.elapsed() < Duration::from_secs(20),
        "{:?}",
        since.elapsed()
    );
}

#[tokio::test]
async fn a_line_without_end_is_refused() {
    let mut world = World::with_model("no-usage").await;
    one_long_line(&mut world, 40 << 20).await;
    let (_, end) = finish(&world.builtin(), &plan("run-1", "hello")).await;
    let message = format!(
        "The model no-usage at {} gave an answer of more than 16 MiB.",
        host(&world)
    );
    assert_eq!(end, failed(Code::ModelFailed, message));
}

#[tokio::test]
async fn a_silent_endpoint_is_not_waited_for_for_ever() {
    let mut world = World::with_model("no-usage").await;
    world.config.limits.silence = Duration::from_millis(200);
    let (_, end) = finish(&world.builtin(), &plan("run-1", "[[hang]]")).await;
    let message = format!(
        "The model no-usage at {} was silent for 0.2 s.",
        host(&world)
    );
    assert_eq!(end, failed(Code::ModelUnreachable, message));
    assert_eq!(world.seen.requests().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_unreachable() {
    let mut world = World::with_model("no-usage").await;
    // Nobody listens on a port that was just free.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    world.config.model.as_mut().unwrap().url = format!("http://{address}/v1");
    world.config.limits.retries = 2;
    let (frames, end) = finish(&world.builtin(), &plan("run-1", "hello")).await;
    assert_eq!(notes(&frames).len(), 2);
    assert_eq!(end.code, Some(Code::ModelUnreachable));
    let message = end.message.unwrap();
    assert!(
        message.starts_with(&format!(
            "The model no-usage at {address} cannot be reached ("
        )),
        "{message}"
    );
    assert!(
        message.ends_with(". Check THREADLINE_MODEL_URL and that it runs."),
        "{message}"
    );
}

#[tokio::test]
async fn a_model_without_tools_has_its_own_code() {
    let world = World::with_model("no-tools").await;
    let (_, end) = finish(&world.builtin(), &plan("run-1", "[[say x]]")).await;
    assert_eq!(end.code, Some(Code::ModelRefusesTools));
}

#[tokio::test]
async fn errors_inside_the_stream_and_nonsense_are_failures() {
    for (prompt, part) in [
        (
            "[[error out of memory]] [[say x]]",
            "reported an error: out of memory.",
        ),
        (
            "[[garbage]] [[say x]]",
            "is not the chat-completions protocol",
        ),
    ] {
        let world = World::with_model("no-usage").await;
        let (_, end) = finish(&world.builtin(), &plan("run-1", prompt)).await;
        assert_eq!(end.code, Some(Code::ModelFailed));
        assert!(end.message.as_ref().unwrap().contains(part), "{end:?}");
    }
}

#[tokio::test]
async fn other_ways_to_answer_are_understood() {
    let world = World::with_model("strict").await;
    let whole = "[[whole]] [[write a.md = x]] [[length]] [[say cut]]";
    let (frames, end) = finish(&world.builtin(), &plan("run-1", whole)).await;
    assert_eq!(
        (end.text.as_deref(), end.wrote),
        (Some("cut"), vec!["a.md".to_owned()])
    );
    assert_eq!(notes(&frames), ["The model stopped at its length limit."]);
    // Told with the result too, so that it is not taken for the whole answer.
    assert_eq!(
        (end.status, end.message.as_deref()),
        (
            EndStatus::Completed,
            Some("The model stopped at its length limit.")
        )
    );
    // The endpoint refused `stream_options` once and was not sent it again.
    let asked: Vec<bool> = world
        .seen
        .requests()
        .iter()
        .map(|r| r.get("stream_options").is_some())
        .collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn a_turn_ends_at_its_budget() {
    let mut world = World::with_model("no-usage").await;
    world.config.limits.max_steps = 3;
    let prompt = "[[write a.md = x]] [[list]] [[list]] [[list]]";
    let (_, end) = finish(&world.builtin(), &plan("run-1", prompt)).await;
    let want = End {
        wrote: vec!["a.md".into()],
        ..failed(
            Code::BudgetExceeded,
            "The turn used up its 3 model calls.".into(),
        )
    };
    assert_eq!(end, want);

    world.config.limits.max_time = Duration::from_millis(300);
    let slow = "[[sleep 20000]] [[say x]]";
    let (_, end) = finish(&world.builtin(), &plan("run-2", slow)).await;
    assert_eq!(
        end,
        failed(
            Code::BudgetExceeded,
            "The turn used up its time of 0.3 s.".into()
        )
    );
}

#[test]
fn settings_that_cannot_work_are_refused_at_the_start() {
    let mut world = World::new();
    for (url, model) in [("nonsense", "m"), ("http://127.0.0.1", " ")] {
        world.config.model = Some(ModelConfig {
            url: url.into(),
            key: None,
            model: model.into(),
        });
        let refused = Builtin::new(world.config.clone()).err().map(|f| f.code);
        assert_eq!(refused, Some(Code::ConfigInvalid));
    }
}

#[tokio::test]
async fn a_full_record_folder_is_an_error_and_not_an_end() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    let plan = plan("run-1", "hello");
    let builtin = world.builtin();
    let places = builtin.prepare(&plan).await.unwrap();
    // Something else stands where the session's records would be.
    let folder = world.journal(&plan).parent().unwrap().to_owned();
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "").unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(builtin.start(&plan, &places).await.is_err());
    std::fs::remove_file(&folder).unwrap();
    assert_eq!(builtin.start(&plan, &places).await, Ok(()));
}
