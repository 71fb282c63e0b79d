//! A run under way: its ledger, what is held of its open groups, and what it writes down.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use ledger::{AuditPoint, End, Ledger};
use proto::pb;
use rl::{GroupId, StepId};

use crate::driver::Driver;
use crate::files::{self, Files};
use crate::journal::{AuditLine, RubricLine, StepLine};
use crate::meter::Meter;
use crate::work::{self, Answer, Gain, Payloads};

/// A rubric is journaled for the first so many groups of a step.
const RUBRICS_A_STEP: usize = 1;

/// A run under way: its ledger and what belongs to it.
pub(crate) struct Course {
    pub ledger: Ledger,
    pub payloads: Payloads,
    pub calls: FuturesUnordered<work::Call>,
    pub audits: FuturesUnordered<BoxFuture<'static, (AuditPoint, Vec<AuditLine>, Duration)>>,
    pub files: Files,
    pub meter: Meter,
    /// Metrics of the learner for the step that it just answered.
    pub trained: BTreeMap<String, f64>,
    pub rubrics_said: usize,
    pub finish: Option<End>,
}

impl Course {
    /// A group's payload gains what a worker made.
    pub fn take(&mut self, group: GroupId, gain: Option<Gain>) {
        let Some(gain) = gain else { return };
        let payload = self.payloads.entry(group).or_default();
        match gain {
            Gain::Completions(sampled) => {
                self.meter.rolled(&sampled.rollouts);
                payload.completions = Some(sampled);
            }
            Gain::Rubrics(sampled) => payload.rubrics = Some(sampled),
        }
    }

    /// A policy group was scored: of each step some rubrics are journaled.
    pub fn evaluated(
        &mut self,
        group: GroupId,
        answer: &Answer,
        reply: &pb::EvaluateGroupResponse,
    ) {
        let Some(pb::evaluate_group_response::Outcome::Scored(scored)) = &reply.outcome else {
            return;
        };
        let Some(judged) = &scored.judged else { return };
        let Some(payload) = self.payloads.get(&group) else {
            return;
        };
        let prompt = payload.prompt.as_ref().map(|p| p.text.clone()).unwrap_or_default();
        if self.rubrics_said < RUBRICS_A_STEP
            && let Ok(rubric) = serde_json::from_str(&judged.rubric)
        {
            self.rubrics_said += 1;
            let line = RubricLine {
                step: self.ledger.record().step.0,
                round: self.ledger.snapshot().phase.map_or(0, |phase| phase.round.0),
                generator_version: answer.lease.weights.version.0,
                prompt,
                rubric,
                completions: payload.texts(),
                scores: scored.scores.clone(),
            };
            self.files.rubric(&line);
        }
    }
}

impl Driver {
    pub(crate) fn step_done(&self, course: &mut Course, step: StepId) {
        let mut metrics = course.meter.finish();
        metrics.append(&mut course.trained);
        let snapshot = course.ledger.snapshot();
        let staleness = [
            ("staleness/mean", snapshot.staleness_mean),
            ("staleness/max", snapshot.staleness_max.map(|versions| versions as f64)),
        ];
        metrics.extend(staleness.iter().filter_map(|(name, v)| Some(((*name).to_owned(), (*v)?))));
        metrics.insert("queue/depth".into(), snapshot.queued as f64);
        // The ledger may have entered the next phase already: the step belongs to the one before.
        let plan = course.ledger.plan();
        let mut steps = step.0;
        let phase = plan.iter().find(|phase| {
            let is_in = steps < phase.steps;
            steps = steps.saturating_sub(phase.steps);
            is_in
        });
        let Some(phase) = phase else { return };
        // No JSON has a number for these, and a line without one could not be read again.
        metrics.retain(|_, value| value.is_finite());
        let wall_time = SystemTime::now().duration_since(UNIX_EPOCH);
        course.files.step(StepLine {
            step: step.0,
            round: phase.round.0,
            phase: phase.phase.to_string(),
            wall_time: wall_time.map_or(0.0, |time| time.as_secs_f64()),
            metrics: metrics.clone(),
        });
        course.files.state(&files::state(course.ledger.record(), &self.run));
        course.rubrics_said = 0;
        self.state.send_modify(|state| state.metrics = metrics.into_iter().collect());
    }

    pub(crate) fn publish_state(&self, course: &Course) {
        let (record, snapshot) = (course.ledger.record(), course.ledger.snapshot());
        let waiting = course.ledger.explain(self.now());
        self.state.send_modify(|state| {
            if let Some(phase) = snapshot.phase {
                state.round = phase.round.0;
                state.phase = phase.phase.to_string();
                state.steps = phase.steps as u32;
            }
            state.rounds = self.run.schedule.rounds;
            state.step = snapshot.step_in_phase as u32;
            state.total_step = record.step.0;
            state.waiting = waiting.iter().map(ToString::to_string).collect();
            state.finished = record.end.is_some();
        });
    }
}
