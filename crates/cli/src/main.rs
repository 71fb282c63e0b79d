//! `rubricon`: trains a language model and its evaluator together, and shows what came of it.
//!
//! This file is a table of contents. What may be typed is in [`args`]; each command has a module:
//! [`run`] and [`serve`] conduct, [`sft`] makes starting weights, [`check`], [`report`], [`sample`],
//! [`score`] and [`logprobs`] look. [`oracle`] scores with the hidden gold for runs, [`sft`] makes
//! data from it. [`failure`] says what an error means for the exit code.

mod args;
mod check;
mod failure;
mod logprobs;
mod oracle;
mod progress;
mod report;
mod run;
mod sample;
mod say;
mod score;
mod serve;
mod sft;
mod speaker;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command};
use failure::{Failure, OrUsage};
use say::say;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return failure::of_arguments(&error),
    };
    match command(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

fn command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Sft(args) => {
            let config = args.config.resolve()?.config;
            let seed = args.seed.unwrap_or(config.run.seed);
            Ok(sft::run(&config, seed, &args.out)?)
        }
        Command::Check(args) => check::run(&args.resolve()?),
        Command::Report(args) => {
            let dir = &args.run_dir;
            report::folder::expect_run(dir).or_usage()?;
            let summary = report::write_report(dir, &oracle::judge)?;
            say::text(format_args!("{}", report::table::text(&summary)));
            say!("report: {}", dir.join("report.html").display());
            Ok(())
        }
        Command::Sample(args) => Ok(sample::run(&args)?),
        Command::Score(args) => score::run(&args),
        Command::Logprobs(args) => logprobs::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "rubricon", &mut script);
            say::text(format_args!("{}", String::from_utf8_lossy(&script)));
            Ok(())
        }
    }
}
