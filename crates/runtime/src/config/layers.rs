//! Defaults, file, environment and flags become one configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::{Config, ConfigError, Problem};

/// Where a configuration comes from, weakest first after the defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables, of which those named `RUBRICON_SECTION__KEY` count.
    pub env: Vec<(String, String)>,
    /// `section.key=value` of each `--set`; the last of a key wins.
    pub set: Vec<String>,
}

impl Sources {
    /// `file`, the environment of this process, and `--set` flags.
    #[must_use]
    pub fn new(file: Option<PathBuf>, set: Vec<String>) -> Self {
        // A variable that is not UTF-8 is none of ours: keys and values are text.
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { file, env, set }
    }

    /// Merges all layers and validates the result.
    ///
    /// # Errors
    /// When the file cannot be read or parsed; else with every unknown key, wrong type and
    /// impossible value at once.
    pub fn resolve(&self) -> Result<Resolved, ConfigError> {
        let mut problems = Vec::new();
        let mut entries = match &self.file {
            Some(path) => file_entries(path)?,
            None => Vec::new(),
        };
        entries.extend(self.env_entries());
        for text in &self.set {
            match set_entry(text) {
                Ok(entry) => entries.push(entry),
                Err(problem) => problems.push(problem),
            }
        }

        let mut merged = Merged::new();
        problems.extend(entries.into_iter().filter_map(|entry| merged.apply(entry).err()));
        let mut resolved = Resolved { config: merged.config, origins: merged.origins };
        resolved.fill_names(self.file.as_deref());
        problems.extend(resolved.problems(resolved.config.validate()));
        if problems.is_empty() { Ok(resolved) } else { Err(ConfigError::Invalid(problems)) }
    }

    fn env_entries(&self) -> impl Iterator<Item = Entry> {
        self.env.iter().filter_map(|(name, value)| {
            let (section, key) = name.strip_prefix("RUBRICON_")?.split_once("__")?;
            Some(Entry {
                key: format!("{section}.{key}").to_lowercase(),
                value: Given::Text(value.clone()),
                origin: Origin::Env(name.clone()),
            })
        })
    }
}

/// A valid configuration that knows where each value was set.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The configuration.
    pub config: Config,
    origins: BTreeMap<String, Origin>,
}

impl Resolved {
    /// Looks for the files and folders that a run of this configuration reads.
    ///
    /// # Errors
    /// With every path that leads nowhere.
    pub fn check_files(&self) -> Result<(), ConfigError> {
        let problems = self.problems(self.config.missing_files());
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(problems)) }
    }

    /// Where the value of `key` was set.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    fn problems(&self, found: Vec<(&'static str, String)>) -> Vec<Problem> {
        let at = |(key, message): (&str, _)| Problem {
            key: key.to_owned(),
            origin: self.origin(key),
            message,
        };
        found.into_iter().map(at).collect()
    }

    fn fill_names(&mut self, file: Option<&Path>) {
        let run = &mut self.config.run;
        if run.name.is_empty() {
            let stem = file.and_then(Path::file_stem).and_then(|stem| stem.to_str());
            run.name = stem.unwrap_or("run").to_owned();
        }
        if run.dir.as_os_str().is_empty() {
            run.dir = Path::new("runs").join(&run.name);
        }
    }
}

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the default.
    Default,
    /// A file, with the line from 1.
    File(PathBuf, usize),
    /// An environment variable.
    Env(String),
    /// A `--set` flag.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::Flag => write!(f, "--set"),
        }
    }
}

/// The values of a table by the path of their key.
pub(super) fn flatten(table: &Table) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                let inner = flatten(inner).into_iter();
                leaves.extend(inner.map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            value => drop(leaves.insert(key.clone(), value.clone())),
        }
    }
    leaves
}

/// One value given by a layer.
struct Entry {
    key: String,
    value: Given,
    origin: Origin,
}

/// A value as a layer gives it.
enum Given {
    /// From a file, typed.
    Toml(Value),
    /// From the environment or a flag; its type is that of the key.
    Text(String),
}

/// The layers so far.
struct Merged {
    config: Config,
    origins: BTreeMap<String, Origin>,
    known: BTreeMap<String, Value>,
}

impl Merged {
    fn new() -> Self {
        let config = Config::default();
        let known = flatten(&config.to_table());
        Self { config, origins: BTreeMap::new(), known }
    }

