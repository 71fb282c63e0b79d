//! Carrying out a decision: actions of the ledger become calls of workers, and audits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::{Action, AuditPoint};
use proto::pb;
use rl::{Actor, WeightRef};

use crate::audit::Audit;
use crate::course::Course;
use crate::driver::Driver;
use crate::plan;
use crate::work::{self, Payload};

impl Driver {
    pub(crate) fn carry_out(&self, course: &mut Course, action: Action) {
        match action {
            Action::Forget { groups } => {
                groups.iter().for_each(|group| drop(course.payloads.remove(group)));
            }
            Action::Finish { end } => course.finish = Some(end),
            Action::Audit { point, policy, generators } => {
                self.audit(course, point, policy, generators);
            }
            Action::Rollout { lease, group, kind, prompt } => {
                let prompt = match kind {
                    rl::GroupKind::Policy => self.data.prompts[prompt].clone(),
                    rl::GroupKind::Rubric => self.data.anchors[prompt].prompt.clone(),
                };
                let request =
                    work::rollout_request(&self.run, &lease, (group, &prompt), self.crew.sources());
                course
                    .payloads
                    .insert(group, Payload { prompt: Some(prompt), ..Payload::default() });
                self.call(course, lease, request);
            }
            Action::Evaluate { lease, group, kind, prompt, conditioning } => {
                let payload = course.payloads.entry(group).or_default();
                let prompt_text = payload.prompt.as_ref().map_or("", |prompt| &prompt.text);
                let asked = work::Asked {
                    id: group,
                    group: pb::GroupText {
                        prompt: prompt_text.to_owned(),
                        completions: payload.texts(),
                    },
                    anchor: (kind == rl::GroupKind::Rubric).then(|| &self.data.anchors[prompt]),
                    conditioning,
                };
                let request = work::evaluate_request(&self.run, &lease, asked, self.crew.sources());
                self.call(course, lease, request);
            }
            Action::Train { lease, groups } => {
                let temperature = match lease.weights.actor {
                    Actor::Policy => self.run.policy.temperature,
                    Actor::Generator => self.run.generator.temperature,
                };
                let history = &course.ledger.record().history;
                let keep = history.policy.iter().chain(&history.generator).copied().collect();
                let request = work::train_request(
                    &lease,
                    groups,
                    &course.payloads,
                    work::StepNeeds { temperature: temperature as f32, keep },
                );
                self.call(course, lease, request);
            }
        }
    }

    /// Calls a worker. One that left since is a failed call.
    fn call(&self, course: &Course, lease: ledger::Lease, request: work::Request) {
        let deadline = self.run.services.deadline();
        let call = match self.crew.find(&lease.worker) {
            Some(session) => work::place(lease, session.channel.clone(), deadline, request),
            None => work::nobody(lease),
        };
        course.calls.push(call);
    }

    fn audit(
        &self,
        course: &Course,
        point: AuditPoint,
        policy: WeightRef,
        generators: Vec<WeightRef>,
    ) {
        let earlier = course.files.audits().unwrap_or_else(|error| {
            tracing::error!(%error, "earlier audits cannot be read");
            Vec::new()
        });
        let audit = Audit {
            run: Arc::clone(&self.run),
            heldout: Arc::clone(&self.heldout),
            crew: self.roster.subscribe(),
            point,
            policy,
            generators: if plan::has_generator(&self.run) { generators } else { Vec::new() },
            conditioning: course
                .ledger
                .plan()
                .first()
                .map_or(ledger::Conditioning::Group, |phase| phase.conditioning),
            earlier,
        };
        let heldout = self.heldout.len();
        course.audits.push(Box::pin(async move {
            if heldout == 0 {
                return (point, Vec::new(), Duration::ZERO);
            }
            let begun = Instant::now();
            let lines = audit.make().await;
            for failure in lines.iter().filter_map(|line| line.failure.as_ref()) {
                tracing::error!(failure, "audit is incomplete");
            }
            (point, lines, begun.elapsed())
        }));
    }
}
