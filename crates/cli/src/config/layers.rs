//! Who said what: the files, the environment and the flags, laid over each other.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::{
    keys::{self, KEYS, Key},
    value::{Toml, Value},
};

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// A file, and the line in it.
    File(PathBuf, usize),
    /// An environment variable.
    Env(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// Something that cannot be taken, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Where.
    pub(crate) origin: Origin,
    /// What is wrong, and what would be right.
    pub(crate) message: String,
}

/// Everything that can set something. Files come in order: a later one wins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The files.
    pub(crate) files: Vec<SourceFile>,
    /// The environment.
    pub(crate) env: BTreeMap<String, String>,
    /// The flags.
    pub(crate) flags: Vec<SourceFlag>,
    /// The folder that the program was started in.
    pub(crate) cwd: PathBuf,
}

/// A `threadline.toml`.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Its text, or why it could not be read.
    pub(crate) text: Result<String, String>,
    /// It lies in the folder that the program was started in, which can be anybody's.
    pub(crate) of_folder: bool,
}

/// A flag that sets something.
#[derive(Clone, Debug)]
pub(crate) struct SourceFlag {
    /// As it is typed, such as `--listen`.
    pub(crate) flag: String,
    /// The setting that it sets.
    pub(crate) key: String,
    /// To what; `None` when nothing was said.
    pub(crate) value: Option<String>,
}

/// A setting that somebody made.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// What was said.
    pub(crate) value: Value,
    /// Where.
    pub(crate) origin: Origin,
    /// What a relative path in it is relative to.
    pub(crate) base: PathBuf,
    /// It was said by the folder's file.
    pub(crate) by_folder: bool,
}

/// For each setting, who has the last word.
pub(crate) type Layers = BTreeMap<&'static str, Said>;

/// Lays the sources over each other.
pub(crate) fn lay(sources: &Sources, mistakes: &mut Vec<Mistake>) -> Layers {
    let mut layers = Layers::new();
    for file in &sources.files {
        lay_file(file, &mut layers, mistakes);
    }
    lay_env(sources, &mut layers, mistakes);
    for SourceFlag { flag, key, value } in &sources.flags {
        if key.starts_with("agents.") {
            // Read by `agents`, whose names are anybody's choice.
            continue;
        }
        let origin = Origin::Flag(flag.clone());
        let message = match (keys::named(key), value) {
            (Some(key), Some(value)) => {
                let said = said(Value::Text(value.clone()), origin, &sources.cwd, false);
                layers.insert(key.name, said);
                continue;
            }
            (Some(key), None) => {
                format!("`{}` needs a value: {flag} {}=…", key.name, key.name)
            }
            (None, Some(_)) => unknown(key),
            (None, None) => format!("`{key}` must be KEY=VALUE, such as log.level=debug."),
        };
        mistakes.push(Mistake { origin, message });
    }
    layers
}

fn said(value: Value, origin: Origin, base: &Path, by_folder: bool) -> Said {
    Said {
        value,
        origin,
        base: base.to_owned(),
        by_folder,
    }
}

fn unknown(name: &str) -> String {
    match keys::meant(name, KEYS.iter().map(|k| k.name)) {
        Some(meant) => format!("`{name}` is not a setting. Did you mean `{meant}`?"),
        None => format!("`{name}` is not a setting. `threadline config show` lists them all."),
    }
}

fn lay_file(file: &SourceFile, layers: &mut Layers, mistakes: &mut Vec<Mistake>) {
    let text = match &file.text {
        Ok(text) => text,
        Err(why) => {
            let origin = Origin::File(file.path.clone(), 1);
            let message = format!("the file cannot be read: {why}");
            return mistakes.push(Mistake { origin, message });
        }
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut broken: Option<usize> = None;
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        let origin = Origin::File(file.path.clone(), line(text, at));
        broken = Some(broken.map_or(at, |first| first.min(at)));
        // What follows from the first mistake of a line is not another one.
        if mistakes.last().is_none_or(|last| last.origin != origin) {
            let message = format!("this is not TOML: {}", error.message().trim());
            mistakes.push(Mistake { origin, message });
        }
    }
    let mut walk = Walk {
        file,
        text,
        broken,
        layers,
        mistakes,
    };
    walk.table(table.get_ref(), "");
}

struct Walk<'a> {
    file: &'a SourceFile,
    text: &'a str,
    /// Where the file stops being TOML: what stands from there on may mean something else.
    broken: Option<usize>,
    layers: &'a mut Layers,
    mistakes: &'a mut Vec<Mistake>,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, above: &str) {
        for (name, value) in table {
            let origin = Origin::File(self.file.path.clone(), line(self.text, name.span().start));
            if self.is_doubtful(name.span().start, value) {
                continue;
            }
            let path = match above {
                "" => name.get_ref().to_string(),
                above => format!("{above}.{}", name.get_ref()),
            };
            match (value.get_ref(), keys::named(&path)) {
                _ if path == "agents" => {}
                (value, Some(key)) => self.leaf(key, value, origin),
                (DeValue::Table(inner), None) if !inner.is_empty() => self.table(inner, &path),
                (_, None) => self.mistakes.push(Mistake {
                    origin,
                    message: unknown(&path),
                }),
            }
        }
    }

    fn is_doubtful(&self, at: usize, value: &toml::Spanned<DeValue<'_>>) -> bool {
        let table = matches!(value.get_ref(), DeValue::Table(_));
        self.broken.is_some_and(|broken| {
            line(self.text, at) >= line(self.text, broken) || (!table && value.span().end > broken)
        })
    }

    fn leaf(&mut self, key: &'static Key, value: &DeValue<'_>, origin: Origin) {
        if self.file.of_folder && !key.by_folder {
            let message = format!(
                "`{}` cannot be set by the file of a folder, because a folder can be anybody's. Set it in your own threadline.toml, with {} or with --set.",
                key.name, key.env[0]
            );
            return self.mistakes.push(Mistake { origin, message });
        }
        let base = self.file.path.parent().unwrap_or(Path::new(""));
        let said = said(
            Value::Toml(Toml::of(value)),
            origin,
            base,
            self.file.of_folder,
        );
        self.layers.insert(key.name, said);
    }
}

pub(super) fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

fn lay_env(sources: &Sources, layers: &mut Layers, mistakes: &mut Vec<Mistake>) {
    for (name, value) in &sources.env {
        // THREADLINE_TEST_… is for the tests of the project; an empty variable is an unset one.
        let ours = name.starts_with(keys::PREFIX) && !name.starts_with("THREADLINE_TEST_");
        if name == super::AGENTS || !ours || value.trim().is_empty() {
            continue;
        }
        let origin = Origin::Env(name.clone());
        let Some(key) = keys::of_env(name) else {
            let message = match keys::meant_by_env(name) {
                Some(meant) => format!("there is no such setting. Did you mean {meant}?"),
                None => "there is no such setting. `threadline config show` lists them all.".into(),
            };
            mistakes.push(Mistake { origin, message });
            continue;
        };
        let said = said(
            Value::Text(value.clone()),
            origin.clone(),
            &sources.cwd,
            false,
        );
        let before = layers.insert(key.name, said);
        if let Some(Said {
            value: Value::Text(other),
            origin: Origin::Env(twin),
            ..
        }) = before
            && other != *value
        {
            let message = format!(
                "says something else than {twin}, and both mean `{}`. Unset one.",
                key.name
            );
            mistakes.push(Mistake { origin, message });
        }
    }
}
