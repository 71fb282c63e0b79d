//! The workers of a run, each on a runtime of its own, so that cutting one off cuts off all that it
//! has begun: connections, calls in progress, and tasks that its server started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use runtime::config::Config;
use runtime::shutdown::Shutdown;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// How long a worker that was cut off may hold the last thing it computes. Another one of its name
/// starts afterwards: a killed process would not write to its folder any more.
const LAST_WORK: Duration = Duration::from_secs(30);

/// Workers by name.
pub struct Workers {
    running: BTreeMap<String, Runtime>,
    dir: PathBuf,
    config: Arc<Config>,
    failed: mpsc::UnboundedSender<anyhow::Error>,
    /// Workers that ended by themselves.
    pub failures: mpsc::UnboundedReceiver<anyhow::Error>,
}

impl Workers {
    /// Starts the workers of a run in the folder `dir`.
    pub fn start(dir: PathBuf, config: Arc<Config>) -> anyhow::Result<Self> {
        let (failed, failures) = mpsc::unbounded_channel();
        let rollouts = (0..config.services.rollout_workers).map(|i| format!("rollout-{i}"));
        let names: Vec<_> = rollouts.chain(["evaluator".into(), "learner".into()]).collect();
        let mut workers = Self { running: BTreeMap::new(), dir, config, failed, failures };
        names.iter().try_for_each(|name| workers.launch(name, None))?;
        Ok(workers)
    }

    /// Cuts a worker off and starts another one of its name.
    pub fn restart(&mut self, name: &str) -> anyhow::Result<()> {
        let before = self.running.remove(name);
        self.launch(name, before)
    }

    /// Cuts all workers off.
    pub async fn stop(mut self) {
        for (_, runtime) in std::mem::take(&mut self.running) {
            cut_off(runtime).await;
        }
    }

    fn launch(&mut self, name: &str, before: Option<Runtime>) -> anyhow::Result<()> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (dir, config) = (self.dir.clone(), Arc::clone(&self.config));
        let (worker, failed) = (name.to_owned(), self.failed.clone());
        runtime.spawn(async move {
            if let Some(before) = before {
                cut_off(before).await;
            }
            if let Err(error) = work(worker, &dir, config).await {
                // Nobody listens once the run is over.
                failed.send(error).ok();
            }
        });
        self.running.insert(name.to_owned(), runtime);
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Where a test fails: waiting is not allowed here.
        std::mem::take(&mut self.running).into_values().for_each(Runtime::shutdown_background);
    }
}

async fn cut_off(runtime: Runtime) {
    let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(LAST_WORK)).await;
    ended.expect("shutting a runtime down does not panic");
}

/// Serves as the worker `name` until cut off.
async fn work(worker_id: String, dir: &Path, run: Arc<Config>) -> anyhow::Result<()> {
    let cache = dir.join("cache").join(&worker_id);
    let shutdown = Shutdown::new();
    match worker_id.as_str() {
        "learner" => {
            let weights = dir.join("weights");
            let config = learner::Config { worker_id, run, weights };
            learner::bind(config).await?.run(shutdown).await?;
        }
        "evaluator" => {
            let config = evaluator::Config { worker_id, run, cache, scorer: None };
            evaluator::bind(config).await?.run(shutdown).await?;
        }
        _ => {
            let config = rollout::Config { worker_id, run, cache };
            rollout::bind(config).await?.run(shutdown).await?;
        }
    }
    Ok(())
}
