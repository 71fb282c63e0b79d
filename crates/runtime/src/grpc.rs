//! gRPC plumbing: listeners with clear errors, servers that explain themselves, calls that always
//! have a deadline, and repeating a call.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use proto::status::{Code, from_status};
use thiserror::Error;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Response, Status};
use tonic_health::ServingStatus;

use crate::Shutdown;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may be silent before the other side is asked whether it is still there, and
/// how long it then has to say so: a machine that is switched off says nothing by itself.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Listens on `address`, which was set under the config key `key`.
///
/// # Errors
/// When the address cannot be had, most often because its port is in use.
pub async fn bind(address: SocketAddr, key: &'static str) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| BindError { address, key, source })
}

/// An address that cannot be listened on.
#[derive(Debug, Error)]
#[error("listen on {address} ({key}): {source}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// The config key that holds it.
    pub key: &'static str,
    /// Why.
    pub source: io::Error,
}

/// Serves `routes`, with health (serving for as long as the server runs) and reflection, until
/// `shutdown`; calls in progress then have `grace` to finish before they are cut off.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    shutdown: Shutdown,
    grace: Duration,
) -> Result<(), ServeError> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    let (health, health_service) = tonic_health::server::health_reporter();
    let stopping = async {
        shutdown.begun().await;
        health.set_service_status("", ServingStatus::NotServing).await;
    };
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_routes(routes)
        .add_service(health_service)
        .add_service(reflection)
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            stopping,
        );
    let cut_off = async {
        shutdown.begun().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        result = server => result.map_err(ServeError::Serve),
        () = cut_off => {
            tracing::warn!("calls cut off at the end of the grace period");
            Ok(())
        }
    }
}

/// Why a server ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The built-in service descriptors are malformed.
    #[error("describe services for reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The listener failed.
    #[error("serve: {0}")]
    Serve(tonic::transport::Error),
}

/// A channel to the services at `address` (`http://host:port`). It connects at the first call, and
/// again after the connection broke.
///
/// # Errors
/// When the address is malformed.
pub fn channel(address: &str) -> Result<Channel, AddressError> {
    let endpoint = Endpoint::from_shared(address.to_owned())
        .map_err(|source| AddressError { address: address.to_owned(), source })?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .connect_lazy())
}

/// An address that is none.
#[derive(Debug, Error)]
#[error("address {address:?}, expected http://host:port: {source}")]
pub struct AddressError {
    /// What was given.
    pub address: String,
    /// Why.
    pub source: tonic::transport::Error,
}

/// Waits for the answer to a call, `deadline` long at most. `what` names the call and its target in
/// errors: "generate group 7 on rollout-0".
///
/// # Errors
/// When the call fails or does not answer in time.
pub async fn call<T>(
    what: &str,
    deadline: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(deadline, answer).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => {
            let (code, message) = (from_status(&status), status.message().to_owned());
            Err(CallError { what: what.to_owned(), code, message })
        }
        Err(_) => {
            let message = format!("no answer within {deadline:?}");
            Err(CallError { what: what.to_owned(), code: Code::DeadlineExceeded, message })
        }
    }
}

/// A call without a usable answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {message}")]
pub struct CallError {
    /// The call and its target.
    pub what: String,
    /// What kind of failure it was.
    pub code: Code,
    /// What the other side said.
    pub message: String,
}

impl CallError {
    /// Whether the same call may succeed later or elsewhere.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.code.is_retryable()
    }
}

/// How often a call is repeated that failed in a way that may pass.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Calls in all, at least 1.
    pub attempts: u32,
    /// The wait before the second; each later wait is twice as long.
    pub first_wait: Duration,
}

impl Retry {
    /// Calls until it succeeds, fails for good, or has failed `attempts` times.
    ///
    /// # Errors
    /// With the last failure.
    pub async fn run<T, F: Future<Output = Result<T, CallError>>>(
        self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, CallError> {
        let mut wait = self.first_wait;
        for left in (0..self.attempts.max(1)).rev() {
            match attempt().await {
                Err(error) if error.is_retryable() && left > 0 => {
                    tracing::debug!(%error, left, "call failed, trying again");
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
                result => return result,
            }
        }
        unreachable!("the last attempt returns")
    }
}
