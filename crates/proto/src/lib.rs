//! Wire types and services of Rubricon, generated from `proto/`, and their conversion to `rl`.
//!
//! Reading order: [`pb`] (generated; written `pb::X` wherever used), [`convert`] (`pb <-> rl`; what
//! comes from the wire is checked there once), [`status`] (the one table between error codes and
//! gRPC status).
//!
//! Invariant: no other crate builds or reads a `tonic::Status` code.

pub mod convert;
pub mod status;

/// The generated messages, clients and servers.
#[allow(missing_docs, reason = "documented in proto/; generated code")]
#[allow(clippy::all, clippy::unwrap_used, reason = "generated code")]
#[allow(clippy::too_many_lines, reason = "generated code")]
#[allow(clippy::allow_attributes_without_reason, reason = "generated code")]
pub mod pb {
    tonic::include_proto!("rubricon.v1");
}

/// The encoded descriptors of all services, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Workers and coordinator must speak the same one.
pub const PROTOCOL_VERSION: u32 = 1;

/// The largest gRPC message that is sent or accepted, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
