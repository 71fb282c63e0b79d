//! The fallback rubric, written once by a person and never changed: the last thing to judge by.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rl::Rubric;

use crate::parse::{Limits, ParseError, parse_json};

/// Why a rubric file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("read fallback rubric {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It holds no valid rubric.
    #[error("fallback rubric {path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ParseError,
    },
    /// An item that no program can judge.
    #[error(
        "fallback rubric {path}: item {item} has no \"check\", expected a program check for each"
    )]
    NoCheck {
        /// The file.
        path: PathBuf,
        /// Which item, from 1.
        item: usize,
    },
}

/// Loads a rubric of program checks from a JSON file, see [`parse_json`].
///
/// # Errors
/// [`LoadError`], which names the file.
pub fn load(path: &Path, limits: Limits) -> Result<Rubric, LoadError> {
    let text =
        fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.into(), source })?;
    let rubric = parse_json(&text, limits)
        .map_err(|source| LoadError::Parse { path: path.into(), source })?;
    match rubric.items.iter().position(|item| item.check.is_none()) {
        Some(at) => Err(LoadError::NoCheck { path: path.into(), item: at + 1 }),
        None => Ok(rubric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_loads_or_the_error_names_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let limits = Limits { min_items: 1, max_items: 4 };
        let path = dir.path().join("fallback.json");
        let missing = load(&path, limits).expect_err("missing").to_string();
        assert!(missing.contains("fallback.json"), "{missing}");
        fs::write(&path, r#"{"rubrics":[{"criterion":"a","weight":9}]}"#).expect("written");
        let bad = load(&path, limits).expect_err("bad weight").to_string();
        assert!(bad.contains("fallback.json: item 1: weight 9"), "{bad}");
        fs::write(&path, r#"{"rubrics":[{"criterion":"a","weight":2}]}"#).expect("written");
        let unjudged = load(&path, limits).expect_err("no check").to_string();
        assert!(unjudged.contains("fallback.json: item 1 has no \"check\""), "{unjudged}");
        let item = r#"{"criterion":"a","weight":2,"check":{"kind":"contains","text":"a"}}"#;
        fs::write(&path, format!(r#"{{"rubrics":[{item}]}}"#)).expect("written");
        assert_eq!(load(&path, limits).expect("valid").items[0].weight, 2);
    }
}
