//! `POST /do`: what the pages' forms do when no script takes them over. The script sends the same
//! fields to `/app/rpc`.

use std::collections::BTreeMap;

use axum::{
    Extension,
    extract::{Form, State, rejection::FormRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use threadline_app::api;
use threadline_contract::{Deliverable, Fault, Principal};

use crate::{Web, operate, pages, urls};

/// The fields of every form. Those that a method does not know are left out.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Fields {
    method: String,
    thread: String,
    prompt: String,
    runtime: String,
    expect: String,
    working_directory: String,
    new_session: String,
    request_id: String,
    with_my_files: String,
    yours_digest: String,
    thread_id: String,
    run_id: String,
    question_id: String,
    option_id: String,
    text: String,
    /// The page to return to.
    back: String,
    #[serde(flatten)]
    others: BTreeMap<String, String>,
}

pub(crate) async fn handle(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
    fields: Result<Form<Fields>, FormRejection>,
) -> Response {
    let fields = match fields {
        Ok(Form(fields)) => fields,
        Err(e) => return refused(&Fault::invalid(format!("{}.", e.body_text())), "/"),
    };
    let back = urls::back(Some(&fields.back));
    let outcome = match params(&fields) {
        Ok(params) => operate::perform(&web, &by, &fields.method, params).await,
        Err(fault) => Err(fault),
    };
    match outcome {
        Ok(result) => {
            let pending = result["pending"].as_str();
            let kept = result["keptFolder"].as_str();
            let next = next(&fields, &result);
            match fields.method == api::DELETE && (pending.is_some() || kept.is_some()) {
                true => {
                    let kept = kept.map(|folder| stayed(folder, &result));
                    pages::refused::deleted(pending, kept.as_ref(), &next).into_response()
                }
                false => see(&next),
            }
        }
        Err(fault) => refused(&fault, back),
    }
}

/// The files of the user's that a deletion left.
fn stayed<'a>(folder: &'a str, result: &'a Value) -> pages::refused::Stayed<'a> {
    let files = result["kept"].as_array().into_iter().flatten();
    pages::refused::Stayed {
        folder,
        paths: files.filter_map(|file| file["path"].as_str()).collect(),
        total: result["keptTotal"]["files"].as_u64().unwrap_or(0),
    }
}

fn params(fields: &Fields) -> Result<Value, Fault> {
    let given = |text: &String| Some(text.clone()).filter(|t| !t.trim().is_empty());
    Ok(match fields.method.as_str() {
        api::SEND => json!({
            "thread": given(&fields.thread),
            "prompt": fields.prompt,
            "runtime": given(&fields.runtime),
            "expect": expected(&fields.expect),
            "workingDirectory": given(&fields.working_directory),
            "newSession": !fields.new_session.is_empty(),
            "permissions": permitted(&fields.others),
        }),
        api::RETRY => {
            json!({"thread": fields.thread, "newSession": !fields.new_session.is_empty()})
        }
        api::ANSWER => match given(&fields.option_id) {
            Some(option) => json!({"questionId": fields.question_id, "optionId": option}),
            None => json!({"questionId": fields.question_id, "text": fields.text}),
        },
        api::OPERATOR_CANCEL => json!({"threadId": fields.thread_id, "runId": fields.run_id}),
        api::QUEUE_DROP => json!({"thread": fields.thread, "requestId": fields.request_id}),
        api::QUEUE_EDIT => json!({
            "thread": fields.thread,
            "requestId": fields.request_id,
            "prompt": fields.prompt,
        }),
        api::DELETE => {
            json!({
                "thread": fields.thread,
                "withMyFiles": !fields.with_my_files.is_empty(),
                "yoursDigest": given(&fields.yours_digest),
            })
        }
        api::CANCEL | api::SYNC | api::ARCHIVE | api::RESTORE => {
            json!({"thread": fields.thread})
        }
        other => return Err(Fault::invalid(format!("A form cannot do `{other}`."))),
    })
}

/// The rules for permissions that were chosen; nothing when none was.
fn permitted(fields: &BTreeMap<String, String>) -> Option<BTreeMap<&str, &str>> {
    let chosen = fields.iter().filter(|(_, rule)| !rule.is_empty());
    let rules = chosen.filter_map(|(name, rule)| {
        let kind = name.strip_prefix(pages::permit::FIELD)?;
        Some((kind, rule.as_str()))
    });
    Some(rules.collect()).filter(|rules: &BTreeMap<_, _>| !rules.is_empty())
}

/// One deliverable per line.
fn expected(text: &str) -> Vec<Deliverable> {
    let globs = text.lines().map(str::trim).filter(|line| !line.is_empty());
    globs
        .map(|glob| Deliverable {
            glob: glob.to_owned(),
            content_type: None,
            min_bytes: None,
            min_count: None,
        })
        .collect()
}

/// Where to go when it is done.
fn next(fields: &Fields, result: &Value) -> String {
    match fields.method.as_str() {
        api::DELETE => "/threads?archived=1".into(),
        api::SEND => match result["thread"]["name"].as_str() {
            Some(name) => urls::thread(name),
            None => "/".into(),
        },
        _ => urls::back(Some(&fields.back)).to_owned(),
    }
}

fn see(path: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response()
}

fn refused(fault: &Fault, back: &str) -> Response {
    let status =
        StatusCode::from_u16(fault.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, pages::refused::fault(fault, back)).into_response()
}
