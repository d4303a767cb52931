//! A runtime that calls the tools it is told to call, and ends when it has all results.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use threadline_contract::{
    ArtifactScope, Code, Fault, NewKey, QuestionId, Removed, RunId, RuntimeId, SessionKey,
    ToolCall, ToolResult,
};
use threadline_runtimes::{
    ArtifactIdentity, Availability, Body, End, EndStatus, Files, Follow, Frame, LaneSize, Logged,
    Manifest, Pending, Places, Readiness, Registry, Room, RoomRules, RunRef, RuntimeInfo, Sessions,
    Signal, TurnPlan, Turns, Update,
};
use tokio::sync::{mpsc, watch};

/// What outlives the engine.
pub(crate) struct Script {
    pub(crate) id: RuntimeId,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) takes_tools: bool,
    /// It takes no results.
    pub(crate) is_deaf: AtomicBool,
    /// What it was given.
    pub(crate) results: watch::Sender<BTreeMap<String, ToolResult>>,
}

pub(crate) struct Scripted(pub(crate) Arc<Script>);

fn completed() -> End {
    End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text: Some("done".into()),
        usage: None,
        wrote: vec![],
    }
}

impl RuntimeInfo for Scripted {
    fn id(&self) -> &RuntimeId {
        &self.0.id
    }
    fn label(&self) -> &str {
        "The scripted agent"
    }
    fn lane(&self) -> LaneSize {
        LaneSize {
            max_active: 2,
            max_queued: 2,
        }
    }
    fn is_local(&self) -> bool {
        true
    }
    fn takes_tools(&self) -> bool {
        self.0.takes_tools
    }
    fn probe(&self) -> Pending<'_, Availability> {
        Box::pin(async { Availability::new(Readiness::Ready, "here", None) })
    }
}

impl Sessions for Scripted {
    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey {
        SessionKey::for_owner("acp:scripted", new)
    }
    fn reserve<'a>(&'a self, _: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    fn forget<'a>(&'a self, _: &'a SessionKey, _: &'a [RunId]) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
}

impl Turns for Scripted {
    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>> {
        Box::pin(async {
            Ok(Places {
                scope: ArtifactScope::of(&plan.session, &plan.run).unwrap(),
                artifact_directory: "/there".into(),
                work_folder: "/there".into(),
                attachments: vec![],
            })
        })
    }
    fn start<'a>(&'a self, _: &'a TurnPlan, _: &'a Places) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    fn follow<'a>(&'a self, _: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>> {
        let (send, receive) = mpsc::channel(4);
        let script = self.0.clone();
        tokio::spawn(async move {
            for (no, call) in (1..).zip(script.calls.clone()) {
                let update = Update::ToolCall(call);
                if no > logged.frame {
                    let _ = send.send(Signal::Frame(Frame { no, update })).await;
                }
            }
            let mut results = script.results.subscribe();
            let has_all = |given: &BTreeMap<String, ToolResult>| given.len() == script.calls.len();
            let all = async { results.wait_for(has_all).await.map(drop) };
            tokio::select! {
                _ = all => { let _ = send.send(Signal::End(completed())).await; }
                () = send.closed() => {}
            }
        });
        Box::pin(async { Ok(receive) })
    }
    fn ask_registry<'a>(&'a self, _: &'a RunRef) -> Pending<'a, Result<Registry, Fault>> {
        let given = self.0.results.borrow().len();
        let ended = given == self.0.calls.len();
        Box::pin(async move {
            Ok(match ended {
                true => Registry::Ended(completed()),
                false => Registry::Running,
            })
        })
    }
    fn cancel<'a>(&'a self, _: &'a RunRef) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    fn answer<'a>(
        &'a self,
        _: &'a RunRef,
        _: &'a QuestionId,
        _: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    fn tool_result<'a>(
        &'a self,
        _: &'a RunRef,
        call: &'a str,
        result: &'a ToolResult,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            if self.0.is_deaf.load(Ordering::SeqCst) {
                return Err(Fault::new(Code::ProviderUnavailable, "It does not hear."));
            }
            self.0.results.send_modify(|given| {
                let before = given.insert(call.to_owned(), result.clone());
                assert!(before.is_none_or(|before| before == *result), "two results");
            });
            Ok(())
        })
    }
}

impl Files for Scripted {
    fn collect<'a>(&'a self, _: &'a TurnPlan, _: &'a End) -> Pending<'a, Result<Manifest, Fault>> {
        Box::pin(async { Ok(Manifest::default()) })
    }
    fn hold<'a>(&'a self, _: &'a RunRef, _: i64) -> Pending<'a, Result<Option<Removed>, Fault>> {
        Box::pin(async { Ok(None) })
    }
    fn make_room(&self, _: RoomRules) -> Pending<'_, Result<Room, Fault>> {
        Box::pin(async { Ok(Room::default()) })
    }
    fn open<'a>(&'a self, _: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>> {
        Box::pin(async { Err(Fault::internal()) })
    }
}
