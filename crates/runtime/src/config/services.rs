//! `[services]` and `[telemetry]`: processes, the calls between them, and what they say.

use std::net::SocketAddr;
use std::num::NonZero;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `[services]`: processes and the calls between them. Port 0 is any free port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Services {
    /// Where the coordinator listens.
    pub coordinator: SocketAddr,
    /// Where a rollout worker listens, and where the coordinator calls it back; several workers in
    /// one place need port 0.
    pub rollout: SocketAddr,
    /// Where the evaluator listens.
    pub evaluator: SocketAddr,
    /// Where the learner listens.
    pub learner: SocketAddr,
    /// Rollout workers to start.
    pub rollout_workers: u32,
    /// Threads that compute, in each process; 0 is one for each core.
    pub threads: u32,
    /// How long a worker may hold a group before it is handed out again, seconds.
    pub lease_seconds: f64,
    /// How long one call may take, seconds.
    pub deadline_seconds: f64,
    /// Time between two signs of life of a worker, seconds.
    pub heartbeat_seconds: f64,
    /// How long a process that was asked to stop may finish what it holds, seconds.
    pub grace_seconds: f64,
}

impl Services {
    /// Threads that compute in one process.
    #[must_use]
    pub fn compute_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads as usize,
        }
    }

    /// How long a worker may hold a group.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_secs_f64(self.lease_seconds)
    }

    /// How long one call may take.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_secs_f64(self.deadline_seconds)
    }

    /// Time between two signs of life.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs_f64(self.heartbeat_seconds)
    }

    /// How long a process may finish what it holds.
    #[must_use]
    pub fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.grace_seconds)
    }
}

/// `[telemetry]`: log lines on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// What is logged: `info`, or a filter such as `warn,coordinator=debug`.
    pub log: String,
    /// How a line looks.
    pub format: LogFormat,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Services {
    fn default() -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            coordinator: loopback,
            rollout: loopback,
            evaluator: loopback,
            learner: loopback,
            rollout_workers: 1,
            threads: 0,
            lease_seconds: 60.0,
            deadline_seconds: 60.0,
            heartbeat_seconds: 2.0,
            grace_seconds: 10.0,
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { log: "info".to_owned(), format: LogFormat::Text }
    }
}
