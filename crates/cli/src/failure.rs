//! What an error means for the one who typed the command.

use std::error::Error;
use std::process::ExitCode;

use runtime::config::ConfigError;

/// `EX_USAGE` of sysexits.h: the command or the configuration is wrong.
const USAGE: u8 = ConfigError::EXIT_CODE;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The command or the configuration is wrong: exit code 64.
    Usage(anyhow::Error),
    /// It failed: exit code 1.
    Failed(anyhow::Error),
}

impl Failure {
    /// Says what is wrong on standard error, a line for each problem.
    #[must_use]
    pub fn tell(&self) -> ExitCode {
        let (error, code) = match self {
            Self::Usage(error) => (error, ExitCode::from(USAGE)),
            Self::Failed(error) => (error, ExitCode::FAILURE),
        };
        for line in chain(error.as_ref()).lines() {
            eprintln!("error: {line}");
        }
        code
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Errors that are mistakes of usage.
pub trait OrUsage<T> {
    /// The value, or [`Failure::Usage`].
    ///
    /// # Errors
    /// The same, as a mistake of usage.
    fn or_usage(self) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrUsage<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::Usage(error.into()))
    }
}

/// Arguments that are none, or a request for help.
#[must_use]
pub fn of_arguments(error: &clap::Error) -> ExitCode {
    // Nothing is left to be said where standard output is closed.
    error.print().ok();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// An error with its causes in one line. Causes that the error has said already are left out.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn causes_are_said_once() {
        let io = std::io::Error::other("disk full");
        let error = Err::<(), _>(io).context("write a: disk full").context("save").unwrap_err();
        assert_eq!(chain(error.as_ref()), "save: write a: disk full");
    }
}
