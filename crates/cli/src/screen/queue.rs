//! Messages that wait, as a list.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use threadline_app::api::{QueuedTurnView, WaitsFor};
use threadline_contract::{AppThreadKey, Millis};

use super::{
    Terminal,
    words::{ago, columns, count, fit},
};

/// Columns that a message gets at least.
const LEAST_MESSAGE: usize = 16;

/// Each turn's number among those of its thread: what `--turn` takes.
pub(crate) fn numbers(turns: &[QueuedTurnView]) -> Vec<usize> {
    let mut seen: HashMap<&AppThreadKey, usize> = HashMap::new();
    let number = |turn| {
        let n: &mut usize = seen.entry(turn).or_default();
        *n += 1;
        *n
    };
    turns
        .iter()
        .map(|turn| &turn.thread_id)
        .map(number)
        .collect()
}

/// One line per message.
pub(crate) fn waiting(
    turns: &[QueuedTurnView],
    now: Millis,
    zone: &TimeZone,
    to: Terminal,
) -> String {
    let rows: Vec<[String; 3]> = turns
        .iter()
        .zip(numbers(turns))
        .map(|(turn, number)| {
            let when = ago(now, turn.queued_at_ms, zone);
            let files = match turn.attachments {
                0 => String::new(),
                n => format!(", {}", count(n.into(), "file")),
            };
            let what = match turn.waits_for {
                WaitsFor::OwnThread => "for the run before it".to_owned(),
                WaitsFor::Place => {
                    format!("for a free place ({} of {})", turn.position, turn.queued)
                }
            };
            [
                turn.thread_name.clone(),
                number.to_string(),
                format!("{when}{files}, {what}"),
            ]
        })
        .collect();
    let widths: [usize; 3] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.max().unwrap_or(0)
    });
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let room = to.width.saturating_sub(used).max(LEAST_MESSAGE);
    let mut out = String::new();
    for (row, turn) in rows.iter().zip(turns) {
        let cell = |column: usize| {
            let text = fit(&row[column], widths[column]);
            let space = " ".repeat(widths[column].saturating_sub(columns(&text)));
            (text, space)
        };
        let ((name, a), (number, b), (when, c)) = (cell(0), cell(1), cell(2));
        out.push_str(&format!(
            "{}{a}  {number}{b}  {}{c}  {}\n",
            to.bold(&name),
            to.dim(&when),
            fit(&turn.prompt, room)
        ));
    }
    out
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
