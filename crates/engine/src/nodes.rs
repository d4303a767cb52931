//! Several servers on one database: which of them has a session or a run, and what is said when that one
//! cannot be reached.
//!
//! A session of an agent on a host lies in one data folder for life: its work folder, its journals and its
//! conversation. The server that makes it is noted with it, and every turn goes there. What lies at a
//! gateway can be gone on with from any server; only the notes about its open runs lie with one.

use std::time::Duration;

use threadline_contract::{
    Code, Fault, Millis, Owner, Principal,
    method::{self, TaskParams},
    rpc::{self, Request},
    turn::TurnAddress,
};
use threadline_store::{ArtifactState, Dialect, Phase, Run, Session, StoreError};
use tracing::{info, warn};

use crate::Engine;

/// Sessions that are looked at together.
const PAGE: u32 = 200;
/// A server that was not seen for so long is away.
pub(crate) const AWAY: Duration = Duration::from_secs(60);
/// What a server is called that nobody noted.
const NOT_NOTED: &str = "that was not noted";

/// Another server on the same database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name: that of its data folder.
    pub name: String,
    /// Where the others reach it, when it said so.
    pub url: Option<String>,
    /// When it last noted that it is there.
    pub seen_at: Option<Millis>,
}

/// A request belongs to another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// That server.
    pub node: Node,
    /// The database has the answer too, but for whether the files are still there.
    pub on_record: bool,
}

impl Node {
    /// What is said to a caller of something that this server has and that cannot be had from it now. Where it
    /// is, is for the operator.
    pub fn missed(&self, code: Code, what: &str, caller: &Principal) -> Fault {
        let Self { name, url, .. } = self;
        let sentence = match url {
            Some(_) if !caller.is_operator() => format!(
                "{what} is on the server {name}, which cannot be reached from this one. Try again later, or tell the operator."
            ),
            Some(url) => format!(
                "{what} is on the server {name} at {url}, which cannot be reached from this one. Start it again, or check its `server.advertise`."
            ),
            None if name == NOT_NOTED => format!(
                "{what} was made before it was noted which server has it. That server notes it when it is started with this version."
            ),
            None => format!(
                "{what} is on the server {name}, which does not say where it can be reached. Send the request to that server, or set its `server.advertise`."
            ),
        };
        let fault = Fault::new(code, sentence).with("node", name.as_str());
        match url.as_ref().filter(|_| caller.is_operator()) {
            Some(url) => fault.with("nodeUrl", url.as_str()),
            None => fault,
        }
    }
}

impl Engine {
    /// This server's name among those that share the database.
    pub fn node_name(&self) -> &str {
        &self.0.config.node
    }

    /// Whether other servers may be on the same database.
    pub fn shares_database(&self) -> bool {
        !self.is_sole()
    }

    /// Nobody shares the database: whatever is in it is ours, whatever name this server had then.
    pub(crate) fn is_sole(&self) -> bool {
        self.0.store.dialect() == Dialect::Sqlite
    }

