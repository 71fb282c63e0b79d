//! Metrics of `steps.jsonl` by name.

use coordinator::journal::StepLine;

use super::audited::mean;

/// The mean score in training: the proxy.
pub const REWARD: &str = "reward/mean";
/// The share of tied pairs in the groups of a step.
pub const TIES: &str = "group/tie_fraction";
/// The share of drawn groups without signal.
pub const ZERO_VARIANCE: &str = "group/zero_variance_fraction";
/// The share of rubrics that could not be read.
pub const PARSE_FAILURE: &str = "rubric/parse_failure_fraction";
/// The share of verdicts that are missing.
pub const ABSTAINED: &str = "verdict/abstained_fraction";
/// Sampled tokens trained on in a step.
pub const TOKENS: [&str; 2] = ["policy/tokens", "generator/tokens"];
/// The wall time of a step.
pub const STEP_TIME: &str = "time/step";
/// The time of audits, which is no part of it.
pub const AUDIT_TIME: &str = "time/audit";
/// The part of it in which no worker computed.
pub const OVERHEAD: &str = "time/overhead";
/// The times of a step that the report shows; they overlap.
pub const HOPS: [&str; 5] = ["time/rollout", "time/evaluate", "time/train", "time/fetch", OVERHEAD];

/// The steps that train the policy.
#[must_use]
pub fn of_policy(steps: &[StepLine]) -> Vec<StepLine> {
    steps.iter().filter(|line| line.phase == "policy").cloned().collect()
}

/// The values of a metric with their steps.
pub fn values<'a>(steps: &'a [StepLine], name: &'a str) -> impl Iterator<Item = (u64, f64)> + 'a {
    steps.iter().filter_map(move |line| Some((line.step, *line.metrics.get(name)?)))
}

/// The mean of a metric over a round.
#[must_use]
pub fn round_mean(steps: &[StepLine], round: u32, name: &str) -> Option<f64> {
    let of_round = steps.iter().filter(|line| line.round == round);
    mean(of_round.filter_map(|line| line.metrics.get(name).copied()))
}

/// The sum of a metric over all steps; nothing where no step has it.
#[must_use]
pub fn total(steps: &[StepLine], name: &str) -> Option<f64> {
    values(steps, name).map(|(_, value)| value).reduce(|sum, value| sum + value)
}
