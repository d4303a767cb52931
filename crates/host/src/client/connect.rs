//! A connection to a host.

use std::{os::unix::net::UnixStream as Blocking, time::Duration};

use threadline_files::lines::{Line, Lines};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use crate::{
    Hello, HostError, RefusalCode, VERSION,
    place::Place,
    wire::{FromHost, LONGEST_LINE, STRAY_HEAD, ToHost, line},
};

/// How long a host may take to answer. It waits for nobody but its disk.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Connection {
    stream: UnixStream,
    lines: Lines,
    chunk: Vec<u8>,
}

impl Connection {
    /// Connects, and hears who is there.
    pub(super) async fn open(place: &Place) -> Result<(Self, Hello), HostError> {
        let place = place.clone();
        let connecting = tokio::task::spawn_blocking(move || {
            place.with_socket(|path| {
                let stream = Blocking::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(stream)
            })
        });
        let stream = timeout(PATIENCE, connecting)
            .await
            .map_err(|_| silent())?
            .map_err(|e| unreachable(e.to_string()))?
            .map_err(|e| unreachable(e.to_string()))?;
        let stream = UnixStream::from_std(stream).map_err(|e| unreachable(e.to_string()))?;
        let mut connection = Self {
            stream,
            lines: Lines::new(LONGEST_LINE, STRAY_HEAD),
            chunk: vec![0; 32 * 1024],
        };
        match connection.ask(&ToHost::Hello { version: VERSION }).await? {
            FromHost::Hello(hello) if hello.version == VERSION => Ok((connection, hello)),
            FromHost::Hello(hello) => Err(HostError::Version {
                host: hello.version,
            }),
            _ => Err(unreachable("it said no hello".into())),
        }
    }

    /// Says something and waits for the answer.
    pub(super) async fn ask(&mut self, message: &ToHost) -> Result<FromHost, HostError> {
        self.say(message).await?;
        let answer = timeout(PATIENCE, self.hear())
            .await
            .map_err(|_| silent())??;
        match answer {
            Some(FromHost::Refused(refusal)) => Err(match refusal.code {
                RefusalCode::Replaced => HostError::Replaced,
                _ => HostError::Refused(refusal),
            }),
            Some(answer) => Ok(answer),
            None => Err(unreachable("it closed the connection".into())),
        }
    }

    pub(super) async fn say(&mut self, message: &ToHost) -> Result<(), HostError> {
        let sent = timeout(PATIENCE, self.stream.write_all(&line(message))).await;
        sent.map_err(|_| silent())?
            .map_err(|e| unreachable(e.to_string()))
    }

    /// The next message; nothing when the host has closed the connection. What was read is kept when
    /// this is dropped while it waits.
    pub(super) async fn hear(&mut self) -> Result<Option<FromHost>, HostError> {
        loop {
            match self.lines.next_line() {
                Some(Line::Whole(text)) => {
                    return serde_json::from_slice(&text)
                        .map(Some)
                        .map_err(|e| unreachable(format!("it is not understood ({e})")));
                }
                Some(_) => return Err(unreachable("it said more than is allowed".into())),
                None => {}
            }
            match self.stream.read(&mut self.chunk).await {
                Ok(0) => return Ok(None),
                Ok(got) => self.lines.push(self.chunk.get(..got).unwrap_or_default()),
                // A host that was killed resets what it had not read.
                Err(_) => return Ok(None),
            }
        }
    }
}

pub(super) fn unreachable(why: String) -> HostError {
    HostError::Unreachable { why }
}

fn silent() -> HostError {
    unreachable("it took too long".into())
}
