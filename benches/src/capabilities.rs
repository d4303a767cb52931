//! Processor time of the smallest request, beside a bare server that only says hello.

use std::{
    convert::Infallible,
    io::Write as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use threadline_e2e::world::World;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::process::cpu;

const REQUESTS: u32 = 100_000;
const CONNECTIONS: u32 = 4;

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    let world = World::of(program.to_owned()).running().await;
    let address = world.url.trim_start_matches("http://").to_owned();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"acp.capabilities","params":{}}"#;
    let request = format!(
        "POST /acp/rpc HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        world.token,
        body.len()
    );
    let (ours, rate) = load(world.pid(), &address, &request).await?;
    let mut bare = tokio::process::Command::new(std::env::current_exe()?)
        .arg("bare-http")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let pid = bare.id().context("the bare server runs")?;
    let mut line = String::new();
    BufReader::new(bare.stdout.take().context("its output")?)
        .read_line(&mut line)
        .await?;
    let (limit, limit_rate) = load(pid, line.trim(), &request).await?;
    bare.kill().await?;
    println!(
        "acp.capabilities:    {ours:>6.1} µs of CPU per request, {rate:.0}/s over {CONNECTIONS} connections  (goal: at most 20)"
    );
    println!(
        "bare hyper, limit:   {limit:>6.1} µs of CPU per request, {limit_rate:.0}/s; ratio {:.2}",
        ours / limit
    );
    Ok(())
}

/// Microseconds of processor time per request, and requests per second.
async fn load(pid: u32, address: &str, request: &str) -> anyhow::Result<(f64, f64)> {
    send(address, request, 2_000).await?;
    let (before, begun) = (cpu(pid)?, Instant::now());
    let each = REQUESTS / CONNECTIONS;
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (address, request) = (address.to_owned(), request.to_owned());
            tokio::spawn(async move { send(&address, &request, each).await })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let (used, took) = (cpu(pid)? - before, begun.elapsed());
    Ok((
        used.as_secs_f64() * 1e6 / f64::from(REQUESTS),
        f64::from(REQUESTS) / took.as_secs_f64(),
    ))
}

/// One connection, one request after the other.
async fn send(address: &str, request: &str, count: u32) -> anyhow::Result<()> {
    let mut socket = BufReader::new(TcpStream::connect(address).await?);
    socket.set_nodelay()?;
    let mut line = String::new();
    let mut body = vec![];
    for _ in 0..count {
        socket.get_mut().write_all(request.as_bytes()).await?;
        let mut length = 0;
        let mut status = None;
        loop {
            line.clear();
            socket.read_line(&mut line).await?;
            let text = line.trim().to_ascii_lowercase();
            if text.is_empty() {
                break;
            }
            if status.is_none() {
                status = Some(text.contains(" 200 "));
            }
            if let Some(value) = text.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        ensure!(status == Some(true), "the server did not answer 200");
        body.resize(length, 0);
        socket.read_exact(&mut body).await?;
    }
    Ok(())
}

trait NoDelay {
    fn set_nodelay(&self) -> std::io::Result<()>;
}
impl NoDelay for BufReader<TcpStream> {
    fn set_nodelay(&self) -> std::io::Result<()> {
        self.get_ref().set_nodelay(true)
    }
}

/// The limit: the same HTTP library with a constant answer of about the same size.
pub(crate) async fn bare_http() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let answer = Bytes::from(vec![b'x'; 700]);
    // Ends by itself should whoever started it be gone.
    let end = tokio::time::Instant::now() + Duration::from_secs(300);
    while let Ok(accepted) = tokio::time::timeout_at(end, listener.accept()).await {
        let (socket, _) = accepted?;
        socket.set_nodelay(true)?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |_| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(Response::new(Full::new(answer))) }
            });
            // A client that goes away is the usual end here.
            drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service)
                    .await,
            );
        });
    }
    Ok(())
}
