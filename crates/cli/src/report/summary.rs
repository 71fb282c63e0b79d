//! `summary.json`: a run in numbers. A number that was not measured is `null`.

use std::collections::BTreeMap;

use ledger::{End, Tally};
use rl::{Digest, DropReason, Schedule, WeightRef};
use serde::{Deserialize, Serialize};

use super::audited::{Audited, mean};
use super::folder::RunFiles;
use super::matrix::{self, Cell};
use super::parting::{self, Stretch};
use super::rounds::{self, Round};
use super::series;
use super::supervision::policy_phases;

/// A run in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The run's name.
    pub name: String,
    /// Which generator judged which policy.
    pub schedule: Schedule,
    /// The seed of every random draw.
    pub seed: u64,
    /// Whether the run is over.
    pub finished: bool,
    /// Optimiser steps of both actors.
    pub steps: u64,
    /// Steps that found no signal.
    pub skipped_steps: Option<u64>,
    /// The hidden gold score on held-out prompts.
    pub gold: Gold,
    /// Whether the scores that the policy is trained by still tell better from worse: the oriented
    /// gap of the evaluator in charge of a round, on held-out samples of the policy that the round's
    /// policy phase begins with. It means the same for every schedule.
    pub oriented_gap: FirstLast,
    /// Round by round.
    pub rounds: Vec<Round>,
    /// What became of the groups drawn.
    pub groups: GroupTotals,
    /// The last weights.
    pub weights: BTreeMap<String, Weights>,
    /// Seconds by hop, over all steps; and those of the steps and of the audits between them.
    pub time: BTreeMap<String, f64>,
    /// The share of the steps' wall time in which no worker computed.
    pub overhead_fraction: Option<f64>,
    /// Sampled tokens trained on, per second of wall time of the steps.
    pub tokens_per_second: Option<f64>,
    /// Samples of each policy scored by every generator.
    pub matrix: Vec<Cell>,
    /// Stretches in which the score by the evaluator in charge and gold part by more than noise.
    pub partings: Vec<Stretch>,
    /// The same in plain words.
    pub verdict: String,
}

/// The hidden gold score: means over held-out prompts, in [0, 1].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gold {
    /// At the first audit.
    pub start: Option<f64>,
    /// At the last one.
    pub end: Option<f64>,
    /// Of ideal answers to the same prompts.
    pub ceiling: Option<f64>,
    /// By kind of task, at the first and the last audit.
    pub by_task: BTreeMap<String, StartEnd>,
    /// The share of completions that have a quality, by "task quality".
    pub by_quality: BTreeMap<String, StartEnd>,
    /// At every audit.
    pub curve: Vec<GoldPoint>,
}

/// A number at the first and at the last audit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StartEnd {
    /// At the first audit.
    pub start: Option<f64>,
    /// At the last one.
    pub end: Option<f64>,
}

/// A number of the first and of the last round whose policy phase was begun.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FirstLast {
    /// Of the first round.
    pub first_round: Option<f64>,
    /// Of the last round.
    pub last_round: Option<f64>,
}

/// Gold at one audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoldPoint {
    /// Optimiser steps made before.
    pub step: u64,
    /// The round.
    pub round: u32,
    /// When in the round.
    pub moment: String,
    /// The policy's version.
    pub policy_version: u64,
    /// The mean over prompts.
    pub mean: f64,
    /// The lower quartile of the prompts' means.
    pub lower: f64,
    /// The upper quartile.
    pub upper: f64,
}

/// What became of the groups drawn; `drawn = trained + open + the sum of dropped`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupTotals {
    /// Groups opened.
    pub drawn: u64,
    /// Groups trained on.
    pub trained: u64,
    /// Groups on their way.
    pub open: u64,
    /// Groups ended otherwise, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// The same for each kind of group.
    pub by_kind: BTreeMap<String, Tally>,
}

/// The last weights of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// Optimiser steps behind them.
    pub version: u64,
    /// The digest of their manifest.
    pub digest: String,
}

