//! Whom to believe behind `wss://`.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use threadline_contract::{Code, Fault};

/// Believes the authorities in a PEM file, and no others. Blocks.
pub(crate) fn trust(file: &Path) -> Result<Arc<ClientConfig>, Fault> {
    let wrong = |why: String| {
        let text = format!("`openclaw.ca` ({}) cannot be used: {why}.", file.display());
        Fault::new(Code::ConfigInvalid, text)
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(|e| wrong(e.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
        roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("it holds no certificate".into()));
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}
