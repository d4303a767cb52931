//! From what was said to typed values. What is wrong is noted, and the rest is still looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use threadline_contract::{PermissionPolicy, RuntimeId, gateway_agent};
use threadline_engine::{Budgets, Keep, Rules};

use super::{
    Bridge, Builtin, Config, Log, LogFormat, Mistake, Model, OpenClaw, OpenClawLane, Origin,
    Secret, Server, Shown, Sources, keys,
    layers::Layers,
    value::{self, Value, Wanted},
};

/// What is kept of a gateway's files, when nobody says.
const CACHE_BYTES: u64 = 2 << 30;

/// Where this machine's own places are.
pub(super) struct Places<'a> {
    pub(super) home: Option<&'a Path>,
    pub(super) sources: &'a Sources,
}

/// Settings being read; what is wrong is noted and the rest goes on.
pub(super) struct Read {
    pub(super) layers: Layers,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) shown: BTreeMap<&'static str, Shown>,
    /// Settings whose value could not be taken.
    pub(super) wrong: BTreeSet<&'static str>,
}

impl Read {
    fn origin(&self, key: &str) -> Origin {
        self.layers
            .get(key)
            .map_or(Origin::Default, |said| said.origin.clone())
    }

    fn by_folder(&self, key: &str) -> bool {
        self.layers.get(key).is_some_and(|said| said.by_folder)
    }

    fn mistake(&mut self, origin: Origin, message: impl Into<String>) {
        self.mistakes.push(Mistake {
            origin,
            message: message.into(),
        });
    }

