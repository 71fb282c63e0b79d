//! What the simulation's workers do: they compute by hashing.

use ledger::{Action, Event, Failure, OpenGroup, Rewards, StepDone, Work};
use rl::{Digest, GroupId, GroupKind, Seed, StepId, WeightRef, WeightVersion};

use crate::sim::{GROUP_SIZE, Published, Sim};

/// The kind of an answer.
#[derive(Clone, Copy, PartialEq)]
pub enum Manner {
    Right,
    Failing,
    Lying,
}

impl Sim {
    /// Has a worker carry out a call, and says what it answers.
    pub fn work(&mut self, i: usize, manner: Manner) -> Option<Event> {
        if self.calls.is_empty() {
            return None;
        }
        let call = self.calls.remove(i % self.calls.len());
        let failure = || Failure { retryable: true, reason: "out of luck".into() };
        let failing = manner == Manner::Failing;
        Some(match call {
            Action::Rollout { lease, group, prompt, .. } => {
                let key = [u64::from(lease.weights.digest.0[0]), group.0, prompt as u64];
                let sample = key.into_iter().fold(hash_of(lease.weights.digest), Seed::child);
                self.samples.insert(group, sample);
                let asked = lease.weights.version.0;
                // Where staleness is allowed, some groups were begun before the latest update.
                let continued = u64::from(self.settings.max_staleness > 0 && group.0 % 3 == 0);
                let oldest = match manner {
                    Manner::Lying => WeightVersion(asked + 1),
                    _ => WeightVersion(asked.saturating_sub(continued)),
                };
                let outcome = if failing { Err(failure()) } else { Ok(oldest) };
                Event::RolloutFinished { lease: lease.id, outcome }
            }
            Action::Evaluate { lease, group, kind, .. } => {
                // The sample is gone where the lease is over and the group ended: any will do.
                let sample = self.samples.get(&group).copied();
                let sample = sample.unwrap_or(Seed::from_u64(0));
                let hash = sample.child(hash_of(lease.weights.digest).to_u64());
                let rewards = match manner {
                    Manner::Lying => Rewards::Scores(vec![f64::NAN; GROUP_SIZE]),
                    _ => rewards(kind, hash),
                };
                let outcome = if failing { Err(failure()) } else { Ok(rewards) };
                Event::EvaluationFinished { lease: lease.id, outcome }
            }
            Action::Train { lease, groups } => {
                let Work::Train(step) = lease.work else {
                    panic!("train without a step: {lease:?}");
                };
                if failing {
                    let outcome = Err(failure());
                    return Some(Event::StepFinished { lease: lease.id, outcome });
                }
                let done = self.publish(step, lease.weights, groups);
                let mut weights = done.weights;
                if manner == Manner::Lying {
                    weights.version = weights.version.next();
                }
                let groups = done.groups.iter().map(|(id, ..)| *id).collect();
                let outcome = Ok(StepDone { weights, groups });
                Event::StepFinished { lease: lease.id, outcome }
            }
            Action::Audit { point, .. } => {
                self.audits.push(point);
                Event::AuditFinished { point }
            }
            Action::Forget { .. } | Action::Finish { .. } => panic!("not a call"),
        })
    }

    /// What the learner published for the step, before or now.
    fn publish(
        &mut self,
        step: StepId,
        base: WeightRef,
        groups: Vec<(GroupId, Vec<f32>)>,
    ) -> Published {
        let prompt = |id: &GroupId| self.open.get(id).map_or(0, |group: &OpenGroup| group.prompt);
        let groups: Vec<_> = groups.into_iter().map(|(id, a)| (id, prompt(&id), a)).collect();
        let published = self.published.entry(step).or_insert_with(|| {
            let mut hash = hash_of(base.digest);
            for (id, prompt, advantages) in &groups {
                hash = hash.child(id.0).child(*prompt as u64);
                for advantage in advantages {
                    hash = hash.child(u64::from(advantage.to_bits()));
                }
            }
            let weights = WeightRef {
                actor: base.actor,
                version: base.version.next(),
                digest: digest_of(hash),
            };
            Published { weights, groups }
        });
        published.clone()
    }
}

/// A fifth of the groups have no signal, a tenth cannot be scored.
fn rewards(kind: GroupKind, hash: Seed) -> Rewards {
    let draw =
        |offset: u64| (0..GROUP_SIZE as u64).map(move |i| hash.uniform(offset + i)).collect();
    match (hash.below(100, 10), kind) {
        (0, _) => Rewards::Unscorable("too many verdicts are missing".into()),
        (1 | 2, GroupKind::Policy) => Rewards::Scores(vec![0.5; GROUP_SIZE]),
        (1 | 2, GroupKind::Rubric) => {
            Rewards::Rubric { r_disc: vec![0.0; GROUP_SIZE], r_anchor: vec![-1.0; GROUP_SIZE] }
        }
        (_, GroupKind::Policy) => Rewards::Scores(draw(0)),
        (_, GroupKind::Rubric) => Rewards::Rubric { r_disc: draw(0), r_anchor: draw(50) },
    }
}

fn hash_of(digest: Digest) -> Seed {
    Seed::from_u64(u64::from_le_bytes(digest.0[..8].try_into().expect("8 of 32 bytes")))
}

fn digest_of(seed: Seed) -> Digest {
    Digest(std::array::from_fn(|i| seed.to_u64().to_le_bytes()[i % 8]))
}
