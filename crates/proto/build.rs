//! Compiles `proto/` with protox (no protoc needed) into Rust and a descriptor set for reflection.

#![allow(clippy::disallowed_methods, reason = "cargo talks to build scripts by variables")]

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let files = ["common", "coordinator", "rollout", "evaluator", "learner", "weights"]
        .map(|name| root.join(format!("rubricon/v1/{name}.proto")));
    println!("cargo:rerun-if-changed={}", root.display());
    let descriptors = protox::compile(&files, [&root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors))?;
    tonic_prost_build::configure()
        .bytes(".rubricon.v1.FetchTensorsResponse.chunk")
        .compile_fds(descriptors)?;
    Ok(())
}
