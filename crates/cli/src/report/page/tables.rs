//! The tables of the page.

use std::collections::BTreeMap;

use super::super::matrix::Cell;
use super::super::summary::{StartEnd, Summary};
use super::super::supervision::Supervision;
use super::super::table::{number, percent};
use super::{escape, section};

/// Gold by task and the qualities behind it.
pub(super) fn qualities(summary: &Summary) -> String {
    let gold = &summary.gold;
    if gold.by_task.is_empty() {
        return String::new();
    }
    let tasks = start_end("task", &gold.by_task, number);
    let qualities = start_end("quality", &gold.by_quality, percent);
    section(
        "Gold by task and by quality",
        &format!(
            "<p>Mean gold of each task, and the share of held-out completions that have each \
             quality, at the first and the last audit.</p><div class=\"scroll pair\">{tasks}\
             <details><summary>All qualities</summary>{qualities}</details></div>"
        ),
    )
}

fn start_end(
    what: &str,
    rows: &BTreeMap<String, StartEnd>,
    show: fn(Option<f64>) -> String,
) -> String {
    let lines: String = rows
        .iter()
        .map(|(name, value)| {
            let (name, start, end) = (escape(name), show(value.start), show(value.end));
            format!("<tr><td>{name}<td>{start}<td>{end}</tr>")
        })
        .collect();
    format!("<div><table><tr><th>{what}<th>start<th>end</tr>{lines}</table></div>")
}

type Value = fn(&Cell) -> Option<f64>;

/// The staleness matrix.
pub(super) fn matrix(summary: &Summary) -> String {
    let kinds: [(&str, Value, Range); 4] = [
        ("oriented gap", |c| c.oriented_gap, Range { low: 0.0, high: 0.25 }),
        ("pair accuracy", |c| c.pair_accuracy, Range { low: 0.5, high: 0.9 }),
        ("tied pairs", |c| c.tie_fraction, Range { low: 0.6, high: 0.1 }),
        ("items that vary", |c| c.discrimination, Range { low: 0.3, high: 0.95 }),
    ];
    let tables = if summary.matrix.is_empty() {
        "<div class=missing>not measured</div>".to_owned()
    } else {
        kinds.iter().map(|(name, value, range)| one(summary, name, *value, *range)).collect()
    };
    section(
        "Staleness matrix",
        &format!(
            "<p>Held-out samples of each policy P<sub>t</sub> (rows: after t policy phases) scored \
             by every generator G<sub>τ</sub> (columns: after τ evaluator phases). Greener is \
             better. A stale evaluator fades down a column; a fresh one is better to the right.</p>\
             <div class=matrices>{tables}</div>"
        ),
    )
}

/// The values shown as white and as green.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

fn one(summary: &Summary, name: &str, value: Value, range: Range) -> String {
    let cells = &summary.matrix;
    let rows = cells.iter().map(|cell| cell.policy).max().map_or(0, |last| last + 1);
    let columns = cells.iter().map(|cell| cell.generator).max().map_or(0, |last| last + 1);
    let head: String = (0..columns).map(|g| format!("<th>G{g}")).collect();
    let body: String = (0..rows)
        .map(|p| {
            let row: String = (0..columns)
                .map(|g| {
                    let found = cells.iter().find(|c| c.policy == p && c.generator == g);
                    found.map_or_else(|| "<td>".to_owned(), |c| coloured(value(c), range))
                })
                .collect();
            format!("<tr><td>P{p}{row}</tr>")
        })
        .collect();
    format!("<div><h3>{name}</h3><table><tr><th>{head}</tr>{body}</table></div>")
}

fn coloured(value: Option<f64>, range: Range) -> String {
    let Some(value) = value else { return "<td>not measured".to_owned() };
    let good = ((value - range.low) / (range.high - range.low)).clamp(0.0, 1.0);
    format!("<td style=\"background:rgba(24,132,84,{:.2})\">{value:.3}", 0.04 + 0.5 * good)
}

/// Oriented gap, score and gold of held-out samples.
fn held_out(audit: Option<&Supervision>) -> String {
    let of = |value: fn(&Supervision) -> Option<f64>| number(audit.and_then(value));
    let (gap, score, gold) = (of(|s| s.oriented_gap), of(|s| s.proxy), of(|s| s.gold));
    format!("<td>{gap}<td>{score}<td>{gold}")
}

/// Rounds, groups, weights and times.
pub(super) fn accounts(summary: &Summary) -> String {
    let rounds: String = summary
        .rounds
        .iter()
        .map(|r| {
            format!(
                "<tr><td>{}{}{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
                r.round,
                held_out(r.start.as_ref()),
                held_out(r.end.as_ref()),
                number(r.reward),
                percent(r.tie_fraction),
                percent(r.zero_variance),
                percent(r.parse_failure),
                percent(r.abstained)
            )
        })
        .collect();
    let groups: String = summary
        .groups
        .by_kind
        .iter()
        .map(|(kind, groups)| {
            let dropped: Vec<String> =
                groups.dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            let dropped = if dropped.is_empty() { "none".to_owned() } else { dropped.join(", ") };
            let (drawn, trained) = (groups.drawn, groups.trained);
            format!("<tr><td>{}<td>{drawn}<td>{trained}<td>{dropped}</tr>", escape(kind))
        })
        .collect();
    let weights: String = summary
        .weights
        .iter()
        .map(|(actor, w)| {
            let (actor, digest) = (escape(actor), escape(&w.digest));
            format!("<tr><td>{actor}<td>v{}<td><code>{digest}</code></tr>", w.version)
        })
        .collect();
    let times: String = summary
        .time
        .iter()
        .map(|(hop, seconds)| format!("<tr><td>{}<td>{seconds:.1} s</tr>", escape(hop)))
        .collect();
    section(
        "Accounts",
        &format!(
            "<p>Of each round, the evaluator that trains the policy, on held-out samples at the \
             start and at the end of the policy phase; then means over the training steps. Every \
             group drawn was trained on, dropped for a stated reason, or is on its way.</p><div class=scroll><table><tr><th>round<th>gap, start<th>score<th>gold<th>gap, end\
             <th>score<th>gold<th>score in training<th>ties<th>without signal\
             <th>unreadable rubrics<th>abstained</tr>{rounds}</table><br>\
             <table><tr><th>groups<th>drawn<th>trained<th>dropped</tr>{groups}</table><br>\
             <table><tr><th>weights<th>version<th>digest</tr>{weights}</table><br>\
             <table><tr><th>hop<th>time, all steps</tr>{times}</table></div>"
        ),
    )
}
