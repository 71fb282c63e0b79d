//! The batch arithmetic that follows from a configuration.

use std::fmt;

use serde::Serialize;

use super::Config;

/// What a run comes to. Counts of tokens are bounds: completions may end early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Derived {
    /// The policy's share.
    pub policy: Work,
    /// The generator's share; zero steps where it is not trained.
    pub generator: Work,
    /// Optimiser steps of the run: those of both actors.
    pub steps: u64,
}

/// What training one actor comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Optimiser steps in the run.
    pub steps: u64,
    /// Groups trained in a step.
    pub groups_per_step: u64,
    /// Rollouts of this actor trained in a step.
    pub rollouts_per_step: u64,
    /// Most tokens of those rollouts.
    pub tokens_per_step: u64,
    /// Groups drawn in the run if each carries a signal.
    pub fewest_draws: u64,
    /// Groups drawn in the run if every step draws all that it may.
    pub most_draws: u64,
}

impl Config {
    /// The batch arithmetic of this configuration.
    #[must_use]
    pub fn derived(&self) -> Derived {
        let phases = if self.trains_generator() {
            self.schedule.kind.evaluator_phases(self.schedule.rounds)
        } else {
            0
        };
        let work = |phases: u32, steps: u32, groups: u32, rollouts: u32, tokens: u32| {
            let (phases, groups) = (u64::from(phases), u64::from(groups));
            let steps = phases * u64::from(steps);
            let head_starts = phases * u64::from(self.batch.max_staleness);
            let rollouts_per_step = groups * u64::from(rollouts);
            Work {
                steps,
                groups_per_step: groups,
                rollouts_per_step,
                tokens_per_step: rollouts_per_step * u64::from(tokens),
                fewest_draws: steps * groups,
                most_draws: (steps * u64::from(self.batch.max_draws) + head_starts) * groups,
            }
        };
        let policy = work(
            self.schedule.rounds,
            self.schedule.policy_steps,
            self.policy.groups_per_step,
            self.batch.group_size,
            self.policy.max_tokens,
        );
        let generator = work(
            phases,
            self.schedule.generator_steps,
            self.generator.groups_per_step,
            self.generator.rubrics_per_group,
            self.generator.max_tokens,
        );
        let steps = policy.steps + generator.steps;
        Derived { policy, generator, steps }
    }
}

impl fmt::Display for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28}{:>12}{:>12}", "", "policy", "generator")?;
        for (what, of) in [
            ("optimiser steps", (|work| work.steps) as fn(&Work) -> u64),
            ("groups a step", |work| work.groups_per_step),
            ("rollouts a step", |work| work.rollouts_per_step),
            ("tokens a step, at most", |work| work.tokens_per_step),
            ("groups drawn, at least", |work| work.fewest_draws),
            ("groups drawn, at most", |work| work.most_draws),
        ] {
            writeln!(f, "{what:<28}{:>12}{:>12}", of(&self.policy), of(&self.generator))?;
        }
        Ok(())
    }
}
