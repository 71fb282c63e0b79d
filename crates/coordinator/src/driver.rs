//! The loop: wait for one event, apply it, persist what was decided, carry it out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use ledger::{
    Action, AuditPoint, Decision, End, Event, Ledger, Millis, PerActor, Record, RecoverError,
};
use proto::pb;
use rl::{Actor, Digest, GroupId, Prompt, StepId, WeightRef, WeightVersion};
use runtime::config::Config as RunConfig;
use runtime::shutdown::Shutdown;
use store::StoreError;
use tokio::sync::{mpsc, watch};

use crate::Config;
use crate::audit::{Audit, Roster};
use crate::crew::{Crew, Refused};
use crate::door::Knock;
use crate::files::{self, Files};
use crate::journal::{AuditLine, RubricLine, StepLine};
use crate::keeper::{Keeper, Kept};
use crate::meter::Meter;
use crate::plan::{self, Data};
use crate::work::{self, Answer, Gain, Payload, Payloads, Reply};

/// How often leases and sessions are looked over.
const TICK: Duration = Duration::from_millis(200);

/// A rubric is journaled for the first so many groups of a step.
const RUBRICS_A_STEP: usize = 1;

/// How a call of [`Driver::run`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All phases are done.
    Completed,
    /// Somebody cancelled the run for good.
    Cancelled,
    /// It was asked to stop; the run can be gone on with.
    Interrupted,
}

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The store failed for good.
    #[error("persist the run's decisions")]
    Store(#[from] StoreError),
    /// The record is not one of this run.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The store is of a run with another configuration.
    #[error("the run in {dir} was started with another configuration (digest {found}, now {now})")]
    OtherConfig {
        /// The run's folder.
        dir: PathBuf,
        /// The digest it was started with.
        found: Digest,
        /// The present one.
        now: Digest,
    },
    /// The run's folder cannot be written.
    #[error("open the run's files")]
    Files(#[source] std::io::Error),
    /// A step failed for good.
    #[error("the run failed: {0}")]
    Failed(String),
}

/// Conducts a run.
pub struct Driver {
    run: Arc<RunConfig>,
    dir: PathBuf,
    data: Data,
    heldout: Arc<Vec<Prompt>>,
    keeper: Keeper,
    kept: Option<Kept>,
    knocks: mpsc::Receiver<Knock>,
    state: watch::Sender<pb::WatchRunResponse>,
    crew: Crew,
    roster: watch::Sender<Roster>,
    began: Instant,
}

/// A run under way: its ledger and what belongs to it.
struct Course {
    ledger: Ledger,
    payloads: Payloads,
    calls: FuturesUnordered<work::Call>,
    audits: FuturesUnordered<BoxFuture<'static, (AuditPoint, Vec<AuditLine>, Duration)>>,
    files: Files,
    meter: Meter,
    /// Metrics of the learner for the step that it just answered.
    trained: BTreeMap<String, f64>,
    rubrics_said: usize,
    finish: Option<End>,
}

impl Driver {
    /// Takes the lead and reads what is persisted.
    ///
    /// # Errors
    /// If the store fails, or holds a run of another configuration.
    pub(crate) async fn open(
        config: Config,
        mut data: Data,
        knocks: mpsc::Receiver<Knock>,
        state: watch::Sender<pb::WatchRunResponse>,
    ) -> Result<Self, DriverError> {
        let digest = config.run.digest();
        let (keeper, kept) = Keeper::open(config.store, digest).await?;
        if kept.config != digest {
            let (found, now) = (kept.config, digest);
            return Err(DriverError::OtherConfig { dir: config.dir, found, now });
        }
        // Workers show three signs of life in a lease.
        let lease = config.run.services.heartbeat() * 3;
        Ok(Self {
            heldout: Arc::new(std::mem::take(&mut data.heldout)),
            crew: Crew::new(lease, digest),
            run: config.run,
            dir: config.dir,
            data,
            keeper,
            kept: Some(kept),
            knocks,
            state,
            roster: watch::Sender::new(Roster::default()),
            began: Instant::now(),
        })
    }

    /// Conducts the run to its end, or until `shutdown`.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Result<Outcome, DriverError> {
        let Some(mut course) = self.start(&shutdown).await? else {
            return Ok(Outcome::Interrupted);
        };
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let outcome = loop {
            if let Some(end) = course.finish.take() {
                break match end {
                    End::Completed => Ok(Outcome::Completed),
                    End::Cancelled => Ok(Outcome::Cancelled),
                    End::Failed { why } => Err(DriverError::Failed(why)),
                };
            }
            tokio::select! {
                // In this order: after a store that was away for a while, signs of life and
                // answers that wait must be seen before sessions and leases are looked over.
                biased;
                () = shutdown.begun() => break Ok(Outcome::Interrupted),
                Some(knock) = self.knocks.recv() => {
                    if let Some(event) = self.open_door(Some(course.ledger.record()), knock) {
                        self.apply(&mut course, event).await?;
                    }
                }
                Some(answer) = course.calls.next() => self.answered(&mut course, answer).await?,
                Some((point, lines, took)) = course.audits.next() => {
                    lines.iter().for_each(|line| course.files.audit(line));
                    course.meter.audited(took);
                    self.apply(&mut course, Event::AuditFinished { point }).await?;
                }
                _ = ticks.tick() => self.tick(&mut course).await?,
            }
        };
        course.files.state(&files::state(course.ledger.record(), &self.run));
        course.files.close();
        outcome
    }

    /// Waits for a learner, which brings the starting weights, then starts or recovers the ledger;
    /// nothing if it was asked to stop before.
    async fn start(&mut self, shutdown: &Shutdown) -> Result<Option<Course>, DriverError> {
        let record = self.kept.as_ref().and_then(|kept| kept.record.clone());
        let mut joined = Vec::new();
        let initial = loop {
            let knock = tokio::select! {
                () = shutdown.begun() => return Ok(None),
                Some(knock) = self.knocks.recv() => knock,
            };
            let offered = match &knock {
                Knock::Register(request, _) => initial_weights(request, &self.run).ok().flatten(),
                Knock::Heartbeat(..) => None,
            };
            let event = self.open_door(record.as_ref(), knock);
            if let Some(event) = event {
                joined.push(event);
                if let Some(initial) = offered {
                    break initial;
                }
            }
        };
        let settings = plan::settings(&self.run, &self.data);
        let kept = self.kept.take();
        let ledger = match (record, kept) {
            (Some(record), Some(kept)) => {
                tracing::info!(
                    step = record.step.0,
                    open_groups = kept.open.len(),
                    "run goes on where it was"
                );
                Ledger::recover(settings, record, kept.open)?
            }
            _ => Ledger::new(settings, initial)?,
        };
        let files = Files::open(&self.dir, ledger.record()).map_err(DriverError::Files)?;
        let mut course = Course {
            ledger,
            payloads: Payloads::new(),
            calls: FuturesUnordered::new(),
            audits: FuturesUnordered::new(),
            files,
            meter: Meter::start(),
            trained: BTreeMap::new(),
            rubrics_said: 0,
            finish: None,
        };
        for event in joined {
            self.apply(&mut course, event).await?;
        }
        Ok(Some(course))
    }

    /// Lets a worker in, or hears that it is alive; answers the event of a new worker.
    fn open_door(&mut self, record: Option<&Record>, knock: Knock) -> Option<Event> {
        match knock {
            Knock::Heartbeat(session, reply) => {
                // Whoever asked may have hung up: then nobody needs the answer.
                reply.send(self.crew.beat(session)).ok();
                None
            }
            Knock::Register(request, reply) => {
                let admitted = admit(&mut self.crew, record, &self.run, &request);
                let (event, answer) = match admitted {
                    Ok((session, response)) => {
                        tracing::info!(worker_id = %session.worker, role = %session.role, "worker joined");
                        let event = Event::WorkerJoined {
                            worker: session.worker,
                            role: session.role,
                            slots: session.slots,
                        };
                        (Some(event), Ok(response))
                    }
                    Err(refused) => {
                        tracing::warn!(reason = %refused, "worker refused");
                        (None, Err(refused))
                    }
                };
                self.call_the_roll();
                reply.send(answer).ok();
                event
            }
        }
    }

    async fn tick(&mut self, course: &mut Course) -> Result<(), DriverError> {
        let gone = self.crew.expire();
        if !gone.is_empty() {
            self.call_the_roll();
        }
        for worker in gone {
            tracing::warn!(worker_id = %worker, "worker lost");
            self.apply(course, Event::WorkerLeft { worker }).await?;
        }
        self.apply(course, Event::Ticked).await
    }

    /// Audits call workers by this list.
    fn call_the_roll(&self) {
        let sessions = [ledger::Role::Rollout, ledger::Role::Evaluator];
        self.roster.send_replace(Roster {
            sessions: sessions.into_iter().flat_map(|role| self.crew.of(role)).collect(),
            sources: self.crew.sources(),
        });
    }

    async fn answered(&mut self, course: &mut Course, answer: Answer) -> Result<(), DriverError> {
        let reading = work::read(&answer);
        if let Err(error) = &answer.reply {
            tracing::warn!(%error, attempt = answer.lease.attempt.0, "call failed");
        }
        let before = course.ledger.record().step;
        let now = self.now();
        let decision = course.ledger.apply(reading.event, now);
        if decision.refused.is_none() {
            course.meter.answered(&answer);
            if let Ok(Reply::Trained(reply)) = &answer.reply {
                course.trained = reply.metrics.clone().into_iter().collect();
            }
            if let Some(group) = answer.lease.work.group() {
                course.take(group, reading.gain);
                if let Ok(Reply::Evaluated(reply)) = &answer.reply {
                    course.evaluated(group, &answer, reply);
                }
            }
        }
        self.decided(course, before, decision).await
    }

    async fn apply(&mut self, course: &mut Course, event: Event) -> Result<(), DriverError> {
        let before = course.ledger.record().step;
        let decision = course.ledger.apply(event, self.now());
        self.decided(course, before, decision).await
    }

    /// Persists a decision, then carries it out.
    async fn decided(
        &mut self,
        course: &mut Course,
        before: StepId,
        decision: Decision,
    ) -> Result<(), DriverError> {
        if let Some(refused) = &decision.refused {
            tracing::debug!(reason = %refused, "answer not taken");
        }
        if let Some(transaction) = &decision.transaction {
            self.keeper.write(transaction).await?;
            for (group, outcome) in &transaction.closed {
                if let ledger::Outcome::Dropped { reason, why } = outcome {
                    tracing::debug!(group_id = group.0, ?reason, why, "group dropped");
                }
            }
            if course.ledger.record().step != before {
                self.step_done(course, before);
            }
        }
        for action in decision.actions {
            self.carry_out(course, action);
        }
        if decision.transaction.is_some() {
            self.publish_state(course);
        }
        Ok(())
    }

    fn step_done(&self, course: &mut Course, step: StepId) {
        let mut metrics = course.meter.finish();
        metrics.append(&mut course.trained);
        let snapshot = course.ledger.snapshot();
        metrics.insert("staleness/mean".into(), snapshot.staleness_mean);
        metrics.insert("staleness/max".into(), snapshot.staleness_max as f64);
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
        let (round, phase) = (phase.round.0, phase.phase.to_string());
        course.files.step(&StepLine { step: step.0, round, phase, metrics: metrics.clone() });
        course.files.state(&files::state(course.ledger.record(), &self.run));
        course.rubrics_said = 0;
        self.state.send_modify(|state| state.metrics = metrics.into_iter().collect());
    }

    fn publish_state(&self, course: &Course) {
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

    fn carry_out(&self, course: &mut Course, action: Action) {
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
                    work::rollout_request(&self.run, &lease, &prompt, self.crew.sources());
                course
                    .payloads
                    .insert(group, Payload { prompt: Some(prompt), ..Payload::default() });
                self.call(course, lease, request);
            }
            Action::Evaluate { lease, group, kind, prompt, conditioning } => {
                let payload = course.payloads.entry(group).or_default();
                let prompt_text = payload.prompt.as_ref().map_or("", |prompt| &prompt.text);
                let asked = work::Asked {
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
                    work::Kept { temperature: temperature as f32, keep },
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

    fn now(&self) -> Millis {
        Millis(self.began.elapsed().as_millis() as u64)
    }
}

impl Course {
    /// A group's payload gains what a worker made.
    fn take(&mut self, group: GroupId, gain: Option<Gain>) {
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

    /// A policy group was scored: the rubric is remembered for its prompt, and some are journaled.
    fn evaluated(&mut self, group: GroupId, answer: &Answer, reply: &pb::EvaluateGroupResponse) {
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
                prompt: prompt.clone(),
                rubric,
                completions: payload.texts(),
                scores: scored.scores.clone(),
            };
            self.files.rubric(&line);
        }
    }
}

fn admit(
    crew: &mut Crew,
    record: Option<&Record>,
    run: &RunConfig,
    request: &pb::RegisterRequest,
) -> Result<(crate::crew::Session, pb::RegisterResponse), Refused> {
    if let (Some(initial), Some(record)) = (initial_weights(request, run)?, record) {
        let began =
            PerActor { policy: record.history.policy[0], generator: record.history.generator[0] };
        for (found, expected) in
            [(initial.policy, began.policy), (initial.generator, began.generator)]
        {
            if found != expected {
                let worker = request.worker_id.clone();
                return Err(Refused::InitialWeights { worker, found, expected });
            }
        }
    }
    crew.admit(request)
}

/// The starting weights that a learner brings; nothing from other workers.
fn initial_weights(
    request: &pb::RegisterRequest,
    run: &RunConfig,
) -> Result<Option<PerActor<WeightRef>>, Refused> {
    if request.role() != pb::Role::Learner {
        return Ok(None);
    }
    let brought = request.initial_weights.iter().cloned().map(WeightRef::try_from);
    let brought: Vec<WeightRef> = brought.collect::<Result<_, _>>()?;
    let find =
        |actor| {
            brought.iter().copied().find(|weights| weights.actor == actor).ok_or_else(|| {
                Refused::NoInitialWeights { worker: request.worker_id.clone(), actor }
            })
        };
    let generator = if plan::has_generator(run) {
        find(Actor::Generator)?
    } else {
        // Nobody writes rubrics: the generator has no weights that anyone could ask for.
        WeightRef { actor: Actor::Generator, version: WeightVersion(0), digest: Digest([0; 32]) }
    };
    Ok(Some(PerActor { policy: find(Actor::Policy)?, generator }))
}
