//! What a run says: its messages one after the other, and what the log shows of them. Pure.
//!
//! What is handed over always adds up to the messages: every change is told as the text that was added,
//! or as how much of the text still stands and what follows it. A run that is followed again after a
//! restart begins with the text that the log has; it is matched with the transcript before anything is
//! told, and what the transcript has lost of it stays.

use super::{waiting::Waiting, words::GAP};
use crate::Update;

/// The name of a final message of which no event came.
const FINAL: &str = "final";

/// The messages of a run.
#[derive(Default)]
pub(super) struct Messages {
    parts: Vec<Part>,
    /// What the log shows, with what waits to be told.
    shown: String,
    /// Where the messages of the present attempt begin.
    attempt: usize,
    /// `shown` comes from the log, and it is not known yet which messages it is made of.
    is_unsorted: bool,
}

/// One message of the model.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// The name under which its events come; nothing for a text that only the log has.
    item: Option<String>,
    text: String,
    /// The transcript has it.
    is_written: bool,
}

impl Part {
    /// Whether this is the same message as one that is known to its end, heard as far as it was.
    fn is_of(&self, whole: &str) -> bool {
        whole.trim().starts_with(self.text.trim())
    }
}

impl Messages {
    /// The messages of a run of which the log has this text.
    pub(super) fn logged(text: String) -> Self {
        Self {
            shown: text,
            is_unsorted: true,
            ..Self::default()
        }
    }

    /// A message of the model, as far as it is.
    pub(super) fn say(&mut self, item: &str, text: &str, out: &mut Waiting) {
        let named = |part: &Part| part.item.as_deref() == Some(item);
        let known = self.parts.iter().rposition(named);
        let known = known.or_else(|| self.adopt(item, text));
        if let Some(at) = known
            && at + 1 == self.parts.len()
            && let Some(more) = text.strip_prefix(self.parts[at].text.as_str())
        {
            self.parts[at].text.push_str(more);
            if !self.is_unsorted && !more.is_empty() {
                self.shown.push_str(more);
                out.push(Update::Text(more.to_owned()));
            }
            return;
        }
        // A late word about a message that is known.
        if known.is_some_and(|at| self.parts[at].text == text) {
            return;
        }
        self.parts.truncate(known.unwrap_or(self.parts.len()));
        // A text of which only the log has the beginning goes on as it was, or was taken back.
        let is_open = |last: &Part| last.item.is_none() && !last.is_written;
        if known.is_none() && self.parts.last().is_some_and(is_open) {
            self.parts.pop();
        }
        if !text.is_empty() {
            self.parts.push(Part {
                item: Some(item.to_owned()),
                text: text.to_owned(),
                is_written: false,
            });
        }
        self.show(out);
    }

    /// Gives the message that ends a text of the log its name, if this is how it goes on.
    fn adopt(&mut self, item: &str, text: &str) -> Option<usize> {
        let last = self.parts.last().filter(|last| last.item.is_none())?;
        let at = beginnings(&last.text).find(|at| text.starts_with(&last.text[*at..]))?;
        let mut head = self.parts.pop()?;
        let tail = Part {
            item: Some(item.to_owned()),
            text: head.text.split_off(at),
            is_written: false,
        };
        if at > 0 {
            head.text.truncate(at - GAP.len());
            self.parts.push(head);
        }
        self.parts.push(tail);
        Some(self.parts.len() - 1)
    }

    /// The messages that the transcript has of this run, with their ids, to their ends: what was missed
    /// of them is said in its place, and what is not in it yet stays behind them.
    pub(super) fn recall(&mut self, rows: Vec<(String, String)>, out: &mut Waiting) {
        let unsorted = std::mem::take(&mut self.is_unsorted);
        let heard = std::mem::take(&mut self.parts);
        let mut rows: Vec<Option<(String, String)>> = rows.into_iter().map(Some).collect();
        let (mut next, mut later) = (0, vec![]);
        for part in heard {
            let is_row = |row: &Option<(String, String)>| {
                row.as_ref().is_some_and(|(_, text)| match unsorted {
                    // Heard since the restart alone, so to its end if it is in the transcript.
                    true => part.text.trim() == text.trim(),
                    false => part.is_of(text),
                })
            };
            let Some(found) = rows[next..].iter().position(is_row) else {
                later.push(part);
                continue;
            };
            self.parts.append(&mut later);
            for (at, row) in rows[next..=next + found].iter_mut().enumerate() {
                let Some((id, text)) = row.take() else {
                    continue;
                };
                let item = match at == found {
                    true => part.item.clone(),
                    false => Some(id),
                };
                self.parts.push(written(item, text));
            }
            next += found + 1;
        }
        let rest = rows.into_iter().flatten();
        self.parts
            .extend(rest.map(|(id, text)| written(Some(id), text)));
        self.parts.append(&mut later);
        if unsorted {
            self.match_log();
            self.attempt = self.parts.iter().take_while(|part| part.is_written).count();
        }
        self.show(out);
    }

