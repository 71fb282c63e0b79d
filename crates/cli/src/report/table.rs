//! The table at the end of a run, for a terminal.

use super::summary::Summary;
use super::supervision::Supervision;

/// What stands where a number was not measured.
pub const MISSING: &str = "not measured";

/// A number with three decimals, or [`MISSING`].
#[must_use]
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(|| MISSING.to_owned(), |value| format!("{value:.3}"))
}

/// A share in per cent, or [`MISSING`].
#[must_use]
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| MISSING.to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

/// The summary in lines of text.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |what: &str, value: String| rows.push((what.to_owned(), value));
    let schedule = serde_json::to_value(summary.schedule).unwrap_or_default();
    row("schedule", schedule.as_str().unwrap_or_default().to_owned());
    row("seed", summary.seed.to_string());
    row("steps", summary.steps.to_string());
    row("gold, start to end", gold(summary));
    for (task, gold) in &summary.gold.by_task {
        let text = format!("{} to {}", number(gold.start), number(gold.end));
        row(&format!("  {task}"), text);
    }
    let gap = &summary.oriented_gap;
    let text = format!("{} to {}", number(gap.first_round), number(gap.last_round));
    row("oriented gap, start of first to last round", text);
    for round in &summary.rounds {
        for (when, audit) in [("start", &round.start), ("end", &round.end)] {
            let of = |value: fn(&Supervision) -> Option<f64>| audit.as_ref().and_then(value);
            let text = format!(
                "gap {}, pair accuracy {}, ties {}, score {}, gold {}",
                number(of(|s| s.oriented_gap)),
                number(of(|s| s.pair_accuracy)),
                percent(of(|s| s.tie_fraction)),
                number(of(|s| s.proxy)),
                number(of(|s| s.gold))
            );
            row(&format!("  round {}, held out, {when}", round.round), text);
        }
        let text = format!(
            "score {}, ties {}, without signal {}, unreadable {}, abstained {}",
            number(round.reward),
            percent(round.tie_fraction),
            percent(round.zero_variance),
            percent(round.parse_failure),
            percent(round.abstained)
        );
        row(&format!("  round {}, training", round.round), text);
    }
    row("groups", groups(summary));
    for (actor, weights) in &summary.weights {
        row(&format!("{actor} weights"), format!("v{} {}", weights.version, weights.digest));
    }
    let tokens = summary.tokens_per_second.map(|tokens| format!("{tokens:.0}"));
    row("tokens a second", tokens.unwrap_or_else(|| MISSING.to_owned()));
    let times: Vec<String> =
        summary.time.iter().map(|(hop, seconds)| format!("{hop} {seconds:.1} s")).collect();
    row("time without computation", percent(summary.overhead_fraction));
    row("time", if times.is_empty() { MISSING.to_owned() } else { times.join(", ") });
    let width = rows.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    let lines = rows.into_iter().map(|(what, value)| format!("{what:<width$}  {value}\n"));
    lines.chain([format!("\n{}\n", summary.verdict)]).collect()
}

fn gold(summary: &Summary) -> String {
    let gold = &summary.gold;
    let mut text = format!("{} to {}", number(gold.start), number(gold.end));
    if let (Some(start), Some(end)) = (gold.start, gold.end) {
        text.push_str(&format!(" ({:+.3}", end - start));
        if let (Some(way), Some(ceiling)) = (gold.way(), gold.ceiling) {
            text.push_str(&format!(", {:.0} % of the way to {ceiling:.3}", 100.0 * way));
        }
        text.push(')');
    }
    text
}

fn groups(summary: &Summary) -> String {
    let groups = &summary.groups;
    let mut text = format!("{} drawn = {} trained", groups.drawn, groups.trained);
    for (reason, count) in &groups.dropped {
        text.push_str(&format!(" + {count} {reason}"));
    }
    if groups.open > 0 {
        text.push_str(&format!(" + {} open", groups.open));
    }
    text
}
