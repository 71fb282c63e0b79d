//! `rubricon score`: the arithmetic of rubrics by itself.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use rl::reward::AnchorLoss;
use rl::{Seed, Stream};
use rubric::ProgramVerifier;
use rubric::score::{ScoreRequest, ScoreResponse, score};
use runtime::config::Sources;

use crate::args::ScoreArgs;
use crate::failure::{Failure, OrUsage};
use crate::report::table::number;
use crate::say::{self, say};

/// Reads a request, judges what is not judged, and prints what it comes to.
///
/// # Errors
/// If the request cannot be read or makes no sense.
pub fn run(args: &ScoreArgs) -> Result<(), Failure> {
    let (flip_rate, loss, seed) = match &args.config {
        None => (0.0, AnchorLoss::default(), 0),
        Some(path) => {
            let sources = Sources::new(Some(path.clone()), Vec::new());
            let config = sources.resolve().or_usage()?.config;
            (config.verifier.flip_rate, config.generator.anchor_loss, config.run.seed)
        }
    };
    let verifier = ProgramVerifier::new(flip_rate).context("verifier.flip_rate")?;
    let name = args.input.display();
    let text = read(&args.input).with_context(|| format!("--input {name}"))?;
    let response = ScoreRequest::from_json(&text)
        .and_then(|request| score(&request, &verifier, loss, Seed::new(seed, Stream::VerdictFlips)))
        .with_context(|| format!("--input {name}"))?;
    if args.json {
        say!("{}", serde_json::to_string(&response).context("print the response")?);
    } else {
        say::text(format_args!("{}", table(&response)));
    }
    Ok(())
}

fn read(path: &Path) -> std::io::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(path)
}

fn table(response: &ScoreResponse) -> String {
    let mut text = String::new();
    for (i, row) in response.verdicts.iter().enumerate() {
        let marks: Vec<&str> = row
            .iter()
            .map(|verdict| match verdict {
                Some(1) => "met",
                Some(_) => "unmet",
                None => "abstained",
            })
            .collect();
        text.push_str(&format!("item {}: {}\n", i + 1, marks.join(", ")));
    }
    let scores = response.scores.iter().flatten().map(|score| format!("{score:.3}"));
    let scores = scores.collect::<Vec<_>>().join(", ");
    let scores = response.unscorable.clone().unwrap_or(scores);
    let anchors = response.anchors_unscorable.clone();
    text + &format!(
        "scores: {scores}\nr_disc: {}\nr_anchor: {}\ntie fraction: {}\nabstained: {:.3}\n",
        number(response.r_disc),
        anchors.unwrap_or_else(|| number(response.r_anchor)),
        number(response.tie_fraction),
        response.abstained
    )
}
