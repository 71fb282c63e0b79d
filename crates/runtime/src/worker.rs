//! What every worker is besides its service: a port, health, reflection and a session.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use proto::pb;
use rl::WeightRef;
use tokio::net::TcpListener;
use tonic::service::Routes;
use weights::WeightsError;

use crate::config::Config;
use crate::grpc::{self, AddressError, BindError, ServeError};
use crate::session::{self, Introduction, SessionError};
use crate::shutdown::Shutdown;

/// Who a worker is.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Unique among workers; the same after a restart.
    pub id: String,
    /// What it does.
    pub role: pb::Role,
    /// How many groups it works on at once.
    pub slots: u32,
    /// Learners: the starting weights of each actor.
    pub initial_weights: Vec<WeightRef>,
}

/// Why a worker cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its port is not to be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Its coordinator's address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Its server failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// What its port is bound to cannot be said.
    #[error("read the address of the listener")]
    Listener(#[source] std::io::Error),
    /// The coordinator refuses it.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its folder of weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// Its model or its settings.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

impl WorkerError {
    /// A failure of the worker's own making.
    pub fn other(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(error))
    }
}

/// A worker that has its port.
#[derive(Debug)]
pub struct Bound {
    worker: Worker,
    listener: TcpListener,
    address: SocketAddr,
    config: Arc<Config>,
}

impl Bound {
    /// Takes the port.
    ///
    /// # Errors
    /// If it is taken.
    pub async fn new(
        worker: Worker,
        listen: SocketAddr,
        config: &Arc<Config>,
    ) -> Result<Self, WorkerError> {
        let key = match worker.role {
            pb::Role::Evaluator => "services.evaluator",
            pb::Role::Learner => "services.learner",
            _ => "services.rollout",
        };
        let listener = grpc::bind(listen, key).await?;
        let address = listener.local_addr().map_err(WorkerError::Listener)?;
        Ok(Self { worker, listener, address, config: Arc::clone(config) })
    }

    /// Serves the worker's services and keeps its session with the coordinator until `shutdown`.
    ///
    /// # Errors
    /// If the coordinator refuses the worker, or the server fails.
    pub async fn run(self, shutdown: Shutdown, routes: Routes) -> Result<(), WorkerError> {
        let services = &self.config.services;
        let coordinator = grpc::channel(&format!("http://{}", services.coordinator))?;
        let introduction = Introduction {
            worker_id: self.worker.id,
            role: self.worker.role,
            address: self.address,
            slots: self.worker.slots,
            config_digest: self.config.digest(),
            initial_weights: self.worker.initial_weights,
        };
        let session = session::keep(coordinator, introduction, shutdown.clone());
        let server = grpc::serve(self.listener, routes, shutdown, services.grace());
        let session = async { session.await.map_err(WorkerError::from) };
        let server = async { server.await.map_err(WorkerError::from) };
        tokio::try_join!(session, server).map(|((), ())| ())
    }
}