    /// What somebody said, read; `None` when nobody did or it was wrong.
    fn said<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Value, &Path) -> Result<T, Wanted>,
    ) -> Option<T> {
        let said = self.layers.get(key)?;
        match parse(&said.value, &said.base) {
            Ok(value) => Some(value),
            Err(wanted) => {
                let secret = keys::named(key).is_some_and(|k| k.secret);
                let got = if secret {
                    "what is set".into()
                } else {
                    without_secrets(&said.value.as_written())
                };
                let (origin, message) = (
                    said.origin.clone(),
                    format!("`{key}` must be {wanted}, not {got}."),
                );
                self.mistake(origin, message);
                self.wrong.insert(key);
                None
            }
        }
    }

    fn show(&mut self, key: &'static str, value: Option<String>) {
        let secret = keys::named(key).is_some_and(|k| k.secret);
        let origin = self.origin(key);
        let wrong = self.wrong.contains(key);
        self.shown.insert(
            key,
            Shown {
                key: key.into(),
                value: value.filter(|_| !wrong),
                secret,
                origin,
                wrong,
            },
        );
    }

    /// What somebody said, or the default; shown as it is written.
    fn or<T: Clone>(
        &mut self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&Value, &Path) -> Result<T, Wanted>,
        written: impl FnOnce(&T) -> String,
    ) -> T {
        let value = self.said(key, parse).unwrap_or(default);
        self.show(key, Some(written(&value)));
        value
    }

    /// What somebody said; there is no default.
    fn maybe(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Value) -> Result<String, Wanted>,
    ) -> Option<String> {
        let value = self.said(key, |v, _| parse(v)).filter(|v| !v.is_empty());
        self.show(key, value.clone());
        value
    }

    fn whole(
        &mut self,
        key: &'static str,
        default: u32,
        range: std::ops::RangeInclusive<u64>,
    ) -> u32 {
        let value = self.or(
            key,
            u64::from(default),
            |v, _| v.whole(range),
            u64::to_string,
        );
        u32::try_from(value).unwrap_or(u32::MAX)
    }

    pub(super) fn config(&mut self, places: &Places<'_>) -> Config {
        let home = places.home;
        let data = self.folder("data", places, places.sources.data_default());
        let workspaces = self.folder(
            "workspaces",
            places,
            home.map(|h| h.join(".xworkmate/threads")),
        );
        // The demonstration is for who has set up nothing else.
        let set = |key: &str| self.layers.contains_key(key);
        let auto = match set("openclaw.url") && !set("model.url") {
            true => RuntimeId::OpenClaw,
            false => RuntimeId::Builtin,
        };
        let auto_runtime = self.or(
            "auto_runtime",
            auto,
            |v, _| runtime(v),
            RuntimeId::to_string,
        );
        let server = self.server();
        let work_roots = self.work_roots(home, &server);
        let local = format!("sqlite:{}", data.join("threadline.db").display());
        let database = self.or("store.url", local, |v, _| database(v), String::clone);
        if data.as_os_str().is_empty() && !self.layers.contains_key("store.url") {
            self.show("store.url", None);
        }
        let builtin = Builtin {
            max_steps: self.whole("builtin.max_steps", 40, 1..=1000),
            demo_pause: Duration::from_millis(
                self.whole("builtin.demo_pause_ms", 150, 0..=60_000).into(),
            ),
            max_active: self.whole("lanes.builtin.max_active", 5, 1..=1000),
            max_queued: self.whole("lanes.builtin.max_queued", 20, 0..=100_000),
        };
        let openclaw = self.openclaw(home);
        let openclaw_lane = self.openclaw_lane();
        let hosts = self.hosts(places, &data);
        let rules = self.rules();
        let keep = self.keep();
        let cache_bytes = self.or(
            "artifacts.cache_bytes",
            CACHE_BYTES,
            |v, _| v.bytes(),
            u64::to_string,
        );
        let model = self.model();
        let (bridge, bridge_token) = self.bridge();
        let idle = self.whole("owner.idle_seconds", 60, 0..=u64::from(u32::MAX));
        let log = Log {
            filter: self.or(
                "log.level",
                Log::default().filter,
                |v, _| filter(v),
                String::clone,
            ),
            format: self.log_format(),
        };
        Config {
            data,
            workspaces,
            work_roots,
            auto_runtime,
            server,
            database: Secret(database),
            model,
            builtin,
            openclaw,
            openclaw_lane,
            agents: vec![],
            hosts,
            protected: vec![],
            rules,
            keep,
            cache_bytes,
            bridge,
            bridge_token,
            idle: (idle > 0).then(|| Duration::from_secs(idle.into())),
            log,
            shown: vec![],
        }
    }

    fn folder(
        &mut self,
        key: &'static str,
        places: &Places<'_>,
        default: Option<PathBuf>,
    ) -> PathBuf {
        let said = self.said(key, |v, base| v.path(base, places.home));
        let wrong = self.wrong.contains(key);
        let found = said.or(default.filter(|_| !wrong));
        if found.is_none() && !wrong {
            let origin = Origin::Env("HOME".into());
            let variable = keys::named(key).map_or("", |k| k.env[0]);
            self.mistake(
                origin,
                format!("is not set, so `{key}` has no place. Set HOME or {variable}."),
            );
        }
        self.show(key, found.as_ref().map(|p| p.display().to_string()));
        // The rest is still looked at, so that all mistakes come at once.
        found.unwrap_or_default()
    }

    /// Beside everything else, unless somebody said where. Without a data folder there is none for the
    /// hosts either, and that was told.
    fn hosts(&mut self, places: &Places<'_>, data: &Path) -> PathBuf {
        let said = self.said("hosts", |v, base| v.path(base, places.home));
        let beside = !data.as_os_str().is_empty() && !self.wrong.contains("hosts");
        let found = said.or(beside.then(|| data.join("hosts")));
        self.show("hosts", found.as_ref().map(|p| p.display().to_string()));
        found.unwrap_or_default()
    }

    fn server(&mut self) -> Server {
        let default = SocketAddr::from(([127, 0, 0, 1], 8787));
        let origins = [
            "http://localhost:*".to_owned(),
            "http://127.0.0.1:*".to_owned(),
        ];
        Server {
            listen: self.or(
                "server.listen",
                default,
                |v, _| v.address(),
                SocketAddr::to_string,
            ),
            listen_chosen: self.layers.contains_key("server.listen"),
            allow_remote: self.or(
                "server.allow_remote",
                false,
                |v, _| v.truth(),
                bool::to_string,
            ),
            public_url: self.maybe("server.public_url", public_url),
            advertise: self.maybe("server.advertise", public_url),
            allowed_origins: self.or(
                "server.allowed_origins",
                origins.to_vec(),
                |v, _| allowed_origins(v),
                |o| o.join(", "),
            ),
            token: self.maybe("server.token", token).map(Secret),
            pages: self.or("server.pages", false, |v, _| v.truth(), bool::to_string),
            rate_per_second: self.whole("server.rate_per_second", 0, 0..=1_000_000),
            metrics: self
                .maybe("server.metrics_listen", |v| {
                    v.address().map(|address| address.to_string())
                })
                .and_then(|address| address.parse().ok()),
        }
    }

    fn work_roots(&mut self, home: Option<&Path>, server: &Server) -> Vec<PathBuf> {
        // A server that others can reach lets nobody work in this machine's folders unasked.
        let default = home
            .filter(|_| server.listen.ip().is_loopback())
            .map(Path::to_owned);
        let parse = |v: &Value, base: &Path| {
            let roots = v.list(':')?;
            roots
                .iter()
                .map(|root| value::path(root, base, home))
                .collect()
        };
        let written = |roots: &Vec<PathBuf>| {
            let roots: Vec<_> = roots.iter().map(|r| r.display().to_string()).collect();
            roots.join(":")
        };
        self.or("work_roots", default.into_iter().collect(), parse, written)
    }

    fn rules(&mut self) -> Rules {
        let default = Rules::default();
        let day = 24 * 60;
        let policy = self.or(
            "permissions.policy",
            default.policy,
            |v, _| policy(v),
            PermissionPolicy::to_string,
        );
        let wait = self.whole("permissions.wait_minutes", 0, 0..=365 * day);
        let queue = self.whole("lanes.queue_minutes", 0, 0..=365 * day);
        let silence = self.whole("openclaw.silence_minutes", 10, 1..=day);
        let mut minutes = |key, default| self.whole(key, default, 1..=30 * day);
        Rules {
            policy,
            question_wait: (wait > 0).then(|| Duration::from_secs(u64::from(wait) * 60)),
            queue_wait: (queue > 0).then(|| Duration::from_secs(u64::from(queue) * 60)),
            budgets: Budgets {
                short: minutes("budgets.short_minutes", default.budgets.short),
                long: minutes("budgets.long_minutes", default.budgets.long),
                complex: minutes("budgets.complex_minutes", default.budgets.complex),
            },
            silence: Duration::from_secs(u64::from(silence) * 60),
            ..Rules::default()
        }
    }

    fn keep(&mut self) -> Keep {
        let days = self.whole("artifacts.keep_days", 0, 0..=36_500);
        let bytes = self.or("artifacts.keep_bytes", 0, |v, _| v.bytes(), u64::to_string);
        Keep {
            max_age: (days > 0).then(|| Duration::from_secs(u64::from(days) * 24 * 60 * 60)),
            max_bytes: (bytes > 0).then_some(bytes),
        }
    }

    fn model(&mut self) -> Option<Model> {
        let url = self.maybe("model.url", Value::url);
        let model = self.maybe("model.model", |v| v.text().map(str::to_owned));
        let key = self.maybe("model.key", secret);
        let set = |read: &Self, key| read.layers.contains_key(key);
        for (is, needs) in [
            ("model.url", "model.model"),
            ("model.model", "model.url"),
            ("model.key", "model.url"),
        ] {
            if set(self, is) && !set(self, needs) {
                let variable = keys::named(needs).map_or("", |k| k.env[0]);
                self.mistake(
                    self.origin(is),
                    format!("`{is}` is set, but `{needs}` is not. Set it too ({variable})."),
                );
            }
        }
        self.key_stays_with_its_owner("model.url", key.is_some(), "model.key");
        Some(Model {
            url: url?,
            model: model?,
            key: key.map(Secret),
        })
    }

    fn openclaw(&mut self, home: Option<&Path>) -> Option<OpenClaw> {
        let url = self.maybe("openclaw.url", gateway_url);
        let token = self.maybe("openclaw.token", secret).map(Secret);
        let ca = self.said("openclaw.ca", |v, base| v.path(base, home));
        self.show("openclaw.ca", ca.as_ref().map(|p| p.display().to_string()));
        let admin = self.or("openclaw.admin", false, |v, _| v.truth(), bool::to_string);
        let agent = self.maybe("openclaw.agent", agent_name);
        if token.is_some() && !self.layers.contains_key("openclaw.url") {
            let message = "`openclaw.token` is set, but `openclaw.url` is not. Set it too (THREADLINE_OPENCLAW_URL).";
            self.mistake(self.origin("openclaw.token"), message);
        }
        Some(OpenClaw {
            url: url?,
            token,
            ca,
            admin,
            agent,
        })
    }

    fn openclaw_lane(&mut self) -> OpenClawLane {
        OpenClawLane {
            max_active: self.whole("lanes.openclaw.max_active", 5, 1..=1000),
            max_queued: self.whole("lanes.openclaw.max_queued", 20, 0..=100_000),
        }
    }

    fn bridge(&mut self) -> (Option<Bridge>, Option<Secret>) {
        let url = self.maybe("bridge.url", Value::url);
        let token = self.maybe("bridge.token", secret);
        self.key_stays_with_its_owner("bridge.url", token.is_some(), "bridge.token");
        (url.map(|url| Bridge { url }), token.map(Secret))
    }

    /// Whoever wrote the file of a folder must not be able to decide where our keys are sent.
    fn key_stays_with_its_owner(&mut self, url: &'static str, has_key: bool, key: &'static str) {
        if has_key && self.by_folder(url) {
            let message = format!(
                "`{url}` would send your `{key}` ({}) to an address that this folder chose. Set `{url}` yourself, beside the key.",
                self.origin(key)
            );
            self.mistake(self.origin(url), message);
        }
    }

    fn log_format(&mut self) -> LogFormat {
        let choices = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let written = |format: &LogFormat| match format {
            LogFormat::Text => "text".to_owned(),
            LogFormat::Json => "json".to_owned(),
        };
        self.or(
            "log.format",
            LogFormat::Text,
            |v, _| v.one_of(&choices),
            written,
        )
    }
}

