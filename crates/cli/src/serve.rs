//! `rubricon serve`: one service of a run.

use std::error::Error;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use runtime::config::Config;
use runtime::shutdown::{Shutdown, obey_signals};
use runtime::tasks::Tasks;
use runtime::telemetry;
use rustix::process::{Signal, set_parent_process_death_signal};
use store::Embedded;

use crate::args::{Role, ServeArgs};
use crate::failure::Failure;
use crate::oracle;
use crate::run::folder;

/// Serves until the run ends or the process is asked to stop.
///
/// # Errors
/// If the configuration is of no use, or the service fails.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    let config = Arc::new(args.run.resolve()?.config);
    if args.role != Role::Coordinator && config.services.coordinator.port() == 0 {
        return Err(Failure::Usage(anyhow!(
            "services.coordinator: {} has no port (expected where the coordinator listens)",
            config.services.coordinator
        )));
    }
    if args.role == Role::Coordinator {
        folder::claim(&config)?;
    }
    if args.with_parent {
        set_parent_process_death_signal(Some(Signal::TERM)).context("follow the parent process")?;
    }
    let _logs = telemetry::start(&config.telemetry).context("start logging")?;
    let runtime = tokio::runtime::Runtime::new().context("start the async runtime")?;
    let id = args.id.clone().unwrap_or_else(|| args.role.name().to_owned());
    Ok(runtime.block_on(serve(args.role, id, config))?)
}

async fn serve(role: Role, id: String, config: Arc<Config>) -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    let mut tasks = Tasks::new(shutdown.clone());
    tasks.best_effort("signals", obey_signals(shutdown.clone(), config.services.grace()));
    let name = id.clone();
    match role {
        Role::Coordinator => tasks.critical(&name, coordinate(config, shutdown.child())),
        Role::Rollout => {
            let cache = folder::cache(&config.run.dir, &id);
            let worker = rollout::Config { worker_id: id, run: config, cache };
            tasks.critical(&name, rollout::bind(worker).await?.run(shutdown.child()));
        }
        Role::Evaluator => {
            let cache = folder::cache(&config.run.dir, &id);
            let scorer = oracle::scorer(config.evaluator.kind);
            let worker = evaluator::Config { worker_id: id, run: config, cache, scorer };
            tasks.critical(&name, evaluator::bind(worker).await?.run(shutdown.child()));
        }
        Role::Learner => {
            let weights = folder::weights(&config.run.dir);
            let worker = learner::Config { worker_id: id, run: config, weights };
            tasks.critical(&name, learner::bind(worker).await?.run(shutdown.child()));
        }
    }
    Ok(tasks.join().await?)
}

async fn coordinate(
    config: Arc<Config>,
    shutdown: Shutdown,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let dir = config.run.dir.clone();
    let store = Arc::new(Embedded::open(folder::store(&dir)).await?);
    let coordinator = coordinator::bind(coordinator::Config { run: config, dir, store }).await?;
    tracing::info!(address = %coordinator.address(), "workers may join");
    coordinator.run(shutdown).await?;
    Ok(())
}
