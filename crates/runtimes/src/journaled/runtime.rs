//! What is the same for every runtime whose runs have a journal each and work on this host: sessions,
//! turns and files. What differs is asked of [`JournaledRuntime`].

use threadline_contract::{
    Fault, Millis, NewKey, QuestionId, Removed, RunId, SessionKey, ToolResult,
};

use super::{Past, Runs, Want, Work};
use crate::{
    ArtifactIdentity, Body, End, Files, Follow, LocalWorkspace, Logged, Manifest, Pending, Places,
    Registry, Room, RoomRules, RunRef, Sessions, TurnPlan, Turns,
};

/// What the journal of a runtime's run adds up to.
type PastOf<R> = <<R as JournaledRuntime>::Work as Work>::Past;

/// A runtime on this host whose runs have a journal each.
pub(crate) trait JournaledRuntime: Send + Sync + 'static {
    /// Who does the work of its runs.
    type Work: Work;

    /// Its runs.
    fn runs(&self) -> &Runs<Self::Work>;

    /// Where they work.
    fn workspace(&self) -> &LocalWorkspace;

    /// What the keys of its sessions begin with: its kind and its agent.
    fn key_head(&self) -> String;

    /// Since when a run waits for room on a disk.
    fn no_room_since(&self, run: &RunRef) -> Option<Millis>;

    /// Ends what is kept running for a session and has nothing to do.
    fn close_session(
        &self,
        _session: &SessionKey,
    ) -> impl Future<Output = Result<(), Fault>> + Send {
        async { Ok(()) }
    }

    /// Ends everything that runs for a session and removes what is kept of it beside folders and journals.
    fn forget_session(
        &self,
        _session: &SessionKey,
    ) -> impl Future<Output = Result<(), Fault>> + Send {
        async { Ok(()) }
    }
}

impl<R: JournaledRuntime> Sessions for R {
    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey {
        SessionKey::for_owner(&self.key_head(), new)
    }

    fn has_session<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<bool, Fault>> {
        Box::pin(self.workspace().has(session))
    }

    fn reserve<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.workspace().reserve(session))
    }

    fn close<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.close_session(session))
    }

    fn forget<'a>(
        &'a self,
        session: &'a SessionKey,
        runs: &'a [RunId],
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.forget_session(session).await?;
            self.workspace().forget(session).await?;
            self.runs().forget(session, runs).await
        })
    }
}

impl<R: JournaledRuntime> Turns for R {
    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>> {
        Box::pin(self.workspace().prepare(plan))
    }

    fn start<'a>(
        &'a self,
        plan: &'a TurnPlan,
        places: &'a Places,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            let begin = Want::Begin(plan, places);
            self.runs().find(&plan.run_ref(), begin).await.map(drop)
        })
    }

    fn follow<'a>(&'a self, run: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>> {
        Box::pin(self.runs().follow(run, logged.frame))
    }

    fn ask_registry<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<Registry, Fault>> {
        Box::pin(self.runs().ask(run))
    }

    fn waits_for_room(&self, run: &RunRef) -> Option<Millis> {
        self.no_room_since(run)
    }

    fn cancel<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.runs().cancel(run))
    }

    fn answer<'a>(
        &'a self,
        run: &'a RunRef,
        question: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>> {
        let (question, answer) = (question.clone(), answer.map(str::to_owned));
        let take = move |past: &PastOf<R>| past.take_answer(question, answer);
        Box::pin(self.runs().change(run, take))
    }

    fn tool_result<'a>(
        &'a self,
        run: &'a RunRef,
        call: &'a str,
        result: &'a ToolResult,
    ) -> Pending<'a, Result<(), Fault>> {
        let (call, result) = (call.to_owned(), result.clone());
        let take = move |past: &PastOf<R>| past.take_tool_result(call, result);
        Box::pin(self.runs().change(run, take))
    }

    fn stop(&self) -> Pending<'_, ()> {
        Box::pin(self.runs().stop())
    }
}

impl<R: JournaledRuntime> Files for R {
    fn collect<'a>(
        &'a self,
        plan: &'a TurnPlan,
        end: &'a End,
    ) -> Pending<'a, Result<Manifest, Fault>> {
        Box::pin(self.workspace().collect(plan, end))
    }

    fn hold<'a>(
        &'a self,
        run: &'a RunRef,
        until: i64,
    ) -> Pending<'a, Result<Option<Removed>, Fault>> {
        Box::pin(self.workspace().hold(run, until))
    }

    fn make_room(&self, rules: RoomRules) -> Pending<'_, Result<Room, Fault>> {
        Box::pin(self.workspace().make_room(rules))
    }

    fn open<'a>(&'a self, artifact: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>> {
        Box::pin(self.workspace().open(artifact))
    }
}
