//! The folder of a run holds one run.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use runtime::config::{Config, Sources};

use crate::failure::{Failure, OrUsage};

/// Makes the folder of a new run and writes its resolved `config.toml`, or checks that the folder
/// is of this very run.
///
/// # Errors
/// If the folder holds a run of another configuration, or cannot be written.
pub fn claim(config: &Config) -> Result<(), Failure> {
    let dir = &config.run.dir;
    let path = dir.join("config.toml");
    if path.exists() {
        return resume(config, path);
    }
    let partial = dir.join("config.toml.partial");
    let write = || {
        std::fs::create_dir_all(dir)?;
        std::fs::write(&partial, config.to_toml())?;
        std::fs::rename(&partial, &path)
    };
    write().with_context(|| format!("run.dir: write {}", path.display()))?;
    Ok(())
}

fn resume(config: &Config, path: PathBuf) -> Result<(), Failure> {
    let sources = Sources { file: Some(path.clone()), ..Sources::default() };
    let earlier = sources.resolve().or_usage()?.config;
    let changed = config.changed_since(&earlier);
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(anyhow!(
        "{}: a run of another configuration is in this folder; these keys differ: {} (expected the \
         same configuration, or another --run-dir)",
        path.display(),
        changed.join(", ")
    )))
}

/// Where decisions are kept.
#[must_use]
pub fn store(dir: &Path) -> PathBuf {
    dir.join("store.redb")
}

/// Where the learner publishes.
#[must_use]
pub fn weights(dir: &Path) -> PathBuf {
    dir.join("weights")
}

/// Where a worker keeps the weights that it fetched.
#[must_use]
pub fn cache(dir: &Path, worker: &str) -> PathBuf {
    dir.join("cache").join(worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_claimed_by_one_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let config = |set: &str| {
            let run_dir = format!("run.dir={:?}", dir.path().join("run"));
            let required = [
                "policy.model=\"p\"",
                "policy.prompts=\"t\"",
                "generator.model=\"g\"",
                "generator.anchors=\"a\"",
                "audit.prompts=\"h\"",
            ];
            let set = [run_dir.as_str(), set].into_iter().chain(required).map(str::to_owned);
            let sources = Sources { set: set.collect(), ..Sources::default() };
            sources.resolve().unwrap().config
        };
        claim(&config("run.seed=1")).unwrap();
        claim(&config("run.seed=1")).unwrap();
        let Err(Failure::Usage(error)) = claim(&config("run.seed=2")) else { panic!("claimed") };
        assert!(error.to_string().contains("these keys differ: run.seed ("), "{error}");
    }
}
