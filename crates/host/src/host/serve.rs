//! Bridges at the socket.

use std::{rc::Rc, time::Duration};

use threadline_files::{
    complain,
    lines::{Line, Lines},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    time::timeout,
};

use super::{shared::Shared, whole};
use crate::{
    EndCause, HostError, Refusal, RefusalCode, VERSION,
    segments::Cursor,
    wire::{FromHost, LONGEST_LINE, Passing, STRAY_HEAD, ToHost, line},
};

/// Connections at a time. A bridge needs two.
const DOORS: usize = 16;
/// How long whoever connects may take to say what it wants.
const FIRST_WORDS: Duration = Duration::from_secs(5);

pub(super) async fn accept(shared: Rc<Shared>, listener: Option<UnixListener>) {
    let Some(listener) = listener else {
        return;
    };
    let doors = Rc::new(());
    loop {
        match listener.accept().await {
            Ok((stream, _)) if Rc::strong_count(&doors) <= DOORS && is_ours(&stream) => {
                let (shared, door) = (Rc::clone(&shared), Rc::clone(&doors));
                whole(&Rc::clone(&shared), async move {
                    Connection::new(stream).serve(&shared).await;
                    drop(door);
                });
            }
            // Closed at once.
            Ok(_) => {}
            Err(e) => {
                complain!("A connection could not be taken: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The folder keeps other users out; this is for a folder that somebody opened up.
fn is_ours(stream: &UnixStream) -> bool {
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == threadline_files::user())
}

struct Connection {
    stream: UnixStream,
    lines: Lines,
    chunk: Vec<u8>,
}

impl Connection {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            lines: Lines::new(LONGEST_LINE, STRAY_HEAD),
            chunk: vec![0; 8 * 1024],
        }
    }

    async fn serve(mut self, shared: &Shared) {
        let Ok(Some(Ok(ToHost::Hello { version }))) = timeout(FIRST_WORDS, self.read()).await
        else {
            return;
        };
        if version != VERSION {
            let message = format!("This host speaks version {VERSION}.");
            let refusal = Refusal::new(RefusalCode::Version, message);
            // The version is in the hello, too, for whoever can read it.
            self.say(&FromHost::Hello(shared.hello())).await;
            self.say(&FromHost::Refused(refusal)).await;
            return;
        }
        if !self.say(&FromHost::Hello(shared.hello())).await {
            return;
        }
        match timeout(FIRST_WORDS, self.read()).await {
            Ok(Some(Ok(ToHost::Attach { boot, after }))) => match shared.attach(&boot, after) {
                Ok((lease, cursor)) => {
                    self.stream_from(shared, lease, cursor).await;
                    shared.detach(lease);
                }
                Err(refusal) => _ = self.say(&FromHost::Refused(refusal)).await,
            },
            Ok(Some(Ok(ToHost::Control { lease }))) => self.control(shared, lease).await,
            Ok(Some(_)) => _ = self.say(&FromHost::Refused(not_understood())).await,
            Ok(None) | Err(_) => {}
        }
    }

    /// Entries go out as they come, until the bridge goes away or another one takes over.
    async fn stream_from(mut self, shared: &Shared, lease: u64, cursor: Cursor<Passing>) {
        if !self.say(&FromHost::Attached { lease }).await {
            return;
        }
        let (mut reader, mut writer) = self.stream.into_split();
        let mut leases = shared.lease.subscribe();
        let sending = async {
            if let Err(e) = send_entries(shared, lease, cursor, &mut writer).await {
                complain!("Entries cannot be handed over: {e}");
                let refusal = Refusal::new(RefusalCode::Gap, e.to_string());
                // Nothing can be done for who does not even hear this.
                let _ = writer.write_all(&line(&FromHost::Refused(refusal))).await;
            }
        };
        let leaving = async {
            let mut nothing = [0; 64];
            while matches!(reader.read(&mut nothing).await, Ok(got) if got > 0) {}
        };
        tokio::select! {
            () = sending => {}
            () = leaving => {}
            _ = leases.wait_for(|now| *now != lease) => {}
        }
    }

    async fn control(mut self, shared: &Shared, lease: Option<u64>) {
        while let Some(asked) = self.read().await {
            let is_heard = lease == Some(*shared.lease.borrow());
            let answer = match asked {
                Ok(ToHost::Stop) => {
                    shared.end(EndCause::Stopped);
                    Some(FromHost::Stopping)
                }
                // Never answered. From one that is no longer heard it means nothing.
                Ok(ToHost::Ack { .. }) if !is_heard => None,
                Ok(ToHost::Ack { no }) => match shared.ack(no) {
                    Ok(()) => None,
                    // One that keeps what was never written has lost its way: it must attach anew.
                    Err(_) => return,
                },
                Ok(ToHost::Send { .. }) if !is_heard => Some(FromHost::Refused(Refusal::new(
                    RefusalCode::Replaced,
                    "Another bridge has attached.",
                ))),
                Ok(ToHost::Send { key, frame }) => Some(match shared.send(&key, frame) {
                    Ok((no, again)) => FromHost::Sent { no, again },
                    Err(refusal) => FromHost::Refused(refusal),
                }),
                Ok(_) => Some(FromHost::Refused(not_understood())),
                Err(refusal) => Some(FromHost::Refused(refusal)),
            };
            if let Some(answer) = answer
                && !self.say(&answer).await
            {
                return;
            }
        }
    }

    /// The next message, or why it is none; nothing when the other side has gone away.
    async fn read(&mut self) -> Option<Result<ToHost, Refusal>> {
        loop {
            match self.lines.next_line() {
                Some(Line::Whole(text)) => {
                    return Some(serde_json::from_slice(&text).map_err(|e| {
                        Refusal::new(RefusalCode::BadMessage, format!("Not understood: {e}."))
                    }));
                }
                Some(_) => return Some(Err(not_understood())),
                None => {}
            }
            match self.stream.read(&mut self.chunk).await {
                Ok(0) | Err(_) => return None,
                Ok(got) => self.lines.push(self.chunk.get(..got).unwrap_or_default()),
            }
        }
    }

    async fn say(&mut self, message: &FromHost) -> bool {
        self.stream.write_all(&line(message)).await.is_ok()
    }
}

/// Reads the journal behind its writer: a bridge that takes its time costs a cursor, not a buffer.
async fn send_entries(
    shared: &Shared,
    lease: u64,
    mut cursor: Cursor<Passing>,
    writer: &mut tokio::net::unix::OwnedWriteHalf,
) -> Result<(), HostError> {
    let mut last = shared.last.subscribe();
    loop {
        last.borrow_and_update();
        while let Some(entry) = cursor.read()? {
            let no = entry.no;
            let entry = entry
                .shortened()
                .map_err(|e| HostError::io("An entry", e.into()))?;
            if writer.write_all(&entry.line()).await.is_err() {
                return Ok(());
            }
            shared.delivered(lease, no);
        }
        if last.changed().await.is_err() {
            return Ok(());
        }
    }
}

fn not_understood() -> Refusal {
    Refusal::new(RefusalCode::BadMessage, "Not understood.")
}
