//! The files of a run's folder that the coordinator appends to, one JSON object a line.
//!
//! `audit.jsonl` holds samples on held-out prompts and what each generator thinks of them. The
//! hidden gold score is *not* in it: whoever may see it adds it later, from these texts. So no
//! number of the audit can find its way back into training. `rubrics.jsonl` holds some of the
//! rubrics written in training, for the report.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rl::{Rubric, Verdict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A line of `audit.jsonl`: one place in the run at which the policy was audited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Optimiser steps of the run made before.
    pub step: u64,
    /// The round in progress or just over; 0 before the first.
    pub round: u32,
    /// `"start"`, `"within"`, `"policy"` (end of a policy phase) or `"generator"` (end of an
    /// evaluator phase).
    pub moment: String,
    /// The version of the policy that was sampled.
    pub policy_version: u64,
    /// The versions G_0, G_1, .. of the generator after each of its phases, so far.
    pub generator_versions: Vec<u64>,
    /// The sampled groups, in the order of the held-out prompts.
    pub groups: Vec<AuditGroup>,
    /// Why the audit is incomplete, if it is.
    pub failure: Option<String>,
}

/// Completions of one held-out prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditGroup {
    /// The prompt's id in its file.
    pub prompt_id: String,
    /// The prompt.
    pub prompt: String,
    /// The sampled completions.
    pub completions: Vec<String>,
    /// Their lengths in tokens.
    pub tokens: Vec<u32>,
    /// What the generators make of them; empty where only the policy was audited.
    pub evaluations: Vec<AuditEvaluation>,
}

/// One generator's rubric on a group and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEvaluation {
    /// The version of the generator.
    pub generator_version: u64,
    /// The rubric; nothing where none could be had.
    pub rubric: Option<Rubric>,
    /// Items x completions.
    pub verdicts: Vec<Vec<Verdict>>,
    /// One score for each completion, in [0, 1]; empty where the group was unscorable.
    pub scores: Vec<f64>,
}

/// A line of `rubrics.jsonl`: a rubric of the policy phase, with the group it was written for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RubricLine {
    /// The optimiser step.
    pub step: u64,
    /// The round.
    pub round: u32,
    /// The version of the generator.
    pub generator_version: u64,
    /// The prompt.
    pub prompt: String,
    /// The rubric.
    pub rubric: Rubric,
    /// The completions.
    pub completions: Vec<String>,
    /// Their scores.
    pub scores: Vec<f64>,
}

/// A line of `steps.jsonl`: one optimiser step, or a step that was skipped for want of signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// The optimiser step, from 0.
    pub step: u64,
    /// The round, from 1.
    pub round: u32,
    /// `"evaluator"` or `"policy"`.
    pub phase: String,
    /// When it was done, in seconds since 1970.
    pub wall_time: f64,
    /// Metrics by name; the same as in TensorBoard.
    pub metrics: BTreeMap<String, f64>,
}

/// `state.json`: how far the run has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// `"fresh"`, `"stale"`, `"stale_budget"` or `"static"`.
    pub schedule: String,
    /// The run's seed.
    pub seed: u64,
    /// Optimiser steps made, those skipped for want of signal included.
    pub step: u64,
    /// Steps for which no draw had a signal.
    pub skipped_steps: u64,
    /// What became of the groups drawn, by their kind, `"policy"` or `"rubric"`.
    pub groups: BTreeMap<String, ledger::Tally>,
    /// The weights that `"policy"` and `"generator"` have come to.
    pub weights: BTreeMap<String, rl::WeightRef>,
    /// How the run ended, once it has.
    pub end: Option<ledger::End>,
}

/// A file of lines that is appended to.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// The length of the whole lines.
    whole: u64,
}

