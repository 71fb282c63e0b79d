//! What every process of a run stands on: configuration, tasks, shutdown, telemetry, and gRPC.
//!
//! A service is a library with one entry, `Config -> bind -> run(shutdown)`. This crate gives it the rest:
//! a frozen configuration, a place to spawn tasks whose end is never overlooked, metrics and log
//! lines that can neither block nor fail the loop, and calls that always have a deadline.
//!
//! Invariants: the environment is read here and nowhere else; every task has a name and an owner;
//! every channel is bounded. Work is handed out again by the ledger alone; [`grpc::Retry`] repeats
//! the calls of audits, [`session`] a registration.
//!
//! Reading order: [`config`], [`shutdown`], [`tasks`], [`grpc`]; what every worker is
//! ([`worker`], [`session`], [`weight_service`]); what is told ([`telemetry`], [`metrics`],
//! [`tensorboard`]).

pub mod config;
pub mod grpc;
pub mod metrics;
pub mod session;
pub mod shutdown;
pub mod tasks;
pub mod telemetry;
pub mod tensorboard;
pub mod weight_service;
pub mod worker;

pub use config::{Config, ConfigError, Resolved, Sources};
pub use metrics::MetricsSink;
pub use shutdown::Shutdown;
pub use tasks::{TaskError, Tasks};
