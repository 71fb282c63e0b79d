//! `rubricon check`: a configuration without a run.

use anyhow::Context;
use data::{DataError, DataSet};
use lm::folder::Lm;
use runtime::config::{Config, Resolved, World};

use crate::failure::{Failure, OrUsage};
use crate::say::{self, say};

/// Looks at everything that a run would read, and prints the resolved configuration, its batch
/// arithmetic and a memory estimate. Starts nothing and writes nothing.
///
/// # Errors
/// With the first file that a run could not use.
pub fn run(resolved: &Resolved) -> Result<(), Failure> {
    resolved.check_files().or_usage()?;
    let config = &resolved.config;
    say::text(format_args!("{}", config.to_toml()));
    say!("\n# Batch arithmetic\n");
    say::text(format_args!("{}", comments(&config.derived().to_string())));
    say!("\n# Data\n");
    say::text(format_args!("{}", comments(&data(config)?)));
    say!("\n# Memory, estimated\n");
    say::text(format_args!("{}", comments(&memory(config)?)));
    Ok(())
}

/// The output is TOML with remarks: it can be saved and run.
fn comments(text: &str) -> String {
    text.lines().map(|line| format!("# {line}\n")).collect()
}

fn data(config: &Config) -> anyhow::Result<String> {
    let mut lines = vec![rows("policy.prompts", data::load_prompts(&config.policy.prompts))?];
    if config.derived().generator.steps > 0 {
        lines.push(rows("generator.anchors", data::load_anchors(&config.generator.anchors))?);
    }
    if config.audit.world != World::None {
        lines.push(rows("audit.prompts", data::load_prompts(&config.audit.prompts))?);
    }
    Ok(lines.join("\n"))
}

fn rows<T>(key: &'static str, loaded: Result<DataSet<T>, DataError>) -> anyhow::Result<String> {
    let set = loaded.context(key)?;
    let (bad, good) = (set.quarantined.len(), set.into_values().len());
    Ok(format!("{key}: {good} rows, {bad} that cannot be used"))
}

fn memory(config: &Config) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    let mut total = 0.0;
    let mut add = |what: String, bytes: f64| {
        total += bytes;
        lines.push(format!("{what:<52}{:>10}", mebibytes(bytes)));
    };
    let derived = config.derived();
    let threads = config.services.compute_threads() as f64;
    let policy = Lm::load(&config.policy.model).context("policy.model")?;
    let shape = Shape::of(&policy);
    let workers = f64::from(config.services.rollout_workers);
    let tokens = f64::from(config.batch.group_size) * f64::from(config.policy.max_tokens);
    add("learner, policy".to_owned(), shape.learner(config.policy.kl_coef > 0.0));
    add(
        "learner, one group of the policy on each thread".to_owned(),
        threads * shape.graph(tokens),
    );
    add("rollout workers: weights".to_owned(), workers * 2.0 * shape.weights());
    add(
        "rollout workers: a group on each thread".to_owned(),
        workers * threads * shape.cache(tokens),
    );
    if derived.generator.steps > 0 || config.trains_generator() {
        let generator = Lm::load(&config.generator.model).context("generator.model")?;
        let shape = Shape::of(&generator);
        let rubrics = f64::from(config.generator.rubrics_per_group);
        let tokens = rubrics * f64::from(config.generator.max_tokens);
        add("learner, generator".to_owned(), shape.learner(config.generator.kl_coef > 0.0));
        add("evaluator: weights".to_owned(), 2.0 * shape.weights());
        add("evaluator: a group on each thread".to_owned(), threads * shape.cache(tokens));
    }
    lines.push(format!("{:<52}{:>10}", "together, at most", mebibytes(total)));
    Ok(lines.join("\n"))
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// What the memory of a model depends on. Everything in memory is f32.
struct Shape {
    parameters: f64,
    layers: f64,
    width: f64,
    inner: f64,
    cached: f64,
    vocab: f64,
    context: f64,
}

impl Shape {
    fn of(model: &Lm) -> Self {
        let config = model.decoder.config();
        let sizes = model.decoder.export().into_iter();
        let parameters: usize = sizes.map(|tensor| tensor.shape.iter().product::<usize>()).sum();
        Self {
            parameters: parameters as f64,
            layers: config.num_hidden_layers as f64,
            width: config.hidden_size as f64,
            inner: config.intermediate_size as f64,
            cached: (2 * config.num_key_value_heads * config.head_dim()) as f64,
            vocab: config.vocab_size as f64,
            context: config.max_position_embeddings as f64,
        }
    }

    fn weights(&self) -> f64 {
        4.0 * self.parameters
    }

    /// Weights, gradients and two moments, and the reference of the KL term.
    fn learner(&self, reference: bool) -> f64 {
        self.weights() * if reference { 5.0 } else { 4.0 }
    }

    /// What the backward pass of one row of tokens keeps: about 14 vectors of the model's width and
    /// three of the inner width in each layer, and logits, their softmax and its gradient.
    fn graph(&self, tokens: f64) -> f64 {
        4.0 * tokens * (self.layers * (14.0 * self.width + 3.0 * self.inner) + 3.0 * self.vocab)
    }

    /// Keys and values of one row of tokens, its prompt included.
    fn cache(&self, tokens: f64) -> f64 {
        4.0 * (tokens + self.context) * self.layers * self.cached
    }
}
