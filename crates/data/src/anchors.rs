//! Listwise anchors: a prompt with answers in ranked tiers.
//!
//! `{"id", "prompt", "responses": [{"id", "text", ..}], "tiers": [[best ids], .., [worst ids]], ..}`

use std::collections::HashMap;
use std::path::Path;

use rl::{Anchor, Prompt};
use serde::Deserialize;

use crate::dataset::{self, DataError, DataSet, Flag, Parsed};
use crate::prompts::not_blank;

/// Loads a set of anchors. Answers stand best first with their tier, from 0, as rank; responses
/// that no tier names are left out and flagged.
///
/// # Errors
/// When the file cannot be read, is empty, or has no usable row.
pub fn load_anchors(path: &Path) -> Result<DataSet<Anchor>, DataError> {
    dataset::load(path, &["id", "prompt", "responses", "tiers"], rank)
}

#[derive(Deserialize)]
struct AnchorRow {
    #[serde(deserialize_with = "dataset::id_as_text")]
    id: String,
    prompt: String,
    responses: Vec<Response>,
    tiers: Vec<Vec<ResponseId>>,
}

#[derive(Deserialize)]
struct Response {
    id: ResponseId,
    text: String,
}

#[derive(Deserialize, PartialEq, Eq, Hash, Clone)]
#[serde(transparent)]
struct ResponseId(#[serde(deserialize_with = "dataset::id_as_text")] String);

/// Orders the responses of a row by its tiers.
fn rank(row: AnchorRow) -> Result<Parsed<Anchor>, String> {
    let text = not_blank(row.prompt)?;
    if row.responses.len() < 2 {
        return Err(format!("responses: {}, expected at least 2 to rank", row.responses.len()));
    }
    let mut texts = HashMap::new();
    for Response { id, text } in row.responses {
        if texts.insert(id.clone(), text).is_some() {
            return Err(format!("responses: id {:?} stands twice", id.0));
        }
    }
    let (mut answers, mut ranks) = (Vec::new(), Vec::new());
    for (rank, ids) in (0..).zip(row.tiers.iter().filter(|ids| !ids.is_empty())) {
        for id in ids {
            let text = texts.remove(id).ok_or_else(|| {
                format!("tiers: {:?} is ranked twice or is the id of no response", id.0)
            })?;
            answers.push(text);
            ranks.push(rank);
        }
    }
    if answers.is_empty() {
        return Err("tiers: empty, expected at least one ranked response".to_owned());
    }
    let flags = flags(&answers, &ranks, !texts.is_empty());
    let prompt = Prompt { id: row.id.clone(), text };
    let value = Anchor { prompt, answers, ranks };
    Ok(Parsed { id: row.id, value, flags })
}

fn flags(answers: &[String], ranks: &[u32], unranked: bool) -> Vec<Flag> {
    let mut rank_of = HashMap::new();
    let twice =
        answers.iter().zip(ranks).any(|(text, rank)| rank_of.entry(text).or_insert(rank) != &rank);
    [
        (answers.iter().any(String::is_empty), Flag::EmptyAnswer),
        (twice, Flag::SameTextRankedTwice),
        (unranked, Flag::UnrankedResponse),
        (ranks.first() == ranks.last(), Flag::NoPair),
    ]
    .into_iter()
    .filter_map(|(holds, flag)| holds.then_some(flag))
    .collect()
}