    /// Keeps of the log's text what stands before the known messages, and what goes on behind them: a
    /// transcript is read only so far back, and loses what a run said when it is stopped.
    fn match_log(&mut self) {
        let known = self.joined();
        let fits = |at: &usize| {
            let tail = &self.shown[*at..];
            tail.starts_with(&known) || known.starts_with(tail)
        };
        let Some(at) = beginnings(&self.shown).find(fits) else {
            return;
        };
        let of_log = |text: &str, is_written| Part {
            item: None,
            text: text.to_owned(),
            is_written,
        };
        let behind = self.shown[at..].strip_prefix(known.as_str());
        match (
            behind.filter(|behind| !behind.is_empty()),
            self.parts.last_mut(),
        ) {
            (None, _) => {}
            (Some(behind), Some(last)) => match behind.strip_prefix(GAP) {
                Some(behind) => self.parts.push(of_log(behind, false)),
                None => last.text.push_str(behind),
            },
            (Some(behind), None) => self.parts.push(of_log(behind, false)),
        }
        if at > 0 {
            let before = of_log(&self.shown[..at - GAP.len()], true);
            self.parts.insert(0, before);
        }
    }

    /// The gateway took the run up after a restart, and goes on from the transcript: what the transcript
    /// does not have is said anew.
    pub(super) fn taken_up(&mut self, out: &mut Waiting) {
        self.parts.retain(|part| part.is_written);
        self.attempt = self.parts.len();
        self.show(out);
    }

    /// An attempt begins.
    pub(super) fn attempt_began(&mut self) {
        self.attempt = self.parts.len();
    }

    /// The present attempt failed: what it said is taken back.
    pub(super) fn attempt_failed(&mut self, out: &mut Waiting) {
        self.parts.truncate(self.attempt);
        self.show(out);
    }

    /// The final text, when the registry told it: shown too, if the events did not.
    pub(super) fn settle(&mut self, text: &str, out: &mut Waiting) {
        self.sort(out);
        if self.shown.trim_end().ends_with(text) {
            return;
        }
        // Its end was missed.
        let last = self.parts.last().filter(|part| part.is_of(text));
        let item = last.and_then(|part| part.item.clone());
        let item = item.as_deref().unwrap_or(FINAL);
        // What the log has may be another message, which stays.
        if self.adopt(item, text).is_none()
            && let Some(last) = self.parts.last_mut()
        {
            last.item.get_or_insert_default();
        }
        self.say(item, text, out);
    }

    /// Goes by the log alone, if the transcript was never read.
    fn sort(&mut self, out: &mut Waiting) {
        if self.is_unsorted {
            self.recall(vec![], out);
        }
    }

    /// The last message, as far as it was heard.
    pub(super) fn last(&self) -> Option<&str> {
        self.parts.last().map(|part| part.text.as_str())
    }

    /// Everything that is shown.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    fn joined(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().map(|part| part.text.as_str()).collect();
        texts.join(GAP)
    }

    /// Tells how what is shown becomes what the messages are now.
    fn show(&mut self, out: &mut Waiting) {
        if self.is_unsorted {
            return;
        }
        let wanted = self.joined();
        let mut stands = self.shown.len();
        if !wanted.starts_with(&self.shown) {
            // Whole messages are taken back, and not the letters in which two of them differ.
            stands = 0;
            let mut end = 0;
            for part in &self.parts {
                end += part.text.len();
                match self.shown.get(..end) {
                    Some(begins) if wanted.starts_with(begins) => stands = end,
                    _ => break,
                }
                end += GAP.len();
            }
            let keep = self.shown[..stands].chars().count() as u64;
            out.push(Update::Reset { keep });
        }
        if stands < wanted.len() {
            out.push(Update::Text(wanted[stands..].to_owned()));
        }
        self.shown = wanted;
    }
}

/// Where messages may begin in a text of several.
fn beginnings(text: &str) -> impl Iterator<Item = usize> {
    let behind_gaps = text.match_indices(GAP).map(|(at, gap)| at + gap.len());
    std::iter::once(0).chain(behind_gaps)
}

fn written(item: Option<String>, text: String) -> Part {
    Part {
        item,
        text,
        is_written: true,
    }
}
