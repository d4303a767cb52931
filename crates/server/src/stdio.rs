//! The methods of `/acp/rpc` for a parent process: one JSON-RPC message per line, both ways.
//!
//! Reading and writing have threads of their own: a read from standard input cannot be taken back,
//! and must not keep the process from ending.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use threadline_contract::{Code, Fault};
use threadline_files::lines::{Line, LineReader};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, warn};

use crate::{
    BODY_BYTES, Bridge, Gate, body,
    gate::hash_of,
    peer::{Peer, QUEUE},
};

/// How a caller came in.
const PATH: &str = "stdio";
/// How long the last answers may take to be written.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Answers requests until the input ends, nobody reads the output any more, or the server stops. The
/// caller is whoever the token belongs to. What was asked before is still answered; turns go on
/// without a listener.
pub async fn stdio(
    bridge: Bridge,
    gate: Gate,
    token: &str,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), Fault> {
    let (send, mut lines) = mpsc::channel(1);
    thread("stdio input", move || read(input, &send))?;
    let (out, written) = mpsc::channel(QUEUE);
    let (done, mut writer) = oneshot::channel::<()>();
    thread("stdio output", move || {
        if let Err(e) = write(output, written) {
            debug!(error = %e, "Nobody reads the output any more");
        }
        drop(done);
    })?;
    let stop = bridge.stop.clone();
    let (peer, mut queue) = Peer::new(bridge, gate, hash_of(token), PATH);
    let mut relay = std::pin::pin!(async move {
        while let Some(message) = queue.recv().await {
            if out.send(message).await.is_err() {
                return;
            }
        }
    });
    let hearing = async {
        while let Some(line) = lines.recv().await {
            match line {
                Line::Whole(line) => peer.hear(line.into()).await,
                Line::TooLong { .. } | Line::CutOff { .. } => {
                    peer.refuse(None, &body::too_large()).await;
                }
            }
        }
    };
    let unread = tokio::select! {
        () = hearing => false,
        () = peer.revoked() => false,
        () = stop.cancelled() => false,
        () = relay.as_mut() => true,
        _ = &mut writer => true,
    };
    if unread {
        peer.leave();
        return Ok(());
    }
    let ending = async {
        tokio::select! {
            () = peer.finish() => {}
            () = relay.as_mut() => return,
        }
        // What is in the queue now is all there is.
        drop(peer);
        relay.as_mut().await;
        let _ = writer.await;
    };
    if tokio::time::timeout(LAST_ANSWERS, ending).await.is_err() {
        warn!("The parent process did not read the last answers");
    }
    Ok(())
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|e| Fault::new(Code::Internal, format!("No thread could be started: {e}.")))
}

fn read(input: impl Read, lines: &mpsc::Sender<Line>) {
    let mut input = LineReader::new(input, BODY_BYTES, 0);
    loop {
        match input.next_line() {
            Ok(Some(line)) => {
                if lines.blocking_send(line).is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(e) => return warn!(error = %e, "The input cannot be read"),
        }
    }
}

fn write(mut output: impl Write, mut messages: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(mut message) = messages.blocking_recv() {
        message.push('\n');
        output.write_all(message.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}
