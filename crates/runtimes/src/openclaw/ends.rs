//! The ends that a run can have, as they are told.

use threadline_contract::Code;

use super::{
    story::{LastState, LastWord},
    words::sentence,
};
use crate::{End, EndStatus};

/// It did what it was asked to.
pub(super) fn completed(text: Option<String>) -> End {
    End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text,
        usage: None,
        wrote: vec![],
    }
}

/// It was stopped.
pub(super) fn cancelled() -> End {
    End {
        status: EndStatus::Cancelled,
        ..completed(None)
    }
}

/// It failed, and the gateway says why.
pub(super) fn failed(why: &str) -> End {
    End::failed(Code::ExecutionFailed, sentence(why))
}

/// The gateway restarted with the turn in its hands, and did not take it up.
pub(super) fn lost() -> End {
    End::failed(
        Code::RunLost,
        "The OpenClaw gateway restarted before it worked on this turn, and did not take it up again. Send it again.",
    )
}

/// The end that a terminal event tells.
pub(super) fn said(word: &LastWord) -> End {
    let status = match word.state {
        LastState::Final => EndStatus::Completed,
        LastState::Error => EndStatus::Failed,
        LastState::Aborted => EndStatus::Cancelled,
    };
    let message = word.message.as_deref().map(sentence);
    End {
        status,
        code: (status == EndStatus::Failed).then_some(Code::ExecutionFailed),
        message: message.filter(|_| status == EndStatus::Failed),
        text: word.text.clone(),
        usage: None,
        wrote: vec![],
    }
}
