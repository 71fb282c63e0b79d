//! The configuration of a run: one TOML file, resolved once, passed around frozen.
//!
//! Defaults are overridden by the file, the file by the environment
//! (`RUBRICON_POLICY__LEARNING_RATE`), the environment by `--set policy.learning_rate=1e-4`. An
//! unknown key is an error; every problem is reported at once with its key and where it was set.
//!
//! Reading order: the sections ([`run`], [`actors`], [`learning`], [`judging`], [`services`]), how
//! the layers become one ([`layers`]), what is refused ([`problem`], `validate`), and the batch
//! arithmetic that follows ([`derived`]).

pub mod actors;
pub mod derived;
pub mod judging;
pub mod layers;
pub mod learning;
pub mod problem;
pub mod run;
pub mod services;
mod validate;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

pub use actors::{Decoding, Generator, GeneratorInput, Policy};
pub use derived::Derived;
pub use judging::{Audit, Evaluator, EvaluatorKind, Verifier, World};
pub use layers::{Origin, Resolved, Sources};
pub use learning::{Objective, Optimizer};
pub use problem::{ConfigError, Problem};
pub use run::{Batch, Run, Schedule};
pub use services::{LogFormat, Services, Telemetry};

/// Everything a run is told. Made by [`Sources::resolve`] and never changed afterwards.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Config {
    /// The run itself.
    pub run: Run,
    /// Phases and rounds.
    pub schedule: Schedule,
    /// Groups.
    pub batch: Batch,
    /// The policy.
    pub policy: Policy,
    /// The rubric generator.
    pub generator: Generator,
    /// The objective of both actors.
    pub objective: Objective,
    /// The optimiser of both actors.
    pub optimizer: Optimizer,
    /// Verdicts.
    pub verifier: Verifier,
    /// Rewards.
    pub evaluator: Evaluator,
    /// The look from outside.
    pub audit: Audit,
    /// Processes and the calls between them.
    pub services: Services,
    /// Log lines.
    pub telemetry: Telemetry,
}

impl Config {
    /// The paths of all keys, sorted: `audit.every_steps`, `audit.prompts`, ...
    #[must_use]
    pub fn keys() -> Vec<String> {
        layers::flatten(&Self::default().to_table()).into_keys().collect()
    }

    /// The resolved file: every key with its value, in the order of the sections.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a validated config holds nothing that TOML cannot say")
    }

    /// The keys whose change makes this another run than the one `earlier` described.
    #[must_use]
    pub fn changed_since(&self, earlier: &Self) -> Vec<String> {
        let then = earlier.identity();
        let changed =
            |(key, value): (String, Value)| (then.get(&key) != Some(&value)).then_some(key);
        self.identity().into_iter().filter_map(changed).collect()
    }

    /// A digest of what makes this run itself: processes of one run agree on it.
    #[must_use]
    pub fn digest(&self) -> rl::Digest {
        let mut hasher = blake3::Hasher::new();
        for (key, value) in self.identity() {
            hasher.update(format!("{key} = {value}\n").as_bytes());
        }
        rl::Digest(hasher.finalize().into())
    }

    /// All keys but those of how a run is spread over processes, where it writes, and what it logs:
    /// these may differ between processes, and when a run is resumed.
    fn identity(&self) -> BTreeMap<String, Value> {
        let mut keys = layers::flatten(&self.to_table());
        keys.retain(|key, _| {
            !key.starts_with("services.") && !key.starts_with("telemetry.") && key != "run.dir"
        });
        keys
    }

    fn to_table(&self) -> toml::Table {
        toml::Table::try_from(self).expect("a config holds nothing that TOML cannot say")
    }
}

#[cfg(test)]
mod tests;