impl Summary {
    /// The summary of a run as far as it has come.
    #[must_use]
    pub fn of(files: &RunFiles, audits: &[Audited<'_>]) -> Self {
        let RunFiles { config, state, steps, .. } = files;
        let rounds = rounds::rounds(audits, steps);
        let stretches = parting::stretches(&policy_phases(audits, steps));
        let mut begun = rounds.iter().filter_map(|round| round.start.as_ref());
        let (first, last) = (begun.next(), begun.next_back());
        // An actor that is not there has no weights.
        let there = |weights: &WeightRef| weights.digest != Digest([0; 32]);
        let weights = state.iter().flat_map(|state| &state.weights).filter(|w| there(w.1)).map(
            |(actor, weights)| {
                let digest = weights.digest.to_string();
                (actor.clone(), Weights { version: weights.version.0, digest })
            },
        );
        Self {
            name: config.run.name.clone(),
            schedule: config.schedule.kind,
            seed: config.run.seed,
            finished: state.as_ref().is_some_and(|state| state.end == Some(End::Completed)),
            steps: steps.len() as u64,
            skipped_steps: state.as_ref().map(|state| state.skipped_steps),
            gold: Gold::of(audits),
            oriented_gap: FirstLast {
                first_round: first.and_then(|start| start.oriented_gap),
                last_round: last.or(first).and_then(|start| start.oriented_gap),
            },
            rounds,
            groups: state.as_ref().map(|s| GroupTotals::of(&s.groups)).unwrap_or_default(),
            weights: weights.collect(),
            time: times(files),
            overhead_fraction: overhead(files),
            tokens_per_second: tokens_per_second(files),
            matrix: matrix::matrix(audits),
            verdict: parting::verdict(&stretches),
            partings: stretches.into_iter().filter(Stretch::parts).collect(),
        }
    }
}

impl Gold {
    fn of(audits: &[Audited<'_>]) -> Self {
        let measured: Vec<&Audited<'_>> =
            audits.iter().filter(|a| !a.groups.is_empty()).filter(|a| a.is_of_its_step()).collect();
        let (Some(first), Some(last)) = (measured.first(), measured.last()) else {
            return Self::default();
        };
        Self {
            start: first.gold(),
            end: last.gold(),
            ceiling: Some(gold::CEILING),
            by_task: start_end(by_task(first), by_task(last)),
            by_quality: start_end(by_quality(first), by_quality(last)),
            curve: measured.iter().filter_map(|audit| GoldPoint::of(audit)).collect(),
        }
    }

    /// The rise as a share of the way from the start to the ceiling.
    #[must_use]
    pub fn way(&self) -> Option<f64> {
        let (start, end, ceiling) = (self.start?, self.end?, self.ceiling?);
        (ceiling > start).then(|| (end - start) / (ceiling - start))
    }
}

impl GoldPoint {
    fn of(audit: &Audited<'_>) -> Option<Self> {
        let mut means: Vec<f64> = audit.prompt_means().collect();
        means.sort_by(f64::total_cmp);
        let quartile = |q: usize| means.get(means.len() * q / 4).copied();
        Some(Self {
            step: audit.line.step,
            round: audit.line.round,
            moment: audit.line.moment.clone(),
            policy_version: audit.line.policy_version,
            mean: audit.gold()?,
            lower: quartile(1)?,
            upper: quartile(3)?,
        })
    }
}

impl GroupTotals {
    fn of(by_kind: &BTreeMap<String, Tally>) -> Self {
        let mut totals = Self { by_kind: by_kind.clone(), ..Self::default() };
        for groups in by_kind.values() {
            totals.drawn += groups.drawn;
            totals.trained += groups.trained;
            totals.open += groups.open();
            for (reason, count) in &groups.dropped {
                *totals.dropped.entry(*reason).or_default() += count;
            }
        }
        totals
    }
}

fn by_task(audit: &Audited<'_>) -> BTreeMap<String, f64> {
    let mut golds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for judged in audit.groups.iter().flat_map(|group| &group.judged) {
        golds.entry(judged.task.to_owned()).or_default().push(judged.score);
    }
    means(golds)
}

fn by_quality(audit: &Audited<'_>) -> BTreeMap<String, f64> {
    let mut held: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for judged in audit.groups.iter().flat_map(|group| &group.judged) {
        for (quality, has) in &judged.qualities {
            let name = format!("{} {quality}", judged.task);
            held.entry(name).or_default().push(f64::from(*has));
        }
    }
    means(held)
}

fn means(values: BTreeMap<String, Vec<f64>>) -> BTreeMap<String, f64> {
    values.into_iter().filter_map(|(name, values)| Some((name, mean(values)?))).collect()
}

fn start_end(
    start: BTreeMap<String, f64>,
    end: BTreeMap<String, f64>,
) -> BTreeMap<String, StartEnd> {
    let mut both: BTreeMap<String, StartEnd> = BTreeMap::new();
    for (name, value) in start {
        both.entry(name).or_default().start = Some(value);
    }
    for (name, value) in end {
        both.entry(name).or_default().end = Some(value);
    }
    both
}

fn times(files: &RunFiles) -> BTreeMap<String, f64> {
    let names = series::HOPS.into_iter().chain([series::STEP_TIME, series::AUDIT_TIME]);
    let total = |name: &str| series::total(&files.steps, name);
    names.filter_map(|name| Some((name.replacen("time/", "", 1), total(name)?))).collect()
}

fn overhead(files: &RunFiles) -> Option<f64> {
    let seconds = series::total(&files.steps, series::STEP_TIME)?;
    let overhead = series::total(&files.steps, series::OVERHEAD)?;
    (seconds > 0.0).then(|| overhead / seconds)
}

fn tokens_per_second(files: &RunFiles) -> Option<f64> {
    let tokens = series::TOKENS
        .iter()
        .filter_map(|name| series::total(&files.steps, name))
        .reduce(|sum, tokens| sum + tokens)?;
    let seconds = series::total(&files.steps, series::STEP_TIME)?;
    (seconds > 0.0).then(|| tokens / seconds)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::super::{write_report, write_summary};
    use super::*;

    #[test]
    fn a_summary_of_a_finished_run() {
        let dir = tempfile::tempdir().unwrap();
        fixture::write_run(dir.path());
        let summary = write_summary(dir.path(), &fixture::gold).unwrap();
        assert!(summary.finished);
        assert_eq!(summary.steps, 180);
        assert_eq!((summary.gold.start, summary.gold.end), (Some(0.5), Some(0.5)));
        assert_eq!(summary.gold.curve.len(), 5);
        assert_eq!(summary.rounds.len(), 2);
        // Nothing in the fixture measures these.
        assert_eq!(summary.rounds[0].parse_failure, None);
        assert!((summary.oriented_gap.first_round.unwrap() - 1.0 / 3.0).abs() < 1e-12);
        // 100 policy steps of 2000 tokens and 80 generator steps of 1000 over 80 s and 48 s.
        assert!((summary.tokens_per_second.unwrap() - 280_000.0 / 128.0).abs() < 1e-6);
        let groups = &summary.groups;
        assert_eq!(
            groups.drawn,
            groups.trained + groups.open + groups.dropped[&DropReason::NoSignal]
        );
        let text = std::fs::read(dir.path().join("summary.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Summary>(&text).unwrap(), summary);
    }

    #[test]
    fn a_run_that_has_just_begun_measures_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fixture::write_run(dir.path());
        for file in ["state.json", "audit.jsonl", "rubrics.jsonl", "steps.jsonl"] {
            std::fs::remove_file(dir.path().join(file)).unwrap();
        }
        let summary = write_report(dir.path(), &fixture::gold).unwrap();
        assert_eq!(summary.gold, Gold::default());
        assert_eq!((summary.tokens_per_second, summary.steps), (None, 0));
        let html = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
        assert!(html.contains("not measured"));
    }
}
