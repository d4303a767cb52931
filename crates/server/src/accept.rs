//! The accept loop: hyper's HTTP/1 with small buffers, because ten thousand people may hold an
//! event stream open and each should cost a few kilobytes.

use std::{io, time::Duration};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::Door;

/// How long connections may take to finish once the server stops.
const DRAIN: Duration = Duration::from_secs(10);
/// The least that hyper takes; its default grows to 400 KiB.
const BUFFER: usize = 8 << 10;

/// Serves until `stop`, then lets open requests finish. Given its socket and its stop signal, so
/// that tests need to guess neither.
pub async fn serve(listener: TcpListener, door: Door, stop: CancellationToken) {
    // Those that became WebSockets are counted too.
    let connections = door.connections().clone();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((socket, _)) => {
                connections.spawn(connection(socket, door.clone(), stop.clone()));
            }
            Err(e) => {
                // Out of descriptors or a connection that died in the queue: neither ends the server.
                warn!(error = %e, "A connection could not be accepted");
                if !is_of_one_connection(&e) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait())
        .await
        .is_err()
    {
        warn!(
            open = connections.len(),
            "Some connections were still open when the server stopped"
        );
    }
}

async fn connection(socket: TcpStream, door: Door, stop: CancellationToken) {
    if let Err(e) = socket.set_nodelay(true) {
        debug!(error = %e, "TCP_NODELAY could not be set");
    }
    let connection = http1::Builder::new()
        .max_buf_size(BUFFER)
        .timer(TokioTimer::new())
        .header_read_timeout(door.limits().head)
        .serve_connection(TokioIo::new(socket), door)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = result {
        debug!(error = %e, "A connection ended early");
    }
}

fn is_of_one_connection(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
