//! What each round came to.

use coordinator::journal::StepLine;
use serde::{Deserialize, Serialize};

use super::audited::{Audited, Judgement, mean};
use super::series;

/// A round of the alternation. Fractions are means over the round's steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The round, from 1.
    pub round: u32,
    /// The oriented gap of the generator in use, on the round's audit samples.
    pub oriented_gap: Option<f64>,
    /// Its pair accuracy.
    pub pair_accuracy: Option<f64>,
    /// The mean score in training.
    pub proxy: Option<f64>,
    /// The share of pairs of a policy group with equal scores.
    pub tie_fraction: Option<f64>,
    /// The share of policy groups without signal.
    pub zero_variance: Option<f64>,
    /// The share of rubrics that could not be read.
    pub parse_failure: Option<f64>,
    /// The share of verdicts that are missing.
    pub abstained: Option<f64>,
}

/// All rounds that were begun.
#[must_use]
pub fn rounds(audits: &[Audited<'_>], steps: &[StepLine]) -> Vec<Round> {
    let of_policy = series::of_policy(steps);
    let last = steps.iter().map(|line| line.round).max().unwrap_or(0);
    (1..=last)
        .map(|round| {
            let judgements = in_use(audits, round);
            let of = |value: fn(&Judgement) -> Option<f64>| weighted(&judgements, value);
            let trained = |name| series::round_mean(&of_policy, round, name);
            let both = |name| series::round_mean(steps, round, name);
            Round {
                round,
                oriented_gap: of(|j| j.oriented_gap),
                pair_accuracy: of(|j| j.pair_accuracy),
                proxy: trained(series::REWARD),
                tie_fraction: trained(series::TIES).or_else(|| of(|j| j.tie_fraction)),
                zero_variance: trained(series::ZERO_VARIANCE).or_else(|| of(|j| j.zero_variance)),
                parse_failure: both(series::PARSE_FAILURE),
                abstained: both(series::ABSTAINED),
            }
        })
        .collect()
}

/// What the generator in use in a round makes of the round's samples, and of the samples that the
/// round begins with.
fn in_use(audits: &[Audited<'_>], round: u32) -> Vec<Judgement> {
    let of_round = || audits.iter().filter(|audit| audit.line.round == round);
    let again = of_round().filter(|audit| !audit.is_of_its_step());
    let current = again.map(|audit| audit.line.policy_version).max();
    of_round()
        .filter(|audit| audit.is_of_its_step() || Some(audit.line.policy_version) == current)
        .filter_map(|audit| Some(audit.judgement(audit.generator()?)))
        .filter(|judgement| judgement.groups > 0)
        .collect()
}

/// A mean over groups of means over audits.
fn weighted(judgements: &[Judgement], value: fn(&Judgement) -> Option<f64>) -> Option<f64> {
    mean(judgements.iter().flat_map(|j| value(j).into_iter().flat_map(|v| vec![v; j.groups])))
}
