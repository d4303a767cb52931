//! What is to be said to the agent, by what was said so far. Decides, and does nothing: each frame
//! has a name under which the host takes it once, however often it is handed in.

use serde_json::json;
use threadline_contract::{Sha256, canonical, context};
use threadline_host::{Frame, reply_key};

use super::{
    past::{Bound, Past, Waiting},
    wire,
};
use crate::TurnPlan;

/// A frame for the agent, and its name.
pub(super) type Due = (String, Frame);

/// Everything that should be with the agent by now and is not.
pub(super) fn due(past: &Past) -> Vec<Due> {
    let (Some(bound), Some(begun)) = (&past.bound, &past.run.begun) else {
        return vec![];
    };
    let base = bound.base;
    // A frame is made only if it is not there yet: a prompt can be long, and this is looked at often.
    let begin = |name: &str, frame: &dyn Fn() -> Option<Frame>| {
        let key = format!("{name}:{base}");
        match past.sent.contains(&key) {
            true => None,
            false => Some((key, frame()?)),
        }
    };
    let begins = match (&past.agent, &past.session) {
        (None, _) => begin("init", &|| wire::initialize(base)),
        (Some(agent), None) => {
            let folder = begun.places.work_folder.to_string_lossy();
            begin("session", &|| open(bound, agent.resumes, &folder))
        }
        (Some(_), Some(session)) => match past.stops() {
            false => begin("prompt", &|| prompt(past, bound, session)),
            true if past.prompted.is_some() => begin("cancel", &|| wire::cancel(session)),
            true => None,
        },
    };
    let replies = past.requests.values().filter_map(|w| reply(past, w));
    let is_new = |(key, _): &Due| !past.sent.contains(key);
    begins.into_iter().chain(replies.filter(is_new)).collect()
}

fn open(bound: &Bound, resumes: bool, folder: &str) -> Option<Frame> {
    let mut params = json!({"cwd": folder, "mcpServers": []});
    let method = match &bound.resume {
        None => "session/new",
        Some(session) => {
            params["sessionId"] = json!(session);
            match resumes {
                true => "session/resume",
                false => "session/load",
            }
        }
    };
    wire::request(bound.base + 1, method, params)
}

fn prompt(past: &Past, bound: &Bound, session: &str) -> Option<Frame> {
    let mut blocks = Vec::new();
    if let Some(begun) = &past.run.begun {
        blocks.push(json!({"type": "text", "text": text(&begun.plan, bound)}));
        for name in &begun.places.attachments {
            let path = begun.places.work_folder.join(name);
            let uri = format!("file://{}", path.display());
            blocks.push(json!({"type": "resource_link", "name": name, "uri": uri}));
        }
    }
    let params = json!({"sessionId": session, "prompt": blocks});
    wire::request(bound.base + 2, "session/prompt", params)
}

/// The digest of a turn's instructions.
pub(super) fn instructions(plan: &TurnPlan) -> Option<Sha256> {
    let text = plan.instructions.as_ref()?;
    Some(canonical::digest(&json!(text)))
}

/// The prompt; with the instructions in front, where the agent's conversation does not have them yet.
fn text(plan: &TurnPlan, bound: &Bound) -> String {
    match &plan.instructions {
        Some(text) if instructions(plan) != bound.instructions => {
            context::with_instructions(text, &plan.prompt)
        }
        _ => plan.prompt.clone(),
    }
}

/// The answer to a request of the agent, as soon as there is one.
fn reply(past: &Past, waiting: &Waiting) -> Option<Due> {
    let asked = &waiting.asked;
    let frame = match (&asked.question, &waiting.answer) {
        (Some(permission), Some(answer)) => {
            let option = permission.chosen(answer.as_deref());
            wire::permission(&asked.id, option.map(|o| o.option_id.as_str()))
        }
        (Some(_), None) if past.stops() => wire::permission(&asked.id, None),
        (Some(_), None) => return None,
        (None, _) if asked.id == wire::NO_ID => wire::without_id(),
        (None, _) if !asked.is_read => wire::not_read(&asked.id),
        // One that comes outside of a turn has nobody to be asked.
        (None, _) if asked.method == wire::PERMISSION => wire::permission(&asked.id, None),
        (None, _) => wire::refused(&asked.id, &asked.method),
    };
    Some((reply_key(asked.no), frame?))
}
