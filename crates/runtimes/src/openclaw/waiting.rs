//! Updates that wait for a slow reader, merged: text with text, a step with its later state.

use crate::Update;

/// Updates that may wait for the reader; text is merged and never dropped.
pub(super) const WAITING: usize = 4096;

/// What waits.
#[derive(Default)]
pub(super) struct Waiting {
    updates: Vec<Update>,
    dropped: bool,
}

impl Waiting {
    /// Whether nothing does.
    pub(super) fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// Adds one more.
    pub(super) fn push(&mut self, update: Update) {
        match (&update, self.updates.last_mut()) {
            (Update::Text(more), Some(Update::Text(text))) => {
                text.push_str(more);
                return;
            }
            (Update::Step(step), _) => {
                let same = |w: &Update| matches!(w, Update::Step(s) if s.step_id == step.step_id);
                if let Some(at) = self.updates.iter().position(same) {
                    self.updates[at] = update;
                    return;
                }
            }
            _ => {}
        }
        let shown = matches!(update, Update::Step(_) | Update::Note(_));
        if self.updates.len() >= WAITING && shown {
            self.dropped = true;
            return;
        }
        self.updates.push(update);
    }

    /// All of them, taken away.
    pub(super) fn take(&mut self) -> Vec<Update> {
        if std::mem::take(&mut self.dropped) {
            let note = "Some steps came faster than they could be recorded and are not shown.";
            self.updates.push(Update::Note(note.into()));
        }
        std::mem::take(&mut self.updates)
    }
}
