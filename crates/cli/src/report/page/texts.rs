//! Rubrics and completions to read.

use coordinator::journal::RubricLine;
use rl::Polarity;

use super::super::audited::{Audited, Gold};
use super::super::examples;
use super::super::folder::RunFiles;
use super::super::parting;
use super::super::summary::Summary;
use super::{escape, section};

/// Where proxy and gold part, with the completions that show it.
pub(super) fn partings(files: &RunFiles, summary: &Summary, gold: Gold<'_>) -> String {
    let stretches: String = summary
        .partings
        .iter()
        .map(|parting| {
            let rows: String = parting::overrated(parting, &files.rubrics, gold)
                .iter()
                .map(|o| {
                    format!(
                        "<tr><td class=words>{}<td class=words>{}<td>{:.2}<td>{:.2}</tr>",
                        escape(&o.prompt),
                        escape(&o.completion),
                        o.score,
                        o.gold
                    )
                })
                .collect();
            format!(
                "<div class=text><h3>Round {}, steps {} to {}</h3><p>score {}, gold {} (held-out prompts, with standard errors); the training completions scored furthest above their gold:</p><table><tr><th>prompt\
                 <th class=words>completion<th>score<th>gold</tr>{rows}</table></div><br>",
                parting.round,
                parting.from_step,
                parting.to_step,
                parting.proxy,
                parting.gold
            )
        })
        .collect();
    let class = if summary.partings.is_empty() { "verdict" } else { "verdict bad" };
    section(
        "Do proxy and gold part?",
        &format!("<p class=\"{class}\">{}</p>{stretches}", escape(&summary.verdict)),
    )
}

/// An early and a late rubric with the groups they were written for.
pub(super) fn rubrics(files: &RunFiles) -> String {
    let Some((early, late)) = examples::rubrics(&files.rubrics) else { return String::new() };
    section(
        "Rubrics, early and late",
        &format!(
            "<p>A rubric is written for one group of completions: what it asks should move on as \
             the policy does.</p><div class=pair>{}{}</div>",
            rubric("Early", early),
            rubric("Late", late)
        ),
    )
}

fn rubric(when: &str, line: &RubricLine) -> String {
    let items: String = line
        .rubric
        .items
        .iter()
        .map(|item| {
            let sign = match item.polarity {
                Polarity::Positive => "+",
                Polarity::Negative => "−",
            };
            let criterion = escape(&item.criterion);
            format!("<tr><td>{criterion}<td>{sign}{}</tr>", item.weight)
        })
        .collect();
    let completions: String = line
        .completions
        .iter()
        .zip(&line.scores)
        .map(|(text, score)| format!("<tr><td class=words>{}<td>{score:.2}</tr>", escape(text)))
        .collect();
    format!(
        "<div class=text><h3>{when}: step {}, round {}, generator v{}</h3><p>{}</p><table>\
         <tr><th>item<th>weight</tr>{items}</table><br><table><tr><th class=words>completion<th>score</tr>\
         {completions}</table></div>",
        line.step,
        line.round,
        line.generator_version,
        escape(&line.prompt)
    )
}

/// Early and late completions of the same prompts.
pub(super) fn completions(audits: &[Audited<'_>]) -> String {
    let rows: String = examples::changes(audits)
        .iter()
        .map(|change| {
            format!(
                "<tr><td class=words>{}<td class=words>{}<td>{:.2}<td class=words>{}<td>{:.2}</tr>",
                escape(&change.prompt),
                escape(&change.early.0),
                change.early.1,
                escape(&change.late.0),
                change.late.1
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    section(
        "Completions, early and late",
        &format!(
            "<p>The middle completion (by gold) of a held-out prompt of each task, at the first \
             and the last audit.</p><div class=\"text scroll\"><table><tr><th>prompt<th class=words>first audit\
             <th>gold<th class=words>last audit<th>gold</tr>{rows}</table></div>"
        ),
    )
}

/// The resolved configuration.
pub(super) fn config(files: &RunFiles) -> String {
    format!(
        "<section><details><summary>Configuration</summary><pre>{}</pre></details></section>",
        escape(&files.config.to_toml())
    )
}
