//! What a thread lets its agents do without asking a person.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an agent wants to do, as the Agent Client Protocol sorts tool calls.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files or data.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves or renames files.
    Move,
    /// Searches.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks.
    Think,
    /// Fetches from elsewhere.
    Fetch,
    /// Anything else, and whatever has no kind.
    Other,
}

impl ToolKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Edit,
        Self::Delete,
        Self::Move,
        Self::Search,
        Self::Execute,
        Self::Think,
        Self::Fetch,
        Self::Other,
    ];

    /// Its spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::Other => "other",
        }
    }

    /// The kind that an agent names. One that is not known is `other`: it is never taken for a
    /// harmless one.
    pub fn of(word: &str) -> Self {
        Self::find(word).unwrap_or(Self::Other)
    }

    fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What becomes of a permission that an agent asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// A person is asked.
    #[default]
    Ask,
    /// It is allowed, this once.
    Allow,
    /// It is refused, this once.
    Reject,
}

impl Rule {
    /// Its spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Allow => "allow",
            Self::Reject => "reject",
        }
    }

    fn find(word: &str) -> Option<Self> {
        [Self::Ask, Self::Allow, Self::Reject]
            .into_iter()
            .find(|rule| rule.as_str() == word)
    }
}

/// What becomes of the permissions that a thread's agents ask for: a rule for all of them, and rules
/// for kinds of tool calls. Written as `ask`, `allow`, or `ask,read=allow,execute=reject`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionPolicy {
    otherwise: Rule,
    by_kind: BTreeMap<ToolKind, Rule>,
}

/// A policy that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPolicy(String);

/// What stands for every kind that is not named.
const DEFAULT: &str = "default";

impl PermissionPolicy {
    /// Every permission is allowed, each time anew.
    pub const ALLOW: Self = Self {
        otherwise: Rule::Allow,
        by_kind: BTreeMap::new(),
    };

    /// Whether a person is asked about everything.
    pub fn is_ask(&self) -> bool {
        self.otherwise == Rule::Ask && self.by_kind.values().all(|rule| *rule == Rule::Ask)
    }

    /// What becomes of a permission for a tool call whose kind has no rule of its own.
    pub const fn otherwise(&self) -> Rule {
        self.otherwise
    }

    /// The rule that a kind of tool call has of its own.
    pub fn of_kind(&self, tool: ToolKind) -> Option<Rule> {
        self.by_kind.get(&tool).copied()
    }

    /// What becomes of a permission for such a tool call, and the words of the rule that says so.
    pub fn rule(&self, tool: ToolKind) -> (Rule, String) {
        match self.by_kind.get(&tool) {
            Some(rule) => (*rule, format!("{}={}", tool.as_str(), rule.as_str())),
            None => (self.otherwise, self.otherwise.as_str().to_owned()),
        }
    }

    /// Adds a rule; `kind` is a kind of tool call or `default`.
    fn add(&mut self, seen: &mut Vec<String>, kind: &str, rule: &str) -> Result<(), BadPolicy> {
        let bad = |what: String| Err(BadPolicy(what));
        let Some(found) = Rule::find(rule) else {
            return bad(format!("`{rule}` is no rule; use ask, allow or reject"));
        };
        if seen.iter().any(|before| before == kind) {
            return bad(format!("`{kind}` has two rules"));
        }
        seen.push(kind.to_owned());
        if kind == DEFAULT {
            self.otherwise = found;
            return Ok(());
        }
        let Some(kind) = ToolKind::find(kind) else {
            let kinds = ToolKind::ALL.map(ToolKind::as_str).join(", ");
            return bad(format!(
                "`{kind}` is no kind of tool call; there are {kinds}"
            ));
        };
        self.by_kind.insert(kind, found);
        Ok(())
    }
}

impl FromStr for PermissionPolicy {
    type Err = BadPolicy;
    fn from_str(text: &str) -> Result<Self, BadPolicy> {
        let (mut policy, mut seen) = (Self::default(), Vec::new());
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some((kind, rule)) => policy.add(&mut seen, kind.trim(), rule.trim())?,
                None => policy.add(&mut seen, DEFAULT, part)?,
            }
        }
        Ok(policy)
    }
}

impl fmt::Display for PermissionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.otherwise.as_str())?;
        for (kind, rule) in &self.by_kind {
            write!(f, ",{}={}", kind.as_str(), rule.as_str())?;
        }
        Ok(())
    }
}

impl Serialize for PermissionPolicy {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PermissionPolicy {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Rules(BTreeMap<String, String>),
        }
        match Form::deserialize(d) {
            Ok(Form::Text(text)) => text.parse().map_err(Error::custom),
            Ok(Form::Rules(rules)) => {
                let (mut policy, mut seen) = (Self::default(), Vec::new());
                for (kind, rule) in &rules {
                    policy.add(&mut seen, kind, rule).map_err(Error::custom)?;
                }
                Ok(policy)
            }
            Err(_) => Err(Error::custom(
                "a policy is a text such as `ask,read=allow`, or an object of kinds and rules",
            )),
        }
    }
}

impl schemars::JsonSchema for PermissionPolicy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PermissionPolicy".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let rule = serde_json::json!({"type": "string", "enum": ["ask", "allow", "reject"]});
        let kinds = ToolKind::ALL.map(ToolKind::as_str).into_iter();
        let properties: serde_json::Map<_, _> = kinds
            .chain([DEFAULT])
            .map(|kind| (kind.to_owned(), rule.clone()))
            .collect();
        schemars::json_schema!({
            "description": "What becomes of permissions: `ask`, `allow`, or rules by kind of tool call, as a text (`ask,read=allow,execute=reject`) or an object.",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": properties, "additionalProperties": false},
            ],
        })
    }
}

/// The same in the words of existing apps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PermissionLevel {
    /// A person is asked.
    DefaultAccess,
    /// Everything is allowed, each time anew.
    FullAccess,
}

impl From<PermissionLevel> for PermissionPolicy {
    fn from(level: PermissionLevel) -> Self {
        match level {
            PermissionLevel::DefaultAccess => Self::default(),
            PermissionLevel::FullAccess => Self::ALLOW,
        }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
