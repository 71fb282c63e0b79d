//! What a run has to show: from the files of its folder to `summary.json` and `report.html`.
//!
//! The hidden gold score is added here, after the fact, from the texts of `audit.jsonl`: no
//! service knows it ([`audited`]). Everything else is arithmetic on what the coordinator wrote.
//! A number that was not measured stays absent; it never becomes 0.
//!
//! Reading order: [`folder`], [`audited`], [`series`]; what they come to: [`supervision`],
//! [`rounds`], [`matrix`], [`parting`], [`summary`]; how it is shown: [`table`], [`chart`], [`examples`], [`page`].

pub mod audited;
pub mod chart;
pub mod examples;
pub mod folder;
pub mod matrix;
pub mod page;
pub mod parting;
pub mod rounds;
pub mod series;
pub mod summary;
pub mod supervision;
pub mod table;

#[cfg(test)]
pub(crate) mod fixture;

use std::io;
use std::path::Path;

use anyhow::Context;

use audited::Gold;
use folder::RunFiles;
use summary::Summary;

/// Writes `summary.json` of a run's folder as far as the run has come, and returns it.
///
/// # Errors
/// If a file of the folder cannot be read or written; the error names it.
pub fn write_summary(dir: &Path, gold: Gold<'_>) -> anyhow::Result<Summary> {
    let files = RunFiles::read(dir)?;
    let summary = Summary::of(&files, &audited::audited(&files.audits, gold));
    store_summary(dir, &summary)?;
    Ok(summary)
}

/// Writes `summary.json` and `report.html` of a run's folder.
///
/// # Errors
/// As for [`write_summary`].
pub fn write_report(dir: &Path, gold: Gold<'_>) -> anyhow::Result<Summary> {
    let files = RunFiles::read(dir)?;
    let audits = audited::audited(&files.audits, gold);
    let summary = Summary::of(&files, &audits);
    store_summary(dir, &summary)?;
    let html = page::html(&files, &audits, &summary, gold)?;
    write_whole(&dir.join("report.html"), html.as_bytes())?;
    Ok(summary)
}

fn store_summary(dir: &Path, summary: &Summary) -> anyhow::Result<()> {
    let mut json = serde_json::to_vec_pretty(summary).context("write summary.json")?;
    json.push(b'\n');
    write_whole(&dir.join("summary.json"), &json)
}

/// Replaces a file at once: a reader sees the old one or the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    let write = || -> io::Result<()> {
        std::fs::write(&partial, bytes)?;
        std::fs::rename(&partial, path)
    };
    write().with_context(|| format!("write {}", path.display()))
}