impl Journal {
    /// Opens the file and drops what a crash cut off (a last line without its end), as well as
    /// the lines that `keep` does not want: those of steps that will be made again.
    ///
    /// # Errors
    /// If the file cannot be read or written; the error names it.
    pub fn resume<T>(path: PathBuf, keep: impl Fn(&T) -> bool) -> io::Result<Self>
    where
        T: DeserializeOwned + Serialize,
    {
        let kept: Vec<T> = if path.exists() { read(&path)? } else { Vec::new() };
        let partial = path.with_extension("partial");
        let file = File::create(&partial).map_err(|e| named(&partial, &e))?;
        let mut journal = Self { path, file, whole: 0 };
        kept.iter().filter(|line| keep(line)).try_for_each(|line| journal.append(line))?;
        std::fs::rename(&partial, &journal.path).map_err(|e| named(&journal.path, &e))?;
        Ok(journal)
    }

    /// Appends one line, or nothing: what a full disk cut off is taken back, so that the next line
    /// does not continue it.
    ///
    /// # Errors
    /// If the file cannot be written; the error names it.
    pub fn append<T: Serialize>(&mut self, line: &T) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // Also before: taking back may have failed the last time.
        self.take_back().map_err(|e| named(&self.path, &e))?;
        let written = self.file.write_all(&text);
        if written.is_err() {
            self.take_back().map_err(|e| named(&self.path, &e))?;
        }
        written.map_err(|e| named(&self.path, &e))?;
        self.whole += text.len() as u64;
        Ok(())
    }

    /// Drops what follows the last whole line.
    fn take_back(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() > self.whole {
            self.file.set_len(self.whole)?;
        }
        self.file.seek(SeekFrom::Start(self.whole)).map(drop)
    }
}

/// All whole lines of a file; a last line that a crash cut off is left out.
///
/// # Errors
/// If the file cannot be read, or a line that has its end is malformed; the error names both.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let bytes = std::fs::read(path).map_err(|e| named(path, &e))?;
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    // After the last line's end comes nothing, or what was cut off, maybe within a character.
    lines.pop_if(|rest| serde_json::from_slice::<T>(rest).is_err());
    let parse = |(number, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| {
            let message = format!("{}:{number}: {error}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
    };
    (1..).zip(lines).map(parse).collect()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: u64) -> StepLine {
        let metrics = BTreeMap::from([("policy/kl".to_owned(), 0.5)]);
        StepLine { step, round: 1, phase: "policy".into(), wall_time: 1.0, metrics }
    }

    #[test]
    fn a_resumed_journal_drops_the_cut_line_and_the_steps_to_come() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.jsonl");
        let mut journal = Journal::resume(path.clone(), |_: &StepLine| true).unwrap();
        (0..3).for_each(|step| journal.append(&line(step)).unwrap());
        journal.file.write_all(b"{\"step\": 3, \"phase\": \"\xc3").unwrap();
        assert_eq!(read::<StepLine>(&path).unwrap().len(), 3);

        let mut journal = Journal::resume(path.clone(), |l: &StepLine| l.step < 2).unwrap();
        journal.append(&line(2)).unwrap();
        let steps: Vec<u64> = read::<StepLine>(&path).unwrap().iter().map(|l| l.step).collect();
        assert_eq!(steps, [0, 1, 2]);
    }

    #[test]
    fn a_line_that_a_full_disk_cut_off_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.jsonl");
        let mut journal = Journal::resume(path.clone(), |_: &StepLine| true).unwrap();
        journal.append(&line(0)).unwrap();
        journal.file.write_all(b"{\"step\": 1, \"rou").unwrap();
        journal.append(&line(1)).unwrap();
        assert_eq!(read::<StepLine>(&path).unwrap(), [line(0), line(1)]);
    }

    #[test]
    fn a_malformed_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.jsonl");
        std::fs::write(&path, "{}\n{}\n").unwrap();
        let error = read::<StepLine>(&path).unwrap_err().to_string();
        assert!(error.contains("steps.jsonl:1:"), "{error}");
    }
}
