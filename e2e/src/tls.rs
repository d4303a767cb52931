//! What stands in front of a gateway across a network: it ends TLS, with a certificate that only those
//! believe who were told to.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// The file of the authority to believe. Its own key is lost on purpose.
pub fn authority() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/ca.pem")
}

/// Ends TLS in front of `behind`, and tells where. As long as the runtime runs. To who is behind it says
/// that everybody comes from the address `from`.
pub async fn terminate(behind: SocketAddr, from: IpAddr) -> SocketAddr {
    drop(rustls::crypto::ring::default_provider().install_default());
    let chain = CertificateDer::pem_slice_iter(include_bytes!("tls/server.pem"));
    let chain = chain.collect::<Result<_, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).expect("a key");
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(chain, key).expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let here = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // Who does not believe the certificate hangs up.
                let Ok(mut outside) = acceptor.accept(stream).await else {
                    return;
                };
                let Ok(mut inside) = TcpStream::connect(behind).await else {
                    return;
                };
                if forward_head(&mut outside, &mut inside, from).await.is_ok() {
                    let _ = copy_bidirectional(&mut outside, &mut inside).await;
                }
            });
        }
    });
    here
}

/// Hands over the head of the connection's first request, with a line that says where it comes from.
async fn forward_head(
    outside: &mut (impl AsyncRead + Unpin),
    inside: &mut (impl AsyncWrite + Unpin),
    from: IpAddr,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 16 * 1024 {
        head.push(outside.read_u8().await?);
    }
    head.truncate(head.len().saturating_sub(2));
    inside.write_all(&head).await?;
    let said = format!("X-Forwarded-For: {from}\r\nX-Forwarded-Proto: https\r\n\r\n");
    inside.write_all(said.as_bytes()).await
}
