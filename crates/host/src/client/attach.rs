//! Taking up an agent where the last bridge left it.

use super::{
    Control, Frames,
    connect::{Connection, unreachable},
};
use crate::{
    Hello, HostError, RefusalCode, State,
    place::Place,
    wire::{FromHost, ToHost},
};

/// An agent that can be heard and talked to.
#[derive(Debug)]
pub struct Attached {
    /// How the host stood at that moment.
    pub hello: Hello,
    /// What is said, from the entry that was asked for.
    pub frames: Frames,
    /// What can be done.
    pub control: Control,
}

pub(super) async fn attach(place: &Place, state: State, after: u64) -> Result<Attached, HostError> {
    let (mut stream, hello) = Connection::open(place).await?;
    let asked = ToHost::Attach {
        boot: state.boot.clone(),
        after,
    };
    let lease = match stream.ask(&asked).await {
        Ok(FromHost::Attached { lease }) => lease,
        Ok(_) => return Err(unreachable("it is not understood".into())),
        Err(HostError::Refused(refusal)) if refusal.code == RefusalCode::OtherBoot => {
            return Err(HostError::Gone);
        }
        Err(HostError::Refused(refusal)) if refusal.code == RefusalCode::Gap => {
            return Err(HostError::Gap {
                expected: after + 1,
                found: Some(hello.first),
            });
        }
        Err(e) => return Err(e),
    };
    let control = Control::open(place, &state, Some(lease)).await?;
    Ok(Attached {
        hello,
        frames: Frames::live(stream, place.clone(), state, after),
        control,
    })
}
