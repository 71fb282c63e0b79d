//! Who is there: sessions of workers, from their first word to their last sign of life.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ledger::{PerActor, Record, Role, WorkerId};
use proto::convert::Malformed;
use proto::pb;
use rl::{Actor, Digest, WeightRef, WeightVersion};
use runtime::config::Config;
use tonic::transport::Channel;

use crate::plan;

/// The workers in session.
#[derive(Debug)]
pub struct Crew {
    sessions: BTreeMap<u64, Session>,
    next: u64,
    lease: Duration,
    config_digest: Digest,
}

/// One worker's session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Who.
    pub worker: WorkerId,
    /// What it does.
    pub role: Role,
    /// Where it serves.
    pub address: String,
    /// The way there.
    pub channel: Channel,
    /// How many groups it works on at once.
    pub slots: usize,
    seen: Instant,
}

/// Why a worker is not let in.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It speaks otherwise.
    #[error("worker {worker} speaks protocol {found}, this coordinator {expected}")]
    Protocol {
        /// Who.
        worker: String,
        /// What it speaks.
        found: u32,
        /// What is spoken here.
        expected: u32,
    },
    /// It was started with another configuration.
    #[error("worker {worker} has another configuration (digest {found}) than the run ({expected})")]
    Config {
        /// Who.
        worker: String,
        /// Its configuration's digest.
        found: Digest,
        /// The run's.
        expected: Digest,
    },
    /// It would train from other weights than the run began with.
    #[error("learner {worker} starts from {found}, the run began from {expected}")]
    InitialWeights {
        /// Who.
        worker: String,
        /// What it has.
        found: WeightRef,
        /// What the run has.
        expected: WeightRef,
    },
    /// It does not have the weights the run trains.
    #[error("learner {worker} has no starting weights for the {actor}")]
    NoInitialWeights {
        /// Who.
        worker: String,
        /// Whose are missing.
        actor: Actor,
    },
    /// It did not say who it is.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Crew {
    /// Nobody yet.
    pub fn new(lease: Duration, config_digest: Digest) -> Self {
        // Sessions are numbered from the time of day, not from 1: a worker that still holds a number
        // of a coordinator that was here before must find it unknown, not in use by another.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { sessions: BTreeMap::new(), next: now.as_nanos() as u64, lease, config_digest }
    }

    /// Opens a session; an earlier one of the same worker ends.
    ///
    /// # Errors
    /// Why the worker is not let in.
    pub fn admit(
        &mut self,
        request: &pb::RegisterRequest,
    ) -> Result<(Session, pb::RegisterResponse), Refused> {
        let worker = request.worker_id.clone();
        let (found, expected) = (request.protocol_version, proto::PROTOCOL_VERSION);
        if found != expected {
            return Err(Refused::Protocol { worker, found, expected });
        }
        let (found, expected) =
            (proto::convert::digest(&request.config_digest)?, self.config_digest);
        if found != expected {
            return Err(Refused::Config { worker, found, expected });
        }
        let role = match request.role() {
            pb::Role::Rollout => Role::Rollout,
            pb::Role::Evaluator => Role::Evaluator,
            pb::Role::Learner => Role::Learner,
            pb::Role::Unspecified => return Err(Malformed::absent("role").into()),
        };
        let channel = runtime::grpc::channel(&request.address);
        let channel =
            channel.map_err(|_| Malformed::new("address", "http://host:port", &request.address))?;
        self.sessions.retain(|_, session| session.worker.0 != worker);
        let session = Session {
            worker: WorkerId(worker),
            role,
            address: request.address.clone(),
            channel,
            slots: request.slots.max(1) as usize,
            seen: Instant::now(),
        };
        let session_id = self.next;
        self.next += 1;
        self.sessions.insert(session_id, session.clone());
        let lease_seconds = self.lease.as_secs_f64();
        Ok((session, pb::RegisterResponse { session_id, lease_seconds }))
    }

    /// A sign of life; answers whether the session is known.
    pub fn beat(&mut self, session: u64) -> bool {
        let session = self.sessions.get_mut(&session);
        session.map(|session| session.seen = Instant::now()).is_some()
    }

    /// Ends the sessions that showed no sign of life for too long.
    pub fn expire(&mut self) -> Vec<WorkerId> {
        let lease = self.lease;
        let gone = self.sessions.extract_if(.., |_, session| session.seen.elapsed() > lease);
        gone.map(|(_, session)| session.worker).collect()
    }

    /// A worker's session, if it is there.
    pub fn find(&self, worker: &WorkerId) -> Option<&Session> {
        self.sessions.values().find(|session| session.worker == *worker)
    }

    /// All workers of a role.
    pub fn of(&self, role: Role) -> Vec<Session> {
        self.sessions.values().filter(|session| session.role == role).cloned().collect()
    }

    /// Where weights are to be had: from learners first, who made them.
    pub fn sources(&self) -> Vec<String> {
        let mut sessions: Vec<&Session> = self.sessions.values().collect();
        sessions.sort_by_key(|session| session.role != Role::Learner);
        sessions.into_iter().map(|session| session.address.clone()).collect()
    }
}

/// Lets a worker in, if it belongs to the run.
///
/// # Errors
/// Why it is not let in.
pub fn admit_to_run(
    crew: &mut Crew,
    record: Option<&Record>,
    run: &Config,
    request: &pb::RegisterRequest,
) -> Result<(Session, pb::RegisterResponse), Refused> {
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
pub fn initial_weights(
    request: &pb::RegisterRequest,
    run: &Config,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_of_a_coordinator_that_was_here_before_is_unknown() {
        let digest = Digest([1; 32]);
        let crew = || Crew::new(Duration::from_secs(1), digest);
        let request = |worker: &str| pb::RegisterRequest {
            worker_id: worker.into(),
            role: pb::Role::Rollout.into(),
            address: "http://127.0.0.1:1".into(),
            slots: 1,
            protocol_version: proto::PROTOCOL_VERSION,
            config_digest: digest.0.to_vec(),
            initial_weights: Vec::new(),
        };
        let mut before = crew();
        let (_, old) = before.admit(&request("rollout-0")).unwrap();
        assert!(before.beat(old.session_id));
        let mut now = crew();
        let (_, new) = now.admit(&request("rollout-1")).unwrap();
        assert!(now.beat(new.session_id));
        assert!(!now.beat(old.session_id));
    }
}
