//! Whose a session, a run, a log or a question is.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    AccountId, AgentId, AppThreadKey, BuildId, SessionKey, TaskId,
    ids::{BadId, is_short_id},
};

/// The owner of sessions, runs, logs and questions. Its text is the same in the databases, in a log's name and
/// for a gateway's plugin: `thread:<key>`, `board:<task>:<agent>:v<n>`, `board:base:<agent>`, `build:<build>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// An app's thread.
    Thread(AppThreadKey),
    /// An agent's work on a task of the board.
    TaskAgent {
        /// The task.
        task: TaskId,
        /// The agent.
        agent: AgentId,
        /// How often the work was begun: a task that is reopened gets new sessions.
        generation: u32,
    },
    /// What an agent of the board does apart from tasks.
    Base {
        /// The agent.
        agent: AgentId,
    },
    /// A build.
    Build {
        /// The build.
        build: BuildId,
    },
}

/// Why a text names no owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOwner {
    /// It has none of the four forms.
    #[error("`{0}` is not an owner")]
    Form(String),
    /// A part of it is not the id that it should be.
    #[error(transparent)]
    Id(#[from] BadId),
}

impl Owner {
    /// The thread, where it is one.
    pub const fn thread(&self) -> Option<&AppThreadKey> {
        match self {
            Self::Thread(key) => Some(key),
            Self::TaskAgent { .. } | Self::Base { .. } | Self::Build { .. } => None,
        }
    }

    /// How it is named where only threads have names: the key of a thread, the text of any other. No
    /// thread begins with such a name ([`is_reserved_thread`]).
    pub fn app_thread_key(&self) -> AppThreadKey {
        match self {
            Self::Thread(key) => key.clone(),
            other => AppThreadKey::of_owner(other),
        }
    }

    /// Whether a question stays open when the run that asked it has ended: the answer to a build is a
    /// turn of its own.
    pub const fn questions_outlive_runs(&self) -> bool {
        matches!(self, Self::Build { .. })
    }
}

impl From<AppThreadKey> for Owner {
    fn from(key: AppThreadKey) -> Self {
        Self::Thread(key)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(key) => write!(f, "thread:{key}"),
            Self::TaskAgent {
                task,
                agent,
                generation,
            } => write!(f, "board:{task}:{agent}:v{generation}"),
            Self::Base { agent } => write!(f, "board:base:{agent}"),
            Self::Build { build } => write!(f, "build:{build}"),
        }
    }
}

impl FromStr for Owner {
    type Err = BadOwner;
    fn from_str(text: &str) -> Result<Self, BadOwner> {
        let bad = || BadOwner::Form(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let owner = match (kind, parts.as_slice()) {
            ("thread", _) => Self::Thread(rest.parse()?),
            ("board", ["base", agent]) => Self::Base {
                agent: agent.parse()?,
            },
            ("board", [task, agent, generation]) => Self::TaskAgent {
                task: task.parse()?,
                agent: agent.parse()?,
                generation: version(generation).ok_or_else(bad)?,
            },
            ("build", [build]) => Self::Build {
                build: build.parse()?,
            },
            _ => return Err(bad()),
        };
        // Ids forgive white space around them; a record has none.
        if owner.to_string() == text {
            Ok(owner)
        } else {
            Err(bad())
        }
    }
}

/// The number of `v<number>`.
fn version(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('v')?;
    digits
        .parse()
        .ok()
        .filter(|n: &u32| n.to_string() == digits)
}

impl Serialize for Owner {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether a thread's key would be taken for the name of another kind of owner, or of its session. No thread
/// begins with such a key.
pub fn is_reserved_thread(key: &AppThreadKey) -> bool {
    let key = key.as_str().to_lowercase();
    // On a gateway a thread may name the agent that it goes to.
    let agents = key
        .strip_prefix("agent:")
        .and_then(|rest| rest.split_once(':'))
        .map(|(_, rest)| rest);
    let head = |key: &str| {
        ["board:", "build:", "mc:"]
            .iter()
            .any(|head| key.starts_with(head))
    };
    head(&key) || agents.is_some_and(head)
}

/// A session that has no key yet.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    /// The account.
    pub account: &'a AccountId,
    /// Whose it will be.
    pub owner: &'a Owner,
    /// Which of the owner's sessions on one runtime it is: 1, and one more each time that a base session is
    /// begun anew.
    pub version: u32,
    /// Whom the turn names, on a runtime that has several agents.
    pub agent: Option<&'a str>,
    /// Over 1 where the key before it belongs to another thread.
    pub twin: u32,
}

impl SessionKey {
    /// The key of a new session: its runtime's head (`builtin:main`, `acp:codex`, `agent:main`), then the owner.
    pub fn for_owner(head: &str, new: &NewKey<'_>) -> Self {
        let account = account_part(new.account);
        let tail = match new.owner {
            Owner::Thread(key) => key.to_string(),
            Owner::TaskAgent {
                task,
                agent,
                generation,
            } => format!("mc:{account}:task:{task}:{agent}:v{generation}"),
            Owner::Base { agent } => format!("mc:{account}:base:{agent}:v{}", new.version),
            Owner::Build { build } => format!("mc:{account}:build:{build}"),
        };
        let twin = match new.twin {
            0 | 1 => String::new(),
            twin => format!("-{twin}"),
        };
        Self::unchecked(format!("{head}:{tail}{twin}"))
    }

    /// Whether it is the key of a session of the board or of a build.
    pub(crate) fn is_of_board_or_build(&self) -> bool {
        let parts: Vec<&str> = self.as_str().split(':').collect();
        let [_, _, "mc", account, rest @ ..] = parts.as_slice() else {
            return false;
        };
        let ids = |ids: &[&str]| ids.iter().all(|id| is_short_id(id));
        is_plain_account(account.strip_prefix('~').unwrap_or(account))
            && match rest {
                ["task", task, agent, v] => ids(&[task, agent]) && version(v).is_some(),
                ["base", agent, v] => ids(&[agent]) && version(v).is_some(),
                ["build", build] => ids(&[build]),
                _ => false,
            }
    }
}

/// An account as a part of a key, which a gateway turns into small letters: a name that could be mistaken for
/// another then, or holds a `:`, stands there as `~` and the beginning of its digest.
fn account_part(account: &AccountId) -> String {
    let name = account.as_str();
    if is_plain_account(name) {
        return name.to_owned();
    }
    let digest = hex::encode(Sha256::digest(name.as_bytes()));
    let beginning: String = digest.chars().take(32).collect();
    format!("~{beginning}")
}

fn is_plain_account(name: &str) -> bool {
    let plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
    !name.is_empty() && name.chars().all(plain)
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
