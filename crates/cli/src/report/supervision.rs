//! The evaluator in charge: of each round the one that trains the policy, and what it makes of
//! held-out samples of that policy.
//!
//! In round t that is G_t where the round trains the generator, and the last one before where it
//! does not. It judges P_(t-1), the policy at the start of the round's policy phase, then the policy
//! on its way, and P_t at the end. So the same three moments are compared for every schedule.

use coordinator::journal::StepLine;
use serde::{Deserialize, Serialize};

use super::audited::Audited;

/// The audits of a round's policy phase.
#[derive(Debug)]
pub struct PolicyPhase<'a> {
    /// The round.
    pub round: u32,
    /// The version of the generator in charge.
    pub generator: u64,
    /// The policy that the phase begins with.
    pub start: &'a Audited<'a>,
    /// The policy on its way.
    pub within: Vec<&'a Audited<'a>>,
    /// The policy that the phase has come to, once it is over.
    pub end: Option<&'a Audited<'a>>,
}

/// The policy phases that were begun under some generator.
#[must_use]
pub fn policy_phases<'a>(audits: &'a [Audited<'a>], steps: &[StepLine]) -> Vec<PolicyPhase<'a>> {
    // A round of which a policy step was made is past its evaluator phase.
    let rounds = steps.iter().filter(|line| line.phase == "policy").map(|line| line.round);
    (1..=rounds.max().unwrap_or(0)).filter_map(|round| policy_phase(audits, round)).collect()
}

fn policy_phase<'a>(audits: &'a [Audited<'a>], round: u32) -> Option<PolicyPhase<'a>> {
    let at = |moment: &'static str, round: u32| {
        audits.iter().filter(move |a| a.line.moment == moment && a.line.round == round)
    };
    let sampled = if round == 1 { at("start", 0) } else { at("policy", round - 1) }.next_back()?;
    // The same samples, judged again by the generator that the round has trained.
    let version = sampled.line.policy_version;
    let again = at("generator", round).rfind(|audit| audit.line.policy_version == version);
    let start = again.unwrap_or(sampled);
    Some(PolicyPhase {
        round,
        generator: start.generator()?,
        start,
        within: at("within", round).collect(),
        end: at("policy", round).next_back(),
    })
}

impl<'a> PolicyPhase<'a> {
    /// All its audits in order.
    pub fn audits(&self) -> impl Iterator<Item = &'a Audited<'a>> {
        std::iter::once(self.start).chain(self.within.iter().copied()).chain(self.end)
    }

    /// What the generator in charge makes of an audit's samples.
    #[must_use]
    pub fn supervision(&self, audit: &Audited<'_>) -> Option<Supervision> {
        let judged = audit.judgement(self.generator);
        (judged.groups > 0).then_some(Supervision {
            step: audit.line.step,
            policy_version: audit.line.policy_version,
            generator_version: self.generator,
            prompts: judged.groups,
            oriented_gap: judged.oriented_gap,
            pair_accuracy: judged.pair_accuracy,
            tie_fraction: judged.tie_fraction,
            proxy: judged.score,
            gold: judged.gold,
        })
    }
}

/// What the evaluator in charge makes of held-out samples of the policy it trains: all numbers are
/// of the same samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Supervision {
    /// Optimiser steps made before.
    pub step: u64,
    /// The version of the policy.
    pub policy_version: u64,
    /// The version of the generator in charge.
    pub generator_version: u64,
    /// The prompts whose samples it scored.
    pub prompts: usize,
    /// The mean of `S_better - S_worse` over the pairs that gold tells apart.
    pub oriented_gap: Option<f64>,
    /// The share of those pairs in the right order, ties counting half.
    pub pair_accuracy: Option<f64>,
    /// The share of pairs with equal scores.
    pub tie_fraction: Option<f64>,
    /// The mean score: what training raises.
    pub proxy: Option<f64>,
    /// The mean hidden gold score.
    pub gold: Option<f64>,
}
