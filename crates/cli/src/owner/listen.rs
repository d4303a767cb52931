//! The socket: bound before anything else is done, so that a taken port is said at once.

use std::{io, net::SocketAddr};

use threadline_contract::{Code, Fault};
use tokio::net::TcpListener;

use super::Mode;
use crate::config::Server;

/// Beyond this machine only if the operator said so, and with a token of the operator's.
pub(crate) fn allowed(server: &Server) -> Result<(), Fault> {
    if server.listen.ip().is_loopback() || (server.allow_remote && server.token.is_some()) {
        return Ok(());
    }
    let missing = match (server.allow_remote, server.token.is_some()) {
        (false, false) => "neither --allow-remote nor THREADLINE_TOKEN is set",
        (false, true) => "--allow-remote is not set",
        (true, _) => "THREADLINE_TOKEN is not set",
    };
    Err(Fault::new(
        Code::ListenNotAllowed,
        format!("{} is beyond this machine, and {missing}.", server.listen),
    ))
}

/// Binds the address. A background owner that nobody gave an address takes any port when the usual
/// one is taken: the person asked for a task, not for a port.
pub(crate) async fn bind(server: &Server, mode: Mode) -> Result<TcpListener, Fault> {
    let any = SocketAddr::new(server.listen.ip(), 0);
    match TcpListener::bind(server.listen).await {
        Ok(listener) => Ok(listener),
        Err(e)
            if e.kind() == io::ErrorKind::AddrInUse
                && mode == Mode::Background
                && !server.listen_chosen =>
        {
            TcpListener::bind(any).await.map_err(|e| refused(any, &e))
        }
        Err(e) => Err(refused(server.listen, &e)),
    }
}

/// Binds an address that the operator chose.
pub(crate) async fn bind_to(address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address)
        .await
        .map_err(|e| refused(address, &e))
}

fn refused(address: SocketAddr, e: &io::Error) -> Fault {
    match e.kind() {
        io::ErrorKind::AddrInUse => Fault::new(Code::PortInUse, format!("{address} is taken.")),
        io::ErrorKind::AddrNotAvailable => Fault::new(
            Code::ConfigInvalid,
            format!(
                "`server.listen` names {}, which is no address of this machine.",
                address.ip()
            ),
        ),
        io::ErrorKind::PermissionDenied => Fault::new(
            Code::ConfigInvalid,
            format!(
                "The system does not let this user listen on {address}. Choose a port from 1024."
            ),
        ),
        _ => Fault::new(
            Code::ConfigInvalid,
            format!("{address} cannot be listened on: {e}."),
        ),
    }
}

/// How this machine reaches a server that listens there.
pub(crate) fn url(address: SocketAddr) -> String {
    let ip = address.ip();
    let host = match (ip.is_unspecified(), address.is_ipv4()) {
        (true, true) => "127.0.0.1".to_owned(),
        (true, false) => "[::1]".to_owned(),
        (false, true) => ip.to_string(),
        (false, false) => format!("[{ip}]"),
    };
    format!("http://{host}:{}", address.port())
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;
