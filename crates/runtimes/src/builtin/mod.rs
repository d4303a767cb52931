//! The agent inside this binary.
//!
//! It needs nothing installed. With a model configured it is a small agent that works with files;
//! without one it plays a demonstration. Either way each run has one append-only journal, and that
//! journal is its registry: what it does not say did not happen, and a run that it says began and
//! not ended goes on when it is followed again.

mod agent;
mod chat;
mod config;
mod demo;
mod history;
mod look;
mod model;
mod past;
mod prompt;
mod tools;
mod work;

use std::sync::Arc;

use threadline_contract::{
    Code, Fault, Millis, NewKey, QuestionId, Removed, RunId, RuntimeId, SessionKey,
    method::DEMONSTRATION,
};

pub use self::{
    config::{BuiltinConfig, Limits, ModelConfig},
    look::{Found, Looking, Server},
};
use self::{
    model::Model,
    past::{Entry, Past},
};
use crate::{
    ArtifactIdentity, Availability, Body, End, Follow, LaneSize, Logged, Manifest, Pending, Places,
    Readiness, Registry, Room, RoomRules, RunRef, Runtime, TurnPlan,
    journaled::{Runs, Want},
};

/// What all runs share.
struct Shared {
    config: BuiltinConfig,
    model: Option<Model>,
}

/// The builtin runtime.
pub struct Builtin {
    shared: Arc<Shared>,
    runs: Runs<Shared>,
}

impl Builtin {
    /// Sets the runtime up. Nothing is opened or started before it is asked for. With a model, the
    /// process must have installed a crypto provider for TLS.
    pub fn new(config: BuiltinConfig) -> Result<Self, Fault> {
        let model = config.model.as_ref();
        let model = model.map(|m| Model::new(m, config.limits)).transpose()?;
        let shared = Arc::new(Shared { config, model });
        let runs = Runs::new(Arc::clone(&shared), shared.config.records.clone());
        Ok(Self { shared, runs })
    }

    /// Interrupts every run and waits until nothing writes any more. Runs go on when they are
    /// followed again, by this process or the next.
    pub async fn stop(&self) {
        self.runs.stop().await;
    }
}

impl Runtime for Builtin {
    fn id(&self) -> &RuntimeId {
        &RuntimeId::Builtin
    }

    fn label(&self) -> &str {
        "Builtin agent"
    }

    fn lane(&self) -> LaneSize {
        self.shared.config.lane
    }

    fn is_local(&self) -> bool {
        true
    }

    fn has_session<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<bool, Fault>> {
        Box::pin(self.shared.config.workspace.has(session))
    }

    fn probe(&self) -> Pending<'_, Availability> {
        let found = match &self.shared.model {
            Some(model) => {
                let about = format!("model {}", model.name());
                Availability::new(Readiness::Ready, about, Some(model.host().to_owned()))
            }
            None => Availability::new(Readiness::Demonstration, DEMONSTRATION, None),
        };
        Box::pin(async { found })
    }

    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey {
        SessionKey::for_owner("builtin:main", new)
    }

    fn reserve<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.shared.config.workspace.reserve(session))
    }

    fn forget<'a>(
        &'a self,
        session: &'a SessionKey,
        runs: &'a [RunId],
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.shared.config.workspace.forget(session).await?;
            self.runs.forget(session, runs).await
        })
    }

    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>> {
        Box::pin(self.shared.config.workspace.prepare(plan))
    }

    fn start<'a>(
        &'a self,
        plan: &'a TurnPlan,
        places: &'a Places,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            let run = plan.run_ref();
            self.runs.find(&run, Want::Begin(plan, places)).await?;
            Ok(())
        })
    }

    fn follow<'a>(&'a self, run: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>> {
        Box::pin(self.runs.follow(run, logged.frame))
    }

    fn ask_registry<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<Registry, Fault>> {
        Box::pin(self.runs.ask(run))
    }

    fn waits_for_room(&self, run: &RunRef) -> Option<Millis> {
        self.runs.here(run)?.record.no_room_since()
    }

    fn cancel<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.runs.cancel(run))
    }

    fn answer<'a>(
        &'a self,
        run: &'a RunRef,
        question: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>> {
        let (question, answer) = (question.clone(), answer.map(str::to_owned));
        let take = move |past: &Past| take_answer(past, question, answer);
        Box::pin(self.runs.change(run, take))
    }

    fn collect<'a>(
        &'a self,
        plan: &'a TurnPlan,
        end: &'a End,
    ) -> Pending<'a, Result<Manifest, Fault>> {
        Box::pin(self.shared.config.workspace.collect(plan, end))
    }

    fn hold<'a>(
        &'a self,
        run: &'a RunRef,
        until: i64,
    ) -> Pending<'a, Result<Option<Removed>, Fault>> {
        Box::pin(self.shared.config.workspace.hold(run, until))
    }

    fn make_room(&self, rules: RoomRules) -> Pending<'_, Result<Room, Fault>> {
        Box::pin(self.shared.config.workspace.make_room(rules))
    }

    fn open<'a>(&'a self, artifact: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>> {
        Box::pin(self.shared.config.workspace.open(artifact))
    }
}

/// The line that an answer adds; none when it is the answer that is there already. A run that ended
/// has withdrawn what it had asked.
fn take_answer(
    past: &Past,
    question: QuestionId,
    answer: Option<String>,
) -> Result<Option<Entry>, Fault> {
    let asked = past.asked.get(&question).ok_or_else(|| {
        Fault::new(
            Code::QuestionNotFound,
            "The run has not asked this question.",
        )
    })?;
    match &asked.answer {
        None if past.ended.is_none() => Ok(Some(Entry::Answered { question, answer })),
        Some(given) if *given == answer => Ok(None),
        _ => Err(Fault::new(
            Code::QuestionAlreadyClosed,
            "The question was answered or withdrawn already.",
        )),
    }
}
