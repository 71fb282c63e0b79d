//! What each round came to.

use coordinator::journal::StepLine;
use serde::{Deserialize, Serialize};

use super::audited::Audited;
use super::series;
use super::supervision::{Supervision, policy_phases};

/// A round of the alternation: its evaluator in charge on held-out prompts, and means over the steps
/// of its training. Numbers of the one are not to be compared with those of the other: they are of
/// other prompts, and verdicts in training may be flipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The round, from 1.
    pub round: u32,
    /// The policy at the start of the policy phase, judged by the evaluator that is about to train
    /// it.
    pub start: Option<Supervision>,
    /// The policy on its way, at each audit.
    pub within: Vec<Supervision>,
    /// The policy at the end of the policy phase, judged by the evaluator that has trained it.
    pub end: Option<Supervision>,
    /// The mean score in training; this and what follows are means over the round's steps.
    pub reward: Option<f64>,
    /// The share of pairs of a policy group with equal scores, in training.
    pub tie_fraction: Option<f64>,
    /// The share of policy groups without signal, in training.
    pub zero_variance: Option<f64>,
    /// The share of rubrics that could not be read, in training.
    pub parse_failure: Option<f64>,
    /// The share of verdicts that are missing, in training.
    pub abstained: Option<f64>,
}

/// All rounds that were begun.
#[must_use]
pub fn rounds(audits: &[Audited<'_>], steps: &[StepLine]) -> Vec<Round> {
    let of_policy = series::of_policy(steps);
    let phases = policy_phases(audits, steps);
    let last = steps.iter().map(|line| line.round).max().unwrap_or(0);
    (1..=last)
        .map(|round| {
            let phase = phases.iter().find(|phase| phase.round == round);
            let judged = |audit| phase.and_then(|phase| phase.supervision(audit));
            let within = phase.iter().flat_map(|phase| phase.within.iter().copied());
            let trained = |name| series::round_mean(&of_policy, round, name);
            let both = |name| series::round_mean(steps, round, name);
            Round {
                round,
                start: phase.and_then(|phase| judged(phase.start)),
                within: within.filter_map(judged).collect(),
                end: phase.and_then(|phase| judged(phase.end?)),
                reward: trained(series::REWARD),
                tie_fraction: trained(series::TIES),
                zero_variance: trained(series::ZERO_VARIANCE),
                parse_failure: both(series::PARSE_FAILURE),
                abstained: both(series::ABSTAINED),
            }
        })
        .collect()
}

impl Round {
    /// What was measured of its evaluator in charge, in order.
    pub fn supervision(&self) -> impl Iterator<Item = &Supervision> {
        self.start.iter().chain(&self.within).chain(&self.end)
    }
}

#[cfg(test)]
mod tests {
    use coordinator::journal::AuditLine;

    use super::super::{audited, fixture};
    use super::*;

    /// An audit whose scores, by its newest generator, are `share` of the fixture's: the oriented
    /// gap is a third of that.
    fn audit(
        (step, round, moment): (u64, u32, &str),
        policy_version: u64,
        generators: &[u64],
        share: f64,
    ) -> AuditLine {
        let mut line = fixture::audit(step, round, moment, generators);
        line.policy_version = policy_version;
        for group in &mut line.groups {
            let newest = group.evaluations.last_mut().unwrap();
            newest.scores.iter_mut().for_each(|score| *score *= share);
        }
        line
    }

    fn gaps(lines: &[AuditLine]) -> Vec<[f64; 2]> {
        let steps = [(45, 1), (95, 2)].map(|(s, round)| fixture::step(s, round, "policy", &[]));
        let audits = audited::audited(lines, &fixture::gold);
        let gap = |at: &Option<Supervision>| at.as_ref().unwrap().oriented_gap.unwrap();
        rounds(&audits, &steps).iter().map(|r| [gap(&r.start), gap(&r.end)]).collect()
    }

    fn close(found: &[[f64; 2]], expected: &[[f64; 2]]) {
        let pairs = found.as_flattened().iter().zip(expected.as_flattened());
        assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn the_evaluator_in_charge_is_the_one_that_trains_the_policy() {
        let first = [
            audit((0, 0, "start"), 0, &[0], 0.03),
            audit((40, 1, "generator"), 0, &[0, 40], 0.6),
            audit((90, 1, "policy"), 50, &[0, 40], 0.3),
        ];
        // A round that trains the generator begins with P_1 under G_2 and ends with P_2 under G_2.
        let second = [
            audit((130, 2, "generator"), 0, &[0, 40, 80], 0.06),
            audit((130, 2, "generator"), 50, &[0, 40, 80], 0.9),
            audit((180, 2, "policy"), 100, &[0, 40, 80], 0.45),
        ];
        close(&gaps(&[&first[..], &second].concat()), &[[0.2, 0.1], [0.3, 0.15]]);
        // One that does not begins with P_1 under G_1, which is in charge of P_2, too.
        let second = [audit((140, 2, "policy"), 100, &[0, 40], 0.15)];
        close(&gaps(&[&first[..], &second].concat()), &[[0.2, 0.1], [0.1, 0.05]]);
    }

    #[test]
    fn proxy_and_gold_are_of_the_same_samples() {
        // The second prompt is not judged: its gold does not count beside the proxy.
        let mut lines =
            [audit((0, 0, "start"), 0, &[0], 1.0), audit((40, 1, "generator"), 0, &[0, 40], 1.0)];
        lines[1].groups[1].evaluations.clear();
        lines[1].groups[0].completions = vec!["aa".into(); 3];
        let steps = [fixture::step(45, 1, "policy", &[(series::REWARD, 0.9)])];
        let audits = audited::audited(&lines, &fixture::gold);
        let round = &rounds(&audits, &steps)[0];
        let start = round.start.as_ref().unwrap();
        assert_eq!((start.prompts, start.proxy, start.gold), (1, Some(0.5), Some(1.0)));
        assert_eq!((round.reward, &round.end), (Some(0.9), &None));
    }
}
