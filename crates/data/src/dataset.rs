//! What a load gives: accepted rows, quarantined rows, and counts of the rest.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::quarantine::Quarantined;

/// The rows of one file. Never empty.
#[derive(Debug, Clone)]
pub struct DataSet<T> {
    /// Accepted rows in file order; at least one.
    pub rows: Vec<Row<T>>,
    /// Rows that could not be used, in file order.
    pub quarantined: Vec<Quarantined>,
    /// Lines that hold nothing but white space.
    pub blank_lines: usize,
}

impl<T> DataSet<T> {
    /// The accepted values in file order.
    pub fn into_values(self) -> Vec<T> {
        self.rows.into_iter().map(|row| row.value).collect()
    }
}

/// One accepted row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<T> {
    /// Line in the file, from 1.
    pub line: usize,
    /// The record.
    pub value: T,
    /// What is odd about it.
    pub flags: Vec<Flag>,
    /// Keys that the loader does not know, as they stand in the file.
    pub extra: Map<String, Value>,
}

/// What is odd about an accepted row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flag {
    /// An answer of no characters.
    EmptyAnswer,
    /// The same text stands in two different tiers: no rubric can tell them apart.
    SameTextRankedTwice,
    /// A response that no tier names; it is left out of the answers.
    UnrankedResponse,
    /// All answers are tied: the anchor contributes no pair.
    NoPair,
}

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// The file cannot be opened or read.
    #[error("read data set {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds no row at all.
    #[error("data set {} is empty, expected one JSON object a line", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Every row of the file was rejected.
    #[error("data set {} has no usable row: all {rejected} rejected, first at {first}", path.display())]
    NoUsableRow {
        /// The file.
        path: PathBuf,
        /// How many rows were rejected.
        rejected: usize,
        /// The first of them.
        first: Box<Quarantined>,
    },
    /// The list of rejected rows cannot be written.
    #[error("write quarantine {}: {source}", path.display())]
    WriteQuarantine {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A record as `parse` makes it from the fields `F` of a row.
pub(crate) struct Parsed<T> {
    pub id: String,
    pub value: T,
    pub flags: Vec<Flag>,
}

/// Loads a JSONL file whose rows have the fields `F`; `known` names the keys that `F` reads.
///
/// # Errors
/// When the file cannot be read, is empty, or has no usable row.
pub(crate) fn load<F: DeserializeOwned, T>(
    path: &Path,
    known: &[&str],
    parse: impl Fn(F) -> Result<Parsed<T>, String>,
) -> Result<DataSet<T>, DataError> {
    let unreadable = |source| DataError::Read { path: path.to_owned(), source };
    let reader = BufReader::new(File::open(path).map_err(unreadable)?);

    let mut set = DataSet { rows: Vec::new(), quarantined: Vec::new(), blank_lines: 0 };
    let mut line_of_id: HashMap<String, usize> = HashMap::new();
    for (index, bytes) in reader.split(b'\n').enumerate() {
        let bytes = bytes.map_err(unreadable)?;
        let line = index + 1;
        let row = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes).trim_ascii();
        if row.is_empty() {
            set.blank_lines += 1;
            continue;
        }
        let accepted = fields(row, known).and_then(|(fields, extra)| {
            let Parsed { id, value, flags } = parse(fields)?;
            if let Some(first) = line_of_id.get(&id) {
                return Err(format!("id {id:?} stands already on line {first}"));
            }
            line_of_id.insert(id, line);
            Ok(Row { line, value, flags, extra })
        });
        match accepted {
            Ok(row) => set.rows.push(row),
            Err(reason) => {
                set.quarantined.push(Quarantined { file: path.to_owned(), line, reason })
            }
        }
    }
    match set.quarantined.first() {
        _ if !set.rows.is_empty() => Ok(set),
        None => Err(DataError::Empty { path: path.to_owned() }),
        Some(first) => Err(DataError::NoUsableRow {
            path: path.to_owned(),
            rejected: set.quarantined.len(),
            first: Box::new(first.clone()),
        }),
    }
}

/// An id given as text or as an integer; integers become their decimal text.
pub(crate) fn id_as_text<'de, D: Deserializer<'de>>(row: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected an id as text or integer")]
    enum Id {
        Text(String),
        Unsigned(u64),
        Signed(i64),
    }
    let id = match Id::deserialize(row)? {
        Id::Text(text) => text,
        Id::Unsigned(number) => number.to_string(),
        Id::Signed(number) => number.to_string(),
    };
    if id.is_empty() {
        return Err(serde::de::Error::custom("expected an id of at least one character"));
    }
    Ok(id)
}

/// The fields of one row and the keys that are none of them.
fn fields<F: DeserializeOwned>(
    row: &[u8],
    known: &[&str],
) -> Result<(F, Map<String, Value>), String> {
    let text = str::from_utf8(row)
        .map_err(|error| format!("invalid UTF-8 at byte {} of the row", error.valid_up_to()))?;
    let mut extra: Map<String, Value> = serde_json::from_str(text).map_err(|e| at_column(&e))?;
    // A second pass, not a look into the map: it refuses a key given twice and names the path of a
    // wrong value together with its column.
    let mut parser = serde_json::Deserializer::from_str(text);
    let fields = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let path = error.path().to_string();
        let key = if path == "." { String::new() } else { format!("{path}: ") };
        format!("{key}{}", at_column(error.inner()))
    })?;
    extra.retain(|key, _| !known.contains(&key.as_str()));
    Ok((fields, extra))
}

/// The message of a JSON error with its column; its own line number is always 1 here.
fn at_column(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    match message.strip_suffix(&place) {
        Some(message) => format!("{message} at column {}", error.column()),
        None => message,
    }
}
