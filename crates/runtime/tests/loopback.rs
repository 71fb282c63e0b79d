//! The plumbing over real sockets.

use std::time::Duration;

use proto::status::Code;
use runtime::Shutdown;
use runtime::grpc::{self, CallError, Retry};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::service::Routes;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

const DEADLINE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_port_in_use_is_named_with_its_key() {
    let first = grpc::bind(([127, 0, 0, 1], 0).into(), "services.learner").await.unwrap();
    let address = first.local_addr().unwrap();
    let error = grpc::bind(address, "services.learner").await.unwrap_err().to_string();
    let expected = format!("listen on {address} (services.learner): Address already in use");
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn a_server_answers_health_and_reflection_and_stops_when_asked() {
    let listener = grpc::bind(([127, 0, 0, 1], 0).into(), "services.learner").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = Shutdown::new();
    let server = grpc::serve(listener, Routes::default(), shutdown.clone(), DEADLINE);
    let client = async {
        let channel = grpc::channel(&address).unwrap();
        let request = HealthCheckRequest::default();
        let mut health = HealthClient::new(channel.clone());
        let answer = grpc::call("check health", DEADLINE, health.check(request)).await.unwrap();
        assert_eq!(answer.status(), ServingStatus::Serving);

        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut reflection = ServerReflectionClient::new(channel);
        let requests = tokio_stream::once(request);
        let listing = reflection.server_reflection_info(requests);
        let mut answers = grpc::call("list services", DEADLINE, listing).await.unwrap();
        let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
        assert!(list.service.iter().any(|s| s.name == "rubricon.v1.LearnerService"), "{list:?}");
        drop((health, reflection, answers));
        shutdown.begin();
    };
    let (served, ()) = tokio::join!(server, client);
    served.unwrap();
    assert_eq!(check_health(&address).await.unwrap_err().code, Code::Unavailable);
}

#[tokio::test]
async fn a_call_that_is_never_answered_meets_its_deadline() {
    // Accepts connections and says nothing: the listener's backlog does.
    let listener = grpc::bind(([127, 0, 0, 1], 0).into(), "services.learner").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut health = HealthClient::new(grpc::channel(&address).unwrap());
    let deadline = Duration::from_millis(20);
    let answer = health.check(HealthCheckRequest::default());
    let error = grpc::call("check health", deadline, answer).await.unwrap_err();
    assert_eq!(error.to_string(), "check health: no answer within 20ms");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_call_whose_server_is_killed_may_be_tried_again() {
    let listener = grpc::bind(([127, 0, 0, 1], 0).into(), "services.learner").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    // What a killed server leaves behind: a connection that ends in the middle of an exchange.
    let killed = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        // The preface and the first frames: the call is under way.
        let mut request = [0; 128];
        connection.read_exact(&mut request).await.unwrap();
        // An empty SETTINGS frame, so that the other side takes this for a server.
        connection.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    };
    let (error, ()) = tokio::join!(check_health(&address), killed);
    let error = error.unwrap_err();
    assert_eq!(error.code, Code::Unavailable, "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn failures_that_may_pass_are_repeated_and_others_are_not() {
    let retry = Retry { attempts: 3, first_wait: Duration::from_millis(1) };
    for (codes, expected_calls, expected) in [
        (&[None][..], 1, None),
        (&[Some(Code::Unavailable), Some(Code::DeadlineExceeded), None], 3, None),
        (&[Some(Code::Unavailable); 4], 3, Some(Code::Unavailable)),
        (&[Some(Code::InvalidArgument), None], 1, Some(Code::InvalidArgument)),
    ] {
        let mut calls = 0;
        let result = retry
            .run(|| {
                let code = codes[calls];
                calls += 1;
                let error = |code| CallError { what: "test".into(), code, message: "no".into() };
                std::future::ready(code.map_or(Ok(()), |code| Err(error(code))))
            })
            .await;
        assert_eq!((calls, result.err().map(|error| error.code)), (expected_calls, expected));
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    let error = grpc::channel("no address at all").unwrap_err().to_string();
    assert!(
        error.starts_with("address \"no address at all\", expected http://host:port"),
        "{error}"
    );
}

async fn check_health(address: &str) -> Result<(), CallError> {
    let mut health = HealthClient::new(grpc::channel(address).expect("an address"));
    let answer = health.check(HealthCheckRequest::default());
    grpc::call("check health", DEADLINE, answer).await.map(drop)
}