    /// Sets one key. Each is tried by itself, so that one wrong value does not hide the next.
    fn apply(&mut self, Entry { key, value, origin }: Entry) -> Result<(), Problem> {
        let Some(default) = self.known.get(&key) else {
            return match value {
                Given::Toml(Value::Table(_)) if self.sections().any(|s| s == key) => Ok(()),
                _ => Err(Problem { message: self.unknown(&key), key, origin }),
            };
        };
        let value = match value {
            Given::Toml(value) => value,
            Given::Text(text) => typed(text, default),
        };
        let (section, name) = key.split_once('.').expect("every known key is in a section");
        let mut table = self.config.to_table();
        table[section][name] = value;
        match table.try_into() {
            Ok(config) => {
                self.config = config;
                self.origins.insert(key, origin);
                Ok(())
            }
            Err(error) => Err(Problem { key, origin, message: error.message().to_owned() }),
        }
    }

    fn sections(&self) -> impl Iterator<Item = &str> {
        self.known.keys().filter_map(|key| Some(key.split_once('.')?.0))
    }

    /// The message for a key or section that does not exist, with the nearest one that does.
    fn unknown(&self, key: &str) -> String {
        let nearest = match key.rsplit_once('.') {
            None if self.sections().any(|section| section == key) => {
                return "a value, expected a section with keys".to_owned();
            }
            None => nearest(self.sections(), |section| strsim::jaro_winkler(key, section)),
            Some((_, name)) => nearest(self.known.keys().map(String::as_str), |other| match other
                .rsplit_once('.')
            {
                Some((_, same)) if same == name => 1.0,
                _ => strsim::jaro_winkler(key, other),
            }),
        };
        let what = if key.contains('.') { "key" } else { "section" };
        let hint = nearest.map_or(String::new(), |name| format!(", did you mean {name}?"));
        format!("unknown {what}{hint}")
    }
}

/// The candidate that is most alike, if it is alike at all.
fn nearest<'a>(
    candidates: impl Iterator<Item = &'a str>,
    alike: impl Fn(&str) -> f64,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (alike(candidate), candidate))
        .filter(|(alike, _)| *alike > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Text given for a key whose default is `like`: text where that is text (in quotes or not), else a
/// TOML value.
fn typed(text: String, like: &Value) -> Value {
    if like.is_str() && !text.starts_with(['"', '\'']) {
        return Value::String(text);
    }
    let parsed = ValueDeserializer::parse(&text).and_then(Value::deserialize);
    parsed.unwrap_or(Value::String(text))
}

fn set_entry(text: &str) -> Result<Entry, Problem> {
    match text.split_once('=') {
        Some((key, value)) => Ok(Entry {
            key: key.trim().to_owned(),
            value: Given::Text(value.trim().to_owned()),
            origin: Origin::Flag,
        }),
        None => Err(Problem {
            key: text.to_owned(),
            origin: Origin::Flag,
            message: "no value, expected section.key=value".to_owned(),
        }),
    }
}

fn file_entries(path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let line = |offset: usize| 1 + text[..offset].matches('\n').count();
    let syntax = |error: toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line(span.start)),
        message: error.message().replace('\n', ", "),
    };
    let table = DeTable::parse(&text).map_err(syntax)?.into_inner();
    let mut leaves = Vec::new();
    collect(String::new(), table, &mut leaves);
    leaves
        .into_iter()
        .map(|(key, offset, value)| {
            let value = Value::deserialize(ValueDeserializer::from(value)).map_err(syntax)?;
            let origin = Origin::File(path.to_owned(), line(offset));
            Ok(Entry { key, value: Given::Toml(value), origin })
        })
        .collect()
}

type Leaf<'i> = (String, usize, Spanned<DeValue<'i>>);

/// The leaves of a parsed table in the order of their keys, each with the offset of its key. A
/// section that is no table, or a table of nothing, is a leaf too.
fn collect<'i>(prefix: String, table: DeTable<'i>, leaves: &mut Vec<Leaf<'i>>) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(inner) if !inner.is_empty() => {
                collect(format!("{key}."), inner, leaves);
            }
            value => leaves.push((key, name.span().start, Spanned::new(span, value))),
        }
    }
}
