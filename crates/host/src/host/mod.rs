//! The host's process.
//!
//! One thread, and tasks that share what they know ([`shared::Shared`]). Files are written where the work is: a
//! host has one agent, and nothing better to do than to wait for its disk.

mod agent;
mod end;
mod serve;
mod shared;
mod start;
mod stderr;

use std::{
    ffi::OsString, io::Write as _, path::PathBuf, process::ExitCode, rc::Rc, time::Duration,
};

use serde::{Deserialize, Serialize};
use threadline_files::complain;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::{JoinHandle, LocalSet, spawn_local},
};

use self::{shared::Shared, start::Host};
use crate::{EndCause, StartCode, exec, family::FamilyList, place::Place};

/// How often a host looks after itself, at most and at least.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// How often a host notes who descends from it: what slips away between two looks can be missed after a kill.
const NOTE_FAMILY_EVERY: Duration = Duration::from_millis(500);

/// How long an agent that has closed its output may take to end, as one that ends does.
const TO_END: Duration = Duration::from_secs(1);

/// What a host says on its standard output, once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    Ready,
    Failed { code: StartCode, message: String },
}

/// The host's process: `--state FOLDER`, with a [`Spec`](crate::Spec) as JSON on its standard input.
/// It calls itself in a second form, `--exec PID PROGRAM ARGUMENT…`, to become the agent.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let word = |at: usize| args.get(at).and_then(|word| word.to_str());
    match (word(0), args.get(1)) {
        (Some("--state"), Some(folder)) if args.len() == 2 => host(PathBuf::from(folder)),
        (Some("--exec"), Some(_)) => match word(1).and_then(|pid| pid.parse().ok()) {
            Some(pid) => exec::run(pid, args.get(2..).unwrap_or_default()),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    complain!("This command is part of Threadline itself: the bridge starts it for each agent.");
    ExitCode::from(2)
}

fn host(folder: PathBuf) -> ExitCode {
    // A terminal that closes, or a Ctrl-C in it, is the bridge's concern. Fails only for who leads a
    // group already.
    let _ = rustix::process::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => {
            report(&Report::Failed {
                code: StartCode::Failed,
                message: format!("The host's runtime could not be started ({e})."),
            });
            return ExitCode::FAILURE;
        }
    };
    LocalSet::new().block_on(&runtime, live(Place::at(folder)))
}

async fn live(place: Place) -> ExitCode {
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(e) => {
            report(&Report::Failed {
                code: StartCode::Failed,
                message: format!("Signals cannot be heard ({e})."),
            });
            return ExitCode::FAILURE;
        }
    };
    match start::start(place) {
        Ok(host) => {
            report(&Report::Ready);
            host.live(signals).await
        }
        Err((code, message)) => {
            report(&Report::Failed { code, message });
            ExitCode::FAILURE
        }
    }
}

/// Whoever started the host may have gone away; that is no reason to end.
fn report(report: &Report) {
    let mut out = std::io::stdout().lock();
    let _ = out
        .write_all(&crate::wire::line(report))
        .and_then(|()| out.flush());
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    child: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            child: signal(SignalKind::child())?,
        })
    }
}

impl Host {
    async fn live(mut self, mut signals: Signals) -> ExitCode {
        let shared = Rc::clone(&self.shared);
        let pipes = self.agent.pipes.take();
        let Some(pipes) = pipes else {
            return ExitCode::FAILURE;
        };
        let clone = || Rc::clone(&shared);
        let output = whole(&shared, agent::listen(clone(), pipes.output));
        let input = whole(&shared, agent::speak(clone(), pipes.input));
        let errors = whole(&shared, agent::keep_errors(clone(), pipes.errors));
        let doors = whole(&shared, serve::accept(clone(), self.listener.take()));
        let cause = self.wait(&mut signals).await;
        self.end(
            cause,
            &mut signals,
            Tasks {
                output,
                input,
                errors,
                doors,
            },
        )
        .await
    }

    /// Until there is a reason to end.
    async fn wait(&mut self, signals: &mut Signals) -> EndCause {
        let (least, most) = LOOK_AGAIN;
        let mut look = tokio::time::interval((self.idle / 4).clamp(least, most));
        let mut note = tokio::time::interval(NOTE_FAMILY_EVERY);
        note.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut family = FamilyList::in_folder(self.place.folder());
        let mut asked = self.shared.end.subscribe();
        let shared = Rc::clone(&self.shared);
        let mute = async move {
            shared.mute.notified().await;
            tokio::time::sleep(TO_END).await;
        };
        tokio::pin!(mute);
        loop {
            tokio::select! {
                _ = signals.terminate.recv() => return EndCause::Terminated,
                _ = signals.interrupt.recv() => return EndCause::Terminated,
                _ = signals.hangup.recv() => {}
                _ = signals.child.recv() => {
                    self.agent.reap();
                    if self.agent.status.is_some() {
                        return EndCause::Exited;
                    }
                }
                () = &mut mute => return EndCause::Mute,
                _ = note.tick() => family.note(),
                _ = look.tick() => {
                    if !self.place.lock().exists() {
                        return EndCause::Abandoned;
                    }
                    if self.shared.idle_for() >= self.idle {
                        return EndCause::Idle;
                    }
                    self.shared.answer_unattended();
                    self.shared.sync();
                }
                _ = asked.changed() => {
                    let cause = *asked.borrow_and_update();
                    if let Some(cause) = cause {
                        return cause;
                    }
                }
            }
        }
    }
}

/// Begins a task. One that breaks ends the host: half a host would keep its agent, and tell nothing of it.
fn whole(shared: &Rc<Shared>, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    struct Broken(Rc<Shared>);
    impl Drop for Broken {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.end(EndCause::Broken);
            }
        }
    }
    let broken = Broken(Rc::clone(shared));
    spawn_local(async move {
        let _broken = broken;
        task.await;
    })
}

/// What goes on beside the host's own waiting.
struct Tasks {
    output: JoinHandle<()>,
    input: JoinHandle<()>,
    errors: JoinHandle<()>,
    doors: JoinHandle<()>,
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;
