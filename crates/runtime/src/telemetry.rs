//! Log lines: on standard error, for people or as JSON.
//!
//! A line is handed to a thread of its own and dropped where that cannot keep up, so that logging
//! never blocks the loop. Fields have these names everywhere: `run_id group_id lease_id attempt
//! worker_id step weight_version staleness`; messages are constant and lower case.

use std::io;

use thiserror::Error;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{LogFormat, Telemetry};

/// Starts logging to standard error for the whole process. Lines that are still waiting are written
/// when the guard is dropped.
///
/// # Errors
/// When the filter is malformed or logging has been started already.
pub fn start(telemetry: &Telemetry) -> Result<WorkerGuard, TelemetryError> {
    start_to(telemetry, io::stderr())
}

/// As [`start`], but writes to `output`, such as a terminal that also shows a progress bar.
///
/// # Errors
/// When the filter is malformed or logging has been started already.
pub fn start_to(
    telemetry: &Telemetry,
    output: impl io::Write + Send + 'static,
) -> Result<WorkerGuard, TelemetryError> {
    let (subscriber, guard) = subscriber(telemetry, output)?;
    subscriber.try_init().map_err(|source| TelemetryError::Started { source })?;
    Ok(guard)
}

/// Why logging cannot start.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// `telemetry.log` is no filter.
    #[error("telemetry.log: {filter:?} is no log filter: {source}")]
    Filter {
        /// The filter.
        filter: String,
        /// Why.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The process logs already.
    #[error("start logging: {source}")]
    Started {
        /// Why.
        source: tracing_subscriber::util::TryInitError,
    },
}

type Subscriber = Box<dyn tracing::Subscriber + Send + Sync>;

fn subscriber(
    telemetry: &Telemetry,
    output: impl io::Write + Send + 'static,
) -> Result<(Subscriber, WorkerGuard), TelemetryError> {
    // The tokenizer library tells of its tables at `info`, once for each model; what the filter
    // says of it comes later and wins.
    let filter = EnvFilter::try_new(format!("tk_encode=warn,{}", telemetry.log))
        .map_err(|source| TelemetryError::Filter { filter: telemetry.log.clone(), source })?;
    let (writer, guard) = tracing_appender::non_blocking(output);
    let lines = fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    let subscriber: Subscriber = match telemetry.format {
        LogFormat::Text => Box::new(lines.with_target(false).finish()),
        LogFormat::Json => Box::new(lines.json().flatten_event(true).finish()),
    };
    Ok((subscriber, guard))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Bytes that a test can look at while the writer holds them too.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: &str, format: LogFormat) -> String {
        let output = Shared::default();
        let telemetry = Telemetry { log: log.to_owned(), format };
        let (subscriber, guard) = subscriber(&telemetry, output.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(group_id = 7, "group trained");
            tracing::debug!("not asked for");
        });
        drop(guard);
        let bytes = output.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_for_people_and_a_line_of_json_say_the_same() {
        let text = logged("info", LogFormat::Text);
        assert!(text.ends_with("INFO group trained group_id=7\n"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&logged("info", LogFormat::Json)).unwrap();
        assert_eq!((&json["message"], &json["group_id"]), (&"group trained".into(), &7.into()));
        assert_eq!(logged("warn", LogFormat::Text), "");
    }

    #[test]
    fn a_filter_that_is_none_is_refused() {
        let telemetry = Telemetry { log: "info=loud".into(), format: LogFormat::Text };
        let Err(error) = subscriber(&telemetry, io::sink()) else { panic!("accepted") };
        assert!(error.to_string().starts_with("telemetry.log: \"info=loud\" is no log filter"));
    }
}
