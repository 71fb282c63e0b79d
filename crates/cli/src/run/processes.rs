//! Each service as a process of its own, in its own process group, supervised from here.
//!
//! A service that crashes is started again, a little later each time, and given up when it crashes
//! too often in a row. However this process ends, they end with it.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use coordinator::driver::Outcome;
use ledger::End;
use proto::pb::coordinator_service_client::CoordinatorServiceClient;
use proto::pb::{WatchRunRequest, WatchRunResponse};
use runtime::config::{Config, ConfigError};
use runtime::grpc;
use runtime::shutdown::{Shutdown, obey_signals};
use runtime::tasks::Tasks;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::display;
use crate::args::{OfRun, Role};
use crate::progress::Screen;
use crate::report::folder::RunFiles;

/// Crashes in a row after which a service is given up.
const CRASHES: u32 = 6;
/// The wait after the first crash; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// A service that has lived so long has recovered from its crashes.
const STABLE: Duration = Duration::from_secs(20);

/// Conducts the run until it ends or is interrupted.
///
/// # Errors
/// If a service cannot be started or crashes too often.
pub async fn conduct(run: &OfRun, config: &Arc<Config>, screen: Screen) -> anyhow::Result<Outcome> {
    let dir = config.run.dir.clone();
    let address = coordinator_address(config)?;
    let shutdown = Shutdown::new();
    let mut tasks = Tasks::new(shutdown.clone());
    // The services get the grace period; this process waits a little longer for them.
    let grace = config.services.grace();
    tasks.best_effort("signals", obey_signals(shutdown.clone(), grace * 2));
    for (role, id) in services(config) {
        let service = Service {
            role,
            id: id.clone(),
            arguments: arguments(run, &dir, address),
            log: dir.join("logs").join(format!("{id}.log")),
            grace,
        };
        tasks.critical(&id, supervise(service, shutdown.child()));
    }
    tracing::info!(logs = %dir.join("logs").display(), "services started as processes");
    let (tell, state) = watch::channel(WatchRunResponse::default());
    tasks.best_effort("watch", watch_run(address, tell));
    tasks.best_effort("display", display::follow(state, dir.clone(), screen));
    tasks.join().await?;
    let end = RunFiles::read(&dir)?.state.and_then(|state| state.end);
    Ok(match end {
        Some(End::Completed) => Outcome::Completed,
        Some(End::Cancelled) => Outcome::Cancelled,
        Some(End::Failed { why }) => bail!("the run failed: {why}"),
        None => Outcome::Interrupted,
    })
}

fn services(config: &Config) -> Vec<(Role, String)> {
    let single = [Role::Coordinator, Role::Learner, Role::Evaluator];
    let single = single.into_iter().map(|role| (role, role.name().to_owned()));
    let workers =
        (0..config.services.rollout_workers).map(|i| (Role::Rollout, format!("rollout-{i}")));
    single.chain(workers).collect()
}

/// Where the coordinator will listen: a free port if the configuration names none.
fn coordinator_address(config: &Config) -> anyhow::Result<SocketAddr> {
    let wanted = config.services.coordinator;
    if wanted.port() != 0 {
        return Ok(wanted);
    }
    let free = TcpListener::bind(wanted).and_then(|listener| listener.local_addr());
    free.with_context(|| format!("services.coordinator: find a free port at {wanted}"))
}

fn arguments(run: &OfRun, dir: &Path, coordinator: SocketAddr) -> Vec<String> {
    let mut arguments = vec![run.config.config.display().to_string()];
    let address = format!("services.coordinator={coordinator}");
    for set in run.config.set.iter().chain([&address]) {
        arguments.extend(["--set".to_owned(), set.clone()]);
    }
    arguments.extend(["--run-dir".to_owned(), dir.display().to_string()]);
    arguments
}

struct Service {
    role: Role,
    id: String,
    arguments: Vec<String>,
    log: std::path::PathBuf,
    grace: Duration,
}

