//! A worker's session, against a coordinator that is short of patience and of memory.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proto::pb;
use proto::pb::coordinator_service_server::{CoordinatorService, CoordinatorServiceServer};
use runtime::Shutdown;
use runtime::grpc;
use runtime::session::{Introduction, SessionError, keep};
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// Grants no time at all, forgets every session at its first sign of life, and refuses the third
/// registration.
#[derive(Default)]
struct Forgetful {
    registrations: AtomicU32,
    beats: AtomicU32,
}

#[tonic::async_trait]
impl CoordinatorService for Forgetful {
    async fn register(
        &self,
        _: Request<pb::RegisterRequest>,
    ) -> Result<Response<pb::RegisterResponse>, Status> {
        let number = self.registrations.fetch_add(1, Ordering::Relaxed);
        let beats = self.beats.load(Ordering::Relaxed);
        if number == 2 {
            return Err(Status::failed_precondition(format!("{beats} signs of life")));
        }
        Ok(Response::new(pb::RegisterResponse { session_id: number.into(), lease_seconds: 0.0 }))
    }

    async fn heartbeat(
        &self,
        _: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        self.beats.fetch_add(1, Ordering::Relaxed);
        Err(Status::not_found("who?"))
    }

    type WatchRunStream = Pin<Box<dyn Stream<Item = Result<pb::WatchRunResponse, Status>> + Send>>;

    async fn watch_run(
        &self,
        _: Request<pb::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
}

#[tokio::test]
async fn a_worker_that_was_forgotten_registers_again_until_it_is_refused() {
    let listener = grpc::bind(([127, 0, 0, 1], 0).into(), "services.coordinator").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new();
    let routes = Routes::new(CoordinatorServiceServer::new(Forgetful::default()));
    let server = grpc::serve(listener, routes, shutdown.clone(), Duration::from_secs(10));
    let introduction = Introduction {
        worker_id: "rollout-0".into(),
        role: pb::Role::Rollout,
        address,
        slots: 1,
        config_digest: rl::Digest([0; 32]),
        initial_weights: Vec::new(),
    };
    let worker = async {
        let channel = grpc::channel(&format!("http://{address}")).unwrap();
        let ended = keep(channel, introduction, shutdown.clone()).await;
        shutdown.begin();
        ended
    };
    let (served, ended) = tokio::join!(server, worker);
    served.unwrap();
    let SessionError::Refused { worker, reason } = ended.unwrap_err();
    assert_eq!((worker.as_str(), reason.as_str()), ("rollout-0", "2 signs of life"));
}
