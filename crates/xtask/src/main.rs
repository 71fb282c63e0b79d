//! What a change has to pass, as programs: `cargo xtask ci|layers|tidy`.
//!
//! [`layers`] holds the table of allowed dependencies between crates, [`tidy`] what no compiler
//! checks (sizes, docs, leftovers, dead links), [`ci`] runs everything in the order in which it
//! fails fastest.

mod ci;
mod layers;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

const USAGE: &str = "\
usage: cargo xtask <task>

  ci      format, lints, layers, tidy and tests: what a change has to pass
  layers  only allowed dependencies between crates
  tidy    sizes of files, module docs, leftovers, absolute paths, dead links";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let root = root()?;
    match std::env::args().nth(1).as_deref() {
        Some("ci") => ci::run(&root),
        Some("layers") => layers::run(&root),
        Some("tidy") => tidy::run(&root),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        Some(other) => bail!("no task \"{other}\"\n{USAGE}"),
        None => bail!("no task\n{USAGE}"),
    }
}

/// The workspace's root.
fn root() -> anyhow::Result<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = crates.and_then(Path::parent).context("find the workspace above xtask")?;
    Ok(root.to_owned())
}

/// Fails with every complaint on a line of its own.
fn settle(what: &str, complaints: &[String]) -> anyhow::Result<()> {
    if complaints.is_empty() {
        println!("{what}: ok");
        return Ok(());
    }
    bail!("{what}: {} found\n  {}", complaints.len(), complaints.join("\n  "))
}
