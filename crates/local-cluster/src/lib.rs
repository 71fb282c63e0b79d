//! The whole system on loopback, in one process, with faults: for tests only.
//!
//! A [`Cluster`] has a folder with two small untrained models, prompts and anchors of the controlled
//! world, and a configuration. [`Cluster::run`] conducts the run with real services over real gRPC
//! until it ends, or until a [`Fault`] says otherwise; running again goes on where it was.
//!
//! Reading order: this file, `workers` (what is cut off).

mod workers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use coordinator::Coordinator;
use coordinator::driver::Outcome;
use coordinator::journal::{RunState, StepLine};
use lm::config::ModelConfig;
use lm::folder::{Lm, Storage};
use lm::model::Decoder;
use lm::template;
use lm::tokenizer::Tokenizer;
use rl::{Prompt, Seed, Stream};
use runtime::config::{Config, Sources};
use runtime::shutdown::Shutdown;
use store::Embedded;
use tempfile::TempDir;

use workers::Workers;

/// A run of its own.
pub struct Cluster {
    folder: TempDir,
    settings: Vec<String>,
}

/// What goes wrong in a run, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Everything is stopped when so many steps are done.
    StopAfter(u64),
    /// The coordinator is stopped when so many steps are done, and another one is started under
    /// the same address while the workers stay.
    RestartCoordinator(u64),
    /// The first worker of a role is cut off in the middle of its work when so many steps are
    /// done, and a new one of the same name is started.
    Restart(Part, u64),
}

impl Fault {
    fn at(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::StopAfter(at) | Self::RestartCoordinator(at) | Self::Restart(_, at) => Some(at),
        }
    }
}

/// A worker that can be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first rollout worker.
    Rollout,
    /// The evaluator.
    Evaluator,
    /// The learner.
    Learner,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Rollout => "rollout-0",
            Self::Evaluator => "evaluator",
            Self::Learner => "learner",
        }
    }
}

impl Cluster {
    /// A folder with models and data, and a configuration of few small steps changed by
    /// `settings` (`section.key=value`).
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn new(settings: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        make_models(folder.path())?;
        make_data(folder.path())?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut all: Vec<String> = [
            ("policy.model", path("policy")),
            ("generator.model", path("generator")),
            ("policy.prompts", path("prompts.jsonl")),
            ("generator.anchors", path("anchors.jsonl")),
            ("audit.prompts", path("heldout.jsonl")),
            ("run.dir", path("run")),
        ]
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
        all.extend(
            [
                "run.name=test",
                "schedule.rounds=2",
                "schedule.generator_steps=2",
                "schedule.policy_steps=2",
                "batch.group_size=4",
                "policy.groups_per_step=3",
                "policy.max_tokens=12",
                "generator.groups_per_step=2",
                "generator.rubrics_per_group=3",
                "generator.max_tokens=24",
                "generator.min_items=2",
                "generator.max_items=3",
                "audit.samples_per_prompt=2",
                "audit.matrix_prompts=2",
                "audit.every_steps=1",
                "services.threads=1",
                "services.heartbeat_seconds=0.5",
            ]
            .map(str::to_owned),
        );
        all.extend(settings.iter().map(|setting| (*setting).to_owned()));
        Ok(Self { folder, settings: all })
    }

    /// The same folder under another setting.
    #[must_use]
    pub fn with(self, setting: &str) -> Self {
        let mut settings = self.settings;
        settings.push(setting.to_owned());
        Self { settings, ..self }
    }

    /// The resolved configuration.
    ///
    /// # Errors
    /// If a setting is wrong.
    pub fn config(&self) -> anyhow::Result<Config> {
        let sources = Sources { set: self.settings.clone(), ..Sources::default() };
        Ok(sources.resolve()?.config)
    }

