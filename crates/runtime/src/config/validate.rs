//! What a configuration must satisfy beyond the types of its values.

use std::fmt::Display;
use std::path::Path;

use tracing_subscriber::EnvFilter;

use super::{Config, EvaluatorKind, World};

/// A key and what is wrong with its value.
type Finding = (&'static str, String);

/// Most texts of one group, which is one batch and one message.
const GROUP: u32 = 1024;
/// Most groups open at a time.
const OPEN_GROUPS: u32 = 3072;

impl Config {
    /// Everything wrong with the values, sections in order.
    pub(super) fn validate(&self) -> Vec<Finding> {
        let mut found = Findings(Vec::new());
        self.validate_run(&mut found);
        self.validate_policy(&mut found);
        self.validate_generator(&mut found);
        self.validate_learning(&mut found);
        self.validate_judging(&mut found);
        self.validate_services(&mut found);
        found.0
    }

    /// Paths that a run reads and that lead nowhere.
    pub(super) fn missing_files(&self) -> Vec<Finding> {
        let mut found = Findings(Vec::new());
        found.folder("policy.model", &self.policy.model);
        found.file("policy.prompts", &self.policy.prompts);
        if self.trains_generator() {
            found.folder("generator.model", &self.generator.model);
            found.file("generator.anchors", &self.generator.anchors);
            if !self.generator.fallback_rubric.as_os_str().is_empty() {
                found.file("generator.fallback_rubric", &self.generator.fallback_rubric);
            }
        }
        if self.audit.world != World::None {
            found.file("audit.prompts", &self.audit.prompts);
        }
        found.0
    }

    /// Whether a generator is trained and writes rubrics in this run.
    #[must_use]
    pub fn trains_generator(&self) -> bool {
        self.evaluator.kind == EvaluatorKind::Dynamic
    }

    /// Most groups of a step: those open at a time are persisted in one transaction, which a store
    /// limits.
    fn most_groups(&self) -> u32 {
        OPEN_GROUPS / self.batch.max_staleness.saturating_add(1)
    }

    fn validate_run(&self, found: &mut Findings) {
        let plain =
            Path::new(&self.run.name).file_name().is_some_and(|name| name == &*self.run.name);
        found.require("run.name", plain, || {
            format!("{:?}, expected a name that can be that of a folder", self.run.name)
        });
        found.at_least("schedule.rounds", self.schedule.rounds, 1);
        found.at_least("schedule.generator_steps", self.schedule.generator_steps, 1);
        found.at_least("schedule.policy_steps", self.schedule.policy_steps, 1);
        found.at_least("batch.group_size", self.batch.group_size, 2);
        found.at_most("batch.group_size", self.batch.group_size, GROUP);
        found.at_least("batch.max_draws", self.batch.max_draws, 1);
    }

    fn validate_policy(&self, found: &mut Findings) {
        let policy = &self.policy;
        found.given("policy.model", &policy.model, "a model folder");
        found.given("policy.prompts", &policy.prompts, "a JSONL file of prompts");
        found.at_least("policy.groups_per_step", policy.groups_per_step, 1);
        found.at_most("policy.groups_per_step", policy.groups_per_step, self.most_groups());
        found.at_least("policy.max_tokens", policy.max_tokens, 1);
        found.within("policy.learning_rate", policy.learning_rate, "[0, 1]", |v| {
            (0.0..=1.0).contains(&v)
        });
        found.within("policy.kl_coef", policy.kl_coef, "[0, inf)", |v| v >= 0.0);
        found.within("policy.temperature", policy.temperature, "(0, inf)", |v| v > 0.0);
        // The learner does not know which tokens a sampler left out: over all of them the ratio
        // and the gradient of what it kept are those of another distribution.
        let (top_p, top_k) = (policy.top_p, policy.top_k);
        let why = "training on samples of fewer tokens than all biases the gradient";
        found.require("policy.top_p", top_p == 1.0, || format!("{top_p}, expected 1: {why}"));
        found.require("policy.top_k", top_k == 0, || format!("{top_k}, expected 0: {why}"));
    }

    fn validate_generator(&self, found: &mut Findings) {
        let generator = &self.generator;
        if self.trains_generator() {
            found.given("generator.model", &generator.model, "a model folder");
            found.given("generator.anchors", &generator.anchors, "a JSONL file of ranked answers");
        }
        found.at_least("generator.anchor_min_answers", generator.anchor_min_answers, 2);
        found.at_least("generator.groups_per_step", generator.groups_per_step, 1);
        found.at_most("generator.groups_per_step", generator.groups_per_step, self.most_groups());
        found.at_least("generator.rubrics_per_group", generator.rubrics_per_group, 2);
        found.at_most("generator.rubrics_per_group", generator.rubrics_per_group, GROUP);
        found.at_least("generator.max_tokens", generator.max_tokens, 1);
        found.within("generator.learning_rate", generator.learning_rate, "[0, 1]", |v| {
            (0.0..=1.0).contains(&v)
        });
        found.within("generator.kl_coef", generator.kl_coef, "[0, inf)", |v| v >= 0.0);
        found.within("generator.temperature", generator.temperature, "(0, inf)", |v| v > 0.0);
        found.within("generator.anchor_weight", generator.anchor_weight, "[0, inf)", |v| v >= 0.0);
        found.at_least("generator.min_items", generator.min_items, 1);
        found.require("generator.max_items", generator.max_items >= generator.min_items, || {
            let (max, min) = (generator.max_items, generator.min_items);
            format!("{max}, expected at least generator.min_items, which is {min}")
        });
        let halves = !generator.holdout_half || self.batch.group_size >= 4;
        found.require("generator.holdout_half", halves, || {
            let size = self.batch.group_size;
            format!("true, expected batch.group_size of at least 4 for it, which is {size}")
        });
    }

    fn validate_learning(&self, found: &mut Findings) {
        let (objective, optimizer) = (&self.objective, &self.optimizer);
        let decay = |v| (0.0..1.0).contains(&v);
        found.within("objective.clip_low", objective.clip_low, "(0, 1)", |v| v > 0.0 && v < 1.0);
        found.within("objective.clip_high", objective.clip_high, "(0, inf)", |v| v > 0.0);
        found.within("objective.advantage_eps", objective.advantage_eps, "[0, inf)", |v| v >= 0.0);
        found.within("optimizer.beta1", optimizer.beta1, "[0, 1)", decay);
        found.within("optimizer.beta2", optimizer.beta2, "[0, 1)", decay);
        found.within("optimizer.epsilon", optimizer.epsilon, "(0, inf)", |v| v > 0.0);
        found.within("optimizer.weight_decay", optimizer.weight_decay, "[0, inf)", |v| v >= 0.0);
        found.within("optimizer.max_grad_norm", optimizer.max_grad_norm, "(0, inf)", |v| v > 0.0);
    }

    fn validate_judging(&self, found: &mut Findings) {
        let flips = self.verifier.flip_rate;
        found.within("verifier.flip_rate", flips, "[0, 0.5)", |v| (0.0..0.5).contains(&v));
        if self.audit.world != World::None {
            found.given("audit.prompts", &self.audit.prompts, "a JSONL file of held-out prompts");
        }
        found.at_least("audit.samples_per_prompt", self.audit.samples_per_prompt, 1);
        found.at_most("audit.samples_per_prompt", self.audit.samples_per_prompt, GROUP);
        found.at_least("audit.every_steps", self.audit.every_steps, 1);
        found.at_least("audit.matrix_prompts", self.audit.matrix_prompts, 1);
    }

    fn validate_services(&self, found: &mut Findings) {
        let services = &self.services;
        found.at_least("services.rollout_workers", services.rollout_workers, 1);
        found.at_most("services.rollout_workers", services.rollout_workers, 256);
        found.at_most("services.threads", services.threads, 1024);
        let ports = services.rollout_workers <= 1 || services.rollout.port() == 0;
        found.require("services.rollout", ports, || {
            let (address, workers) = (services.rollout, services.rollout_workers);
            format!("{address}, expected port 0 for {workers} workers in one place")
        });
        for (key, seconds) in [
            ("services.lease_seconds", services.lease_seconds),
            ("services.deadline_seconds", services.deadline_seconds),
            ("services.heartbeat_seconds", services.heartbeat_seconds),
            ("services.grace_seconds", services.grace_seconds),
        ] {
            found.within(key, seconds, "(0, 1000000]", |v| v > 0.0 && v <= 1e6);
        }
        let alive = services.heartbeat_seconds < services.lease_seconds;
        found.require("services.heartbeat_seconds", alive, || {
            let (beat, lease) = (services.heartbeat_seconds, services.lease_seconds);
            format!("{beat}, expected less than services.lease_seconds, which is {lease}")
        });
        if let Err(error) = EnvFilter::try_new(&self.telemetry.log) {
            found.0.push(("telemetry.log", format!("{:?}, {error}", self.telemetry.log)));
        }
    }
}

struct Findings(Vec<Finding>);

impl Findings {
    fn require(&mut self, key: &'static str, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.0.push((key, message()));
        }
    }

    fn at_least<N: PartialOrd + Display>(&mut self, key: &'static str, value: N, least: N) {
        self.require(key, value >= least, || format!("{value}, expected at least {least}"));
    }

    fn at_most<N: PartialOrd + Display>(&mut self, key: &'static str, value: N, most: N) {
        self.require(key, value <= most, || format!("{value}, expected at most {most}"));
    }

    /// `holds` may be true of infinity, which is never a sensible value.
    fn within(&mut self, key: &'static str, value: f64, range: &str, holds: impl Fn(f64) -> bool) {
        self.require(key, value.is_finite() && holds(value), || {
            format!("{value}, expected a number in {range}")
        });
    }

    fn given(&mut self, key: &'static str, path: &Path, what: &str) {
        self.require(key, !path.as_os_str().is_empty(), || format!("missing, expected {what}"));
    }

    fn file(&mut self, key: &'static str, path: &Path) {
        self.require(key, path.is_file(), || format!("there is no file {}", path.display()));
    }

    fn folder(&mut self, key: &'static str, path: &Path) {
        self.require(key, path.is_dir(), || format!("there is no folder {}", path.display()));
    }
}
