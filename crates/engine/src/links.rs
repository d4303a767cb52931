//! Signed download links: made from the record of an artifact, honoured until they expire.

use threadline_artifacts::{ArtifactIdentity, RefError};
use threadline_contract::{
    Artifact, ArtifactItem, Code, Fault, Millis, Principal, RunId, SessionKey, Sha256, url,
};
use threadline_runtimes::Body;

use crate::{Engine, Node};

/// Where downloads are served.
pub(crate) const DOWNLOAD_PATH: &str = "/artifacts/openclaw/download";

/// A download that may go ahead.
pub type Download = Body;

/// What a link leads to.
pub enum Opened {
    /// A file that can be read here.
    Here(Download),
    /// Another server has it.
    Elsewhere {
        /// That server.
        node: Node,
        /// The digest of the whole file.
        sha256: Sha256,
    },
}

impl Engine {
    /// When links that are made now expire, in seconds since 1970.
    pub(crate) fn expiry(&self) -> i64 {
        Millis::now().0 / 1000 + self.0.config.link_ttl.as_secs() as i64
    }

    /// An artifact with a fresh link.
    pub(crate) fn item(
        &self,
        session: &SessionKey,
        run: &RunId,
        artifact: Artifact,
        expires: i64,
    ) -> Result<ArtifactItem, Fault> {
        let identity = ArtifactIdentity::of(session, run, &artifact);
        let signed = self.0.keys.ring().sign(&identity, expires);
        let url = format!("{DOWNLOAD_PATH}?ref={}&t={expires}", url::encoded(&signed));
        Ok(ArtifactItem {
            display_path: Some(artifact.path.to_string()),
            artifact,
            url,
        })
    }

    /// Opens what a link names, or says which server has it. The signature is judged before its age; a run of another account
    /// answers like a file that is not there.
    pub async fn open_link(
        &self,
        caller: &Principal,
        reference: &str,
        expires: i64,
    ) -> Result<Opened, Fault> {
        // Rounded up: a link is not good for the rest of the second in which it expires.
        let now = Millis::now().plus(999).0 / 1000;
        let identity = self
            .checked(|ring| ring.verify(reference, expires, now))
            .await?
            .map_err(|e| match e {
                RefError::Forged | RefError::UnknownKey => {
                    Fault::new(Code::LinkForged, Code::LinkForged.advice())
                }
                RefError::Expired => Fault::new(Code::LinkExpired, Code::LinkExpired.advice()),
                RefError::BadRef => Fault::invalid("`ref` is not a link that this server made."),
            })?;
        let gone = || Fault::new(Code::ArtifactNotFound, Code::ArtifactNotFound.advice());
        let run = self
            .0
            .store
            .run(&caller.account, &identity.run)
            .await
            .map_err(|_| gone())?;
        if run.session_key != identity.session {
            return Err(gone());
        }
        if let Some(node) = self.run_elsewhere(&run).await? {
            return Ok(Opened::Elsewhere {
                node,
                sha256: identity.sha256,
            });
        }
        let lane = self.runtime(&run.runtime)?;
        let opened = match lane.runtime.keeps_sessions() {
            true => lane.runtime.open(&identity).await,
            false => self.0.downloads.body(&*lane.runtime, &identity).await,
        };
        opened.map(Opened::Here)
    }
}
