//! Whether a worker's answer holds what was asked for: what does not must not reach a learner.

use proto::convert::Malformed;
use proto::pb;
use proto::pb::evaluate_group_response::Outcome;

use crate::work::Reply;

/// Whether an answer holds what was asked for: `asked` of it, and numbers that are numbers.
pub fn sound(reply: &Reply, asked: usize) -> Result<(), Malformed> {
    match reply {
        Reply::Rolled(reply) => {
            let found = reply.rollouts.len();
            holds(found == asked, "rollouts", "as many as were asked for", found)?;
            finite_logprobs(&reply.rollouts)
        }
        Reply::Evaluated(reply) => match &reply.outcome {
            Some(Outcome::Scored(scored)) => {
                let (field, found) = ("scored.scores", scored.scores.len());
                holds(found == asked, field, "one for each completion", found)?;
                finite(field, &scored.scores)
            }
            _ => Ok(()),
        },
        Reply::Proposed(reply) => {
            // Rubrics that could not be scored are left out.
            let rollouts = reply.rollouts.len();
            holds(rollouts <= asked, "rollouts", "no more than were asked for", rollouts)?;
            for (field, rewards) in [("r_disc", &reply.r_disc), ("r_anchor", &reply.r_anchor)] {
                let found = rewards.len();
                holds(found == rollouts, field, "one for each rollout", found)?;
                finite(field, rewards)?;
            }
            finite_logprobs(&reply.rollouts)
        }
        Reply::Trained(reply) => {
            let found = reply.group_ids.len();
            holds(found == asked, "group_ids", "those of the step", found)
        }
    }
}

fn holds(
    it: bool,
    field: &'static str,
    expected: &'static str,
    found: usize,
) -> Result<(), Malformed> {
    if it { Ok(()) } else { Err(Malformed::new(field, expected, found)) }
}

fn finite(field: &'static str, values: &[f64]) -> Result<(), Malformed> {
    let odd = values.iter().find(|value| !value.is_finite());
    odd.map_or(Ok(()), |odd| Err(Malformed::new(field, "a finite number", odd)))
}

fn finite_logprobs(rollouts: &[pb::Rollout]) -> Result<(), Malformed> {
    let mut logprobs = rollouts.iter().flat_map(|rollout| &rollout.logprobs);
    let odd = logprobs.find(|logprob| !logprob.is_finite());
    odd.map_or(Ok(()), |odd| Err(Malformed::new("rollout.logprobs", "a finite number", odd)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolled(rollouts: usize, logprob: f32) -> Reply {
        let rollout =
            pb::Rollout { tokens: vec![1], logprobs: vec![logprob], ..pb::Rollout::default() };
        Reply::Rolled(pb::GenerateGroupResponse {
            rollouts: vec![rollout; rollouts],
            ..pb::GenerateGroupResponse::default()
        })
    }

    fn scored(scores: &[f64]) -> Reply {
        let scored = pb::Scored { scores: scores.to_vec(), ..pb::Scored::default() };
        Reply::Evaluated(pb::EvaluateGroupResponse {
            outcome: Some(Outcome::Scored(scored)),
            ..pb::EvaluateGroupResponse::default()
        })
    }

    fn proposed(rollouts: usize, r_disc: &[f64], r_anchor: &[f64]) -> Reply {
        Reply::Proposed(pb::ProposeRubricsResponse {
            rollouts: vec![pb::Rollout::default(); rollouts],
            r_disc: r_disc.to_vec(),
            r_anchor: r_anchor.to_vec(),
            ..pb::ProposeRubricsResponse::default()
        })
    }

    fn trained(group_ids: &[u64]) -> Reply {
        Reply::Trained(pb::TrainStepResponse {
            group_ids: group_ids.to_vec(),
            ..pb::TrainStepResponse::default()
        })
    }

    #[test]
    fn an_answer_of_another_length_or_without_numbers_is_none() {
        for (reply, asked, field) in [
            (rolled(2, -0.5), 2, None),
            (rolled(1, -0.5), 2, Some("rollouts")),
            (rolled(3, -0.5), 2, Some("rollouts")),
            (rolled(2, f32::NEG_INFINITY), 2, Some("rollout.logprobs")),
            (scored(&[0.0, 1.0]), 2, None),
            (scored(&[0.0]), 2, Some("scored.scores")),
            (scored(&[0.0, f64::NAN]), 2, Some("scored.scores")),
            (proposed(2, &[0.1, 0.2], &[0.0, 0.0]), 3, None),
            (proposed(0, &[], &[]), 3, None),
            (proposed(4, &[0.1; 4], &[0.0; 4]), 3, Some("rollouts")),
            (proposed(2, &[0.1], &[0.0, 0.0]), 3, Some("r_disc")),
            (proposed(2, &[0.1, 0.2], &[0.0]), 3, Some("r_anchor")),
            (proposed(2, &[0.1, 0.2], &[0.0, f64::INFINITY]), 3, Some("r_anchor")),
            (trained(&[4, 5]), 2, None),
            (trained(&[4]), 2, Some("group_ids")),
        ] {
            let found = sound(&reply, asked).err().map(|error| error.to_string());
            let expected = field.map(|field| format!("malformed message: {field}: "));
            let agree = match (&found, &expected) {
                (None, None) => true,
                (Some(found), Some(expected)) => found.starts_with(expected),
                _ => false,
            };
            assert!(agree, "{reply:?} for {asked}: {found:?}, expected {expected:?}");
        }
    }
}
