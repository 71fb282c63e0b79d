//! What the groups of a step were like, and where its time went.
//!
//! Names are those of docs/metrics.md. A metric that cannot be had is left out, never 0.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ledger::Call;
use proto::pb::evaluate_group_response::Outcome;
use rl::advantage::mean_std;
use rl::gap::{gap, tie_fraction};
use rl::score::abstained_fraction;
use rl::{Finish, Rollout, Rubric};

use crate::work::{Answer, Reply};

/// Collects over one step.
#[derive(Debug)]
pub struct Meter {
    /// The weight of the anchor reward: with none it gives no signal.
    anchor_weight: f64,
    begun: Instant,
    means: BTreeMap<&'static str, Mean>,
    /// Intervals in which some worker was at a call of this kind.
    calls: BTreeMap<Call, Vec<(Instant, Instant)>>,
    /// Intervals in which some worker computed or judged.
    busy: Vec<(Instant, Instant)>,
    fetch: Duration,
    audit: Duration,
    tokens: usize,
}

#[derive(Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Meter {
    /// A step begins.
    pub fn start(anchor_weight: f64) -> Self {
        Self {
            anchor_weight,
            begun: Instant::now(),
            means: BTreeMap::new(),
            calls: BTreeMap::new(),
            busy: Vec::new(),
            fetch: Duration::ZERO,
            audit: Duration::ZERO,
            tokens: 0,
        }
    }

    /// A worker answered.
    pub fn answered(&mut self, answer: &Answer) {
        let Ok(reply) = &answer.reply else { return };
        let call = answer.lease.work.call();
        // A call may have begun in the step before: that part belongs there.
        let begun = answer.begun.max(self.begun);
        self.calls.entry(call).or_default().push((begun, answer.ended));
        let timing = reply.timing();
        let worked = Duration::try_from_secs_f64(timing.model + timing.judge).unwrap_or_default();
        let from = answer.ended.checked_sub(worked).unwrap_or(begun).max(begun);
        self.busy.push((from, answer.ended));
        self.fetch += Duration::try_from_secs_f64(timing.fetch).unwrap_or_default();
        match reply {
            Reply::Evaluated(reply) => self.evaluated(reply),
            Reply::Proposed(reply) => self.proposed(reply),
            Reply::Rolled(_) | Reply::Trained(_) => {}
        }
    }

    /// An audit held the run up; that is no part of the step.
    pub fn audited(&mut self, took: Duration) {
        self.audit += took;
    }

    /// Completions came in.
    pub fn rolled(&mut self, rollouts: &[Rollout]) {
        for rollout in rollouts {
            self.tokens += rollout.tokens.len();
            self.add("rollout/tokens", rollout.tokens.len() as f64);
            let truncated = rollout.finish == Finish::Length;
            self.add("rollout/truncated_fraction", f64::from(truncated));
        }
    }

    fn evaluated(&mut self, reply: &proto::pb::EvaluateGroupResponse) {
        self.written(reply.rubrics_written, reply.parse_failures);
        let Some(Outcome::Scored(scored)) = &reply.outcome else {
            self.add("group/unscorable_fraction", 1.0);
            return;
        };
        self.add("group/unscorable_fraction", 0.0);
        let (mean, std) = mean_std(&scored.scores);
        self.add("reward/mean", mean);
        // A single completion has none to be tied with, or apart from.
        if let (Some(ties), Some(gap)) = (tie_fraction(&scored.scores), gap(&scored.scores)) {
            let flat = std <= rl::advantage::NO_SIGNAL_STD;
            self.add("reward/std", std);
            self.add("group/zero_variance_fraction", f64::from(flat));
            self.add("group/tie_fraction", ties);
            self.add("rubric/gap", gap);
        }
        let Some(judged) = &scored.judged else { return };
        self.add("rubric/fallback_fraction", f64::from(scored.origin == "fallback"));
        let Ok(rubric) = serde_json::from_str::<Rubric>(&judged.rubric) else {
            return;
        };
        self.add("rubric/items", rubric.items.len() as f64);
        let Ok(verdicts) = proto::convert::verdicts(judged, &rubric) else {
            return;
        };
        self.add("verdict/abstained_fraction", abstained_fraction(&verdicts));
        for row in &verdicts {
            let values: Option<Vec<f64>> = row.iter().map(|verdict| verdict.value()).collect();
            // An item with a missing verdict is left out of the score; a single completion tells
            // nothing of how an item varies.
            let Some(values) = values.filter(|values| values.len() > 1) else { continue };
            let same = values.windows(2).all(|pair| pair[0] == pair[1]);
            self.add("rubric/saturated_fraction", f64::from(same));
        }
    }

    fn proposed(&mut self, reply: &proto::pb::ProposeRubricsResponse) {
        for (&disc, &anchor) in reply.r_disc.iter().zip(&reply.r_anchor) {
            self.add("reward/r_disc", disc);
            self.add("reward/r_anchor", anchor);
        }
        self.written(reply.items.len() as u32 + reply.parse_failures, reply.parse_failures);
        for &items in &reply.items {
            self.add("rubric/items", f64::from(items));
        }
        let unscorable = reply.rollouts.len() < 2;
        self.add("group/unscorable_fraction", f64::from(unscorable));
        if !unscorable {
            let (_, disc) = mean_std(&reply.r_disc);
            let (_, anchor) = mean_std(&reply.r_anchor);
            let anchor = if self.anchor_weight > 0.0 { anchor } else { 0.0 };
            let flat = disc.max(anchor) <= rl::advantage::NO_SIGNAL_STD;
            self.add("group/zero_variance_fraction", f64::from(flat));
        }
        if !reply.items.is_empty() {
            self.add("verdict/abstained_fraction", reply.abstained_fraction);
        }
    }

    /// Rubrics were written, some of which could not be read.
    fn written(&mut self, written: u32, unreadable: u32) {
        for i in 0..written {
            self.add("rubric/parse_failure_fraction", f64::from(i < unreadable));
        }
    }

    fn add(&mut self, name: &'static str, value: f64) {
        let mean = self.means.entry(name).or_default();
        mean.sum += value;
        mean.count += 1;
    }

    /// The step is over: its metrics, and a meter for the next.
    pub fn finish(&mut self) -> BTreeMap<String, f64> {
        let step = std::mem::replace(self, Self::start(self.anchor_weight));
        let wall = step.begun.elapsed().saturating_sub(step.audit).as_secs_f64();
        let mut metrics: BTreeMap<String, f64> = step
            .means
            .iter()
            .map(|(&name, mean)| (name.to_owned(), mean.sum / f64::from(mean.count)))
            .collect();
        let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
        for (call, mut intervals) in step.calls {
            let seconds = covered(&mut intervals);
            put(&format!("time/{call}"), seconds);
            if call == Call::Rollout && seconds > 0.0 {
                put("rollout/tokens_per_second", step.tokens as f64 / seconds);
            }
        }
        let mut busy = step.busy;
        let busy = covered(&mut busy);
        put("time/step", wall);
        put("time/compute", busy);
        put("time/overhead", wall - busy);
        if wall > 0.0 {
            put("time/overhead_fraction", (wall - busy) / wall);
        }
        put("time/fetch", step.fetch.as_secs_f64());
        put("time/audit", step.audit.as_secs_f64());
        metrics
    }
}

