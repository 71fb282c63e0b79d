//! The coordinator's gRPC service: passes what comes in to the driver, one thing at a time.

use std::pin::Pin;

use proto::pb;
use proto::pb::coordinator_service_server::CoordinatorService;
use proto::status::{Code, to_status};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use crate::crew::Refused;

/// Something a worker wants of the driver.
#[derive(Debug)]
pub enum Knock {
    /// To join.
    Register(pb::RegisterRequest, oneshot::Sender<Result<pb::RegisterResponse, Refused>>),
    /// To stay; answered with whether the session is known.
    Heartbeat(u64, oneshot::Sender<bool>),
}

/// The service.
#[derive(Debug)]
pub struct Door {
    knocks: mpsc::Sender<Knock>,
    state: watch::Receiver<pb::WatchRunResponse>,
}

impl Door {
    pub fn new(knocks: mpsc::Sender<Knock>, state: watch::Receiver<pb::WatchRunResponse>) -> Self {
        Self { knocks, state }
    }

    async fn ask<T>(&self, knock: impl FnOnce(oneshot::Sender<T>) -> Knock) -> Result<T, Status> {
        let (reply, answer) = oneshot::channel();
        let sent = self.knocks.send(knock(reply)).await;
        sent.map_err(|_| to_status(Code::Unavailable, &Closing))?;
        answer.await.map_err(|_| to_status(Code::Unavailable, &Closing))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the coordinator is shutting down")]
struct Closing;

#[derive(Debug, thiserror::Error)]
#[error("session {0} is unknown: register again")]
struct UnknownSession(u64);

#[tonic::async_trait]
impl CoordinatorService for Door {
    async fn register(
        &self,
        request: Request<pb::RegisterRequest>,
    ) -> Result<Response<pb::RegisterResponse>, Status> {
        let answer = self.ask(|reply| Knock::Register(request.into_inner(), reply)).await?;
        answer.map(Response::new).map_err(|refused| to_status(Code::FailedPrecondition, &refused))
    }

    async fn heartbeat(
        &self,
        request: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        let session = request.into_inner().session_id;
        if self.ask(|reply| Knock::Heartbeat(session, reply)).await? {
            Ok(Response::new(pb::HeartbeatResponse {}))
        } else {
            Err(to_status(Code::NotFound, &UnknownSession(session)))
        }
    }

    type WatchRunStream = Pin<Box<dyn Stream<Item = Result<pb::WatchRunResponse, Status>> + Send>>;

    async fn watch_run(
        &self,
        _request: Request<pb::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        let states = WatchStream::new(self.state.clone()).map(Ok);
        Ok(Response::new(Box::pin(states)))
    }
}
