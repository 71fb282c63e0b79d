//! The coordinator: decides everything and holds no tensors.
//!
//! `Config -> bind -> run`. One task, the [`driver`], owns the ledger: it waits for one event,
//! applies it, persists what was decided, and only then carries it out. Workers join through the
//! coordinator's gRPC door and are called back.
//!
//! Reading order: [`driver`] (the loop), `course` (a run under way), `carry_out` and `work` (a
//! decision becomes calls, an answer becomes an event), `sound` (which answers are none), `crew` (who is there), `keeper` (what is persisted),
//! `audit` (the look from outside), `meter` (what a step's groups were like), `files` and
//! [`journal`] (what a run writes to its folder), `door` (the gRPC service), `plan` (from
//! configuration to the ledger's settings).
//!
//! Invariants: nothing follows from a decision before it is persisted; a late or double answer
//! changes nothing; tokens pass through and are forgotten when their group ends; nothing here
//! knows the hidden gold score.

mod audit;
mod carry_out;
mod course;
mod crew;
mod door;
pub mod driver;
mod files;
pub mod journal;
mod keeper;
mod meter;
mod plan;
mod sound;
mod work;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use proto::pb;
use proto::pb::coordinator_service_server::CoordinatorServiceServer;
use runtime::grpc::{self, BindError, ServeError};
use runtime::shutdown::Shutdown;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tonic::service::Routes;

use door::{Door, Knock};
use driver::{Driver, DriverError, Outcome};
use plan::{Data, PlanError};

/// Knocks that may wait while the driver is busy; workers repeat those that are turned away.
const KNOCKS: usize = 64;

/// What a coordinator is told.
#[derive(Clone)]
pub struct Config {
    /// The run's configuration.
    pub run: Arc<runtime::config::Config>,
    /// The run's folder.
    pub dir: PathBuf,
    /// Where decisions are kept.
    pub store: Arc<dyn Store>,
}

/// A coordinator that has its data and its port.
pub struct Coordinator {
    config: Config,
    data: Data,
    listener: TcpListener,
    address: SocketAddr,
    state: watch::Sender<pb::WatchRunResponse>,
}

/// Why a coordinator cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The configuration or its data.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Its port.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// What its port is bound to cannot be said.
    #[error("read the address of the listener")]
    Listener(#[source] std::io::Error),
    /// Its server.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The run.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Loads the data sets and takes the port.
///
/// # Errors
/// If a data set cannot be used or the port is taken.
pub async fn bind(config: Config) -> Result<Coordinator, CoordinatorError> {
    let data = plan::load(&config.run, &config.dir)?;
    let listener = grpc::bind(config.run.services.coordinator, "services.coordinator").await?;
    let address = listener.local_addr().map_err(CoordinatorError::Listener)?;
    let (state, _) = watch::channel(pb::WatchRunResponse::default());
    Ok(Coordinator { config, data, listener, address, state })
}

impl Coordinator {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The state of the run after each change.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<pb::WatchRunResponse> {
        self.state.subscribe()
    }

    /// Conducts the run to its end, or until `shutdown`; the same call goes on with it later.
    ///
    /// # Errors
    /// If the store fails for good, the run's record is of another run, or a step fails for good.
    pub async fn run(self, shutdown: Shutdown) -> Result<Outcome, CoordinatorError> {
        let (knocks, door) = mpsc::channel::<Knock>(KNOCKS);
        let service = CoordinatorServiceServer::new(Door::new(knocks, self.state.subscribe()));
        let grace = self.config.run.services.grace();
        // The server outlives the run by nothing: its calls are cut when the driver returns.
        let closing = shutdown.child();
        let server = grpc::serve(self.listener, Routes::new(service), closing.clone(), grace);
        let driver = async {
            let driver = Driver::open(self.config, self.data, door, self.state).await?;
            let outcome = driver.run(shutdown).await;
            closing.begin();
            outcome
        };
        tokio::pin!(server, driver);
        tokio::select! {
            outcome = &mut driver => Ok(outcome?),
            served = &mut server => {
                served?;
                // It was asked to stop, and so was the driver, which still has files to close.
                Ok(driver.await?)
            }
        }
    }
}
