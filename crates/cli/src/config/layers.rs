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
    /// To what.
    pub(crate) value: String,
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
        let origin = Origin::Flag(flag.clone());
        match keys::named(key) {
            Some(key) => {
                let said = said(Value::Text(value.clone()), origin, &sources.cwd, false);
                layers.insert(key.name, said);
            }
            None => mistakes.push(Mistake {
                origin,
                message: unknown(key),
            }),
        }
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
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        let origin = Origin::File(file.path.clone(), line(text, at));
        let message = format!("this is not TOML: {}", error.message().trim());
        mistakes.push(Mistake { origin, message });
    }
    let mut walk = Walk {
        file,
        text,
        layers,
        mistakes,
    };
    walk.table(table.get_ref(), "");
}

struct Walk<'a> {
    file: &'a SourceFile,
    text: &'a str,
    layers: &'a mut Layers,
    mistakes: &'a mut Vec<Mistake>,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, above: &str) {
        for (name, value) in table {
            let origin = Origin::File(self.file.path.clone(), line(self.text, name.span().start));
            let path = match above {
                "" => name.get_ref().to_string(),
                above => format!("{above}.{}", name.get_ref()),
            };
            match (value.get_ref(), keys::named(&path)) {
                (value, Some(key)) => self.leaf(key, value, origin),
                (DeValue::Table(inner), None) if !inner.is_empty() => self.table(inner, &path),
                (_, None) => self.mistakes.push(Mistake {
                    origin,
                    message: unknown(&path),
                }),
            }
        }
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

fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

fn lay_env(sources: &Sources, layers: &mut Layers, mistakes: &mut Vec<Mistake>) {
    for (name, value) in &sources.env {
        // THREADLINE_TEST_… is for the tests of the project; an empty variable is an unset one.
        let ours = name.starts_with("THREADLINE_") && !name.starts_with("THREADLINE_TEST_");
        if !ours || value.trim().is_empty() {
            continue;
        }
        let origin = Origin::Env(name.clone());
        let Some(key) = keys::of_env(name) else {
            let known = KEYS.iter().flat_map(|k| k.env.iter().copied());
            let message = match keys::meant(name, known) {
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
