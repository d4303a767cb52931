//! The app, as the pages and the local API see it: its requests, its events and its files, nothing
//! else.

use std::{fs::File, pin::Pin};

use futures_util::Stream;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use threadline_app::{
    App,
    api::{AppEvent, Begin},
};
use threadline_contract::{Fault, thread::SyncedFile};

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
    let broken = |e: serde_json::Error| {
        tracing::error!(method, error = %e, "The app and the pages disagree about {method}: {e}");
        Fault::internal()
    };
    let params = serde_json::to_value(params).map_err(broken)?;
    let result = app.dispatch(method, params).await?;
    serde_json::from_value(result).map_err(broken)
}
