//! From a configuration to the ledger's settings and the data sets.

use std::path::{Path, PathBuf};
use std::time::Duration;

use data::{DataError, DataSet};
use ledger::{LeaseTimes, Millis, PerActor, Settings};
use rl::advantage::Normalization;
use rl::{Anchor, Prompt};
use runtime::config::{Config, EvaluatorKind, World};

/// The prompts and anchors of a run.
#[derive(Debug)]
pub struct Data {
    /// What the policy is trained on.
    pub prompts: Vec<Prompt>,
    /// What the generator is trained on; empty where it is not trained.
    pub anchors: Vec<Anchor>,
    /// What the policy is audited on; empty where it is not audited.
    pub heldout: Vec<Prompt>,
}

/// A configuration whose data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file.
    #[error("{key}")]
    Data {
        /// The key that names the file.
        key: &'static str,
        /// What is wrong with it.
        source: DataError,
    },
    /// No anchor passes the filter.
    #[error(
        "generator.anchors: {path}: none of {found} anchors has {min_answers} answers and \
         {min_chars} characters in prompt and best answer"
    )]
    NoAnchors {
        /// The file.
        path: PathBuf,
        /// Anchors in it.
        found: usize,
        /// `generator.anchor_min_answers`.
        min_answers: u32,
        /// `generator.anchor_min_chars`.
        min_chars: u32,
    },
}

/// Loads the data sets that a run reads. Rows that cannot be used are listed in the run folder's
/// `quarantine.jsonl`.
///
/// # Errors
/// If a file cannot be read or holds nothing that can be used.
pub fn load(config: &Config, dir: &Path) -> Result<Data, PlanError> {
    let mut quarantined = Vec::new();
    let prompts =
        rows("policy.prompts", data::load_prompts(&config.policy.prompts), &mut quarantined)?;
    let anchors = if trains_generator(config) {
        let generator = &config.generator;
        let all =
            rows("generator.anchors", data::load_anchors(&generator.anchors), &mut quarantined)?;
        let (min_answers, min_chars) = (generator.anchor_min_answers, generator.anchor_min_chars);
        let found = all.len();
        let kept: Vec<Anchor> = all
            .into_iter()
            .filter(|a| data::exclusion(a, min_answers as usize, min_chars as usize).is_none())
            .collect();
        if kept.is_empty() {
            let path = generator.anchors.clone();
            return Err(PlanError::NoAnchors { path, found, min_answers, min_chars });
        }
        tracing::info!(anchors = kept.len(), left_out = found - kept.len(), "anchors loaded");
        kept
    } else {
        Vec::new()
    };
    let heldout = if config.audit.world == World::None {
        Vec::new()
    } else {
        rows("audit.prompts", data::load_prompts(&config.audit.prompts), &mut quarantined)?
    };
    let trained = prompts.iter().chain(anchors.iter().map(|anchor| &anchor.prompt));
    let texts = heldout.iter().map(|prompt| prompt.text.as_str());
    let shared = data::overlap(trained.map(|prompt| prompt.text.as_str()), texts);
    if let Some(first) = shared.first() {
        tracing::warn!(
            prompts = shared.len(),
            first,
            "audit prompts are trained on, too: the audit is not held out"
        );
    }
    if !quarantined.is_empty() {
        let path = dir.join("quarantine.jsonl");
        tracing::warn!(rows = quarantined.len(), path = %path.display(), "rows quarantined");
        data::write_quarantine(&path, &quarantined)
            .map_err(|source| PlanError::Data { key: "run.dir", source })?;
    }
    Ok(Data { prompts, anchors, heldout })
}

fn rows<T>(
    key: &'static str,
    loaded: Result<DataSet<T>, DataError>,
    quarantined: &mut Vec<data::Quarantined>,
) -> Result<Vec<T>, PlanError> {
    let mut set = loaded.map_err(|source| PlanError::Data { key, source })?;
    quarantined.append(&mut set.quarantined);
    Ok(set.into_values())
}

fn trains_generator(config: &Config) -> bool {
    config.derived().generator.steps > 0
}

/// What the ledger decides by.
pub fn settings(config: &Config, data: &Data) -> Settings {
    let normalization = Normalization {
        std: config.objective.std_normalization,
        epsilon: config.objective.advantage_eps,
    };
    let millis = |duration: Duration| Millis(duration.as_millis() as u64);
    let lease = millis(config.services.lease());
    let generator_steps =
        if trains_generator(config) { config.schedule.generator_steps } else { 0 };
    Settings {
        seed: config.run.seed,
        schedule: config.schedule.kind,
        rounds: config.schedule.rounds,
        steps: PerActor {
            policy: config.schedule.policy_steps.into(),
            generator: generator_steps.into(),
        },
        groups_per_step: PerActor {
            policy: config.policy.groups_per_step as usize,
            generator: config.generator.groups_per_step as usize,
        },
        max_staleness: config.batch.max_staleness as usize,
        max_draws_per_step: config.batch.max_draws as usize,
        max_attempts: MAX_ATTEMPTS,
        lease: LeaseTimes { rollout: lease, evaluate: lease, train: lease },
        // The generator's two rewards live on different scales: they must each be normalised.
        normalization: PerActor {
            policy: normalization,
            generator: Normalization { std: true, ..normalization },
        },
        anchor_weight: config.generator.anchor_weight,
        prompts: data.prompts.len(),
        anchors: data.anchors.len(),
        audit_every: (config.audit.every_steps > 0).then(|| config.audit.every_steps.into()),
    }
}

/// Attempts at a call before its group is given up: enough for workers to be restarted meanwhile.
const MAX_ATTEMPTS: u32 = 8;

/// Whether a generator writes the rubrics.
pub fn has_generator(config: &Config) -> bool {
    config.evaluator.kind == EvaluatorKind::Dynamic
}
