//! A setting as it was written, and how it is read.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use threadline_contract::amounts;
use toml::de::DeValue;

/// A setting as it was written down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// In the environment or as a flag: only ever a text.
    Text(String),
    /// In a file.
    Toml(Toml),
}

/// What a file can hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Toml {
    Text(String),
    Whole(i64),
    Truth(bool),
    List(Vec<Toml>),
    Other(&'static str),
}

impl Toml {
    pub(crate) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
                Ok(n) => Self::Whole(n),
                Err(_) => Self::Other("a number that is too large"),
            },
            DeValue::Boolean(b) => Self::Truth(*b),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|v| Self::of(v.get_ref())).collect())
            }
            DeValue::Float(_) => Self::Other("a number with a point"),
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Table(_) => Self::Other("a table"),
        }
    }

    fn as_written(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Whole(n) => n.to_string(),
            Self::Truth(b) => b.to_string(),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(Self::as_written).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Other(what) => (*what).to_owned(),
        }
    }
}

/// What a setting should have been, in words that follow "must be".
pub(crate) type Wanted = String;

impl Value {
    /// The value for a message.
    pub(crate) fn as_written(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Toml(value) => value.as_written(),
        }
    }

    pub(crate) fn text(&self) -> Result<&str, Wanted> {
        match self {
            Self::Text(text) | Self::Toml(Toml::Text(text)) => Ok(text.trim()),
            Self::Toml(_) => Err("a text in quotes".into()),
        }
    }

    pub(crate) fn whole(&self, range: RangeInclusive<u64>) -> Result<u64, Wanted> {
        let wanted = || match *range.end() {
            u64::MAX => format!("a whole number from {}", range.start()),
            end => format!("a whole number from {} to {end}", range.start()),
        };
        let number = match self {
            Self::Text(text) => text.trim().parse().ok(),
            Self::Toml(Toml::Whole(n)) => u64::try_from(*n).ok(),
            Self::Toml(_) => None,
        };
        number.filter(|n| range.contains(n)).ok_or_else(wanted)
    }

    /// A number of bytes, or a text such as `10GB`.
    pub(crate) fn bytes(&self) -> Result<u64, Wanted> {
        match self {
            Self::Toml(Toml::Whole(_)) => self.whole(0..=u64::MAX),
            other => amounts::read_bytes(other.text().unwrap_or_default()),
        }
    }

    pub(crate) fn truth(&self) -> Result<bool, Wanted> {
        match self {
            Self::Toml(Toml::Truth(b)) => Ok(*b),
            Self::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(true),
                "false" | "0" | "no" | "off" => Ok(false),
                _ => Err("true or false".into()),
            },
            Self::Toml(_) => Err("true or false".into()),
        }
    }

    /// A list of texts in a file; elsewhere one text with a separator.
    pub(crate) fn list(&self, separator: char) -> Result<Vec<String>, Wanted> {
        let wanted = || "a list of texts".to_owned();
        match self {
            Self::Text(text) | Self::Toml(Toml::Text(text)) => {
                let parts = text
                    .split(separator)
                    .map(str::trim)
                    .filter(|p| !p.is_empty());
                Ok(parts.map(str::to_owned).collect())
            }
            Self::Toml(Toml::List(items)) => items
                .iter()
                .map(|item| match item {
                    Toml::Text(text) => Ok(text.trim().to_owned()),
                    _ => Err(wanted()),
                })
                .collect(),
            Self::Toml(_) => Err(wanted()),
        }
    }

    /// A path: `~` is the home folder, and what is relative is relative to where it was written.
    pub(crate) fn path(&self, base: &Path, home: Option<&Path>) -> Result<PathBuf, Wanted> {
        let text = self.text()?;
        if text.is_empty() {
            return Err("a path".into());
        }
        path(text, base, home)
    }

    pub(crate) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Wanted> {
        let wanted = || {
            let names: Vec<_> = choices.iter().map(|c| c.0).collect();
            names.join(" or ")
        };
        let text = self.text().map_err(|_| wanted())?;
        let found = choices
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, value)| *value).ok_or_else(wanted)
    }

    pub(crate) fn address(&self) -> Result<SocketAddr, Wanted> {
        let wanted = || {
            "an address and a port, such as 127.0.0.1:8787, [::1]:8787 or localhost:8787".to_owned()
        };
        let text = self.text().map_err(|_| wanted())?;
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| wanted())?;
            return Ok((Ipv4Addr::LOCALHOST, port).into());
        }
        text.parse().map_err(|_| wanted())
    }

    /// `http://…` or `https://…`, without the slash at its end.
    pub(crate) fn url(&self) -> Result<String, Wanted> {
        let wanted = || "an address such as https://example.org".to_owned();
        let text = self.text().map_err(|_| wanted())?.trim_end_matches('/');
        let parsed = reqwest::Url::parse(text).map_err(|_| wanted())?;
        let plain = matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
        if !plain || parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(wanted());
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("an address without a name and password in it".into());
        }
        Ok(text.to_owned())
    }
}

pub(crate) fn path(text: &str, base: &Path, home: Option<&Path>) -> Result<PathBuf, Wanted> {
    let below_home = match text.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix('/'),
        None => None,
    };
    match (below_home, home) {
        (Some(rest), Some(home)) => Ok(home.join(rest)),
        (Some(_), None) => Err("a path without `~`, because HOME is not set".into()),
        (None, _) => Ok(base.join(text)),
    }
}