/// Keeps a service running until it ends by itself or `shutdown` begins.
async fn supervise(service: Service, shutdown: Shutdown) -> anyhow::Result<()> {
    let (mut crashes, mut wait) = (0, FIRST_WAIT);
    loop {
        let begun = Instant::now();
        let mut child = service.start()?;
        let status = tokio::select! {
            status = child.wait() => status.with_context(|| format!("wait for {}", service.id))?,
            () = shutdown.begun() => return service.stop(&mut child).await,
        };
        if status.success() {
            return Ok(());
        }
        if begun.elapsed() > STABLE {
            (crashes, wait) = (0, FIRST_WAIT);
        }
        crashes += 1;
        service.give_up(status, crashes)?;
        tracing::warn!(worker_id = service.id, %status, crashes, "service crashed, starting again");
        tokio::select! {
            () = tokio::time::sleep(wait) => wait *= 2,
            () = shutdown.begun() => return Ok(()),
        }
    }
}

impl Service {
    fn start(&self) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("find this program")?;
        let start = || {
            std::fs::create_dir_all(self.log.parent().unwrap_or(Path::new(".")))?;
            let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
            Command::new(program)
                .args(["serve", self.role.name(), "--with-parent", "--id", &self.id])
                .args(&self.arguments)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
        };
        start().with_context(|| format!("start {}", self.id))
    }

    /// Asks the service to stop, and ends it if it does not within its grace period.
    async fn stop(&self, child: &mut Child) -> anyhow::Result<()> {
        signal_group(child, Signal::TERM);
        if tokio::time::timeout(self.grace + Duration::from_secs(1), child.wait()).await.is_err() {
            tracing::warn!(worker_id = self.id, "service did not stop, killed");
            signal_group(child, Signal::KILL);
            child.wait().await.with_context(|| format!("wait for {}", self.id))?;
        }
        Ok(())
    }

    /// What the service said last of why it ended.
    fn last_error(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.lines().rev().find_map(|line| line.strip_prefix("error: "));
        last.map(|error| format!(": {error}")).unwrap_or_default()
    }

    fn give_up(&self, status: ExitStatus, crashes: u32) -> anyhow::Result<()> {
        let usage = status.code() == Some(i32::from(ConfigError::EXIT_CODE));
        if usage || crashes >= CRASHES {
            let (log, why) = (self.log.display(), self.last_error());
            bail!("{} ended with {status}{why}; its log is {log}", self.id);
        }
        Ok(())
    }
}

fn signal_group(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(Err(error)) = pid.map(|pid| kill_process_group(pid, signal)) {
        tracing::debug!(%error, "signal not sent, the process is gone");
    }
}

/// Watches the run through the coordinator's door, again whenever that closes.
async fn watch_run(
    address: SocketAddr,
    tell: watch::Sender<WatchRunResponse>,
) -> anyhow::Result<()> {
    let channel = grpc::channel(&format!("http://{address}"))?;
    let mut client = CoordinatorServiceClient::new(channel);
    loop {
        if let Ok(states) = client.watch_run(WatchRunRequest {}).await {
            let mut states = states.into_inner();
            while let Ok(Some(state)) = states.message().await {
                tell.send_replace(state);
            }
        }
        tokio::time::sleep(FIRST_WAIT).await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command as Typed};

    #[test]
    fn what_a_service_is_told_is_what_serve_understands() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let required = "[policy]\nmodel = \"p\"\nprompts = \"t\"\n[generator]\nmodel = \"g\"\n\
                        anchors = \"a\"\n[audit]\nprompts = \"h\"\n";
        std::fs::write(&file, required).unwrap();
        let file = file.display().to_string();
        let typed = Args::parse_from(["rubricon", "run", &file, "--set", "run.seed=5"]);
        let Typed::Run(run) = typed.command else { panic!("not run") };
        let address = SocketAddr::from(([127, 0, 0, 1], 7000));
        let told = arguments(&run.run, Path::new("there"), address);
        let typed = ["rubricon", "serve", "rollout"].into_iter().map(str::to_owned).chain(told);
        let Typed::Serve(serve) = Args::parse_from(typed).command else { panic!("not serve") };
        let config = serve.run.resolve().unwrap().config;
        assert_eq!(config.services.coordinator, address);
        assert_eq!((config.run.seed, config.run.dir.as_path()), (5, Path::new("there")));
    }
}
