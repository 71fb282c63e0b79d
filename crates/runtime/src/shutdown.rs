//! The end of a process: asked for once, seen everywhere.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::SignalStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Says that the process, or the part of it that holds a clone, is to stop.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// A shutdown that nobody has asked for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everyone to stop. Asking again changes nothing.
    pub fn begin(&self) {
        self.0.cancel();
    }

    /// Whether somebody has asked.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until somebody asks.
    pub async fn begun(&self) {
        self.0.cancelled().await;
    }

    /// A shutdown that begins with this one, but may begin alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Asks when the guard is dropped, which also happens when its owner panics.
    pub(crate) fn guard(&self) -> DropGuard {
        self.0.clone().drop_guard()
    }
}

/// Begins `shutdown` at the first SIGINT or SIGTERM; exits the process with code 130 at the second,
/// or `grace` after the shutdown began for whatever reason. Ends only by exiting, so it is a best
/// effort task.
///
/// # Errors
/// When the signals cannot be listened to.
pub async fn obey_signals(shutdown: Shutdown, grace: Duration) -> io::Result<()> {
    let interrupt = SignalStream::new(signal(SignalKind::interrupt())?);
    let terminate = SignalStream::new(signal(SignalKind::terminate())?);
    let reason = patience(&shutdown, grace, interrupt.merge(terminate)).await;
    tracing::error!(reason, "exit without finishing");
    std::process::exit(130)
}

/// Returns why there is no more waiting: a second signal, or the end of the grace period.
async fn patience(
    shutdown: &Shutdown,
    grace: Duration,
    mut signals: impl Stream<Item = ()> + Unpin,
) -> &'static str {
    tokio::select! {
        Some(()) = signals.next() => {
            tracing::info!(grace_seconds = grace.as_secs_f64(), "signal received, finishing");
        }
        () = shutdown.begun() => {}
    }
    shutdown.begin();
    tokio::select! {
        Some(()) = signals.next() => "second signal",
        () = tokio::time::sleep(grace) => "grace period over",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn the_first_signal_begins_and_the_second_ends_patience() {
        let (shutdown, signals) = (Shutdown::new(), tokio_stream::iter([(), ()]));
        let reason = patience(&shutdown, NEVER, signals).await;
        assert!(shutdown.has_begun());
        assert_eq!(reason, "second signal");
    }

    #[tokio::test]
    async fn the_grace_period_ends_patience_however_the_shutdown_began() {
        let (shutdown, signals) = (Shutdown::new(), tokio_stream::pending());
        shutdown.begin();
        let reason = patience(&shutdown, Duration::ZERO, signals).await;
        assert_eq!(reason, "grace period over");
    }

    #[tokio::test]
    async fn a_child_stops_alone_and_with_its_parent() {
        let parent = Shutdown::new();
        let (alone, along) = (parent.child(), parent.child());
        alone.begin();
        assert!(alone.has_begun() && !parent.has_begun() && !along.has_begun());
        parent.begin();
        along.begun().await;
    }
}
