//! `queue`: the messages that wait, and what is done with one of them.

use jiff::tz::TimeZone;
use threadline_app::api::{
    self, EditTurnParams, Queue, QueueParams, QueuedTurnView, ThreadView, TurnParams,
};
use threadline_contract::{Code, Fault, Millis};

use super::{Context, task};
use crate::{
    args::{self, QueueCommand, QueueEdit, QueueTurn},
    client::Client,
    exit::Exit,
    screen::{queue, words},
};

pub(super) async fn queue(context: &Context, args: args::Queue) -> Result<Exit, Fault> {
    let client = context.client().await?;
    match args.command {
        None => list(context, &client, None).await,
        Some(QueueCommand::List { thread }) => list(context, &client, thread).await,
        Some(QueueCommand::Drop(which)) => drop_one(context, &client, which).await,
        Some(QueueCommand::Edit(edit)) => edit_one(context, &client, edit).await,
    }
}

async fn list(context: &Context, client: &Client, thread: Option<String>) -> Result<Exit, Fault> {
    let of_thread = thread.as_deref().map(words::line);
    let found: Queue = client.call(api::QUEUE_LIST, QueueParams { thread }).await?;
    context.print(&found, || match (found.turns.is_empty(), of_thread) {
        (true, Some(thread)) => format!("No message of {thread} waits.\n{}", at_bridge(&found)),
        (true, None) => format!("No message waits.\n{}", at_bridge(&found)),
        (false, _) => {
            let turns = queue::waiting(
                &found.turns,
                Millis::now(),
                &TimeZone::system(),
                context.out,
            );
            turns + &at_bridge(&found)
        }
    });
    Ok(Exit::Done)
}

/// What waits where it cannot be edited any more.
fn at_bridge(found: &Queue) -> String {
    match found.queued_at_bridge {
        0 => String::new(),
        1 => "1 turn is queued at its bridge for a free place: `threadline status` shows it, `threadline cancel` stops it.\n".to_owned(),
        n => format!("{n} turns are queued at their bridge for a free place: `threadline status` shows them, `threadline cancel` stops one.\n"),
    }
}

async fn drop_one(context: &Context, client: &Client, which: QueueTurn) -> Result<Exit, Fault> {
    let turn = chosen(client, which).await?;
    let params = TurnParams {
        thread: turn.thread_id.to_string(),
        request_id: turn.request_id.clone(),
    };
    let view: ThreadView = client.call(api::QUEUE_DROP, params).await?;
    context.print(&view, || {
        format!(
            "{}: the message that waited is dropped: {}\n",
            words::line(&turn.thread_name),
            words::short(&turn.prompt, 60)
        )
    });
    Ok(Exit::Done)
}

async fn edit_one(context: &Context, client: &Client, edit: QueueEdit) -> Result<Exit, Fault> {
    let turn = chosen(client, edit.which).await?;
    let params = EditTurnParams {
        thread: turn.thread_id.to_string(),
        request_id: turn.request_id.clone(),
        prompt: task::prompt(edit.prompt, false)?,
    };
    let said = words::short(&params.prompt, 60);
    let view: ThreadView = client.call(api::QUEUE_EDIT, params).await?;
    context.print(&view, || {
        let name = words::line(&turn.thread_name);
        format!("{name}: the message that waits says now: {said}\n")
    });
    Ok(Exit::Done)
}

/// The turn that is meant: the only one of its thread that waits, or the one that was named.
async fn chosen(client: &Client, which: QueueTurn) -> Result<QueuedTurnView, Fault> {
    let params = QueueParams {
        thread: Some(which.thread.clone()),
    };
    let found: Queue = client.call(api::QUEUE_LIST, params).await?;
    pick(found.turns, &which)
}

fn pick(mut turns: Vec<QueuedTurnView>, which: &QueueTurn) -> Result<QueuedTurnView, Fault> {
    let thread = words::line(&which.thread);
    let not_there = |why: String| Err(Fault::new(Code::TurnNotWaiting, why));
    if turns.is_empty() {
        return not_there(format!("No message of {thread} waits."));
    }
    let Some(named) = &which.turn else {
        if turns.len() == 1 {
            return Ok(turns.remove(0));
        }
        let mut message = format!("Several messages of {thread} wait. Say which one, with --turn:");
        for (at, turn) in turns.iter().enumerate() {
            let said = words::short(&turn.prompt, 60);
            message.push_str(&format!("\n  --turn {}  {said}", at + 1));
        }
        return Err(Fault::invalid(message));
    };
    let number = named.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let is_named = |turn: &QueuedTurnView| turn.request_id.as_str() == named;
    match number.or_else(|| turns.iter().position(is_named)) {
        Some(at) if at < turns.len() => Ok(turns.remove(at)),
        _ => not_there(format!(
            "No message of {thread} that waits is --turn {}. `threadline queue list {}` lists them.",
            words::line(named),
            words::quoted(&which.thread)
        )),
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
