//! Settings, token and version: no owner is needed for any of them.

use serde_json::json;
use threadline_contract::Fault;

use super::Context;
use crate::{
    config,
    exit::Exit,
    owner::{Places, VERSION, token},
};

pub(super) fn config(context: &Context, origin: bool) -> Result<Exit, Fault> {
    context.print(&config::json(&context.config), || {
        config::show(&context.config, origin)
    });
    Ok(Exit::Done)
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
