//! Everything a change has to pass.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::{layers, tidy};

/// Runs all checks, the quick ones first, and stops at the first that fails.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    layers::run(root)?;
    tidy::run(root)?;
    for arguments in
        ["fmt --all --check", "clippy --workspace --all-targets -- -D warnings", "test --workspace"]
    {
        cargo(root, arguments)?;
    }
    println!("ci: ok in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn cargo(root: &Path, arguments: &str) -> anyhow::Result<()> {
    println!("ci: cargo {arguments}");
    let begun = Instant::now();
    let status = Command::new(env!("CARGO"))
        .args(arguments.split(' '))
        .current_dir(root)
        .status()
        .with_context(|| format!("run cargo {arguments}"))?;
    if !status.success() {
        bail!("cargo {arguments} failed ({status})");
    }
    println!("ci: cargo {arguments}: ok in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}
