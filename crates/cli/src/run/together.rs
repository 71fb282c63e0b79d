//! All services in this process. They still talk gRPC, over loopback.

use std::sync::Arc;

use anyhow::Context;
use coordinator::CoordinatorError;
use coordinator::driver::Outcome;
use runtime::config::Config;
use runtime::shutdown::{Shutdown, obey_signals};
use runtime::tasks::Tasks;
use store::Embedded;
use tokio::sync::oneshot;

use super::{display, folder};
use crate::oracle;
use crate::progress::Screen;

/// Conducts the run until it ends or is interrupted.
///
/// # Errors
/// If a service cannot start or fails for good.
pub async fn conduct(config: &Arc<Config>, screen: Screen) -> anyhow::Result<Outcome> {
    let dir = &config.run.dir;
    let shutdown = Shutdown::new();
    let mut tasks = Tasks::new(shutdown.clone());
    tasks.best_effort("signals", obey_signals(shutdown.clone(), config.services.grace()));

    let store = Embedded::open(folder::store(dir)).await?;
    let coordinator = coordinator::bind(coordinator::Config {
        run: Arc::clone(config),
        dir: dir.clone(),
        store: Arc::new(store),
    })
    .await?;
    let run = Arc::new(found_at(config, coordinator.address()));
    let learner = learner::bind(learner::Config {
        worker_id: "learner".into(),
        run: Arc::clone(&run),
        weights: folder::weights(dir),
    })
    .await?;
    let evaluator = evaluator::bind(evaluator::Config {
        worker_id: "evaluator".into(),
        run: Arc::clone(&run),
        cache: folder::cache(dir, "evaluator"),
        scorer: oracle::scorer(run.evaluator.kind),
    })
    .await?;
    for i in 0..config.services.rollout_workers {
        let name = format!("rollout-{i}");
        let worker = rollout::bind(rollout::Config {
            worker_id: name.clone(),
            run: Arc::clone(&run),
            cache: folder::cache(dir, &name),
        })
        .await?;
        tasks.critical(&name, worker.run(shutdown.child()));
    }
    tasks.critical("learner", learner.run(shutdown.child()));
    tasks.critical("evaluator", evaluator.run(shutdown.child()));
    tasks.best_effort("display", display::follow(coordinator.state(), dir.clone(), screen));

    let (tell, outcome) = oneshot::channel();
    let stop = shutdown.child();
    tasks.critical("coordinator", async move {
        // Whoever waits for the outcome has given up where this fails.
        tell.send(coordinator.run(stop).await?).ok();
        Ok::<_, CoordinatorError>(())
    });
    tasks.join().await?;
    outcome.await.context("the coordinator ended without saying how")
}

/// The configuration of workers whose coordinator listens at `address`.
fn found_at(config: &Config, address: std::net::SocketAddr) -> Config {
    let mut config = config.clone();
    config.services.coordinator = address;
    config
}
