//! What a bridge can do to an agent.

use tokio::sync::{mpsc, oneshot};

use super::connect::{Connection, unreachable};
use crate::{
    Frame, HostError, ProcessId, State,
    place::Place,
    wire::{FromHost, ToHost},
};

/// Commands that may wait for the host.
const WAITING_MOST: usize = 64;

/// A frame that was taken for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its entry in the journal.
    pub no: u64,
    /// It had been handed in before, and does not go to the agent again.
    pub again: bool,
}

/// What a bridge can do to an agent. Clones share one connection, and commands go out in order, also when
/// whoever gave them no longer waits.
#[derive(Clone, Debug)]
pub struct Control {
    commands: mpsc::Sender<Command>,
    host: ProcessId,
}

type Answer = Result<FromHost, HostError>;

struct Command {
    message: ToHost,
    /// Nobody waits for the answer to an acknowledgement: there is none.
    answer: Option<oneshot::Sender<Answer>>,
}

impl Control {
    pub(super) async fn open(
        place: &Place,
        state: &State,
        lease: Option<u64>,
    ) -> Result<Self, HostError> {
        let (mut connection, hello) = Connection::open(place).await?;
        if hello.boot != state.boot {
            return Err(HostError::Gone);
        }
        connection.say(&ToHost::Control { lease }).await?;
        let (commands, queue) = mpsc::channel(WAITING_MOST);
        tokio::spawn(carry(connection, queue));
        Ok(Self {
            commands,
            host: state.host.clone(),
        })
    }

    /// Hands in a frame for the agent, under a name: handed in again under the same name, it is not
    /// given to the agent again. Once this returns it is in the journal.
    pub async fn send(&self, key: &str, frame: &Frame) -> Result<Sent, HostError> {
        let message = ToHost::Send {
            key: key.to_owned(),
            frame: frame.clone(),
        };
        match self.ask(message).await? {
            FromHost::Sent { no, again } => Ok(Sent { no, again }),
            _ => Err(unreachable("it is not understood".into())),
        }
    }

    /// Says that everything up to this entry is in the bridge's own keeping, so that the host can let go
    /// of it and the agent may go on. To a host that is gone it means nothing; [`Frames`](crate::Frames) tell
    /// what became of it.
    pub async fn ack(&self, no: u64) {
        let command = Command {
            message: ToHost::Ack { no },
            answer: None,
        };
        let _ = self.commands.send(command).await;
    }

    /// Asks the host to end, and its agent with it. The end comes as an entry.
    pub async fn stop(&self) -> Result<(), HostError> {
        match self.ask(ToHost::Stop).await? {
            FromHost::Stopping => Ok(()),
            _ => Err(unreachable("it is not understood".into())),
        }
    }

    async fn ask(&self, message: ToHost) -> Answer {
        let (answer, answered) = oneshot::channel();
        let command = Command {
            message,
            answer: Some(answer),
        };
        self.commands.send(command).await.map_err(|_| self.gone())?;
        match answered.await {
            Ok(Err(HostError::Unreachable { .. })) | Err(_) => Err(self.gone()),
            Ok(answer) => answer,
        }
    }

    fn gone(&self) -> HostError {
        match self.host.is_alive() {
            true => unreachable("the connection broke".into()),
            false => HostError::Gone,
        }
    }
}

async fn carry(mut connection: Connection, mut queue: mpsc::Receiver<Command>) {
    while let Some(command) = queue.recv().await {
        let Some(answer) = command.answer else {
            if connection.say(&command.message).await.is_err() {
                return;
            }
            continue;
        };
        let answered = connection.ask(&command.message).await;
        let is_broken = matches!(answered, Err(HostError::Unreachable { .. }));
        let _ = answer.send(answered);
        if is_broken {
            return;
        }
    }
}
