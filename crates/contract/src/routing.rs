//! Where a turn should run: chosen by metadata, never by URL.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Code, Fault};

/// Where turns really run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuntimeId {
    /// The OpenClaw gateway.
    OpenClaw,
    /// An agent that speaks the Agent Client Protocol, by name.
    Acp(String),
    /// The agent inside this binary.
    Builtin,
}

/// Runtimes with a name of their own, and whether each is a gateway. Every other is an agent's.
const NAMED: [(RuntimeId, &str, bool); 2] = [
    (RuntimeId::OpenClaw, "openclaw", true),
    (RuntimeId::Builtin, "builtin", false),
];

impl RuntimeId {
    fn named(name: &str) -> Option<Self> {
        let found = NAMED.iter().find(|(_, named, _)| *named == name);
        found.map(|(id, ..)| id.clone())
    }
    /// The provider's name, as routing and catalogues spell it.
    pub fn provider(&self) -> &str {
        match self {
            Self::Acp(agent) => agent,
            named => {
                let found = NAMED.iter().find(|(id, ..)| id == named);
                found.map_or("", |(_, name, _)| name)
            }
        }
    }
    /// Whether it is a gateway: a service of its own that is told of sessions by their keys.
    pub fn is_gateway(&self) -> bool {
        NAMED.iter().any(|(id, _, gateway)| id == self && *gateway)
    }
    /// `gateway` or `agent`, the two execution targets.
    pub fn target(&self) -> &'static str {
        match self.is_gateway() {
            true => "gateway",
            false => "agent",
        }
    }
    /// The gateway that is meant where a bridge says no more than that it is one.
    pub const fn of_gateway() -> Self {
        Self::OpenClaw
    }
    /// The runtime of a provider name; an agent may also be spelled as its runtime is.
    pub fn of_provider(name: &str) -> Self {
        Self::named(name).unwrap_or_else(|| {
            let agent = name.strip_prefix("acp:").unwrap_or(name);
            Self::Acp(agent.to_owned())
        })
    }
}
impl fmt::Display for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acp(agent) => write!(f, "acp:{agent}"),
            other => f.write_str(other.provider()),
        }
    }
}
impl std::str::FromStr for RuntimeId {
    type Err = Fault;
    fn from_str(text: &str) -> Result<Self, Fault> {
        let agent = text.strip_prefix("acp:").filter(|agent| !agent.is_empty());
        let agent = agent.map(|agent| Self::Acp(agent.to_owned()));
        Self::named(text).or(agent).ok_or_else(|| {
            let names = NAMED.map(|(_, name, _)| name).join(", ");
            Fault::new(
                Code::ProviderNotFound,
                format!("`{text}` is not a runtime. Use {names} or acp:<agent>."),
            )
        })
    }
}
impl Serialize for RuntimeId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for RuntimeId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
impl schemars::JsonSchema for RuntimeId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RuntimeId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names = NAMED.map(|(_, name, _)| name).join("|");
        schemars::json_schema!({"type": "string", "pattern": format!("^({names}|acp:.+)$")})
    }
}

/// The routing block of a turn. Fields of other apps that we do not use are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Routing {
    /// `auto` or `explicit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_mode: Option<String>,
    /// `agent` or `gateway` (also `single-agent`, `singleAgent`).
    #[serde(
        default,
        alias = "executionTarget",
        skip_serializing_if = "Option::is_none"
    )]
    pub explicit_execution_target: Option<String>,
    /// The agent: `builtin`, `codex`, `opencode`, `gemini`, `hermes` or a configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explicit_provider_id: Option<String>,
    /// The gateway: `openclaw`.
    #[serde(
        default,
        alias = "gatewayProviderId",
        alias = "gatewayProvider",
        skip_serializing_if = "Option::is_none"
    )]
    pub preferred_gateway_provider_id: Option<String>,
    /// The model, where the runtime lets us choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explicit_model: Option<String>,
}

/// What a routing block asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This runtime and no other.
    Runtime(RuntimeId),
    /// Any agent.
    AnyAgent,
    /// Whatever the policy says.
    Auto,
}

impl Routing {
    /// Asks for one runtime.
    pub fn to(runtime: &RuntimeId) -> Self {
        let gateway = runtime.is_gateway();
        let provider = Some(runtime.provider().to_owned());
        Self {
            routing_mode: Some("explicit".into()),
            explicit_execution_target: Some(runtime.target().into()),
            explicit_provider_id: provider.clone().filter(|_| !gateway),
            preferred_gateway_provider_id: provider.filter(|_| gateway),
            explicit_model: None,
        }
    }

    /// The same, or where it names nothing and does not ask for `auto`, this target and agent.
    pub fn or_else(self, target: Option<String>, agent: Option<String>) -> Self {
        let blank = |field: &Option<String>| field.as_deref().is_none_or(|f| f.trim().is_empty());
        let says = !blank(&self.explicit_execution_target)
            || !blank(&self.explicit_provider_id)
            || !blank(&self.preferred_gateway_provider_id)
            || self.routing_mode.as_deref().map(str::trim) == Some("auto");
        match says {
            true => self,
            false => Self {
                explicit_execution_target: target,
                explicit_provider_id: agent,
                ..self
            },
        }
    }

