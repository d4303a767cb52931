//! A real gateway with the scripted model behind it, for as long as this program runs.
//!
//! `test-gateway FILE [PLUGIN-FOLDER..]`: writes where it is, once it is ready, into FILE, which the
//! plugin's tests read (`THREADLINE_TEST_GATEWAY`). `TEST_GATEWAY_CONFIG` (JSON) is laid over the gateway's configuration.

use std::{path::PathBuf, process::ExitCode};

use serde_json::Value;
use threadline_e2e::{
    gateway::{Gateway, Options},
    scripted_model::Model,
};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(file) = arguments.next() else {
        eprintln!("test-gateway FILE [PLUGIN-FOLDER..]");
        return Ok(ExitCode::from(2));
    };
    let model = Model::start().await;
    let mut config: Value = match std::env::var("TEST_GATEWAY_CONFIG") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let mut ended = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let options = Options {
        plugins: arguments.collect(),
        model: model.v1(),
        config: config.take(),
    };
    let started = tokio::select! {
        started = Gateway::start(&options) => started,
        _ = ended.recv() => return Ok(ExitCode::SUCCESS),
        _ = interrupted.recv() => return Ok(ExitCode::SUCCESS),
    };
    let Some(gateway) = started else {
        return Ok(ExitCode::FAILURE);
    };
    // In one step: whoever waits for the file shall not read half of it.
    let part = file.with_extension("part");
    std::fs::write(&part, gateway.told().to_string())?;
    std::fs::rename(&part, &file)?;
    tokio::select! {
        _ = ended.recv() => {}
        _ = interrupted.recv() => {}
    }
    drop(gateway);
    Ok(ExitCode::SUCCESS)
}
