//! The methods of `/acp/rpc` for a parent process: one JSON-RPC message per line, both ways.
//!
//! Reading and writing have threads of their own: a read from standard input cannot be taken back,
//! and must not keep the process from ending.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    time::Duration,
};

use threadline_contract::{Code, Fault};
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

/// One line, or what is wrong with it.
type Line = Result<Vec<u8>, Fault>;

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
                Ok(line) => peer.hear(line.into()).await,
                Err(fault) => peer.refuse(None, &fault).await,
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
    let mut input = BufReader::new(input);
    loop {
        let line = match next_line(&mut input) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(e) => {
                warn!(error = %e, "The input cannot be read");
                return;
            }
        };
        if line
            .as_ref()
            .is_ok_and(|l| l.iter().all(u8::is_ascii_whitespace))
        {
            continue;
        }
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// The next line. One that is too long is read to its end and not kept.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = vec![];
    let limit = BODY_BYTES as u64 + 1;
    if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') || line.len() <= BODY_BYTES {
        return Ok(Some(Ok(line)));
    }
    drop(line);
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let end = buffer.iter().position(|b| *b == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(Some(Err(body::too_large())))
}

fn write(mut output: impl Write, mut messages: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(mut message) = messages.blocking_recv() {
        message.push('\n');
        output.write_all(message.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}
