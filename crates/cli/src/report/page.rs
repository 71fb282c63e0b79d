//! `report.html`: the summary as a page for people. It loads nothing from anywhere.

mod charts;
mod tables;
mod texts;

use super::audited::{Audited, Gold};
use super::folder::RunFiles;
use super::summary::Summary;
use super::table::{MISSING, number};

const STYLE: &str = include_str!("page/style.css");

/// The page.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn html(
    files: &RunFiles,
    audits: &[Audited<'_>],
    summary: &Summary,
    gold: Gold<'_>,
) -> anyhow::Result<String> {
    let title = escape(&summary.name);
    let sections = [
        header(summary),
        section("Did the policy get better?", &charts::quality(files, summary)?),
        tables::qualities(summary),
        section("Does the evaluator still tell better from worse?", &charts::gaps(files, summary)?),
        tables::matrix(summary),
        texts::partings(files, summary, gold),
        section("How far did training move?", &charts::training(files)?),
        section("Where did the time go?", &charts::time(files)?),
        texts::rubrics(files),
        texts::completions(audits),
        tables::accounts(summary),
        texts::config(files),
    ];
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n{}\n</main></body>\
         </html>\n",
        sections.join("\n")
    ))
}

fn header(summary: &Summary) -> String {
    let gold = &summary.gold;
    let rise = match (gold.start, gold.end) {
        (Some(start), Some(end)) => format!("{start:.3} → {end:.3}"),
        _ => MISSING.to_owned(),
    };
    let way = gold.way().map_or_else(
        || MISSING.to_owned(),
        |way| format!("{:.0} % of the way to {}", 100.0 * way, number(gold.ceiling)),
    );
    let gap = &summary.oriented_gap;
    let gap = match (gap.first_round, gap.last_round) {
        (None, None) => MISSING.to_owned(),
        (first, last) => format!("{} → {}", number(first), number(last)),
    };
    let tokens = summary.tokens_per_second.map_or(MISSING.to_owned(), |t| format!("{t:.0}"));
    let cards = [
        ("hidden gold", rise, way),
        ("oriented gap", gap, "start of the first round to start of the last".to_owned()),
        ("groups trained", summary.groups.trained.to_string(), drawn(summary)),
        ("tokens a second", tokens, "sampled and trained on".to_owned()),
    ];
    let cards: String = cards
        .iter()
        .map(|(what, value, more)| {
            format!("<div class=card><b>{value}</b><span>{what}</span><small>{more}</small></div>")
        })
        .collect();
    let schedule = serde_json::to_value(summary.schedule).unwrap_or_default();
    let finished = if summary.finished { "finished" } else { "not finished" };
    format!(
        "<header><h1>{}</h1><p>schedule <b>{}</b>, seed {}, {} steps, {finished}</p>\
         <div class=cards>{cards}</div><p class=verdict>{}</p></header>",
        escape(&summary.name),
        schedule.as_str().unwrap_or_default(),
        summary.seed,
        summary.steps,
        escape(&summary.verdict)
    )
}

fn drawn(summary: &Summary) -> String {
    let groups = &summary.groups;
    let dropped: u64 = groups.dropped.values().sum();
    format!("of {} drawn; {dropped} dropped, {} open", groups.drawn, groups.open)
}

/// A heading and what belongs to it; nothing where nothing does.
fn section(title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<section><h2>{title}</h2>\n{content}</section>")
}

/// Text as it is shown in HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, write_report};

    #[test]
    fn the_page_loads_nothing_and_shows_everything() {
        let dir = tempfile::tempdir().unwrap();
        fixture::write_run(dir.path());
        write_report(dir.path(), &fixture::gold).unwrap();
        let html = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
        assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("src="));
        assert!(!html.contains("bb & <b>") && html.contains("bb &amp; &lt;b&gt;"));
        for shown in ["<h2>Did the policy", "Staleness matrix", "G2", "<svg", "has &lt;a&gt;"] {
            assert!(html.contains(shown), "{shown}");
        }
        assert!(!html.contains("NaN") && !html.contains(">inf"));
    }
}
