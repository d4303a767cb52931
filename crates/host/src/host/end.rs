//! How a host ends: nobody is left, everything is written, and the bridge knows.

use std::{process::ExitCode, time::Duration};

use rustix::process::Signal;
use threadline_files::complain;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Signals, Tasks, start::Host};
use crate::{EndCause, Ended};

/// How long the agent and what it started have to end by themselves.
const TO_END: Duration = Duration::from_millis(800);
/// How long they may take to be gone once they are killed.
const TO_DIE: Duration = Duration::from_millis(500);
/// How long the last words may take: out of the pipe, and to the bridge.
const LAST_WORDS: Duration = Duration::from_millis(250);

impl Host {
    pub(super) async fn end(
        mut self,
        cause: EndCause,
        signals: &mut Signals,
        tasks: Tasks,
    ) -> ExitCode {
        // Nothing new from now on: no connection, no frame for the agent, and its input ends.
        self.shared.end(cause);
        tasks.doors.abort();
        tasks.input.abort();
        self.agent.signal(Signal::TERM);
        // One that is stopped cannot hear that it should end.
        self.agent.signal(Signal::CONT);
        let is_clean = self.gone(signals, TO_END, None).await
            || self.gone(signals, TO_DIE, Some(Signal::KILL)).await;
        // With the last writer gone the pipes end.
        self.shared.drain();
        let deadline = Instant::now() + LAST_WORDS;
        if timeout_at(deadline, tasks.output).await.is_err() {
            complain!("Somebody still holds the agent's output open");
        }
        let _ = timeout_at(deadline, tasks.errors).await;
        let ended = Ended {
            cause,
            status: self.agent.status.and_then(|status| status.exit_status()),
            signal: self
                .agent
                .status
                .and_then(|status| status.terminating_signal()),
            stderr: self.shared.errors.borrow().tail(),
        };
        let last = self.shared.write_end(&ended);
        let deadline = Instant::now() + LAST_WORDS;
        while !self.shared.all_delivered() && Instant::now() < deadline {
            sleep(Duration::from_millis(2)).await;
        }
        self.state.ended = Some(ended);
        self.state.last = Some(last);
        let written = self.place.write_state(&self.state);
        if let Err(e) = &written
            && cause != EndCause::Abandoned
        {
            complain!("How the host ended could not be written: {e}");
        }
        // Only names; whoever comes next does without them. The socket stays where something would not die, so
        // that it is looked for again.
        if is_clean {
            let _ = self.place.remove_socket();
        }
        let _ = std::fs::remove_file(&self.folder_lock);
        ExitCode::SUCCESS
    }

    /// Waits until nothing that descends from us is left.
    async fn gone(
        &mut self,
        signals: &mut Signals,
        patience: Duration,
        kill: Option<Signal>,
    ) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            self.agent.reap();
            if self.agent.all_gone {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            if let Some(signal) = kill {
                // Again and again: one that was just being started was not there the last time.
                self.agent.signal(signal);
            }
            tokio::select! {
                _ = signals.child.recv() => {}
                () = sleep(Duration::from_millis(10)) => {}
            }
        }
    }
}