    /// What is asked for; contradictions are refused, never guessed away.
    pub fn wanted(&self) -> Result<Wanted, Fault> {
        let failed = |why: String| Fault::new(Code::RoutingFailed, why);
        let said = |field: &Option<String>| {
            field
                .as_deref()
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .map(str::to_owned)
        };
        let (target, agent, gateway) = (
            said(&self.explicit_execution_target),
            said(&self.explicit_provider_id),
            said(&self.preferred_gateway_provider_id),
        );
        match self.routing_mode.as_deref().map(str::trim) {
            None | Some("" | "auto" | "explicit") => {}
            Some(other) => {
                return Err(failed(format!(
                    "routingMode `{other}` is unknown. Use auto or explicit."
                )));
            }
        }
        match target.as_deref() {
            Some("gateway") => match gateway.as_deref().or(agent.as_deref()) {
                Some("openclaw") => Ok(Wanted::Runtime(RuntimeId::OpenClaw)),
                None => Err(failed(
                    "A gateway turn needs preferredGatewayProviderId (openclaw).".into(),
                )),
                Some(other) => Err(failed(format!(
                    "There is no gateway `{other}`. Use openclaw."
                ))),
            },
            Some("agent" | "single-agent" | "singleAgent") => match agent.as_deref() {
                None => Ok(Wanted::AnyAgent),
                Some("openclaw") => Err(failed(
                    "openclaw is a gateway. Use explicitExecutionTarget gateway.".into(),
                )),
                Some(name) => Ok(Wanted::Runtime(RuntimeId::of_provider(name))),
            },
            Some(other) => Err(failed(format!(
                "explicitExecutionTarget `{other}` is unknown. Use agent or gateway."
            ))),
            None => match (agent, gateway) {
                (Some(name), None) => Ok(Wanted::Runtime(RuntimeId::of_provider(&name))),
                (None, Some(name)) if name == "openclaw" => {
                    Ok(Wanted::Runtime(RuntimeId::OpenClaw))
                }
                (None, Some(name)) => Err(failed(format!(
                    "There is no gateway `{name}`. Use openclaw."
                ))),
                (Some(_), Some(_)) => Err(failed(
                    "An agent and a gateway are both named. Set explicitExecutionTarget.".into(),
                )),
                (None, None) if self.routing_mode.as_deref().map(str::trim) == Some("explicit") => {
                    Err(Fault::new(
                        Code::RoutingRequired,
                        "routingMode explicit names no target and no provider: name them, or use routingMode auto.",
                    ))
                }
                (None, None) => Ok(Wanted::Auto),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(json: serde_json::Value) -> Result<Wanted, Code> {
        serde_json::from_value::<Routing>(json)
            .unwrap()
            .wanted()
            .map_err(|f| f.code)
    }

    #[test]
    fn routing_is_read_from_metadata() {
        use serde_json::json;
        let openclaw = Ok(Wanted::Runtime(RuntimeId::OpenClaw));
        assert_eq!(
            wanted(
                json!({"explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw"})
            ),
            openclaw
        );
        assert_eq!(
            wanted(json!({"executionTarget": "gateway", "gatewayProvider": "openclaw"})),
            openclaw
        );
        assert_eq!(
            wanted(
                json!({"explicitExecutionTarget": "singleAgent", "explicitProviderId": "codex"})
            ),
            Ok(Wanted::Runtime(RuntimeId::Acp("codex".into())))
        );
        assert_eq!(
            wanted(json!({"explicitProviderId": "builtin"})),
            Ok(Wanted::Runtime(RuntimeId::Builtin))
        );
        assert_eq!(
            wanted(json!({"explicitExecutionTarget": "agent"})),
            Ok(Wanted::AnyAgent)
        );
        assert_eq!(wanted(json!({})), Ok(Wanted::Auto));
        assert_eq!(
            wanted(json!({"routingMode": "explicit"})),
            Err(Code::RoutingRequired)
        );
        assert_eq!(wanted(json!({"routingMode": "auto"})), Ok(Wanted::Auto));
        for bad in [
            json!({"explicitExecutionTarget": "gateway"}),
            json!({"explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "x"}),
            json!({"explicitExecutionTarget": "moon"}),
            json!({"routingMode": "maybe"}),
            json!({"explicitProviderId": "codex", "preferredGatewayProviderId": "openclaw"}),
        ] {
            assert_eq!(wanted(bad.clone()), Err(Code::RoutingFailed), "{bad}");
        }
    }

    #[test]
    fn what_we_ask_for_is_what_is_understood() {
        for runtime in [
            RuntimeId::OpenClaw,
            RuntimeId::Builtin,
            RuntimeId::Acp("codex".into()),
        ] {
            assert_eq!(
                Routing::to(&runtime).wanted(),
                Ok(Wanted::Runtime(runtime.clone()))
            );
            assert_eq!(runtime.to_string().parse::<RuntimeId>().unwrap(), runtime);
        }
    }
}
