//! Anchors: prompts with answers in the order of their gold, as rows of the listwise JSONL schema.
//!
//! Rows hold ranks, no scores. Samples of the starting policy alone teach a generator nothing about
//! qualities that the policy lacks, so answers by a better author are mixed in.

use rl::{Prompt, Seed};
use serde::Serialize;
use world::{Author, Care, Draws};

use crate::score::{NotOfThisWorld, read, score};

/// One line of an anchor file; `data` reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnchorRow {
    /// The prompt's id.
    pub id: String,
    /// The prompt.
    pub prompt: String,
    /// The answers, samples first.
    pub responses: Vec<Response>,
    /// Ids of the answers, best first; those of equal gold share a tier.
    pub tiers: Vec<Vec<String>>,
    /// Who ranked them.
    pub annotator: &'static str,
    /// What one may do with the row.
    pub licence: &'static str,
}

/// An answer of an anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Unique in its row: "sample-0", "better-0" and so on.
    pub id: String,
    /// The answer.
    pub text: String,
}

/// One row a prompt: its samples and `better` answers by [`Care::BETTER`], ranked.
///
/// # Errors
/// A prompt of another world.
pub fn anchor_rows(
    prompts: &[(Prompt, Vec<String>)],
    better: usize,
    seed: Seed,
) -> Result<Vec<AnchorRow>, NotOfThisWorld> {
    let author = Author::new(Care::BETTER);
    let rows = prompts.iter().enumerate().map(|(i, (prompt, samples))| {
        let task = read(&prompt.text)?;
        let mut draws = Draws::new(seed.child(i as u64));
        let references: Vec<String> =
            (0..better).map(|_| author.answer(&task, &mut draws)).collect();
        let responses = responses("sample", samples).chain(responses("better", &references));
        rank(prompt, responses.collect())
    });
    rows.collect()
}

/// The rows as the text of a file.
///
/// # Errors
/// Never in practice: rows hold text only.
pub fn to_jsonl(rows: &[AnchorRow]) -> Result<String, serde_json::Error> {
    rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n")).collect()
}

fn responses(source: &str, texts: &[String]) -> impl Iterator<Item = Response> {
    texts
        .iter()
        .enumerate()
        .map(move |(i, text)| Response { id: format!("{source}-{i}"), text: text.clone() })
}

fn rank(prompt: &Prompt, responses: Vec<Response>) -> Result<AnchorRow, NotOfThisWorld> {
    let mut scored: Vec<(f64, &str)> = Vec::new();
    for response in &responses {
        scored.push((score(&prompt.text, &response.text)?.total, &response.id));
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let tiers = scored
        .chunk_by(|a, b| a.0 == b.0)
        .map(|tier| tier.iter().map(|(_, id)| (*id).to_owned()).collect())
        .collect();
    Ok(AnchorRow {
        id: prompt.id.clone(),
        prompt: prompt.text.clone(),
        responses,
        tiers,
        annotator: "gold program of the controlled world",
        licence: "Apache-2.0",
    })
}

#[cfg(test)]
mod tests {
    use rl::Stream;

    use super::*;

    #[test]
    fn answers_of_equal_gold_share_a_tier() {
        let prompt = Prompt { id: "a".into(), text: "List 2 tools from A to Z.".into() };
        let samples = ["- axe\n- saw", "no", "- saw\n- axe", "- file\n- saw"].map(String::from);
        let rows = anchor_rows(&[(prompt, samples.to_vec())], 0, Seed::new(0, Stream::Data));
        let row = &rows.expect("of this world")[0];
        assert_eq!(row.tiers, [vec!["sample-0", "sample-3"], vec!["sample-2"], vec!["sample-1"]]);
        let text = to_jsonl(std::slice::from_ref(row)).expect("text");
        assert!(text.starts_with(r#"{"id":"a","prompt":"List 2 tools from A to Z.","responses":"#));
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn better_answers_tend_to_stand_first() {
        let seed = Seed::new(1, Stream::Data);
        let author = Author::new(Care::STARTING);
        let prompts: Vec<(Prompt, Vec<String>)> = world::prompts::anchor_prompts(150, seed)
            .into_iter()
            .enumerate()
            .map(|(i, prompt)| {
                let task = read(&prompt.text).expect("of this world");
                let mut draws = Draws::new(seed.child(i as u64));
                (prompt, (0..3).map(|_| author.answer(&task, &mut draws)).collect())
            })
            .collect();
        let rows = anchor_rows(&prompts, 3, seed).expect("of this world");
        assert!(rows.iter().all(|row| row.tiers.concat().len() == 6));
        let first = rows.iter().filter(|row| row.tiers[0][0].starts_with("better")).count();
        assert!(first > 110, "{first} of 150");
        let other = Prompt { id: "x".into(), text: "Say hi.".into() };
        assert!(anchor_rows(&[(other, vec![])], 1, seed).is_err());
    }
}