/// The length of the union of intervals, in seconds.
fn covered(intervals: &mut [(Instant, Instant)]) -> f64 {
    intervals.sort_unstable();
    let mut total = Duration::ZERO;
    let mut reached: Option<Instant> = None;
    for &(from, to) in intervals.iter() {
        let from = reached.map_or(from, |reached| reached.max(from));
        if to > from {
            total += to - from;
        }
        reached = Some(reached.map_or(to, |reached| reached.max(to)));
    }
    total.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metrics of a step that saw one group with these scores, all of which meet one item.
    fn of_scores(scores: &[f64]) -> BTreeMap<String, f64> {
        let item = rl::RubricItem {
            criterion: "x".into(),
            weight: 1,
            polarity: rl::Polarity::Positive,
            check: None,
        };
        let rubric = serde_json::to_string(&Rubric { items: vec![item] }).unwrap();
        let verdicts = vec![vec![rl::Verdict::Met; scores.len()]];
        let judged = Some(proto::convert::judged_rubric(rubric, &verdicts));
        let scores = scores.to_vec();
        let scored = proto::pb::Scored { judged, scores, ..proto::pb::Scored::default() };
        let mut meter = Meter::start(1.0);
        meter.evaluated(&proto::pb::EvaluateGroupResponse {
            outcome: Some(Outcome::Scored(scored)),
            ..proto::pb::EvaluateGroupResponse::default()
        });
        meter.finish()
    }

    #[test]
    fn a_reward_without_weight_is_no_signal() {
        for (anchor_weight, flat) in [(1.0, 0.0), (0.0, 1.0)] {
            let mut meter = Meter::start(anchor_weight);
            meter.proposed(&proto::pb::ProposeRubricsResponse {
                rollouts: vec![proto::pb::Rollout::default(); 2],
                r_disc: vec![0.2, 0.2],
                r_anchor: vec![-3.0, -2.0],
                ..proto::pb::ProposeRubricsResponse::default()
            });
            assert_eq!(meter.finish()["group/zero_variance_fraction"], flat);
        }
    }

    #[test]
    fn a_single_completion_has_no_ties_and_no_spread() {
        let spread = [
            "reward/std",
            "group/zero_variance_fraction",
            "group/tie_fraction",
            "rubric/gap",
            "rubric/saturated_fraction",
        ];
        let (one, two) = (of_scores(&[0.5]), of_scores(&[0.5, 0.5]));
        assert!(spread.iter().all(|name| !one.contains_key(*name)), "{one:?}");
        assert_eq!(spread.map(|name| two[name]), [0.0, 1.0, 1.0, 0.0, 1.0]);
        assert_eq!((one["reward/mean"], one["rubric/items"]), (0.5, 1.0));
    }

    #[test]
    fn overlapping_work_counts_once() {
        let zero = Instant::now();
        let at = |seconds: u64| zero + Duration::from_secs(seconds);
        // 0-4 and 2-5 cover 5, 7-8 another, 7-7 nothing.
        let mut intervals = [(at(7), at(8)), (at(2), at(5)), (at(0), at(4)), (at(7), at(7))];
        assert!((covered(&mut intervals) - 6.0).abs() < 1e-9);
        assert_eq!(covered(&mut []), 0.0);
    }
}
