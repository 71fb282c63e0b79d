//! A thread of its own for computing, so that the runtime answers calls while a model works.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::tasks::panic_message;

/// One named thread that owns a state `S` (a model, say) and works on one job at a time.
///
/// A job whose caller has gone away before it began is skipped. After a job panicked the state
/// cannot be trusted: the thread ends, and so do all later calls. It also ends when this is dropped,
/// after the job in hand.
#[derive(Debug)]
pub struct ComputeThread<S> {
    name: String,
    jobs: mpsc::Sender<Job<S>>,
}

type Job<S> = Box<dyn FnOnce(&mut S) -> Next + Send>;

/// What the thread does after a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Stop,
}

/// Why there is no result of a computation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ComputeError {
    /// The job panicked.
    #[error("computation on thread {thread} panicked: {message}")]
    Panicked {
        /// The thread.
        thread: String,
        /// What the panic said.
        message: String,
    },
    /// An earlier job panicked.
    #[error("compute thread {thread} has stopped after a panic")]
    Stopped {
        /// The thread.
        thread: String,
    },
}

impl<S: Send + 'static> ComputeThread<S> {
    /// Starts the thread; at most `queue` jobs (at least 1) wait for it.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(name: &str, queue: usize, mut state: S) -> io::Result<Self> {
        let (jobs, mut waiting) = mpsc::channel::<Job<S>>(queue);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            while let Some(job) = waiting.blocking_recv() {
                if job(&mut state) == Next::Stop {
                    break;
                }
            }
        })?;
        Ok(Self { name: name.to_owned(), jobs })
    }

    /// Waits for a place in the queue, then for the result of `job`.
    ///
    /// # Errors
    /// When the job panics, or one before it did.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, ComputeError> {
        let (answer, result) = oneshot::channel();
        let job = Box::new(move |state: &mut S| {
            if answer.is_closed() {
                return Next::Continue;
            }
            let result = catch_unwind(AssertUnwindSafe(|| job(state)));
            let next = if result.is_ok() { Next::Continue } else { Next::Stop };
            // The caller may have gone away meanwhile; nobody needs the result then.
            drop(answer.send(result));
            next
        });
        let stopped = || ComputeError::Stopped { thread: self.name.clone() };
        self.jobs.send(job).await.map_err(|_| stopped())?;
        result.await.map_err(|_| stopped())?.map_err(|payload| ComputeError::Panicked {
            thread: self.name.clone(),
            message: panic_message(&*payload),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn jobs_run_in_order_on_the_named_thread() {
        let compute = ComputeThread::start("adder", 1, 1).unwrap();
        let double = compute.run(|sum: &mut i32| *sum *= 2);
        let add = compute.run(|sum: &mut i32| *sum += 3);
        tokio::try_join!(double, add).unwrap();
        let seen = compute.run(|sum| (*sum, thread::current().name().map(str::to_owned)));
        assert_eq!(seen.await.unwrap(), (5, Some("adder".to_owned())));
    }

    #[tokio::test]
    async fn a_panic_is_told_to_its_caller_and_to_all_later_ones() {
        let compute = ComputeThread::start("worker", 1, ()).unwrap();
        let panicked = compute.run(|()| assert_eq!(1, 2, "shapes differ")).await.unwrap_err();
        assert!(panicked.to_string().contains("shapes differ"), "{panicked}");
        let stopped = compute.run(|()| ()).await.unwrap_err();
        assert_eq!(stopped, ComputeError::Stopped { thread: "worker".into() });
    }

    #[tokio::test]
    async fn a_job_whose_caller_has_gone_is_skipped() {
        let compute = ComputeThread::start("worker", 2, Vec::new()).unwrap();
        let (release, held) = channel::<()>();
        let mut first = Box::pin(compute.run(move |done: &mut Vec<_>| {
            held.recv().unwrap();
            done.push("first");
        }));
        let mut second = Box::pin(compute.run(|done: &mut Vec<_>| done.push("second")));
        assert!(poll_once(&mut first).await.is_none());
        assert!(poll_once(&mut second).await.is_none());
        drop(second);
        release.send(()).unwrap();
        first.await.unwrap();
        assert_eq!(compute.run(|done| done.clone()).await.unwrap(), ["first"]);
    }

    /// Polls a future once, so that it has started but nobody waits for it.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
