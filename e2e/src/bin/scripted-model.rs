//! The scripted model as a program: prints the base URL it serves, then serves until it is ended.
//! See the library's `scripted_model` for what it understands.

use std::io::Write as _;

use threadline_e2e::scripted_model;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let mut out = std::io::stdout();
    writeln!(out, "http://{}/v1", listener.local_addr()?)?;
    out.flush()?;
    scripted_model::serve(listener).await
}