fn runtime(value: &Value) -> Result<RuntimeId, Wanted> {
    let wanted = || "the name of a runtime, such as builtin".to_owned();
    value.text()?.parse().map_err(|_| wanted())
}

fn policy(value: &Value) -> Result<PermissionPolicy, Wanted> {
    let wanted = || "ask, allow, or rules by kind such as ask,read=allow,execute=reject".to_owned();
    let text = value.text().map_err(|_| wanted())?;
    text.parse().map_err(|_| wanted())
}

fn database(value: &Value) -> Result<String, Wanted> {
    let wanted = || "sqlite:<path> or postgres://…".to_owned();
    let text = value.text().map_err(|_| wanted())?;
    threadline_store::Dialect::of_url(text)
        .map(|_| text.to_owned())
        .ok_or_else(wanted)
}

/// A gateway's address. What people copy from a browser is taken too.
fn gateway_url(value: &Value) -> Result<String, Wanted> {
    let wanted = || "the gateway's address, such as ws://127.0.0.1:18789".to_owned();
    let text = value.text().map_err(|_| wanted())?;
    let text = match text.split_once("://") {
        Some(("http", rest)) => format!("ws://{rest}"),
        Some(("https", rest)) => format!("wss://{rest}"),
        _ => text.to_owned(),
    };
    let url = reqwest::Url::parse(&text).map_err(|_| wanted())?;
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    match matches!(url.scheme(), "ws" | "wss") && url.has_host() && plain {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err(wanted()),
    }
}

