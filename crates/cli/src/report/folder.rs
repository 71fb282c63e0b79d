//! The folder of a run as the coordinator writes it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use coordinator::journal::{self, AuditLine, RubricLine, RunState, StepLine};
use runtime::config::{Config, Sources};
use serde::de::DeserializeOwned;

/// The files of a run's folder.
#[derive(Debug)]
pub struct RunFiles {
    /// `config.toml`: the resolved configuration.
    pub config: Config,
    /// `state.json`: nothing before the first step.
    pub state: Option<RunState>,
    /// `audit.jsonl`.
    pub audits: Vec<AuditLine>,
    /// `rubrics.jsonl`.
    pub rubrics: Vec<RubricLine>,
    /// `steps.jsonl`.
    pub steps: Vec<StepLine>,
}

impl RunFiles {
    /// Reads a run's folder; files that are not written yet are empty.
    ///
    /// # Errors
    /// If there is no run in the folder, or a file is malformed; the error names it.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let config = expect_run(dir)?;
        let sources = Sources { file: Some(config), ..Sources::default() };
        Ok(Self {
            config: sources.resolve()?.config,
            state: state(&dir.join("state.json"))?,
            audits: lines(&dir.join("audit.jsonl"))?,
            rubrics: lines(&dir.join("rubrics.jsonl"))?,
            steps: lines(&dir.join("steps.jsonl"))?,
        })
    }
}

/// The path of `config.toml`, which every run's folder has.
///
/// # Errors
/// If there is none.
pub fn expect_run(dir: &Path) -> anyhow::Result<PathBuf> {
    let config = dir.join("config.toml");
    if !config.is_file() {
        bail!("{}: no config.toml (expected the folder of a run)", dir.display());
    }
    Ok(config)
}

fn lines<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    if path.exists() { Ok(journal::read(path)?) } else { Ok(Vec::new()) }
}

fn state(path: &Path) -> anyhow::Result<Option<RunState>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| path.display().to_string()).map(Some)
}
