//! `threadline status`: how this machine's bridge stands, and why.

use jiff::tz::TimeZone;
use serde::Serialize;
use threadline_app::api::{self, Asked, AskedQuestion, Named, NoParams, Queue, QueueParams};
use threadline_contract::{
    Fault, Millis,
    operator::{OperatorStatus, RunsPage, RunsParams, SessionsPage, SessionsParams, WhichRuns},
};

use super::Context;
use crate::{
    args::{Status, StatusRuns},
    exit::Exit,
    screen::status,
};

/// Everything that is shown.
#[derive(Serialize)]
pub(crate) struct Shown {
    pub(crate) status: Named<OperatorStatus>,
    pub(crate) runs: Named<RunsPage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<Named<SessionsPage>>,
    pub(crate) questions: Vec<AskedQuestion>,
    /// Messages that wait here, in their threads or for a place.
    pub(crate) waiting: Queue,
}

pub(super) async fn show(context: &Context, args: Status) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let limit = Some(u32::from(args.limit));
    let runs = RunsParams {
        which: match args.runs {
            StatusRuns::Open => WhichRuns::Open,
            StatusRuns::Failed => WhichRuns::Failed,
            StatusRuns::All => WhichRuns::All,
        },
        limit,
        cursor: args.before.clone().filter(|_| !args.sessions),
    };
    let sessions = SessionsParams {
        limit,
        cursor: args.before.filter(|_| args.sessions),
    };
    let asked: Asked = client.call(api::QUESTIONS, NoParams {}).await?;
    let shown = Shown {
        status: client.call(api::OPERATOR_STATUS, NoParams {}).await?,
        runs: client.call(api::OPERATOR_RUNS, runs).await?,
        sessions: match args.sessions {
            true => Some(client.call(api::OPERATOR_SESSIONS, sessions).await?),
            false => None,
        },
        questions: asked.questions,
        waiting: client.call(api::QUEUE_LIST, QueueParams::default()).await?,
    };
    context.print(&shown, || {
        status::all(&shown, Millis::now(), &TimeZone::system(), context.out)
    });
    Ok(Exit::Done)
}
