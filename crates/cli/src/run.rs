//! `rubricon run`: a whole run on this machine.
//!
//! Reading order: this file, [`folder`] (the run's folder is its own), [`together`] (all services
//! in this process), [`processes`] (each in its own), [`display`] (what is seen meanwhile).

pub mod display;
pub mod folder;
pub mod processes;
pub mod together;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use coordinator::driver::Outcome;
use runtime::config::World;
use runtime::telemetry;

use crate::args::RunArgs;
use crate::failure::{Failure, OrUsage};
use crate::progress::Screen;
use crate::say::{self, say};
use crate::{oracle, report};

/// Conducts a run to its end, or until it is interrupted, and shows what came of it.
///
/// # Errors
/// If the configuration or the folder is of no use, or the run fails.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let resolved = args.run.resolve()?;
    resolved.check_files().or_usage()?;
    let config = Arc::new(resolved.config);
    folder::claim(&config)?;
    let screen = Screen::new();
    let _logs = telemetry::start_to(&config.telemetry, screen.clone()).context("start logging")?;
    let runtime = tokio::runtime::Runtime::new().context("start the async runtime")?;
    let outcome = runtime.block_on(async {
        if args.processes {
            processes::conduct(&args.run, &config, screen).await
        } else {
            together::conduct(&config, screen).await
        }
    })?;
    show(&config.run.dir, outcome, config.audit.world)
}

fn show(dir: &Path, outcome: Outcome, world: World) -> Result<(), Failure> {
    let summary = report::write_report(dir, &oracle::judge)?;
    say::text(format_args!("{}", report::table::text(&summary)));
    if world == World::None {
        say!("audit.world is \"none\": gold was not measured");
    }
    say!("report: {}", dir.join("report.html").display());
    match outcome {
        Outcome::Completed => {}
        Outcome::Cancelled => say!("the run was cancelled"),
        Outcome::Interrupted => say!("the run was interrupted; the same command goes on"),
    }
    Ok(())
}
