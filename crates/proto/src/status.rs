//! The one table between error codes and gRPC status.

use std::error::Error;

use tonic::{Code as GrpcCode, Status};

/// What kind of failure an error is. Each error family of the services maps to one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request can never succeed as it is.
    InvalidArgument,
    /// What the request names does not exist.
    NotFound,
    /// The system is in a state that forbids the request; another worker or version is needed.
    FailedPrecondition,
    /// Somebody else holds what the request wants to change (a newer term, a newer session).
    Aborted,
    /// Disk, memory or a limit is exhausted.
    ResourceExhausted,
    /// Bytes do not have the digest they should have.
    DataLoss,
    /// Not reachable, or shutting down; try again, maybe elsewhere.
    Unavailable,
    /// No answer in time.
    DeadlineExceeded,
    /// The caller gave up.
    Cancelled,
    /// A fault of the service itself.
    Internal,
}

const TABLE: [(Code, GrpcCode); 10] = [
    (Code::InvalidArgument, GrpcCode::InvalidArgument),
    (Code::NotFound, GrpcCode::NotFound),
    (Code::FailedPrecondition, GrpcCode::FailedPrecondition),
    (Code::Aborted, GrpcCode::Aborted),
    (Code::ResourceExhausted, GrpcCode::ResourceExhausted),
    (Code::DataLoss, GrpcCode::DataLoss),
    (Code::Unavailable, GrpcCode::Unavailable),
    (Code::DeadlineExceeded, GrpcCode::DeadlineExceeded),
    (Code::Cancelled, GrpcCode::Cancelled),
    (Code::Internal, GrpcCode::Internal),
];

impl Code {
    /// Whether the same request may succeed later or elsewhere.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Unavailable | Self::DeadlineExceeded | Self::ResourceExhausted | Self::DataLoss
        )
    }
}

/// An error as a status: its code, and its message with all its sources.
#[must_use]
pub fn to_status(code: Code, error: &dyn Error) -> Status {
    let grpc = TABLE.iter().find(|(c, _)| *c == code).map_or(GrpcCode::Internal, |(_, g)| *g);
    Status::new(grpc, chain(error))
}

/// The code of a status; those that no service of ours sends count as `Internal`.
///
/// What broke on the way is `Unavailable`, whatever the transport calls it: `Unknown`, which no
/// service of ours sends, and any status with a source, which none can have that came over the wire.
#[must_use]
pub fn from_status(status: &Status) -> Code {
    if status.code() == GrpcCode::Unknown || status.source().is_some() {
        return Code::Unavailable;
    }
    TABLE.iter().find(|(_, g)| *g == status.code()).map_or(Code::Internal, |(c, _)| *c)
}

/// An error's message followed by those of its sources.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let message = error.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_goes_both_ways() {
        for (code, _) in TABLE {
            let status = to_status(code, &std::fmt::Error);
            assert_eq!(from_status(&status), code);
        }
        assert_eq!(from_status(&Status::unimplemented("x")), Code::Internal);
    }

    #[test]
    fn what_broke_on_the_way_may_be_tried_again() {
        let mut cut = Status::cancelled("connection reset");
        assert!(!from_status(&cut).is_retryable());
        cut.set_source(std::sync::Arc::new(std::io::Error::other("reset")));
        assert_eq!(from_status(&cut), Code::Unavailable);
        assert_eq!(from_status(&Status::unknown("no trailers")), Code::Unavailable);
    }
}
