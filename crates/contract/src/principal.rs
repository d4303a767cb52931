//! Who acts: a person, an agent, a token or the server itself, for which account, and what each may do.
//!
//! The gate makes a [`Principal`] of a request; every write names it, and its [`Actor`] is what the records keep.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AccountId, AgentId, Code, Fault, PersonId, TokenId};

/// One thing that a principal may do in its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum Scope {
    /// Look at what there is.
    Read,
    /// Start, stop, answer, close and delete.
    Write,
    /// Look after the server: make room, and be told its addresses and paths.
    Admin,
    /// Work on a task as an agent.
    Agent,
}

impl Scope {
    /// Every scope, in the order in which they are written.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Admin, Self::Agent];

    /// Its spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::Agent => "agent",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of scopes. Written as words: `read write admin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scopes(u8);

impl Scopes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// What a token may do when nothing else was said: everything that people do.
    pub const FULL: Self = Self(Scope::Read.bit() | Scope::Write.bit() | Scope::Admin.bit());

    /// Whether this scope is in the set.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The same set with this scope.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Scope::ALL.into_iter().filter(|scope| self.has(*scope));
        let words: Vec<&str> = words.map(Scope::as_str).collect();
        f.write_str(&words.join(" "))
    }
}

/// A word that is no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope: read, write, admin or agent")]
pub struct UnknownScope(String);

impl FromStr for Scopes {
    type Err = UnknownScope;
    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let scope = |word: &str| {
            let mut all = Scope::ALL.into_iter();
            let found = all.find(|scope| scope.as_str() == word);
            found.ok_or_else(|| UnknownScope(word.to_owned()))
        };
        text.split_whitespace().map(scope).collect()
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Who somebody is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", content = "id", rename_all = "lowercase")]
pub enum Who {
    /// A person.
    Person(PersonId),
    /// An agent of a team.
    Agent(AgentId),
    /// Whoever has this token.
    Token(TokenId),
    /// The server itself: what a policy, a time limit or a restart decides.
    Server,
}

/// Who did something, as it is recorded and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Actor {
    /// Who.
    #[serde(flatten)]
    pub who: Who,
    /// The name for people, as it was then.
    pub label: String,
}

impl Actor {
    /// The server itself.
    pub fn server() -> Self {
        Self {
            who: Who::Server,
            label: "threadline".to_owned(),
        }
    }
}

/// Who acts, for which account, and what it may do there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The tenant.
    pub account: AccountId,
    /// Who it is.
    pub who: Who,
    /// The name for people.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
}

impl Principal {
    /// What the records keep of it.
    pub fn actor(&self) -> Actor {
        Actor {
            who: self.who.clone(),
            label: self.label.clone(),
        }
    }

    /// Whether it looks after this machine, and so may be told addresses and paths of the server.
    pub fn is_operator(&self) -> bool {
        self.account.is_local() && self.scopes.has(Scope::Admin)
    }

    /// Refuses what needs a scope that it does not have.
    pub fn check(&self, needed: Scope) -> Result<(), Fault> {
        if self.scopes.has(needed) {
            return Ok(());
        }
        let (needed, has) = (needed.as_str(), self.scopes.to_string());
        let has = match has.as_str() {
            "" => "nothing",
            some => some,
        };
        Err(Fault::new(
            Code::ScopeMissing,
            format!(
                "This needs the scope `{needed}`, and `{}` has: {has}. Use a token that may do it.",
                self.label
            ),
        )
        .with("scope", needed))
    }
}

#[cfg(test)]
#[path = "principal_tests.rs"]
mod tests;
