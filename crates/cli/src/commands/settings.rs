//! Settings, token and version: no owner is needed for any of them.

use serde_json::json;
use threadline_contract::Fault;
use threadline_files::complain;

use super::Context;
use crate::{
    config,
    exit::Exit,
    owner::{Owner, Places, VERSION, look, token},
};

/// What could be read is shown also when something could not.
pub(super) fn config(context: &Context, origin: bool) -> Result<Exit, Fault> {
    let wrong = match context.mistakes.as_slice() {
        [] => None,
        mistakes => Some(config::fault(mistakes)),
    };
    let mut json = config::json(&context.config);
    if let (Some(fault), Some(map)) = (&wrong, json.as_object_mut()) {
        map.insert("error".into(), json!(fault));
        map.insert("exitCode".into(), Exit::Usage.number().into());
    }
    context.print(&json, || {
        let width = match context.out.person {
            true => context.out.width,
            false => usize::MAX,
        };
        config::show(&context.config, origin, width)
    });
    match wrong {
        Some(fault) if !context.json => Err(fault),
        Some(_) => Ok(Exit::Usage),
        None => {
            note_of_others(context);
            Ok(Exit::Done)
        }
    }
}

/// Whoever looks at the settings wants to know that the owner acts on others.
fn note_of_others(context: &Context) {
    let places = Places::new(&context.config.data);
    if let (Ok(Owner::Ready(state)), Ok(Some(token))) = (look(&places), token::read(&places)) {
        let other = state.outdated(&context.config, &token);
        if !other.is_empty() {
            complain!("{}", state.note(&other));
        }
    }
}

/// The token is made if there is none yet: whoever asks for it is about to use it.
pub(super) fn token(context: &Context) -> Result<Exit, Fault> {
    let places = Places::new(&context.config.data);
    places.make()?;
    let token = token::read_or_make(&places)?;
    let file = places.token().display().to_string();
    context.print(&json!({"token": token, "file": file}), || {
        format!("{token}\n")
    });
    Ok(Exit::Done)
}

pub(super) fn version(context: &Context) -> Result<Exit, Fault> {
    context.print(&json!({"version": VERSION}), || {
        format!("threadline {VERSION}\n")
    });
    Ok(Exit::Done)
}
