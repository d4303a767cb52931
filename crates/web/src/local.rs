//! The app, as the pages and the local API see it: its requests, its events and its files, nothing
//! else.

use std::{fs::File, pin::Pin};

use futures_util::Stream;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use threadline_app::{
    App,
    api::{AppEvent, Begin, CancelRunParams, Known, QuestionsElsewhere},
};
use threadline_contract::{
    AppThreadKey, Fault, Question, method::AnswerParams, thread::SyncedFile,
};

/// An answer that is on its way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Events, for as long as somebody listens.
pub type Events = Pin<Box<dyn Stream<Item = AppEvent> + Send>>;

/// The local API ([`threadline_app::api`]) behind its HTTP shell.
pub trait Local: Send + Sync + 'static {
    /// Does what a method asks.
    fn dispatch<'a>(&'a self, method: &'a str, params: Value) -> Pending<'a, Result<Value, Fault>>;

    /// What happens in one thread: its log from where it shall begin, then live.
    fn events<'a>(&'a self, thread: &'a str, begin: Begin) -> Pending<'a, Result<Events, Fault>>;

    /// What changes in any thread, from now on.
    fn changes(&self) -> Events;

    /// What the app adds to what the engine says of these threads.
    fn known(&self, threads: &[AppThreadKey]) -> Known;

    /// Cancels a run as the app's own commands would, if it is the current one of a thread of its own.
    fn cancel_own_run<'a>(&'a self, run: &'a CancelRunParams) -> Pending<'a, Result<(), Fault>>;

    /// Notes that a question of this machine's engine was closed.
    fn note_answer(&self, question: &Question);

    /// The questions of the other bridges that the app uses.
    fn questions_elsewhere(&self) -> Pending<'_, QuestionsElsewhere>;

    /// Answers a question of another bridge.
    fn answer_elsewhere(&self, params: AnswerParams) -> Pending<'_, Result<Question, Fault>>;

    /// Opens a file that the thread's current run brought home, and no other.
    fn file<'a>(
        &'a self,
        thread: &'a str,
        path: &'a str,
    ) -> Pending<'a, Result<(File, SyncedFile), Fault>>;
}

impl Local for App {
    fn dispatch<'a>(&'a self, method: &'a str, params: Value) -> Pending<'a, Result<Value, Fault>> {
        Box::pin(self.dispatch(method, params))
    }

    fn events<'a>(&'a self, thread: &'a str, begin: Begin) -> Pending<'a, Result<Events, Fault>> {
        Box::pin(async move {
            let events = self.events(thread, begin).await?;
            Ok(Box::pin(events) as Events)
        })
    }

    fn changes(&self) -> Events {
        Box::pin(self.changes())
    }

    fn known(&self, threads: &[AppThreadKey]) -> Known {
        self.known(threads)
    }

    fn cancel_own_run<'a>(&'a self, run: &'a CancelRunParams) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.cancel_own_run(run))
    }

    fn note_answer(&self, question: &Question) {
        self.note_answer(question);
    }

    fn questions_elsewhere(&self) -> Pending<'_, QuestionsElsewhere> {
        Box::pin(self.questions_elsewhere())
    }

    fn answer_elsewhere(&self, params: AnswerParams) -> Pending<'_, Result<Question, Fault>> {
        Box::pin(self.answer_elsewhere(params))
    }

    fn file<'a>(
        &'a self,
        thread: &'a str,
        path: &'a str,
    ) -> Pending<'a, Result<(File, SyncedFile), Fault>> {
        Box::pin(self.file(thread, path))
    }
}

/// A request with its result read back into its type.
pub(crate) async fn call<T: DeserializeOwned>(
    app: &dyn Local,
    method: &str,
    params: impl Serialize,
) -> Result<T, Fault> {
    read(
        method,
        app.dispatch(method, written(method, params)?).await?,
    )
}

pub(crate) fn written(method: &str, params: impl Serialize) -> Result<Value, Fault> {
    serde_json::to_value(params).map_err(|e| broken(method, &e))
}

pub(crate) fn read<T: DeserializeOwned>(method: &str, result: Value) -> Result<T, Fault> {
    serde_json::from_value(result).map_err(|e| broken(method, &e))
}

fn broken(method: &str, e: &serde_json::Error) -> Fault {
    tracing::error!(method, error = %e, "What {method} says is not what the pages expect: {e}");
    Fault::internal()
}
