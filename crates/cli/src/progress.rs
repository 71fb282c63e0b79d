//! How far something long has come: bars on a terminal, plain log lines elsewhere.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

/// Time between two lines where there is no terminal.
const QUIET: Duration = Duration::from_secs(10);

/// Fits a terminal of 100 columns with its note.
const BAR: &str = "{prefix:19} {bar:18} {pos:>4}/{len:4} {rate:>6} eta {eta:<4} {msg}";

/// Standard error, shared by bars and log lines.
#[derive(Debug, Clone)]
pub struct Screen {
    bars: Option<MultiProgress>,
}

impl Screen {
    /// Standard error as it is.
    #[must_use]
    pub fn new() -> Self {
        Self { bars: io::stderr().is_terminal().then(MultiProgress::new) }
    }

    /// `total` units of work are to come.
    #[must_use]
    pub fn progress(&self, what: &str, total: u64) -> Progress {
        let style = ProgressStyle::with_template(BAR);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("rate", |at: &ProgressState, to: &mut dyn fmt::Write| {
            // A terminal that does not take it shows no rate.
            write!(to, "{:.1}/s", at.per_sec()).unwrap_or_default();
        });
        let bar = self.bars.as_ref().map(|bars| {
            bars.add(ProgressBar::new(total)).with_style(style).with_prefix(what.to_owned())
        });
        Progress { what: what.to_owned(), total, bar, said: None, first: None }
    }
}

/// Log lines, between bars.
impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.bars {
            Some(bars) => bars.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The progress of one stretch of work.
#[derive(Debug)]
pub struct Progress {
    what: String,
    total: u64,
    bar: Option<ProgressBar>,
    said: Option<Instant>,
    /// What was done when it was first looked at (by an earlier process), and when that was.
    first: Option<(u64, Instant)>,
}

impl Progress {
    /// `done` units are done; `note` says what they came to.
    pub fn at(&mut self, done: u64, note: &str) {
        let (before, begun) = *self.first.get_or_insert_with(|| {
            if let Some(bar) = &self.bar {
                bar.set_position(done);
                bar.reset_eta();
            }
            (done, Instant::now())
        });
        if let Some(bar) = &self.bar {
            bar.set_message(note.to_owned());
            bar.set_position(done);
            return;
        }
        let due = self.said.is_none_or(|said| said.elapsed() >= QUIET) || done == self.total;
        if due {
            self.said = Some(Instant::now());
            let (what, total) = (self.what.as_str(), self.total);
            let seconds = begun.elapsed().as_secs_f64();
            let since = done.saturating_sub(before);
            // Before the first unit nobody knows how long it takes.
            let rate = (since > 0).then(|| since as f64 / seconds);
            let left = rate.map(|rate| (total.saturating_sub(done) as f64 / rate).round());
            let rate = rate.map(|rate| (rate * 100.0).round() / 100.0);
            tracing::info!(what, done, total, per_second = rate, seconds_left = left, "{note}");
        }
    }

    /// The work is done, or given up.
    pub fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}
