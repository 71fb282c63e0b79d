//! A worker's session with the coordinator: it registers, shows signs of life, and registers again
//! when the coordinator does not know it any more.

use std::net::SocketAddr;
use std::time::Duration;

use proto::pb::coordinator_service_client::CoordinatorServiceClient;
use proto::pb::{self, HeartbeatRequest, RegisterRequest};
use proto::status::Code;
use tonic::transport::Channel;

use crate::Shutdown;
use crate::grpc::call;

/// How long the coordinator may take to answer a registration: it may be writing to its store.
const REGISTER: Duration = Duration::from_secs(30);

/// Signs of life come no denser than this, whatever the coordinator grants.
const DENSEST: Duration = Duration::from_millis(10);

/// How a worker introduces itself.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Unique among workers; the same after a restart.
    pub worker_id: String,
    /// What the worker does.
    pub role: pb::Role,
    /// Where its services listen.
    pub address: SocketAddr,
    /// How many groups it works on at once.
    pub slots: u32,
    /// The digest of its configuration.
    pub config_digest: rl::Digest,
    /// Learners: the starting weights of each actor.
    pub initial_weights: Vec<rl::WeightRef>,
}

/// Why a session ended for good.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The coordinator will not have this worker.
    #[error("the coordinator refuses worker {worker}: {reason}")]
    Refused {
        /// Who.
        worker: String,
        /// Why.
        reason: String,
    },
}

/// Keeps a session open until `shutdown`.
///
/// A coordinator that is away is waited for: it may be restarting.
///
/// # Errors
/// If the coordinator refuses the worker.
pub async fn keep(
    coordinator: Channel,
    introduction: Introduction,
    shutdown: Shutdown,
) -> Result<(), SessionError> {
    let mut client = CoordinatorServiceClient::new(coordinator);
    let work = async {
        loop {
            let (session_id, lease) = register(&mut client, &introduction).await?;
            tracing::info!(worker_id = introduction.worker_id, "joined the coordinator");
            beat(&mut client, session_id, (lease / 3).max(DENSEST)).await;
            tracing::warn!(worker_id = introduction.worker_id, "lost the coordinator");
        }
    };
    tokio::select! {
        ended = work => ended,
        () = shutdown.begun() => Ok(()),
    }
}

/// Attempts to register from one warning to the next: some seconds at first, then a quarter minute.
const SILENT: u64 = 7;

/// Registers, however long it takes; answers the session and how long it lives without a sign.
async fn register(
    client: &mut CoordinatorServiceClient<Channel>,
    introduction: &Introduction,
) -> Result<(u64, Duration), SessionError> {
    let request = RegisterRequest {
        worker_id: introduction.worker_id.clone(),
        role: introduction.role.into(),
        address: format!("http://{}", introduction.address),
        slots: introduction.slots,
        protocol_version: proto::PROTOCOL_VERSION,
        config_digest: introduction.config_digest.0.to_vec(),
        initial_weights: introduction.initial_weights.iter().map(|&w| w.into()).collect(),
    };
    let mut pause = Duration::from_millis(50);
    let mut attempt = 0_u64;
    loop {
        attempt += 1;
        match call("register", REGISTER, client.register(request.clone())).await {
            Ok(response) => {
                let lease = Duration::try_from_secs_f64(response.lease_seconds)
                    .unwrap_or(Duration::from_secs(1));
                return Ok((response.session_id, lease));
            }
            Err(error) => match error.code {
                Code::InvalidArgument | Code::FailedPrecondition => {
                    return Err(SessionError::Refused {
                        worker: introduction.worker_id.clone(),
                        reason: error.message,
                    });
                }
                // A coordinator that starts at the same time is no news; one that stays away is.
                _ if attempt.is_multiple_of(SILENT) => {
                    tracing::warn!(%error, attempt, "coordinator not reached, going on");
                }
                _ => tracing::debug!(%error, attempt, "coordinator not reached"),
            },
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

/// Shows signs of life until one is not answered well.
async fn beat(client: &mut CoordinatorServiceClient<Channel>, session_id: u64, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut missed = 0;
    while missed < 3 {
        ticks.tick().await;
        // A late answer is as good as none, but a short lease must not make every answer late.
        let deadline = every.max(Duration::from_secs(1));
        let answer = client.heartbeat(HeartbeatRequest { session_id });
        match call("heartbeat", deadline, answer).await {
            Ok(_) => missed = 0,
            Err(error) if error.code == Code::NotFound => return,
            Err(_) => missed += 1,
        }
    }
}
