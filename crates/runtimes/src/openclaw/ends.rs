//! How runs end, in words.

use threadline_contract::Code;

use super::{
    reply::Reply,
    story::{LastState, LastWord},
    words::sentence,
};
use crate::{End, EndStatus};

/// A run's end, as one witness tells it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) end: End,
    /// When it ended, by the gateway's clock.
    pub(super) at: Option<i64>,
    /// The witness does not tell all of the text.
    pub(super) is_cut: bool,
    /// What the gateway says about why it was stopped.
    pub(super) stop: Option<Stop>,
}

/// What the gateway did to a run that it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It deleted the session.
    Deleted,
    /// It reset the session.
    Reset,
    /// Somebody who cancelled it gave this reason.
    Reason(String),
}

impl From<End> for Told {
    fn from(end: End) -> Self {
        Self {
            end,
            at: None,
            is_cut: false,
            stop: None,
        }
    }
}

impl Told {
    /// With the time at which it ended.
    pub(super) fn at(self, at: Option<i64>) -> Self {
        Self { at, ..self }
    }

    /// With this as its text.
    pub(super) fn replying(mut self, reply: Reply) -> Self {
        self.is_cut = reply.is_cut;
        self.end.text = Some(reply.text);
        self
    }
}

/// It did what it was asked to, and answered this.
pub(super) fn completed(reply: Option<Reply>) -> Told {
    let ended = Told::from(End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text: None,
        usage: None,
        wrote: vec![],
    });
    match reply {
        Some(reply) => ended.replying(reply),
        None => ended,
    }
}

/// It was stopped.
pub(super) fn cancelled() -> Told {
    let ended = completed(None);
    Told {
        end: End {
            status: EndStatus::Cancelled,
            ..ended.end
        },
        ..ended
    }
}

/// It was stopped, and this is known about why.
pub(super) fn stopped(stop: Stop) -> Told {
    Told {
        stop: Some(stop),
        ..cancelled()
    }
}

/// What is said of a run that somebody stopped at the gateway, and not through us.
pub(super) fn stopped_at_gateway(stop: Option<&Stop>) -> String {
    let said = "Somebody stopped the run at the OpenClaw gateway.";
    match stop {
        None => said.to_owned(),
        Some(Stop::Deleted) => format!("{said} Its session was deleted there."),
        Some(Stop::Reset) => format!("{said} Its conversation was reset there."),
        Some(Stop::Reason(reason)) => format!("{said} The reason given: {}", sentence(reason)),
    }
}

/// It failed, and the gateway says why.
pub(super) fn failed(why: &str) -> Told {
    End::failed(Code::ExecutionFailed, sentence(why)).into()
}

/// The gateway restarted with the turn in its hands, and did not take it up.
pub(super) fn lost() -> Told {
    let end = End::failed(
        Code::RunLost,
        "The OpenClaw gateway restarted before it worked on this turn, and did not take it up again. Send it again.",
    );
    end.into()
}

/// The end that a terminal event tells.
pub(super) fn said(word: &LastWord) -> Told {
    match word.state {
        LastState::Final => completed(word.reply.clone()),
        LastState::Error => Told::from(End {
            status: EndStatus::Failed,
            code: Some(Code::ExecutionFailed),
            message: word.message.as_deref().map(sentence),
            ..completed(None).end
        }),
        LastState::Aborted => match word.stop_reason.as_deref() {
            Some(DELETED) => stopped(Stop::Deleted),
            _ => cancelled(),
        },
    }
}

/// The gateway's word for a run that was stopped because its session was deleted.
pub(super) const DELETED: &str = "delete";
/// Its word for one that it broke off because it stops, or because its session was reset.
pub(super) const BROKEN_OFF: &str = "restart";