/// The name of a gateway's agent, in the gateway's own form.
fn agent_name(value: &Value) -> Result<String, Wanted> {
    let id = value.text().ok().and_then(gateway_agent);
    id.ok_or_else(|| "the id of one of the gateway's agents, such as main".into())
}

fn public_url(value: &Value) -> Result<String, Wanted> {
    let url = value.url()?;
    match reqwest::Url::parse(&url) {
        Ok(parsed) if parsed.path() == "/" => Ok(url),
        _ => Err("an address without a path, such as https://threadline.example".into()),
    }
}

fn allowed_origins(value: &Value) -> Result<Vec<String>, Wanted> {
    let wanted =
        || "origins such as https://app.example, or http://localhost:* for every port".to_owned();
    let origins = value.list(',').map_err(|_| wanted())?;
    for origin in &origins {
        let plain = origin.strip_suffix(":*").unwrap_or(origin);
        let parsed = reqwest::Url::parse(plain).map_err(|_| wanted())?;
        if parsed.origin().ascii_serialization() != plain {
            return Err(wanted());
        }
    }
    Ok(origins)
}

fn token(value: &Value) -> Result<String, Wanted> {
    let text = secret(value)?;
    if text.len() < 16 {
        return Err("at least 16 characters long".into());
    }
    Ok(text)
}

/// A key or token travels in a header, so it must be able to.
fn secret(value: &Value) -> Result<String, Wanted> {
    let text = value.text()?;
    if text.bytes().any(|b| !b.is_ascii_graphic()) {
        return Err("one word of plain letters, digits and signs".into());
    }
    Ok(text.to_owned())
}

fn filter(value: &Value) -> Result<String, Wanted> {
    let wanted = || {
        "off, error, warn, info, debug or trace, or a list such as info,threadline_engine=debug"
            .to_owned()
    };
    let text = value.text().map_err(|_| wanted())?;
    let is_level = |word: &str| {
        word.parse::<tracing_subscriber::filter::LevelFilter>()
            .is_ok()
    };
    // A misspelt level would else count as the name of a part, and silently log nothing.
    let fits = |part: &str| match part.trim().split_once('=') {
        Some((name, level)) => !name.is_empty() && is_level(level),
        None => is_level(part.trim()) && !part.trim().bytes().all(|b| b.is_ascii_digit()),
    };
    match text.split(',').all(fits) {
        true => Ok(text.to_owned()),
        false => Err(wanted()),
    }
}

/// A text as it may be shown: an address may carry a password before its host and a key behind it.
fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => authority.to_owned(),
    };
    match path.split_once('?') {
        Some((path, query)) => {
            let quote = if query.ends_with('"') { "\"" } else { "" };
            format!("{scheme}://{host}{path}?…{quote}")
        }
        None => format!("{scheme}://{host}{path}"),
    }
}