    /// The server that a request belongs to, when that is another. What is wrong with the request is said
    /// by whoever answers it.
    pub async fn elsewhere(
        &self,
        caller: &Principal,
        request: &Request,
    ) -> Result<Option<Elsewhere>, Fault> {
        if self.is_sole() {
            return Ok(None);
        }
        let needed = |node| Elsewhere {
            node,
            on_record: false,
        };
        match request.method.as_str() {
            method::START | method::MESSAGE => {
                let Some(address) = TurnAddress::of(&request.params) else {
                    return Ok(None);
                };
                let (thread, routing) = address.parts();
                let owner = Owner::Thread(thread);
                let routed = self.route(caller, Some(&owner), &routing).await;
                let Ok(runtime) = routed else {
                    return Ok(None);
                };
                match self
                    .0
                    .store
                    .session(&caller.account, &owner, &runtime)
                    .await
                {
                    Ok(session) => Ok(self.session_elsewhere(&session).await?.map(needed)),
                    Err(StoreError::NotFound) => Ok(None),
                    Err(other) => Err(other.into()),
                }
            }
            method::TASKS_GET => {
                let Ok(params) = rpc::params::<TaskParams>(request.params.clone()) else {
                    return Ok(None);
                };
                match self.find_run(caller, &params).await {
                    Ok(run) => Ok(self.run_elsewhere(&run).await?.map(|node| Elsewhere {
                        node,
                        on_record: run.phase == Phase::Closed,
                    })),
                    Err(_) => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// The other servers that have a session of this owner.
    pub async fn others_with(&self, caller: &Principal, owner: &Owner) -> Result<Vec<Node>, Fault> {
        if self.is_sole() {
            return Ok(vec![]);
        }
        let sessions = self.0.store.sessions_of_owner(&caller.account, owner);
        let mut nodes: Vec<Node> = vec![];
        for session in sessions.await? {
            if let Some(node) = self.session_elsewhere(&session).await?
                && !nodes.contains(&node)
            {
                nodes.push(node);
            }
        }
        Ok(nodes)
    }

    /// The server that has a session, when that is another.
    pub(crate) async fn session_elsewhere(&self, session: &Session) -> Result<Option<Node>, Fault> {
        if self.is_sole() || session.node.as_deref() == Some(self.node_name()) {
            return Ok(None);
        }
        let lane = self.lane(&session.runtime);
        let kept_by_one = lane.is_some_and(|lane| lane.runtime.keeps_sessions());
        if session.node.is_none() && !kept_by_one {
            return Ok(None);
        }
        if self.is_ours_under_another_name(session).await? {
            return Ok(None);
        }
        let name = session.node.as_deref();
        Ok(Some(self.node_called(name.unwrap_or(NOT_NOTED)).await?))
    }

    /// Takes over a session that lies in this data folder: one that was made before its server was noted, or
    /// by this server while it had another name.
    async fn is_ours_under_another_name(&self, session: &Session) -> Result<bool, Fault> {
        let may_be = match session.node.as_deref() {
            None => true,
            Some(other) if self.0.config.renamed => self.is_away(other).await?,
            Some(_) => false,
        };
        let Some(lane) = self.lane(&session.runtime).filter(|_| may_be) else {
            return Ok(false);
        };
        let key = &session.session_key;
        if !lane.runtime.has_session(key).await? {
            return Ok(false);
        }
        let store = &self.0.store;
        let moved = store.move_session(key, session.node.as_deref(), self.node_name());
        let moved = moved.await?;
        if moved {
            info!(session = %key, "Session {key} lies in this data folder, and is noted here now");
        }
        Ok(moved)
    }

    /// The server whose word about a run, or whose files of it, are needed, when that is another.
    pub(crate) async fn run_elsewhere(&self, run: &Run) -> Result<Option<Node>, Fault> {
        if self.is_sole() {
            return Ok(None);
        }
        let session = self.0.store.session_by_key(&run.account, &run.session_key);
        match session.await {
            Ok(session) => {
                if let Some(node) = self.session_elsewhere(&session).await? {
                    return Ok(Some(node));
                }
            }
            Err(StoreError::NotFound) => {}
            Err(other) => return Err(other.into()),
        }
        // The notes about a run at a gateway lie with whoever drives it, until its files are listed.
        let noted = self
            .lane(&run.runtime)
            .is_some_and(|l| l.runtime.is_local());
        let needed = run.phase != Phase::Closed || run.artifact_state == ArtifactState::Failed;
        match run.lease_owner.as_deref() {
            Some(owner) if noted && needed && owner != self.node_name() => {
                Ok(Some(self.node_called(owner).await?))
            }
            _ => Ok(None),
        }
    }

    /// Whether a server was not seen for so long that it counts as away. This one is there.
    pub(crate) async fn is_away(&self, node: &str) -> Result<bool, Fault> {
        if self.is_sole() || node == self.node_name() {
            return Ok(false);
        }
        let known = self.0.store.node(node).await?;
        let away = AWAY.as_millis() as i64;
        Ok(known.is_none_or(|node| Millis::now().since(node.seen_at) >= away))
    }

    async fn node_called(&self, name: &str) -> Result<Node, Fault> {
        let known = self.0.store.node(name).await?;
        Ok(Node {
            name: name.to_owned(),
            seen_at: known.as_ref().map(|node| node.seen_at),
            url: known.and_then(|node| node.url),
        })
    }

    /// Notes this server with the sessions that lie in its data folder and were made before that was noted.
    pub(crate) async fn take_up_sessions(&self) -> Result<(), Fault> {
        for lane in self.lanes().filter(|l| l.runtime.keeps_sessions()) {
            let mut after = 0;
            loop {
                let store = &self.0.store;
                let page = store.sessions_without_node(lane.runtime.id(), after, PAGE);
                let page = page.await?;
                let Some((last, _)) = page.last() else {
                    break;
                };
                after = *last;
                for (_, session) in page {
                    self.take_up_session(&session).await?;
                }
            }
        }
        Ok(())
    }

    async fn take_up_session(&self, session: &Session) -> Result<(), Fault> {
        let key = &session.session_key;
        if self.is_sole() {
            let moved = self.0.store.move_session(key, None, self.node_name());
            return Ok(moved.await.map(drop)?);
        }
        // A folder that cannot be read must not keep the server from starting.
        if let Err(fault) = self.is_ours_under_another_name(session).await {
            warn!(session = %key, code = %fault.code, "It could not be told whether session {key} lies here: {}", fault.message);
        }
        Ok(())
    }
}
