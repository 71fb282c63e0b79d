//! The charts of the page, each with a sentence on what it shows.

use coordinator::journal::StepLine;

use super::super::chart::{Chart, Series, css};
use super::super::folder::RunFiles;
use super::super::rounds::Round;
use super::super::series;
use super::super::summary::Summary;
use super::super::supervision::Supervision;
use super::escape;

/// Steps that become one point of a line that would otherwise jump up and down.
const SMOOTH: usize = 3;

/// Gold and proxy.
pub(super) fn quality(files: &RunFiles, summary: &Summary) -> anyhow::Result<String> {
    let curve = &summary.gold.curve;
    let mut gold = Series::new(
        "hidden gold, held-out prompts",
        2,
        curve.iter().map(|p| (p.step as f64, p.mean)).collect(),
    );
    gold.band = curve.iter().map(|p| (p.step as f64, p.lower, p.upper)).collect();
    let proxy = [
        metric(files, series::REWARD, "score in training", 1).smoothed(SMOOTH),
        supervised(summary, "score on held-out prompts", 3, |s| s.proxy),
        supervised(summary, "gold of the same samples", 2, |s| s.gold),
    ];
    let charts = [
        figure(
            "Hidden gold",
            "What the completions are really worth: the mean over held-out prompts; the band holds \
             the middle half of the prompts. No part of training sees this number.",
            chart(files, vec![gold.marked()], false),
        )?,
        figure(
            "Proxy reward",
            "The mean rubric score by the evaluator that trains the policy. Where a round has an \
             evaluator of its own, levels compare within it only. Of the lines, only the two on \
             held-out prompts are of the same samples.",
            chart(files, proxy.into(), false),
        )?,
    ];
    let shaded = "<p>In all charts grey stretches train the evaluator, white ones the policy.</p>";
    Ok(format!("{shaded}{}", grid(&charts)))
}

/// Oriented gap, ties, groups without signal.
pub(super) fn gaps(files: &RunFiles, summary: &Summary) -> anyhow::Result<String> {
    let gap = supervised(summary, "oriented gap", 0, |s| s.oriented_gap);
    let steps = series::of_policy(&files.steps);
    let ties = metric_of(&steps, series::TIES, "tied pairs", 1).smoothed(SMOOTH);
    let flat =
        metric_of(&steps, series::ZERO_VARIANCE, "groups without signal", 4).smoothed(SMOOTH);
    let charts = [
        figure(
            "Oriented gap",
            "By how much scores prefer the better of two completions, by the evaluator that trains \
             the policy, on held-out samples of it. Below 0 they point the wrong way.",
            chart(files, vec![gap], true),
        )?,
        figure(
            "Ties",
            "The share of pairs in a group with exactly equal scores: no direction between them.",
            chart(files, vec![ties], true),
        )?,
        figure(
            "Zero variance",
            "The share of groups whose completions all score the same: they teach nothing and are \
             drawn again.",
            chart(files, vec![flat], true),
        )?,
    ];
    Ok(grid(&charts))
}

/// KL and entropy.
pub(super) fn training(files: &RunFiles) -> anyhow::Result<String> {
    let both = |what: &str| {
        ["policy", "generator"]
            .iter()
            .enumerate()
            .map(|(i, actor)| metric(files, &format!("{actor}/{what}"), actor, i))
            .map(|series| series.smoothed(SMOOTH))
            .collect()
    };
    let charts = [
        figure(
            "KL divergence",
            "How far each actor is from its starting weights, nats a token.",
            chart(files, both("kl"), true),
        )?,
        figure(
            "Entropy",
            "How undecided each actor is about its next token, nats. Near 0 it explores no more.",
            chart(files, both("entropy"), true),
        )?,
    ];
    Ok(grid(&charts))
}

/// Throughput and time by hop.
pub(super) fn time(files: &RunFiles) -> anyhow::Result<String> {
    let speed = files.steps.iter().filter_map(|line| {
        let tokens: Vec<f64> =
            series::TOKENS.iter().filter_map(|name| line.metrics.get(*name).copied()).collect();
        let seconds = line.metrics.get(series::STEP_TIME).filter(|seconds| **seconds > 0.0)?;
        (!tokens.is_empty()).then(|| (line.step as f64, tokens.iter().sum::<f64>() / seconds))
    });
    let speed = Series::new("tokens a second", 0, speed.collect()).smoothed(SMOOTH);
    let by_hop = series::HOPS
        .iter()
        .enumerate()
        .map(|(i, hop)| metric(files, hop, hop.trim_start_matches("time/"), i))
        .map(|series| series.smoothed(SMOOTH))
        .collect();
    let charts = [
        figure(
            "Throughput",
            "Sampled tokens trained on, per second of wall time.",
            chart(files, vec![speed], true),
        )?,
        figure(
            "Time by hop",
            "Seconds of each step in which some worker was at this hop; hops overlap. Overhead is \
             the time in which no worker computed.",
            chart(files, by_hop, true),
        )?,
    ];
    Ok(grid(&charts))
}

/// What the evaluator in charge makes of held-out samples, at every audit of a policy phase.
fn supervised(
    summary: &Summary,
    name: &str,
    color: usize,
    value: fn(&Supervision) -> Option<f64>,
) -> Series {
    let audits = summary.rounds.iter().flat_map(Round::supervision);
    let points = audits.filter_map(|audit| Some((audit.step as f64, value(audit)?)));
    Series::new(name, color, points.collect()).marked()
}

fn metric(files: &RunFiles, metric: &str, name: &str, color: usize) -> Series {
    metric_of(&files.steps, metric, name, color)
}

fn metric_of(steps: &[StepLine], metric: &str, name: &str, color: usize) -> Series {
    let points = series::values(steps, metric).map(|(step, value)| (step as f64, value));
    Series::new(name, color, points.filter(|(_, value)| value.is_finite()).collect())
}

fn chart(files: &RunFiles, series: Vec<Series>, from_zero: bool) -> Chart {
    let series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    Chart { series, shaded: evaluator_phases(files), from_zero }
}

/// The stretches of steps that train the generator.
fn evaluator_phases(files: &RunFiles) -> Vec<(f64, f64)> {
    let mut phases: Vec<(u32, f64, f64)> = Vec::new();
    for line in files.steps.iter().filter(|line| line.phase == "evaluator") {
        let step = line.step as f64;
        match phases.last_mut() {
            Some((round, _, end)) if *round == line.round => *end = step + 1.0,
            _ => phases.push((line.round, step, step + 1.0)),
        }
    }
    phases.into_iter().map(|(_, start, end)| (start, end)).collect()
}

fn grid(figures: &[String]) -> String {
    format!("<div class=charts>{}</div>", figures.concat())
}

fn figure(title: &str, says: &str, chart: Chart) -> anyhow::Result<String> {
    let drawing = if chart.is_empty() {
        "<div class=missing>not measured</div>".to_owned()
    } else {
        let names = chart.series.iter().map(|series| {
            let (color, name) = (css(series.color), escape(&series.name));
            format!("<span><i style=\"background:{color}\"></i>{name}</span>")
        });
        let svg = chart.svg()?.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
        format!("<div class=legend>{}</div>{svg}", names.collect::<String>())
    };
    Ok(format!("<figure><h3>{title}</h3><figcaption>{says}</figcaption>{drawing}</figure>"))
}
