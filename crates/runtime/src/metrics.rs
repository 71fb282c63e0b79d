//! What a run measures, a record a step, as a TensorBoard event file.
//!
//! Records go through a bounded channel to a thread of its own: a slow disk costs records (counted),
//! a broken one costs all of them (said once), and neither costs the run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::tensorboard;

/// The file in a run's folder; TensorBoard wants `tfevents` in the name.
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
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRecord {
    /// The step of the run, from 0, counting the steps of both actors.
    pub step: u64,
    /// Seconds since 1970.
    pub wall_time: f64,
    /// Value by name, `reward/mean` and so on.
    pub values: BTreeMap<String, f64>,
}

impl MetricsSink {
    /// Opens the file in `folder`, which is made where it is missing. It is written anew from
    /// `earlier`, the records of a run that goes on.
    ///
    /// # Errors
    /// When the system refuses a thread. Errors of the disk are logged.
    pub fn open(folder: &Path, earlier: Vec<MetricRecord>) -> io::Result<Self> {
        let (records, waiting) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let (folder, lost) = (folder.to_owned(), Arc::clone(&dropped));
        let writer = thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || write_all(&folder, &earlier, &waiting, &lost))?;
        Ok(Self { records, dropped, writer })
    }

    /// Records the metrics of a step. Never waits: where the disk cannot keep up the record is
    /// dropped and counted.
    pub fn record(&self, record: MetricRecord) {
        if self.records.try_send(record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
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

fn write_all(
    folder: &Path,
    earlier: &[MetricRecord],
    records: &Receiver<MetricRecord>,
    lost: &AtomicU64,
) {
    let mut events = open(folder, earlier).map_err(|error| complain(folder, &error)).ok();
    while let Ok(record) = records.recv() {
        let Some(open) = &mut events else {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        // Each record reaches the file at once: people watch it, and steps take seconds.
        if let Err(error) = write(open, &record).and_then(|()| open.flush()) {
            complain(folder, &error);
            lost.fetch_add(1, Ordering::Relaxed);
            events = None;
        }
    }
}

fn complain(folder: &Path, error: &io::Error) {
    let folder = folder.display().to_string();
    tracing::error!(%error, folder, "metrics cannot be written, the run goes on without");
}

/// A file with the earlier records, which takes the place of the old one when it is complete: so it
/// holds whole records of the run's own steps, whatever cut the run off.
fn open(folder: &Path, earlier: &[MetricRecord]) -> io::Result<BufWriter<File>> {
    fs::create_dir_all(folder)?;
    let path = folder.join("events.new");
    let mut events = BufWriter::new(File::create(&path)?);
    tensorboard::write_header(&mut events, earlier.first().map_or(0.0, |r| r.wall_time))?;
    earlier.iter().try_for_each(|record| write(&mut events, record))?;
    events.flush()?;
    fs::rename(path, folder.join(EVENTS_FILE))?;
    Ok(events)
}

fn write(events: &mut impl Write, record: &MetricRecord) -> io::Result<()> {
    let scalars = record.values.iter().map(|(name, &value)| (name.as_str(), value));
    tensorboard::write_scalars(events, record.wall_time, record.step, scalars)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: u64, value: f64) -> MetricRecord {
        let values = BTreeMap::from([("reward/mean".to_owned(), value)]);
        MetricRecord { step, wall_time: 1.0, values }
    }

    /// The file with `earlier`, to which `later` is appended.
    fn written(folder: &Path, earlier: &[MetricRecord], later: &[MetricRecord]) -> Vec<u8> {
        let sink = MetricsSink::open(folder, earlier.to_vec()).unwrap();
        later.iter().for_each(|later| sink.record(later.clone()));
        assert_eq!(sink.close(), 0);
        fs::read(folder.join(EVENTS_FILE)).unwrap()
    }

    #[test]
    fn a_resumed_run_goes_on_without_repeating_steps() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let all = [record(0, 0.1), record(1, 0.2), record(2, 0.4), record(3, f64::NAN)];
        written(&run, &[], &[all[0].clone(), all[1].clone(), record(2, 0.3)]);
        let events = written(&run, &all[..2], &all[2..]);
        // A header and four records, in whole TFRecords.
        let (mut at, mut records) = (0, 0);
        while at < events.len() {
            let length = u64::from_le_bytes(events[at..at + 8].try_into().unwrap());
            at += 16 + usize::try_from(length).unwrap();
            records += 1;
        }
        assert_eq!((at, records), (events.len(), 5));
        assert!(events == written(&folder.path().join("at once"), &all, &[]));
    }

    #[test]
    fn a_disk_that_fails_costs_records_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in the way");
        fs::write(&file, "").unwrap();
        let sink = MetricsSink::open(&file, Vec::new()).unwrap();
        sink.record(record(0, 1.0));
        sink.record(record(1, 1.0));
        assert_eq!(sink.close(), 2);
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
}
