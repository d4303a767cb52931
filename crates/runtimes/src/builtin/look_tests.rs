use std::{collections::HashMap, ffi::OsString, path::Path};

use pretty_assertions::assert_eq;

use super::{Found, Server};

fn look(env: &[(&str, &str)], programs: &[&str], servers: Vec<Server>) -> Found {
    let env: HashMap<&str, &str> = env.iter().copied().collect();
    Found::of(
        |name| env.get(name).map(OsString::from),
        |path| programs.iter().any(|p| Path::new(p) == path),
        servers,
    )
}

#[test]
fn nothing_found_says_what_to_set() {
    assert_eq!(look(&[], &[], vec![]), Found::default());
    assert_eq!(
        Found::default().line(),
        "To work with a model, set THREADLINE_MODEL_URL, THREADLINE_MODEL and, if it needs one, \
         THREADLINE_MODEL_KEY to any OpenAI-compatible endpoint."
    );
}

#[test]
fn a_key_is_named_and_never_shown() {
    let found = look(
        &[
            ("MISTRAL_API_KEY", "secret-value"),
            ("OPENAI_API_KEY", "  "),
            ("PATH", "/usr/bin:relative::/opt/bin"),
        ],
        &[
            "/opt/bin/codex-acp",
            "/usr/bin/opencode",
            "relative/hermes",
            "/elsewhere/gemini",
        ],
        vec![],
    );
    assert_eq!(
        found,
        Found {
            servers: vec![],
            keys: vec!["MISTRAL_API_KEY"],
            agents: vec!["acp:codex".into(), "acp:opencode".into()],
        }
    );
    assert_eq!(
        found.line(),
        "Found MISTRAL_API_KEY. To work with it, set \
         THREADLINE_MODEL_URL=https://api.mistral.ai/v1 THREADLINE_MODEL_KEY=\"$MISTRAL_API_KEY\" \
         THREADLINE_MODEL=mistral-small-latest and start again. Agents that are installed work without \
         this: acp:codex, acp:opencode (`threadline run -r acp:codex …`)."
    );
}

#[test]
fn a_local_server_comes_first_and_cannot_put_words_into_a_shell() {
    let server = |models: &[&str]| Server {
        name: "Ollama",
        port: 11434,
        models: models.iter().map(|m| (*m).to_owned()).collect(),
    };
    let found = look(&[("OPENAI_API_KEY", "x")], &[], vec![server(&["qwen3:8b"])]);
    assert_eq!(
        found.line(),
        "Found Ollama on 127.0.0.1:11434. To work with it, set \
         THREADLINE_MODEL_URL=http://127.0.0.1:11434/v1 THREADLINE_MODEL=qwen3:8b and start again. \
         Also found: OPENAI_API_KEY."
    );
    let hostile = look(&[], &[], vec![server(&["$(rm -rf ~)'\n"])]);
    assert_eq!(
        hostile.line(),
        "Found Ollama on 127.0.0.1:11434. To work with it, set \
         THREADLINE_MODEL_URL=http://127.0.0.1:11434/v1 THREADLINE_MODEL='$(rm -rf ~)'\\''' and \
         start again."
    );
}

#[tokio::test]
async fn only_a_model_server_that_answers_in_time_is_found() {
    use tokio::{io::AsyncWriteExt as _, net::TcpListener};
    let bind = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    };
    let (listener, port) = bind().await;
    tokio::spawn(threadline_e2e::scripted_model::serve(listener));
    assert_eq!(
        super::server(port, "Scripted").await,
        Some(Server {
            name: "Scripted",
            port,
            models: vec!["scripted".into()]
        })
    );
    let (silent, port) = bind().await;
    assert_eq!(super::server(port, "silent").await, None);
    drop(silent);
    assert_eq!(super::server(port, "closed").await, None);
    for answer in [
        "HTTP/1.0 200 OK\r\n\r\n<html>a shop</html>",
        "HTTP/1.0 404 Not Found\r\n\r\n{\"data\": []}",
        "SSH-2.0-server\r\n",
    ] {
        let (other, port) = bind().await;
        tokio::spawn(async move {
            let (mut stream, _) = other.accept().await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        assert_eq!(super::server(port, "other").await, None, "{answer}");
    }
}
