//! What a run measures, a record a step, as `metrics.jsonl` and as a TensorBoard event file.
//!
//! Records go through a bounded channel to a thread of its own: a slow disk costs records (counted),
//! a broken one costs all of them (said once), and neither costs the run.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::tensorboard;

/// The file of records in a run's folder, one JSON object a line.
pub const METRICS_FILE: &str = "metrics.jsonl";
/// The same records for TensorBoard, which wants `tfevents` in the name.
pub const EVENTS_FILE: &str = "events.out.tfevents.rubricon";

/// Records that may wait for the disk.
const QUEUE: usize = 1024;

/// Where the metrics of a run go.
#[derive(Debug)]
pub struct MetricsSink {
    records: SyncSender<MetricRecord>,
    dropped: Arc<AtomicU64>,
    writer: JoinHandle<()>,
}

/// The metrics of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricRecord {
    /// The step of the run, from 0, counting the steps of both actors.
    pub step: u64,
    /// Seconds since 1970.
    pub wall_time: f64,
    /// Value by name, `reward/mean` and so on. Values that are not finite are `null` in the file.
    #[serde(flatten)]
    pub values: serde_json::Map<String, serde_json::Value>,
}

impl MetricsSink {
    /// Opens the files in `folder`, which is made where it is missing. Of a run that goes on at
    /// step `from`, records of earlier steps are kept and later ones dropped; a new run starts at 0.
    ///
    /// # Errors
    /// When the system refuses a thread. Errors of the disk are logged.
    pub fn open(folder: &Path, from: u64) -> io::Result<Self> {
        let (records, waiting) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let (folder, lost) = (folder.to_owned(), Arc::clone(&dropped));
        let writer = thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || write_all(&folder, from, &waiting, &lost))?;
        Ok(Self { records, dropped, writer })
    }

    /// Records the metrics of a step. Never waits: where the disk cannot keep up the record is
    /// dropped and counted.
    pub fn record<'a>(&self, step: u64, values: impl IntoIterator<Item = (&'a str, f64)>) {
        let wall_time =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let values =
            values.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        if self.records.try_send(MetricRecord { step, wall_time, values }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many records were lost.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all records are written, and returns how many were lost.
    pub fn close(self) -> u64 {
        drop(self.records);
        if self.writer.join().is_err() {
            tracing::error!("metrics writer panicked");
        }
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The records of a run so far, such as for its report. A line that was cut off by a crash is the
/// last one and is left out.
///
/// # Errors
/// When the file cannot be read or another line is malformed.
pub fn read_metrics(folder: &Path) -> io::Result<Vec<MetricRecord>> {
    let path = folder.join(METRICS_FILE);
    let text = fs::read_to_string(&path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(index, line)| {
        serde_json::from_str(line).map_err(|error| {
            let place = format!("{}:{}: {error}", path.display(), index + 1);
            io::Error::new(io::ErrorKind::InvalidData, place)
        })
    };
    whole.lines().enumerate().map(parse).collect()
}

fn write_all(folder: &Path, from: u64, records: &Receiver<MetricRecord>, lost: &AtomicU64) {
    let mut files = Files::open(folder, from).map_err(|error| complain(folder, &error)).ok();
    while let Ok(record) = records.recv() {
        let Some(open) = &mut files else {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        // Each record reaches the files at once: people watch them, and steps take seconds.
        if let Err(error) = open.write(&record).and_then(|()| open.flush()) {
            complain(folder, &error);
            lost.fetch_add(1, Ordering::Relaxed);
            files = None;
        }
    }
}

fn complain(folder: &Path, error: &io::Error) {
    let folder = folder.display().to_string();
    tracing::error!(%error, folder, "metrics cannot be written, the run goes on without");
}

struct Files {
    lines: BufWriter<File>,
    events: BufWriter<File>,
}

impl Files {
    /// Both files are written anew from the records that stay, so that they agree whatever cut the
    /// run off, and take the place of the old ones when they are complete.
    fn open(folder: &Path, from: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut kept = match read_metrics(folder) {
            Ok(records) => records,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        kept.retain(|record| record.step < from);

        let fresh = |name: &str| -> io::Result<(PathBuf, BufWriter<File>)> {
            let path = folder.join(format!("{name}.new"));
            let file = BufWriter::new(File::create(&path)?);
            Ok((path, file))
        };
        let (new_lines, lines) = fresh(METRICS_FILE)?;
        let (new_events, events) = fresh("events")?;
        let mut files = Self { lines, events };
        tensorboard::write_header(&mut files.events, kept.first().map_or(0.0, |r| r.wall_time))?;
        for record in &kept {
            files.write(record)?;
        }
        files.flush()?;
        fs::rename(new_lines, folder.join(METRICS_FILE))?;
        fs::rename(new_events, folder.join(EVENTS_FILE))?;
        Ok(files)
    }

    fn write(&mut self, record: &MetricRecord) -> io::Result<()> {
        serde_json::to_writer(&mut self.lines, record)?;
        self.lines.write_all(b"\n")?;
        let scalars = record
            .values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_f64().unwrap_or(f64::NAN)));
        tensorboard::write_scalars(&mut self.events, record.wall_time, record.step, scalars)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()?;
        self.events.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(folder: &Path) -> Vec<(u64, f64)> {
        let value = |record: &MetricRecord| record.values["reward/mean"].as_f64().unwrap();
        read_metrics(folder).unwrap().iter().map(|record| (record.step, value(record))).collect()
    }

    fn write(folder: &Path, from: u64, records: &[(u64, f64)]) {
        let sink = MetricsSink::open(folder, from).unwrap();
        for &(step, value) in records {
            sink.record(step, [("reward/mean", value)]);
        }
        assert_eq!(sink.close(), 0);
    }

    #[test]
    fn a_resumed_run_goes_on_without_repeating_steps() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        write(&run, 0, &[(0, 0.1), (1, 0.2), (2, 0.3)]);
        write(&run, 2, &[(2, 0.4), (3, 0.5)]);
        assert_eq!(steps(&run), [(0, 0.1), (1, 0.2), (2, 0.4), (3, 0.5)]);
        // The event file holds the same: a header and four records, in whole TFRecords.
        let events = fs::read(run.join(EVENTS_FILE)).unwrap();
        let (mut at, mut records) = (0, 0);
        while at < events.len() {
            let length = u64::from_le_bytes(events[at..at + 8].try_into().unwrap());
            at += 16 + usize::try_from(length).unwrap();
            records += 1;
        }
        assert_eq!((at, records), (events.len(), 5));
        write(&run, 0, &[(0, 0.6)]);
        assert_eq!(steps(&run), [(0, 0.6)]);
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, &[(0, 0.1)]);
        let path = folder.path().join(METRICS_FILE);
        let torn = fs::read_to_string(&path).unwrap() + "{\"step\":1,\"wall";
        fs::write(&path, torn).unwrap();
        write(folder.path(), 5, &[(1, 0.2)]);
        assert_eq!(steps(folder.path()), [(0, 0.1), (1, 0.2)]);
    }

    #[test]
    fn values_that_are_not_finite_are_null() {
        let folder = tempfile::tempdir().unwrap();
        let sink = MetricsSink::open(folder.path(), 0).unwrap();
        sink.record(0, [("policy/kl", f64::NAN), ("reward/mean", f64::INFINITY)]);
        assert_eq!(sink.close(), 0);
        let values = &read_metrics(folder.path()).unwrap()[0].values;
        assert!(values["policy/kl"].is_null() && values["reward/mean"].is_null());
    }

    #[test]
    fn a_disk_that_fails_costs_records_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in the way");
        fs::write(&file, "").unwrap();
        let sink = MetricsSink::open(&file, 0).unwrap();
        sink.record(0, [("reward/mean", 1.0)]);
        sink.record(1, [("reward/mean", 1.0)]);
        assert_eq!(sink.close(), 2);
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }

    #[test]
    fn a_malformed_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(METRICS_FILE);
        fs::write(&path, "{\"step\":0,\"wall_time\":1.0}\nnull\n").unwrap();
        let message = read_metrics(folder.path()).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{}:2: ", path.display())), "{message}");
    }
}
