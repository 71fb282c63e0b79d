//! The loop: wait for one event, apply it, persist what was decided, carry it out.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use ledger::{Decision, End, Event, Ledger, Millis, Record, RecoverError};
use proto::pb;
use rl::{Actor, Digest, Prompt, StepId};
use runtime::config::Config as RunConfig;
use runtime::shutdown::Shutdown;
use store::StoreError;
use tokio::sync::{mpsc, watch};

use crate::Config;
use crate::audit::Roster;
use crate::course::Course;
use crate::crew::{Crew, admit_to_run, initial_weights};
use crate::door::Knock;
use crate::files::{self, Files};
use crate::keeper::{Keeper, Kept};
use crate::meter::Meter;
use crate::plan::{self, Data};
use crate::work::{self, Answer, Payloads, Reply};

/// How often leases and sessions are looked over.
const TICK: Duration = Duration::from_millis(200);

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
    pub(crate) run: Arc<RunConfig>,
    pub(crate) dir: PathBuf,
    pub(crate) data: Data,
    pub(crate) heldout: Arc<Vec<Prompt>>,
    pub(crate) keeper: Keeper,
    pub(crate) kept: Option<Kept>,
    pub(crate) knocks: mpsc::Receiver<Knock>,
    pub(crate) state: watch::Sender<pb::WatchRunResponse>,
    pub(crate) crew: Crew,
    pub(crate) roster: watch::Sender<Roster>,
    pub(crate) began: Instant,
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
                    End::Completed => match nothing_trained(course.ledger.record()) {
                        Some(why) => Err(DriverError::Failed(why)),
                        None => Ok(Outcome::Completed),
                    },
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
            meter: Meter::start(self.run.generator.anchor_weight),
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
                let admitted = admit_to_run(&mut self.crew, record, &self.run, &request);
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

    pub(crate) fn now(&self) -> Millis {
        Millis(self.began.elapsed().as_millis() as u64)
    }
}

/// A run in which no group of an actor was of use has done nothing, though it came to its end.
fn nothing_trained(record: &Record) -> Option<String> {
    let idle = |actor: Actor| {
        let tally = record.tally.of(actor);
        (tally.drawn > 0 && tally.trained == 0).then(|| {
            let reasons = tally.dropped.iter().map(|(reason, n)| format!("{n} {reason}"));
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            format!("the {actor} was not trained: all of its groups were dropped ({reasons})")
        })
    };
    idle(Actor::Generator).or_else(|| idle(Actor::Policy))
}
