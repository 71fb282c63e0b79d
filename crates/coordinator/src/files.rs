//! What a run writes to its folder, besides the store: metrics, journals and its present state.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ledger::Record;
use runtime::metrics::{MetricRecord, MetricsSink};

use crate::journal::{self, AuditLine, Journal, RubricLine, RunState, StepLine};

/// The files of a run, opened to go on at its present step.
#[derive(Debug)]
pub struct Files {
    dir: PathBuf,
    metrics: MetricsSink,
    steps: Journal,
    rubrics: Journal,
    audits: Journal,
}

impl Files {
    /// Opens the files and drops what they hold of steps that will be made again.
    ///
    /// # Errors
    /// If a file cannot be read or written; the error names it.
    pub fn open(dir: &Path, record: &Record) -> io::Result<Self> {
        let step = record.step.0;
        // An audit that the run still waits for is made again; those of this step before it stay.
        let pending = record.audit.map(|audit| audit.step.0);
        let is_kept = move |line: &AuditLine| match pending {
            Some(audit) => line.step < audit,
            None => line.step <= step,
        };
        let path = dir.join("steps.jsonl");
        let steps = Journal::resume(path.clone(), move |l: &StepLine| l.step < step)?;
        let earlier = journal::read::<StepLine>(&path)?;
        if (earlier.len() as u64) < step {
            let (file, found) = (path.display(), earlier.len());
            tracing::warn!(%file, found, steps = step, "metrics of earlier steps are lost");
        }
        Ok(Self {
            dir: dir.to_owned(),
            metrics: MetricsSink::open(dir, earlier.into_iter().map(for_tensorboard).collect())?,
            steps,
            rubrics: Journal::resume(dir.join("rubrics.jsonl"), move |l: &RubricLine| {
                l.step < step
            })?,
            audits: Journal::resume(dir.join("audit.jsonl"), is_kept)?,
        })
    }

    /// A step is done.
    pub fn step(&mut self, line: StepLine) {
        said(self.steps.append(&line));
        self.metrics.record(for_tensorboard(line));
    }

    /// A rubric worth showing.
    pub fn rubric(&mut self, line: &RubricLine) {
        said(self.rubrics.append(line));
    }

    /// An audit is over.
    pub fn audit(&mut self, line: &AuditLine) {
        said(self.audits.append(line));
    }

    /// The audits so far.
    pub fn audits(&self) -> io::Result<Vec<AuditLine>> {
        journal::read(&self.dir.join("audit.jsonl"))
    }

    /// Replaces `state.json`, whole or not at all.
    pub fn state(&self, state: &RunState) {
        let path = self.dir.join("state.json");
        let partial = self.dir.join("state.json.partial");
        let text = serde_json::to_vec_pretty(state).expect("a state is made of names and numbers");
        said(std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, &path)));
    }

    /// Waits until all metrics are on disk.
    pub fn close(self) {
        let lost = self.metrics.close();
        if lost > 0 {
            tracing::warn!(lost, "metrics were lost, the disk could not keep up");
        }
    }
}

/// A step as TensorBoard is shown it.
fn for_tensorboard(line: StepLine) -> MetricRecord {
    MetricRecord { step: line.step, wall_time: line.wall_time, values: line.metrics }
}

/// A log can never fail the loop: what could not be written is said, and the run goes on.
fn said(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::error!(%error, "the run's folder could not be written");
    }
}

/// The present state of a run, for whoever looks into its folder.
pub fn state(record: &Record, run: &runtime::config::Config) -> RunState {
    let schedule = serde_json::to_value(run.schedule.kind).expect("a kind has a name");
    RunState {
        schedule: schedule.as_str().unwrap_or_default().to_owned(),
        seed: run.run.seed,
        step: record.step.0,
        skipped_steps: record.skipped_steps,
        groups: BTreeMap::from([
            ("policy".to_owned(), record.tally.policy.clone()),
            ("rubric".to_owned(), record.tally.generator.clone()),
        ]),
        weights: BTreeMap::from([
            ("policy".to_owned(), record.current.policy),
            ("generator".to_owned(), record.current.generator),
        ]),
        end: record.end.clone(),
    }
}
