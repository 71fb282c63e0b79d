//! Rows that cannot be used, with where they stand and why.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::dataset::DataError;

/// A rejected row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// The file it stands in.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// What was expected and what was found, on one line.
    pub reason: String,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.reason)
    }
}

/// Writes rejected rows to `path`, one `{"file", "line", "reason"}` a line, replacing the file.
///
/// # Errors
/// When the file cannot be written.
pub fn write_quarantine(path: &Path, rows: &[Quarantined]) -> Result<(), DataError> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        for row in rows {
            serde_json::to_writer(&mut file, row)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|source| DataError::WriteQuarantine { path: path.to_owned(), source })
}
