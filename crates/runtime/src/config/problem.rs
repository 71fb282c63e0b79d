//! What is wrong with a configuration.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::layers::Origin;

/// A configuration that cannot be run. All of these are mistakes of usage (exit code 64).
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read config {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{}:{line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser found and expected.
        message: String,
    },
    /// Keys or values that make no sense; every one of them.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

impl ConfigError {
    /// The exit code of a process that was given this configuration (`EX_USAGE`).
    pub const EXIT_CODE: u8 = 64;
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path of the key, such as `policy.learning_rate`.
    pub key: String,
    /// Where the value comes from.
    pub origin: Origin,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.origin, self.key, self.message)
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
