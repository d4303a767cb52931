//! The local API: what the engine says, joined with what the app knows of it; everything else is the app's.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use threadline_app::api::{
    self, Asked, AskedQuestion, CancelRunParams, GcView, Home, Known, Named, NoParams,
    QuestionsElsewhere,
};
use threadline_contract::{
    AppThreadKey, Code, Fault, Principal, Question,
    method::{self, AnswerParams, Gc, GcParams, Questions, Receipt, TaskParams},
    operator::{OperatorStatus, RunsPage, RunsParams, SessionsPage, SessionsParams},
};

use crate::{Web, access, engine_door, local};

/// Answers one request of the local API for a principal. What was begun is done to its end, also when the caller
/// goes away meanwhile.
pub(crate) async fn perform(
    web: &Web,
    by: &Principal,
    method: &str,
    params: Value,
) -> Result<Value, Fault> {
    access::check(by, method)?;
    let (web, by, method) = (web.clone(), by.clone(), method.to_owned());
    let doing = tokio::spawn(async move { route(&web, &by, &method, params).await });
    doing.await.map_err(|e| {
        tracing::error!(error = %e, "A request of the local API broke: {e}");
        Fault::internal()
    })?
}

async fn route(web: &Web, by: &Principal, method: &str, params: Value) -> Result<Value, Fault> {
    match method {
        api::ANSWER => local::written(method, answer(web, by, given(params)?).await?),
        api::QUESTIONS => {
            given::<NoParams>(params)?;
            local::written(method, questions(web, by).await?)
        }
        api::HOME => {
            given::<NoParams>(params)?;
            local::written(method, home(web, by).await?)
        }
        api::ARTIFACTS_GC => local::written(method, make_room(web, by, given(params)?).await?),
        api::OPERATOR_STATUS => {
            given::<NoParams>(params)?;
            local::written(method, status(web, by).await?)
        }
        api::OPERATOR_RUNS => local::written(method, runs(web, by, given(params)?).await?),
        api::OPERATOR_SESSIONS => local::written(method, sessions(web, by, given(params)?).await?),
        api::OPERATOR_CANCEL => local::written(method, cancel(web, by, given(params)?).await?),
        _ => web.app.dispatch(method, params).await,
    }
}

fn given<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_json::from_value(params)
        .map_err(|e| Fault::invalid(format!("The parameters are wrong: {e}.")))
}

/// How the engine stands. Turns that wait in the app for a place are in the same line; the engine has not heard of
/// them.
pub(crate) async fn status(web: &Web, by: &Principal) -> Result<Named<OperatorStatus>, Fault> {
    let mut status: OperatorStatus = ask(web, by, method::OPERATOR_STATUS, json!({})).await?;
    let errors = status.runtimes.iter().filter_map(|r| r.last_error.as_ref());
    let threads: Vec<AppThreadKey> = errors
        .map(|error| &error.thread_id)
        .chain(status.hosts.iter().map(|host| &host.thread_id))
        .cloned()
        .collect();
    let Known { names, waiting } = known(web, by, &threads);
    status.open.queued += waiting.values().copied().map(u64::from).sum::<u64>();
    for line in &mut status.runtimes {
        line.state.queued += waiting.get(&line.runtime).copied().unwrap_or(0);
    }
    Ok(Named { of: status, names })
}

/// One page of the account's runs.
pub(crate) async fn runs(
    web: &Web,
    by: &Principal,
    params: RunsParams,
) -> Result<Named<RunsPage>, Fault> {
    let page: RunsPage = ask(web, by, method::OPERATOR_RUNS, params).await?;
    let threads: Vec<AppThreadKey> = page.runs.iter().map(|r| r.thread_id.clone()).collect();
    let names = known(web, by, &threads).names;
    Ok(Named { of: page, names })
}

/// One page of the account's sessions.
pub(crate) async fn sessions(
    web: &Web,
    by: &Principal,
    params: SessionsParams,
) -> Result<Named<SessionsPage>, Fault> {
    let page: SessionsPage = ask(web, by, method::OPERATOR_SESSIONS, params).await?;
    let sessions = page.sessions.iter();
    let threads: Vec<AppThreadKey> = sessions.map(|s| s.thread_id.clone()).collect();
    let names = known(web, by, &threads).names;
    Ok(Named { of: page, names })
}

