//! What may be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use runtime::config::{Resolved, Sources};

use crate::failure::{Failure, OrUsage};

/// Trains a language model from the judgements of an evaluator that is trained along with it.
#[derive(Debug, Parser)]
#[command(name = "rubricon", version, propagate_version = true)]
#[command(after_help = "\
Begin with:
  rubricon run configs/quickstart.toml      train in the controlled world, three minutes
  rubricon report runs/quickstart           write and print what came of it

Exit codes: 0 done, 1 failed, 64 wrong usage or configuration.")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Conduct a run on this machine; the same command goes on with it.
    #[command(after_help = "\
Examples:
  rubricon run configs/quickstart.toml
  rubricon run configs/quickstart.toml --set schedule.kind=static --run-dir runs/static
  rubricon run configs/quickstart.toml --processes

Ctrl-C stops cleanly; the same command resumes. A second Ctrl-C stops at once.")]
    Run(RunArgs),
    /// Run one service of a run that is spread over processes or machines.
    #[command(after_help = "\
Example, on another machine (10.0.0.2):
  rubricon serve rollout configs/quickstart.toml --id rollout-1 \\
      --set services.coordinator=10.0.0.1:7000 --set services.rollout=10.0.0.2:0")]
    Serve(ServeArgs),
    /// Make starting weights and data of the controlled world.
    #[command(after_help = "\
Example:
  rubricon sft configs/quickstart.toml --out models/micro --seed 1")]
    Sft(SftArgs),
    /// Validate a configuration; print it resolved, its batch arithmetic and a memory estimate.
    #[command(after_help = "\
Example:
  rubricon check configs/quickstart.toml --set policy.groups_per_step=24")]
    Check(ConfigArgs),
    /// Write summary.json and report.html of a run, and print its summary.
    Report(ReportArgs),
    /// Print what a policy says to a prompt.
    #[command(after_help = "\
Example:
  rubricon sample --model models/micro/policy \"Write a note to Mia about a red kite. Use rain.\"")]
    Sample(SampleArgs),
    /// Judge and score completions by a rubric.
    #[command(after_help = "\
Examples, judged by a program check, and with ready verdicts (a row for each item):
  echo '{\"prompt\": \"Write.\", \"completions\": [\"It will rain today.\", \"It is dry today.\"],
         \"rubric\": [{\"criterion\": \"mentions rain\", \"weight\": 3,
                     \"check\": {\"kind\": \"contains\", \"text\": \"rain\"}}]}' | rubricon score --input -
  echo '{\"rubric\": [{\"criterion\": \"a\", \"weight\": 5}, {\"criterion\": \"b\", \"weight\": 3}],
         \"verdicts\": [[1], [0]]}' | rubricon score --input - --json

An item without a check cannot be judged: its verdicts are missing.")]
    Score(ScoreArgs),
    /// Print the log-probabilities of a text's tokens.
    #[command(after_help = "\
Example:
  rubricon logprobs --model models/micro/policy --text \"Dear Mia\" --json")]
    Logprobs(LogprobsArgs),
    /// Print a completion script for a shell.
    #[command(after_help = "\
Example:
  rubricon completions bash > /etc/bash_completion.d/rubricon")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// A configuration with its overrides.
#[derive(Debug, ClapArgs)]
pub struct ConfigArgs {
    /// The configuration of the run, TOML.
    pub config: PathBuf,
    /// Overrides a key, such as policy.learning_rate=1e-4; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl ConfigArgs {
    /// Reads and validates the configuration.
    ///
    /// # Errors
    /// Wrong usage, with every problem.
    pub fn resolve(&self) -> Result<Resolved, Failure> {
        Sources::new(Some(self.config.clone()), self.set.clone()).resolve().or_usage()
    }
}

/// Arguments of `run`.
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// The run.
    #[command(flatten)]
    pub run: OfRun,
    /// Start each service as a process of its own, and restart those that crash.
    #[arg(long)]
    pub processes: bool,
}

/// A run: its configuration and its folder.
#[derive(Debug, ClapArgs)]
pub struct OfRun {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The folder of the run [default: runs/NAME, from the name of the configuration].
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

impl OfRun {
    /// Reads and validates the configuration; `--run-dir` wins over it.
    ///
    /// # Errors
    /// Wrong usage, with every problem.
    pub fn resolve(&self) -> Result<Resolved, Failure> {
        let dir = self.run_dir.iter().map(|dir| format!("run.dir={}", dir.display()));
        let set = self.config.set.iter().cloned().chain(dir).collect();
        Sources::new(Some(self.config.config.clone()), set).resolve().or_usage()
    }
}

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Decides everything.
    Coordinator,
    /// Samples the policy.
    Rollout,
    /// Writes rubrics and judges.
    Evaluator,
    /// Updates weights.
    Learner,
}

impl Role {
    /// The name as it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Rollout => "rollout",
            Self::Evaluator => "evaluator",
            Self::Learner => "learner",
        }
    }
}

/// Arguments of `serve`.
#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    /// Which service.
    pub role: Role,
    /// The run.
    #[command(flatten)]
    pub run: OfRun,
    /// The worker's name, unique in the run and the same after a restart [default: the role].
    #[arg(long, value_name = "NAME")]
    pub id: Option<String>,
    /// End with the process that started this one.
    #[arg(long, hide = true)]
    pub with_parent: bool,
}

/// Arguments of `sft`.
#[derive(Debug, ClapArgs)]
pub struct SftArgs {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The folder to make; it must not exist.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The seed of every random choice [default: run.seed of the configuration].
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Arguments of `report`.
#[derive(Debug, ClapArgs)]
pub struct ReportArgs {
    /// The folder of the run.
    pub run_dir: PathBuf,
}

/// Arguments of `sample`.
#[derive(Debug, ClapArgs)]
pub struct SampleArgs {
    /// The folder of the model.
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// What to answer.
    pub prompt: String,
    /// How many answers.
    #[arg(short, long = "count", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub n: u16,
    /// Sampling temperature; 0 takes the likeliest token.
    #[arg(long, default_value_t = 1.0)]
    pub temperature: f64,
    /// Longest answer, tokens.
    #[arg(long, default_value_t = 256)]
    pub max_tokens: usize,
    /// The seed: the same one gives the same answers.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// Arguments of `score`.
#[derive(Debug, ClapArgs)]
pub struct ScoreArgs {
    /// The request, JSON; "-" reads standard input.
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// A configuration whose verifier judges and whose anchor loss is taken [default: no noise].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `logprobs`.
#[derive(Debug, ClapArgs)]
pub struct LogprobsArgs {
    /// The folder of the model.
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// The text, cut into tokens by the model's tokenizer.
    #[arg(long, conflicts_with = "ids", required_unless_present = "ids")]
    pub text: Option<String>,
    /// The tokens themselves.
    #[arg(long, value_delimiter = ',')]
    pub ids: Vec<u32>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Args::command().debug_assert();
        let help = Args::command().render_long_help().to_string();
        assert!(help.contains("rubricon run configs/quickstart.toml"));
    }
}
