//! Weights over gRPC: serving what a [`WeightStore`] holds, and fetching from who serves it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::future::TryFutureExt;
use futures::stream::{BoxStream, StreamExt, iter, try_unfold};
use proto::convert;
use proto::pb::weight_service_client::WeightServiceClient;
use proto::pb::weight_service_server::{WeightService, WeightServiceServer};
use proto::pb::{self, FetchTensorsResponse};
use proto::status::{Code, to_status};
use rl::{Digest, WeightRef};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use weights::{Blobs, Source, WeightStore, WeightsError};

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

    type FetchTensorsStream = BoxStream<'static, Result<FetchTensorsResponse, Status>>;

    async fn fetch_tensors(
        &self,
        request: Request<pb::FetchTensorsRequest>,
    ) -> Result<Response<Self::FetchTensorsStream>, Status> {
        let digests = request.into_inner().digests;
        let digests = digests.iter().map(|digest| convert::digest(digest));
        let digests = digests.collect::<Result<_, _>>().map_err(malformed)?;
        let chunks = self.store.blobs(digests).flat_map(|answer| iter(chunks(answer)).map(Ok));
        Ok(Response::new(chunks.boxed()))
    }
}

/// A tensor as it travels; none if it is not to be had here.
fn chunks(
    answer: Result<(Digest, Bytes), WeightsError>,
) -> impl Iterator<Item = FetchTensorsResponse> {
    if let Err(error) = &answer {
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, "tensor left out");
    }
    let mut left = answer.ok();
    std::iter::from_fn(move || {
        let (digest, bytes) = left.as_mut()?;
        let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES));
        let (digest, last) = (digest.0.to_vec(), bytes.is_empty());
        if last {
            left = None;
        }
        Some(FetchTensorsResponse { digest, chunk, last })
    })
}

/// A whole tensor from its chunks; nothing where the other side has no more.
async fn tensor(
    chunks: &mut Streaming<FetchTensorsResponse>,
) -> Result<Option<(Digest, Bytes)>, Status> {
    let Some(first) = chunks.message().await? else {
        return Ok(None);
    };
    let digest = convert::digest(&first.digest).map_err(malformed)?;
    if first.last {
        return Ok(Some((digest, first.chunk)));
    }
    let mut bytes = BytesMut::from(first.chunk);
    loop {
        let next = chunks.message().await?.ok_or_else(|| Status::data_loss("cut in a tensor"))?;
        if next.digest != first.digest {
            return Err(Status::data_loss("tensors in each other's way"));
        }
        bytes.extend_from_slice(&next.chunk);
        if next.last {
            return Ok(Some((digest, bytes.freeze())));
        }
    }
}

/// Somebody who serves weights. The deadline is for each answer, and for each tensor of a stream.
#[derive(Clone)]
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

    fn blobs(&self, wanted: Vec<Digest>) -> Blobs {
        let digests = wanted.iter().map(|digest| digest.0.to_vec()).collect();
        let this = self.clone();
        let open = async move {
            let mut client = this.client.clone();
            let answer = client.fetch_tensors(pb::FetchTensorsRequest { digests });
            let chunks = grpc::call("tensors", this.deadline, answer).await;
            let chunks = chunks.map_err(|error| this.failed(error))?;
            Ok(try_unfold((this, chunks), async |(this, mut chunks)| {
                let next = async { tensor(&mut chunks).await.map(Response::new) };
                let next = grpc::call("a tensor", this.deadline, next).await;
                let next = next.map_err(|error| this.failed(error))?;
                Ok(next.map(|tensor| (tensor, (this, chunks))))
            }))
        };
        open.try_flatten_stream().boxed()
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
    use rl::{Actor, WeightVersion};
    use weights::{Dtype, Kind, Publication, Tensor};

    /// Tensors of no, one and several chunks come whole over one stream; one that was lost is left
    /// out and keeps back no other.
    #[tokio::test]
    async fn a_version_travels_over_one_stream() {
        let folder = tempfile::tempdir().unwrap();
        let store = |name| WeightStore::open(folder.path().join(name)).unwrap();
        let (learner, worker) = (store("learner"), store("worker"));
        let tensor = |(i, elements): (usize, usize)| Tensor {
            name: format!("layer.{i}"),
            shape: vec![elements],
            dtype: Dtype::F32,
            data: vec![i as u8; 4 * elements].into(),
        };
        let publication = Publication {
            actor: Actor::Policy,
            version: WeightVersion(3),
            kind: Kind::Weights,
            model: weights::digest(b"a model"),
            step: None,
            extra: Default::default(),
            tensors: [0, 10, CHUNK_BYTES / 4, CHUNK_BYTES]
                .into_iter()
                .enumerate()
                .map(tensor)
                .collect(),
        };
        let wanted = learner.publish(publication).unwrap();
        let lost = learner.resolve(wanted).unwrap().tensors[1].digest;
        let path = folder.path().join("learner/blobs").join(lost.to_string());
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();

        let shutdown = crate::Shutdown::new();
        let listener = grpc::bind(([127, 0, 0, 1], 0).into(), "test").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let routes = tonic::service::Routes::new(weight_service(learner));
        let deadline = Duration::from_secs(10);
        let server = grpc::serve(listener, routes, shutdown.clone(), deadline);
        let client = async {
            let asked = pb::WeightsWanted { weights: Some(wanted.into()), sources: vec![address] };
            let (wanted, sources) = sources(asked, deadline).unwrap();
            let error = weights::fetch(&worker, &sources, wanted).await.unwrap_err();
            let said = error.to_string();
            assert!(said.starts_with("no source has tensor \"layer.1\" of"), "{said}");
            assert!(said.ends_with("did not give 1 tensors: they were left out"), "{said}");
            std::fs::write(&path, bytes).unwrap();
            let fetched = weights::fetch(&worker, &sources, wanted).await.unwrap();
            let lengths: Vec<usize> = fetched.tensors().map(|(_, bytes)| bytes.len()).collect();
            assert_eq!(lengths, [0, 40, CHUNK_BYTES, 4 * CHUNK_BYTES]);
            shutdown.begin();
        };
        let (served, ()) = tokio::join!(server, client);
        served.unwrap();
    }

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
