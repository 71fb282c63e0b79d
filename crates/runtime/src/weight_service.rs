//! Weights over gRPC: serving what a [`WeightStore`] holds, and fetching from who serves it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use proto::convert;
use proto::pb::weight_service_client::WeightServiceClient;
use proto::pb::weight_service_server::{WeightService, WeightServiceServer};
use proto::pb::{self, FetchTensorResponse};
use proto::status::{Code, to_status};
use rl::{Digest, WeightRef};
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use weights::{Source, WeightStore, WeightsError};

use crate::grpc::{self, CallError};

/// Bytes of a tensor in one message.
const CHUNK_BYTES: usize = 1 << 20;

/// A gRPC service that hands out what `store` holds.
#[must_use]
pub fn weight_service(store: WeightStore) -> WeightServiceServer<impl WeightService> {
    WeightServiceServer::new(Service { store })
}

/// Where the weights that a request wants are to be had.
///
/// # Errors
/// If an address is none, or the weights are not named.
pub fn sources(
    wanted: pb::WeightsWanted,
    deadline: Duration,
) -> Result<(WeightRef, Vec<Arc<dyn Source>>), convert::Malformed> {
    let weights = wanted.weights.ok_or_else(|| convert::Malformed::absent("weights"))?;
    let source = |address: String| -> Result<Arc<dyn Source>, convert::Malformed> {
        let channel = crate::grpc::channel(&address).map_err(|_| {
            convert::Malformed::new("weights.sources", "http://host:port", &address)
        })?;
        Ok(Arc::new(Remote { address, client: WeightServiceClient::new(channel), deadline }))
    };
    let sources = wanted.sources.into_iter().map(source).collect::<Result<_, _>>()?;
    Ok((weights.try_into()?, sources))
}

struct Service {
    store: WeightStore,
}

#[async_trait]
impl WeightService for Service {
    async fn get_manifest(
        &self,
        request: Request<pb::GetManifestRequest>,
    ) -> Result<Response<pb::GetManifestResponse>, Status> {
        let wanted = request.into_inner().weights.unwrap_or_default();
        let wanted = WeightRef::try_from(wanted).map_err(malformed)?;
        let bytes = Source::manifest(&self.store, wanted).await.map_err(|error| status(&error))?;
        Ok(Response::new(pb::GetManifestResponse { manifest: bytes.to_vec() }))
    }

    type FetchTensorStream =
        Pin<Box<dyn Stream<Item = Result<FetchTensorResponse, Status>> + Send>>;

    async fn fetch_tensor(
        &self,
        request: Request<pb::FetchTensorRequest>,
    ) -> Result<Response<Self::FetchTensorStream>, Status> {
        let digest = convert::digest(&request.into_inner().digest).map_err(malformed)?;
        let mut bytes = Source::blob(&self.store, digest).await.map_err(|error| status(&error))?;
        let chunks = std::iter::from_fn(move || {
            let next = bytes.len().min(CHUNK_BYTES);
            (next > 0).then(|| Ok(FetchTensorResponse { chunk: bytes.split_to(next) }))
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }
}

/// Somebody who serves weights.
struct Remote {
    address: String,
    client: WeightServiceClient<Channel>,
    deadline: Duration,
}

#[async_trait]
impl Source for Remote {
    fn name(&self) -> String {
        self.address.clone()
    }

    async fn manifest(&self, wanted: WeightRef) -> Result<Bytes, WeightsError> {
        let request = pb::GetManifestRequest { weights: Some(wanted.into()) };
        let mut client = self.client.clone();
        let answer = client.get_manifest(request);
        let what = format!("the manifest of {wanted}");
        let response = grpc::call(&what, self.deadline, answer).await;
        Ok(response.map_err(|error| self.failed(error))?.manifest.into())
    }

    async fn blob(&self, digest: Digest) -> Result<Bytes, WeightsError> {
        let request = pb::FetchTensorRequest { digest: digest.0.to_vec() };
        let mut client = self.client.clone();
        let answer = async {
            let mut chunks = client.fetch_tensor(request).await?.into_inner();
            let mut bytes = BytesMut::new();
            while let Some(chunk) = chunks.message().await? {
                bytes.extend_from_slice(&chunk.chunk);
            }
            Ok(Response::new(bytes.freeze()))
        };
        let what = format!("tensor {digest}");
        grpc::call(&what, self.deadline, answer).await.map_err(|error| self.failed(error))
    }
}

impl Remote {
    fn failed(&self, error: CallError) -> WeightsError {
        WeightsError::Source {
            from: self.address.clone(),
            what: error.what.clone(),
            retryable: error.is_retryable(),
            source: error.into(),
        }
    }
}

fn malformed(error: convert::Malformed) -> Status {
    to_status(Code::InvalidArgument, &error)
}

/// A weights error as a status.
#[must_use]
pub fn status(error: &WeightsError) -> Status {
    to_status(code(error), error)
}

/// The kind of failure a weights error is.
///
/// Weights that no source has count as not to be had for the moment: sources come and go, and who
/// has them says so with the next request.
#[must_use]
pub fn code(error: &WeightsError) -> Code {
    match error.code() {
        "unknown" | "missing" => Code::NotFound,
        "damaged" | "damaged_manifest" | "wrong_bytes" => Code::DataLoss,
        "io" => Code::ResourceExhausted,
        "exhausted" => Code::Unavailable,
        "source" if error.is_retryable() => Code::Unavailable,
        _ => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_nobody_has_just_now_may_be_asked_for_again() {
        let io = || std::io::Error::other("disk full");
        let wanted = WeightRef {
            actor: rl::Actor::Policy,
            version: rl::WeightVersion(3),
            digest: Digest([0; 32]),
        };
        let source = |retryable| WeightsError::Source {
            from: "http://a:1".into(),
            what: "a manifest".into(),
            retryable,
            source: Box::new(io()),
        };
        let exhausted = |tried| WeightsError::Exhausted { what: "a manifest".into(), tried };
        let disk = WeightsError::Io { operation: "write", path: "blobs".into(), source: io() };
        for (error, expected) in [
            (exhausted(Vec::new()), Code::Unavailable),
            (exhausted(vec![("a".into(), WeightsError::Unknown(wanted))]), Code::Unavailable),
            (exhausted(vec![("a".into(), source(true))]), Code::Unavailable),
            (source(true), Code::Unavailable),
            (source(false), Code::FailedPrecondition),
            (WeightsError::Unknown(wanted), Code::NotFound),
            (disk, Code::ResourceExhausted),
        ] {
            assert_eq!(code(&error), expected, "{error}");
        }
    }
}