/// Asks a run to stop, whoever began it. A thread of the app hears first that somebody wanted it.
async fn cancel(web: &Web, by: &Principal, run: CancelRunParams) -> Result<Receipt, Fault> {
    if by.account.is_local() {
        web.app.cancel_own_run(&run).await?;
    }
    let task = TaskParams {
        app_thread_key: Some(run.thread_id),
        run_id: Some(run.run_id),
        ..TaskParams::default()
    };
    ask(web, by, method::TASKS_CANCEL, task).await
}

/// Removes the files of old runs, or says which would go. What lies in the folders of threads is never touched.
async fn make_room(web: &Web, by: &Principal, params: GcParams) -> Result<GcView, Fault> {
    let gc: Gc = ask(web, by, method::ARTIFACTS_GC, params).await?;
    let threads: Vec<AppThreadKey> = gc.removed.iter().map(|r| r.thread_id.clone()).collect();
    let names = known(web, by, &threads).names.into_iter();
    let names = names.map(|(thread, name)| (thread, name.name)).collect();
    Ok(GcView { gc, names })
}

/// The questions that wait: the engine's, and those of other bridges that the app uses. Oldest first.
pub(crate) async fn questions(web: &Web, by: &Principal) -> Result<Asked, Fault> {
    let (questions, unreachable) = all_questions(web, by).await?;
    match unreachable.first() {
        Some(why) if questions.is_empty() => Err(Fault::new(Code::ConnectFailed, why)),
        _ => Ok(Asked { questions }),
    }
}

/// The first page: the app's threads, and every question.
pub(crate) async fn home(web: &Web, by: &Principal) -> Result<Home, Fault> {
    let (home, asked) = tokio::join!(
        local::call::<Home>(&*web.app, api::HOME, NoParams {}),
        all_questions(web, by),
    );
    let (questions, unreachable) = asked?;
    Ok(Home {
        questions,
        unreachable,
        ..home?
    })
}

/// Answers a question: the engine's own, else one of another bridge that the app uses.
async fn answer(web: &Web, by: &Principal, params: AnswerParams) -> Result<Question, Fault> {
    let is_own = by.account.is_local();
    match ask::<Question>(web, by, method::QUESTIONS_ANSWER, &params).await {
        Ok(question) => {
            if is_own {
                web.app.note_answer(&question);
            }
            Ok(question)
        }
        Err(fault) if fault.code == Code::QuestionNotFound && is_own => {
            web.app.answer_elsewhere(params).await
        }
        Err(fault) => Err(fault),
    }
}

async fn all_questions(
    web: &Web,
    by: &Principal,
) -> Result<(Vec<AskedQuestion>, Vec<String>), Fault> {
    let own = ask::<Questions>(web, by, method::QUESTIONS_LIST, json!({}));
    let (own, elsewhere) = tokio::join!(own, elsewhere(web, by));
    let mut questions = own?.questions;
    // Somebody may have named this very machine as another bridge.
    let mut others = elsewhere.questions;
    others.retain(|other| questions.iter().all(|q| q.question_id != other.question_id));
    questions.extend(others);
    questions.sort_by_key(|q| q.asked_at);
    let threads: Vec<AppThreadKey> = questions.iter().map(|q| q.thread_id.clone()).collect();
    let names = known(web, by, &threads).names;
    let named = questions.into_iter().map(|question| {
        let thread = names.get(&question.thread_id);
        AskedQuestion {
            thread_name: thread.map(|t| t.name.clone()),
            thread_title: thread.map(|t| t.title.clone()),
            question,
        }
    });
    Ok((named.collect(), elsewhere.unreachable))
}

async fn elsewhere(web: &Web, by: &Principal) -> QuestionsElsewhere {
    match by.account.is_local() {
        true => web.app.questions_elsewhere().await,
        false => QuestionsElsewhere::default(),
    }
}

/// What the app knows. It belongs to the machine's own account, and tells nothing to another.
fn known(web: &Web, by: &Principal, threads: &[AppThreadKey]) -> Known {
    match by.account.is_local() {
        true => web.app.known(threads),
        false => Known::default(),
    }
}

async fn ask<T: DeserializeOwned>(
    web: &Web,
    by: &Principal,
    method: &str,
    params: impl serde::Serialize,
) -> Result<T, Fault> {
    engine_door::call(&*web.engine, by, method, params).await
}
