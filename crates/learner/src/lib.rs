//! The learner: makes optimiser steps on both actors and publishes the new weights.
//!
//! `Config -> bind -> run`. It does not know where advantages come from. What it must remember (the
//! weights and the optimiser's state after each step) is published by digest before it answers, so
//! it can be killed at any moment: asked for the same step again, it answers what it published, or
//! makes the step from what was published before.
//!
//! Reading order: this file (the service), `student` (one actor in training).
//!
//! Invariants: a step is made once, whatever is repeated; the manifest of the weights is written
//! last, so a version that can be seen is whole.

mod student;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use lm::compute::Compute;
use proto::convert::Malformed;
use proto::pb;
use proto::pb::learner_service_server::{LearnerService, LearnerServiceServer};
use proto::pb::train_step_request::Part;
use proto::status::to_status;
use rl::{Actor, GroupId, StepId, TrainGroup, WeightRef};
use runtime::shutdown::Shutdown;
use runtime::worker::{Bound, Worker, WorkerError};
use tokio::sync::{Mutex, oneshot};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use weights::WeightStore;

use student::{Step, Student, StudentError};

/// What a learner is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Unique among workers.
    pub worker_id: String,
    /// The run's configuration.
    pub run: Arc<runtime::config::Config>,
    /// Where it publishes.
    pub weights: PathBuf,
}

/// A learner that has its models and its port.
#[derive(Debug)]
pub struct Learner {
    bound: Bound,
    service: Service,
    store: WeightStore,
}

/// Loads the starting weights of the actors that the run trains, publishes them as v0, and takes
/// the port.
///
/// # Errors
/// If a model folder is broken, the weights cannot be written, or the port is taken.
pub async fn bind(config: Config) -> Result<Learner, WorkerError> {
    let run = &config.run;
    let store = WeightStore::open(&config.weights)?;
    let threads = run.services.compute_threads();
    let compute = Arc::new(Compute::new(threads).map_err(WorkerError::other)?);
    let open = |actor| {
        let student = Student::open(actor, run, store.clone(), Arc::clone(&compute));
        student.map_err(WorkerError::other)
    };
    let mut students = vec![open(Actor::Policy)?];
    if run.evaluator.kind == runtime::config::EvaluatorKind::Dynamic {
        students.push(open(Actor::Generator)?);
    }
    let worker = Worker {
        id: config.worker_id,
        role: pb::Role::Learner,
        slots: 1,
        initial_weights: students.iter().map(Student::initial).collect(),
    };
    let bound = Bound::new(worker, run.services.learner, run).await?;
    let service = Service { students: Arc::new(Mutex::new(students)) };
    Ok(Learner { bound, service, store })
}

impl Learner {
    /// Serves until `shutdown`.
    ///
    /// # Errors
    /// If the coordinator refuses the learner, or the server fails.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), WorkerError> {
        let service = LearnerServiceServer::new(self.service)
            .max_decoding_message_size(proto::MAX_MESSAGE_BYTES)
            .max_encoding_message_size(proto::MAX_MESSAGE_BYTES);
        let weights = runtime::weight_service::weight_service(self.store);
        self.bound.run(shutdown, Routes::new(service).add_service(weights)).await
    }
}

#[derive(Debug)]
struct Service {
    /// One step at a time: both actors share the machine.
    students: Arc<Mutex<Vec<Student>>>,
}

#[tonic::async_trait]
impl LearnerService for Service {
    async fn train_step(
        &self,
        request: Request<Streaming<pb::TrainStepRequest>>,
    ) -> Result<Response<pb::TrainStepResponse>, Status> {
        let start = Instant::now();
        let (lease, step) = receive(request.into_inner()).await?;
        let group_ids = step.groups.iter().map(|group| group.id.0).collect();
        let mut students = Arc::clone(&self.students).lock_owned().await;
        let (answer, done) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let actor = step.base.actor;
            let student = students.iter_mut().find(|student| student.actor() == actor);
            let Some(student) = student else {
                return answer.send(Err(StudentError::NotTrained(actor))).ok();
            };
            let done = student.step(&step);
            let is_made = done.is_ok();
            // Whoever asked may have hung up: the step is published all the same.
            answer.send(done).ok();
            is_made.then(|| student.prune(&step.keep))
        });
        let done = done.await.unwrap_or(Err(StudentError::Died));
        let done = done.map_err(|error| to_status(error.code(), &error))?;
        Ok(Response::new(pb::TrainStepResponse {
            lease,
            weights: Some(done.weights.into()),
            group_ids,
            metrics: done.metrics.into_iter().collect(),
            timing: Some(pb::Timing {
                fetch: 0.0,
                model: done.model.as_secs_f64(),
                judge: 0.0,
                total: start.elapsed().as_secs_f64(),
            }),
        }))
    }
}

/// Reads a whole step from its parts.
async fn receive(
    mut parts: Streaming<pb::TrainStepRequest>,
) -> Result<(Option<pb::Lease>, Step), Status> {
    let malformed = |error: Malformed| to_status(proto::status::Code::InvalidArgument, &error);
    let first = parts.message().await?.and_then(|request| request.part);
    let Some(Part::Header(header)) = first else {
        return Err(malformed(Malformed::new("part", "the header first", "something else")));
    };
    let mut groups: Vec<TrainGroup> = Vec::new();
    while let Some(request) = parts.message().await? {
        let Some(Part::Group(group)) = request.part else {
            return Err(malformed(Malformed::new("part", "a group", "something else")));
        };
        groups.push(group.try_into().map_err(malformed)?);
    }
    if !groups.iter().map(|group| group.id.0).eq(header.group_ids.iter().copied()) {
        let found = format!("{:?}", groups.iter().map(|group| group.id).collect::<Vec<GroupId>>());
        return Err(malformed(Malformed::new("group", "the header's ids in order", found)));
    }
    let base = header.base.ok_or_else(|| malformed(Malformed::absent("base")))?;
    let keep = header.keep.into_iter().map(WeightRef::try_from).collect::<Result<_, _>>();
    let step = Step {
        step: StepId(header.step),
        base: base.try_into().map_err(malformed)?,
        groups,
        keep: keep.map_err(malformed)?,
    };
    Ok((header.lease, step))
}
