//! Ending what killed hosts left running. A host that ends by itself leaves nothing, and says so by removing its
//! socket; only of those that did not, anything is read.

use std::{path::PathBuf, time::Duration};

use threadline_files::Lock;

use super::hosts::{Hosts, blocking, held, places};
use crate::{
    CleanedUp, HostError, State,
    leftovers::{DeadHost, end_leftovers, left_behind},
    place::{Place, now},
    procs,
};

/// How long what is killed may take to be gone.
const TO_DIE: Duration = Duration::from_secs(2);
/// Dead hosts that are looked after with one look at all processes: each costs an open file.
const MAX_HOSTS_AT_ONCE: usize = 64;

/// What came of looking after all dead hosts.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Those that had not been looked after before.
    pub swept: Vec<Swept>,
    /// Hosts that are alive.
    pub alive: Vec<State>,
    /// Folders of hosts that may have left something and cannot be read, and why.
    pub unreadable: Vec<(PathBuf, HostError)>,
}

/// A dead host whose leftovers were looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The session.
    pub session: String,
    /// How many processes were left and had to be killed.
    pub killed: usize,
    /// Whether nothing is left now. If so, it is not looked after again.
    pub clean: bool,
}

impl Hosts {
    /// Ends what hosts left running that were killed. To be done before anything else uses their folders.
    pub async fn sweep(&self) -> Result<Sweep, HostError> {
        let _only_one = self.sweeping.lock().await;
        let root = self.root.clone();
        blocking(move || sweep(places(&root)?)).await
    }

    /// The same for a session whose host may have been killed: costs nothing where it was not. Where it was,
    /// all others are looked after with it, so that many that were killed at once cost one look.
    pub async fn sweep_session(&self, session: &str) -> Result<Option<Swept>, HostError> {
        let _only_one = self.sweeping.lock().await;
        let (root, place) = (self.root.clone(), self.place(session));
        let swept = blocking(move || match needs_sweep(&place)? {
            Some(_) => sweep(places(&root)?),
            None => Ok(Sweep::default()),
        });
        let all = swept.await?.swept;
        Ok(all.into_iter().find(|swept| swept.session == session))
    }

    /// What dead hosts have left running, by session: nothing, unless one was killed and nobody has swept
    /// since. Nothing is touched.
    pub async fn left(&self) -> Result<Vec<(String, usize)>, HostError> {
        let root = self.root.clone();
        blocking(move || {
            let places = places(&root)?;
            let dead: Vec<(State, &Place)> = places
                .iter()
                .filter_map(|place| Some((needs_sweep(place).ok().flatten()?, place)))
                .collect();
            let hosts = dead
                .iter()
                .map(|(state, place)| DeadHost::new(state, place));
            let hosts: Vec<DeadHost<'_>> = hosts.collect();
            let left = left_behind(&hosts).into_iter().map(|left| left.len());
            let sessions = dead.iter().map(|(state, _)| state.session.clone());
            Ok(sessions.zip(left).filter(|(_, left)| *left > 0).collect())
        })
        .await
    }
}

/// How a host stands that has not ended as it should.
enum Present {
    Alive(State),
    /// It is gone, and may have left something.
    Dead(State),
}

fn look(place: &Place) -> Result<Option<Present>, HostError> {
    if !place.has_socket() {
        return Ok(None);
    }
    let state = place.read_state()?;
    Ok(state.and_then(|state| match state.host.is_alive() {
        true => Some(Present::Alive(state)),
        false if state.cleaned_up.is_none() => Some(Present::Dead(state)),
        false => None,
    }))
}

/// The state of a host that is gone and may have left something.
fn needs_sweep(place: &Place) -> Result<Option<State>, HostError> {
    Ok(match look(place)? {
        Some(Present::Dead(state)) => Some(state),
        Some(Present::Alive(_)) | None => None,
    })
}

/// A dead host that nobody can start again meanwhile.
struct Held {
    place: Place,
    state: State,
    _lock: Lock,
}

fn sweep(places: Vec<Place>) -> Result<Sweep, HostError> {
    let mut done = Sweep::default();
    let mut dead = Vec::new();
    let system = procs::system();
    for place in places {
        let held = match look(&place) {
            Ok(Some(Present::Alive(state))) => {
                done.alive.push(state);
                continue;
            }
            Ok(Some(Present::Dead(_))) => hold(&place),
            Ok(None) => continue,
            Err(e) => Err(e),
        };
        match held {
            Ok(Some(held)) => match held.state.is_clean(system) {
                // The system was started anew since, so nothing of it can be left.
                true => _ = held.place.remove_socket(),
                false => dead.push(held),
            },
            Ok(None) => {}
            Err(e) => done.unreadable.push((place.folder().to_owned(), e)),
        }
        if dead.len() >= MAX_HOSTS_AT_ONCE {
            done.swept.extend(end_all(std::mem::take(&mut dead)));
        }
    }
    done.swept.extend(end_all(dead));
    Ok(done)
}

fn hold(place: &Place) -> Result<Option<Held>, HostError> {
    // So that no new host begins meanwhile and is taken for something that was left.
    let Some(lock) = held(place)? else {
        return Ok(None);
    };
    // One may have begun and ended before the lock was had.
    Ok(needs_sweep(place)?.map(|state| Held {
        place: place.clone(),
        state,
        _lock: lock,
    }))
}

fn end_all(dead: Vec<Held>) -> Vec<Swept> {
    let hosts = dead.iter();
    let hosts = hosts.map(|held| DeadHost::new(&held.state, &held.place));
    let hosts: Vec<DeadHost<'_>> = hosts.collect();
    let killed = end_leftovers(&hosts, TO_DIE);
    let done = dead.iter().zip(killed);
    done.map(|(held, killed)| {
        if let Some(killed) = killed {
            remember(held, killed);
        }
        Swept {
            session: held.state.session.clone(),
            killed: killed.unwrap_or_default(),
            clean: killed.is_some(),
        }
    })
    .collect()
}

/// Notes that nothing is left. Where that cannot be written, it is looked for again, to no harm.
fn remember(held: &Held, killed: usize) {
    match held.state.ended {
        Some(_) => _ = held.place.remove_socket(),
        None => {
            let cleaned_up = Some(CleanedUp { at: now(), killed });
            let state = State {
                cleaned_up,
                ..held.state.clone()
            };
            _ = held.place.write_state(&state);
        }
    }
}
