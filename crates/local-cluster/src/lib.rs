//! The whole system on loopback, in one process, with faults: for tests only.
//!
//! A [`Cluster`] has a folder with two small untrained models, prompts and anchors of the controlled
//! world, and a configuration. [`Cluster::run`] conducts the run with real services over real gRPC
//! until it ends, or until a [`Fault`] says otherwise; running again goes on where it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
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
use tokio::task::JoinHandle;

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
    /// The first worker of a role is cut off in the middle of its work when so many steps are
    /// done, and a new one of the same name is started.
    Restart(Part, u64),
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
        let dir = self.dir();
        std::fs::create_dir_all(&dir)?;
        let mut config = self.config()?;
        let store = Arc::new(Embedded::open(dir.join("store.redb")).await?);
        let coordinator =
            coordinator::bind(coordinator::Config { run: Arc::new(config.clone()), dir, store })
                .await?;
        config.services.coordinator = coordinator.address();
        let config = Arc::new(config);
        let mut state = coordinator.state();
        let shutdown = Shutdown::new();
        let mut workers = Workers::start(self, &config).await?;
        let mut run = Box::pin(coordinator.run(shutdown.clone()));
        let mut pending = fault;
        loop {
            tokio::select! {
                outcome = &mut run => {
                    workers.stop();
                    return Ok(outcome?);
                }
                changed = state.changed(), if pending != Fault::None => {
                    changed.context("the coordinator is gone")?;
                    let steps = state.borrow().total_step;
                    match pending {
                        Fault::StopAfter(at) if steps >= at => {
                            pending = Fault::None;
                            workers.stop();
                            shutdown.begin();
                        }
                        Fault::Restart(part, at) if steps >= at => {
                            pending = Fault::None;
                            workers.restart(part, self, &config).await?;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

/// The workers of a run, each a task that can be cut off.
struct Workers {
    tasks: Vec<(String, JoinHandle<()>)>,
}

impl Workers {
    async fn start(cluster: &Cluster, config: &Arc<Config>) -> anyhow::Result<Self> {
        let mut workers = Self { tasks: Vec::new() };
        let rollouts = (0..config.services.rollout_workers).map(|i| format!("rollout-{i}"));
        for name in rollouts.chain(["evaluator".to_owned(), "learner".to_owned()]) {
            workers.tasks.push((name.clone(), launch(&name, cluster, config).await?));
        }
        Ok(workers)
    }

    async fn restart(
        &mut self,
        part: Part,
        cluster: &Cluster,
        config: &Arc<Config>,
    ) -> anyhow::Result<()> {
        let name = match part {
            Part::Rollout => "rollout-0",
            Part::Evaluator => "evaluator",
            Part::Learner => "learner",
        };
        for (worker, task) in &mut self.tasks {
            if worker == name {
                task.abort();
                // What is cut off may be anywhere; it is gone once the task says so.
                while !task.is_finished() {
                    tokio::task::yield_now().await;
                }
                *task = launch(name, cluster, config).await?;
            }
        }
        Ok(())
    }

    fn stop(&self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
    }
}

#[allow(clippy::disallowed_methods, reason = "a task that is cut off without a word is the test")]
async fn launch(
    name: &str,
    cluster: &Cluster,
    config: &Arc<Config>,
) -> anyhow::Result<JoinHandle<()>> {
    let (worker_id, run) = (name.to_owned(), Arc::clone(config));
    let cache = cluster.dir().join("cache").join(name);
    let shutdown = Shutdown::new();
    Ok(match name {
        "learner" => {
            let weights = cluster.dir().join("weights");
            let worker = learner::bind(learner::Config { worker_id, run, weights }).await?;
            tokio::spawn(async move { worker.run(shutdown).await.expect("a learner serves") })
        }
        "evaluator" => {
            let config = evaluator::Config { worker_id, run, cache, scorer: None };
            let worker = evaluator::bind(config).await?;
            tokio::spawn(async move { worker.run(shutdown).await.expect("an evaluator serves") })
        }
        _ => {
            let worker = rollout::bind(rollout::Config { worker_id, run, cache }).await?;
            tokio::spawn(async move { worker.run(shutdown).await.expect("a worker serves") })
        }
    })
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