    /// The run's folder.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// How far the run has come.
    ///
    /// # Errors
    /// If it has not begun.
    pub fn state(&self) -> anyhow::Result<RunState> {
        let text = std::fs::read(self.dir().join("state.json"))?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// The steps made so far.
    ///
    /// # Errors
    /// If the run has not begun.
    pub fn steps(&self) -> anyhow::Result<Vec<StepLine>> {
        Ok(coordinator::journal::read(&self.dir().join("steps.jsonl"))?)
    }

    /// Conducts the run, or goes on with it, until it ends or the fault stops it.
    ///
    /// # Errors
    /// If a service cannot start or fails for good.
    pub async fn run(&self, fault: Fault) -> anyhow::Result<Outcome> {
        let mut config = self.config()?;
        let coordinator = self.coordinator(&config).await?;
        // The port that it was given; a second coordinator takes the same.
        config.services.coordinator = coordinator.address();
        let mut workers = Workers::start(self.dir(), Arc::new(config.clone()))?;
        let mut outcome = conduct(coordinator, fault, &mut workers).await;
        if let (Fault::RestartCoordinator(_), Ok(Outcome::Interrupted)) = (fault, &outcome) {
            let coordinator = self.coordinator(&config).await?;
            outcome = conduct(coordinator, Fault::None, &mut workers).await;
        }
        workers.stop().await;
        outcome
    }

    async fn coordinator(&self, config: &Config) -> anyhow::Result<Coordinator> {
        let dir = self.dir();
        std::fs::create_dir_all(&dir)?;
        let store = Arc::new(Embedded::open(dir.join("store.redb")).await?);
        let run = Arc::new(config.clone());
        Ok(coordinator::bind(coordinator::Config { run, dir, store }).await?)
    }
}

/// Runs one coordinator to its end; the fault happens on the way.
async fn conduct(
    coordinator: Coordinator,
    fault: Fault,
    workers: &mut Workers,
) -> anyhow::Result<Outcome> {
    let mut state = coordinator.state();
    let shutdown = Shutdown::new();
    let mut run = Box::pin(coordinator.run(shutdown.clone()));
    let mut pending = fault.at();
    loop {
        tokio::select! {
            outcome = &mut run => return Ok(outcome?),
            Some(error) = workers.failures.recv() => return Err(error),
            changed = state.changed(), if pending.is_some() => {
                changed.context("the coordinator is gone")?;
                if pending.is_none_or(|at| state.borrow().total_step < at) {
                    continue;
                }
                pending = None;
                match fault {
                    Fault::Restart(part, _) => workers.restart(part.name())?,
                    _ => shutdown.begin(),
                }
            }
        }
    }
}

/// Two untrained models of a few thousand weights with one tokenizer.
fn make_models(folder: &Path) -> anyhow::Result<()> {
    let texts = world::corpus::tokenizer_texts(500, Seed::new(0, Stream::Data));
    let tokenizer = Tokenizer::train(&texts, 700, &template::specials())?;
    for (name, seed) in [("policy", 1), ("generator", 2)] {
        let mut config = ModelConfig::llama(tokenizer.vocab_size(), 16, 1, 2);
        config.max_position_embeddings = 384;
        let seed = Seed::new(seed, Stream::Weights);
        let decoder = Decoder::init(&config, seed, &lm::Device::flex());
        Lm { decoder, tokenizer: tokenizer.clone() }.save(&folder.join(name), Storage::F32)?;
    }
    Ok(())
}

/// Prompts, held-out prompts, and anchors whose better answers are by the better author.
fn make_data(folder: &Path) -> anyhow::Result<()> {
    let seed = Seed::new(3, Stream::Data);
    let write = |name: &str, rows: Vec<serde_json::Value>| {
        let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
        std::fs::write(folder.join(name), lines.join("\n"))
    };
    let row = |prompt: &Prompt| serde_json::json!({"id": prompt.id, "prompt": prompt.text});
    let prompts = world::prompts::train_prompts(40, seed);
    write("prompts.jsonl", prompts.iter().map(row).collect())?;
    let heldout = world::prompts::heldout_prompts(4, seed);
    write("heldout.jsonl", heldout.iter().map(row).collect())?;
    let mut draws = world::Draws::new(seed.child(1));
    let anchors = world::prompts::anchor_prompts(20, seed).into_iter().map(|prompt| {
        let task = world::Task::parse(&prompt.text).expect("the world reads its own prompts");
        let mut answer = |care| world::Author::new(care).answer(&task, &mut draws);
        serde_json::json!({
            "id": prompt.id,
            "prompt": prompt.text,
            "responses": [
                {"id": "a", "text": answer(world::Care::PERFECT)},
                {"id": "b", "text": answer(world::Care::BETTER)},
                {"id": "c", "text": answer(world::Care::STARTING)},
            ],
            "tiers": [["a"], ["b"], ["c"]],
        })
    });
    write("anchors.jsonl", anchors.collect())?;
    Ok(())
}
