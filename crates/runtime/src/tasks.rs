//! Tasks that nobody forgets: each has a name, and a fate that is declared when it starts.

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;

use thiserror::Error as ThisError;
use tokio::task::{Id, JoinError, JoinSet};
use tracing::Instrument;

use crate::Shutdown;

/// Whatever a task fails with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The tasks of one service or process.
///
/// The end of a *critical* task, good or bad, begins the shutdown of all. A *best effort* task may
/// fail, which is logged, and is cut off when the critical ones have ended. Dropping this cuts off
/// all of them.
#[derive(Debug)]
pub struct Tasks {
    shutdown: Shutdown,
    critical: JoinSet<Result<(), BoxError>>,
    best_effort: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// How a critical task failed.
#[derive(Debug, ThisError)]
pub enum TaskError {
    /// It returned an error.
    #[error("task {name} failed: {source}")]
    Failed {
        /// The task.
        name: String,
        /// Why.
        source: BoxError,
    },
    /// It panicked.
    #[error("task {name} panicked: {message}")]
    Panicked {
        /// The task.
        name: String,
        /// What it said.
        message: String,
    },
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new(shutdown: Shutdown) -> Self {
        let (critical, best_effort) = (JoinSet::new(), JoinSet::new());
        Self { shutdown, critical, best_effort, names: HashMap::new() }
    }

    /// Starts a task without which the process makes no sense.
    pub fn critical<E>(
        &mut self,
        name: &str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<BoxError> + 'static,
    {
        let ends_all = self.shutdown.guard();
        let task = async move {
            let _ends_all = ends_all;
            task.await.map_err(Into::into)
        };
        let id = self.critical.spawn(task.instrument(span(name))).id();
        self.names.insert(id, name.to_owned());
    }

    /// Starts a task that the process can do without.
    pub fn best_effort<E>(
        &mut self,
        name: &str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<BoxError> + 'static,
    {
        let task = async move {
            if let Err(error) = task.await {
                let error: BoxError = error.into();
                tracing::warn!(error = &*error as &dyn Error, "best effort task failed");
            }
        };
        self.best_effort.spawn(task.instrument(span(name)));
    }

    /// Waits for all critical tasks, then cuts off the others.
    ///
    /// # Errors
    /// With the first failure of a critical task; later ones are logged.
    pub async fn join(mut self) -> Result<(), TaskError> {
        let mut result = Ok(());
        while let Some(ended) = self.critical.join_next_with_id().await {
            let Some(error) = self.failure(ended) else {
                continue;
            };
            tracing::error!(%error, "critical task ended");
            if result.is_ok() {
                result = Err(error);
            }
        }
        self.best_effort.shutdown().await;
        result
    }

    fn failure(
        &mut self,
        ended: Result<(Id, Result<(), BoxError>), JoinError>,
    ) -> Option<TaskError> {
        let mut name = |id| self.names.remove(&id).unwrap_or_default();
        match ended {
            Ok((_, Ok(()))) => None,
            Ok((id, Err(source))) => Some(TaskError::Failed { name: name(id), source }),
            Err(error) => {
                let name = name(error.id());
                let message = match error.try_into_panic() {
                    Ok(payload) => panic_message(&*payload),
                    Err(error) => error.to_string(),
                };
                Some(TaskError::Panicked { name, message })
            }
        }
    }
}

/// What a panic said.
fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

fn span(name: &str) -> tracing::Span {
    tracing::info_span!("task", name)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io;

    use super::*;

    /// A critical task that ends well when it is asked to.
    async fn obedient(shutdown: Shutdown) -> Result<(), Infallible> {
        shutdown.begun().await;
        Ok(())
    }

    #[tokio::test]
    async fn the_end_of_a_critical_task_ends_the_others() {
        let shutdown = Shutdown::new();
        let mut tasks = Tasks::new(shutdown.clone());
        tasks.critical("server", obedient(shutdown.clone()));
        tasks.critical("loop", async { Ok::<_, Infallible>(()) });
        assert!(tasks.join().await.is_ok());
        assert!(shutdown.has_begun());
    }

    #[tokio::test]
    async fn the_first_failure_is_returned_with_the_name_of_its_task() {
        let shutdown = Shutdown::new();
        let mut tasks = Tasks::new(shutdown.clone());
        tasks.critical("loop", async { Err(io::Error::other("disk full")) });
        let after = shutdown.clone();
        tasks.critical("server", async move {
            after.begun().await;
            Err(io::Error::other("cut off"))
        });
        let error = tasks.join().await.unwrap_err();
        assert_eq!(error.to_string(), "task loop failed: disk full");
    }

    #[tokio::test]
    async fn a_panic_ends_all_and_is_returned() {
        let shutdown = Shutdown::new();
        let mut tasks = Tasks::new(shutdown.clone());
        tasks.critical("server", obedient(shutdown));
        tasks.critical("loop", async {
            assert_eq!(1 + 1, 3, "sums");
            Ok::<_, Infallible>(())
        });
        let message = tasks.join().await.unwrap_err().to_string();
        assert!(
            message.starts_with("task loop panicked: ") && message.contains("sums"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn a_failed_best_effort_task_ends_nothing() {
        let shutdown = Shutdown::new();
        let mut tasks = Tasks::new(shutdown.clone());
        let (failed, seen) = tokio::sync::oneshot::channel::<()>();
        tasks.best_effort("display", async move {
            drop(failed);
            Err(io::Error::other("no terminal"))
        });
        tasks.best_effort("endless", std::future::pending::<Result<(), Infallible>>());
        let at_the_end = shutdown.clone();
        tasks.critical("loop", async move {
            seen.await.unwrap_err();
            assert!(!at_the_end.has_begun());
            Ok::<_, Infallible>(())
        });
        assert!(tasks.join().await.is_ok());
    }
}
