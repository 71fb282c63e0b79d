//! One request to judge and score a group: the arithmetic by itself, for the command line.

use rl::gap::tie_fraction;
use rl::reward::{AnchorLoss, r_anchor, r_disc};
use rl::score::{abstained_fraction, scores};
use rl::{Abstention, Rubric, Seed, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::{self, JsonItem, ParseError};
use crate::{Verifier, judge_matrix};

/// A group with its rubric. Verdicts that are given are not judged again.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreRequest {
    /// What was asked.
    #[serde(default)]
    prompt: String,
    /// The completions; may be left out where `verdicts` are given.
    #[serde(default)]
    completions: Vec<String>,
    /// The items.
    rubric: Vec<JsonItem>,
    /// Answers ranked from best to worst, without ties.
    #[serde(default)]
    anchors: Vec<String>,
    /// Items x completions: true or 1, false or 0, null for abstained.
    verdicts: Option<Vec<Vec<Value>>>,
    /// Items x anchors, likewise.
    anchor_verdicts: Option<Vec<Vec<Value>>>,
}

/// What a group is worth under a rubric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreResponse {
    /// Items x completions: 1 met, 0 unmet, null abstained.
    pub verdicts: Vec<Vec<Option<u8>>>,
    /// One per completion, in [0, 1]; null for a group that cannot be scored.
    pub scores: Option<Vec<f64>>,
    /// In [0, 0.25]; null for a group that cannot be scored.
    pub r_disc: Option<f64>,
    /// 0 at best; null without anchors, or where they cannot be scored.
    pub r_anchor: Option<f64>,
    /// The share of pairs with equal scores; null for a single completion, and for a group that
    /// cannot be scored.
    pub tie_fraction: Option<f64>,
    /// The share of verdicts on completions that are missing.
    pub abstained: f64,
    /// Why the completions have no scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unscorable: Option<String>,
    /// Why the anchors have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchors_unscorable: Option<String>,
}

/// Why a request makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// Not JSON of this shape.
    #[error("request: {0}")]
    Shape(ParseError),
    /// The rubric has no items or an impossible weight.
    #[error("rubric: {0}")]
    Rubric(ParseError),
    /// Nothing to score.
    #[error("no completions and no verdicts on them (expected at least one completion)")]
    NoCompletions,
    /// One anchor ranks nothing.
    #[error("one anchor (expected at least 2, or none)")]
    OneAnchor,
    /// Another number of rows than items.
    #[error("{matrix} has {found} rows (expected {items}, one per item)")]
    Rows {
        /// `verdicts` or `anchor_verdicts`.
        matrix: &'static str,
        /// Its rows.
        found: usize,
        /// Items of the rubric.
        items: usize,
    },
    /// A row of another length than there are texts.
    #[error("{matrix}[{row}] has {found} verdicts (expected {expected})")]
    Columns {
        /// `verdicts` or `anchor_verdicts`.
        matrix: &'static str,
        /// The row, from 0.
        row: usize,
        /// Its length.
        found: usize,
        /// Completions or anchors.
        expected: usize,
    },
    /// A verdict that is none.
    #[error("{matrix}[{row}][{column}] is {found} (expected true, false, 1, 0 or null)")]
    Verdict {
        /// `verdicts` or `anchor_verdicts`.
        matrix: &'static str,
        /// The item, from 0.
        row: usize,
        /// The text, from 0.
        column: usize,
        /// What stands there.
        found: String,
    },
}

impl ScoreRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// [`ScoreError::Shape`] with the path of what is wrong.
    pub fn from_json(text: &str) -> Result<Self, ScoreError> {
        parse::from_json(text).map_err(ScoreError::Shape)
    }
}

/// Judges what is not judged yet and does the sums of [`rl::score`] and [`rl::reward`], without
/// guards.
///
/// # Errors
/// [`ScoreError`] where the parts of the request do not fit each other.
pub fn score(
    request: &ScoreRequest,
    verifier: &dyn Verifier,
    loss: AnchorLoss,
    seed: Seed,
) -> Result<ScoreResponse, ScoreError> {
    let items = parse::weighed(request.rubric.clone()).map_err(ScoreError::Rubric)?;
    if items.is_empty() {
        return Err(ScoreError::Rubric(ParseError::NoItems));
    }
    let rubric = Rubric { items };
    let judge =
        |texts: &[String], seed| judge_matrix(verifier, &rubric, &request.prompt, texts, seed);
    let given = |matrix, rows: &Option<Vec<Vec<Value>>>, texts: &[String]| {
        let read = |rows: &Vec<_>| read_matrix(matrix, rows, rubric.items.len(), texts.len());
        rows.as_ref().map(read).transpose()
    };
    let verdicts = given("verdicts", &request.verdicts, &request.completions)?
        .unwrap_or_else(|| judge(&request.completions, seed.child(0)));
    let anchors = given("anchor_verdicts", &request.anchor_verdicts, &request.anchors)?
        .unwrap_or_else(|| judge(&request.anchors, seed.child(1)));
    if verdicts[0].is_empty() {
        return Err(ScoreError::NoCompletions);
    }
    let anchor_scores = match anchors[0].len() {
        0 => None,
        1 => return Err(ScoreError::OneAnchor),
        _ => Some(scores(&rubric, &anchors)),
    };
    let ranks: Vec<u32> = (0..anchors[0].len() as u32).collect();
    let found = scores(&rubric, &verdicts);
    Ok(ScoreResponse {
        r_disc: found.is_ok().then(|| r_disc(&rubric, &verdicts)),
        r_anchor: anchor_scores
            .as_ref()
            .and_then(|scores| Some(r_anchor(loss, scores.as_ref().ok()?, &ranks))),
        tie_fraction: found.as_ref().ok().and_then(|scores| tie_fraction(scores)),
        abstained: abstained_fraction(&verdicts),
        unscorable: found.as_ref().err().map(ToString::to_string),
        anchors_unscorable: anchor_scores.and_then(Result::err).map(|error| error.to_string()),
        scores: found.ok(),
        verdicts: verdicts.iter().map(|row| row.iter().map(|&v| number(v)).collect()).collect(),
    })
}

fn number(verdict: Verdict) -> Option<u8> {
    match verdict {
        Verdict::Met => Some(1),
        Verdict::Unmet => Some(0),
        Verdict::Abstained(_) => None,
    }
}

/// Verdicts of the right shape; without texts the first row says how many there are.
fn read_matrix(
    matrix: &'static str,
    rows: &[Vec<Value>],
    items: usize,
    texts: usize,
) -> Result<Vec<Vec<Verdict>>, ScoreError> {
    if rows.len() != items {
        return Err(ScoreError::Rows { matrix, found: rows.len(), items });
    }
    let expected = if texts == 0 { rows[0].len() } else { texts };
    let read_row = |(row, values): (usize, &Vec<Value>)| {
        if values.len() != expected {
            return Err(ScoreError::Columns { matrix, row, found: values.len(), expected });
        }
        let read = |(column, value): (usize, &Value)| {
            read_verdict(value).ok_or_else(|| ScoreError::Verdict {
                matrix,
                row,
                column,
                found: value.to_string(),
            })
        };
        values.iter().enumerate().map(read).collect()
    };
    rows.iter().enumerate().map(read_row).collect()
}

fn read_verdict(value: &Value) -> Option<Verdict> {
    match value {
        Value::Null => Some(Verdict::Abstained(Abstention::Failed)),
        Value::Bool(met) => Some(Verdict::from(*met)),
        Value::Number(number) if number.as_f64() == Some(1.0) => Some(Verdict::Met),
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(Verdict::Unmet),
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rl::Stream;

    use super::*;
    use crate::ProgramVerifier;

    fn answer(request: &str) -> Result<ScoreResponse, ScoreError> {
        let request = ScoreRequest::from_json(request)?;
        let seed = Seed::new(0, Stream::VerdictFlips);
        score(&request, &ProgramVerifier::default(), AnchorLoss::PairRbp, seed)
    }

    #[test]
    fn given_verdicts_are_summed() {
        let found = answer(
            r#"{"prompt":"p","completions":["a","b","c"],
                "rubric":[{"criterion":"x","weight":5},{"criterion":"y","weight":3,"polarity":"-"},
                          {"criterion":"z","weight":2}],
                "verdicts":[[1,0,false],[false,true,0],[null,1,1.0]],
                "anchors":["best","worst"],"anchor_verdicts":[[1,0],[0,1],[1,0]]}"#,
        )
        .expect("an answer");
        // z is left out: (5 + 3) / 8, 0 / 8, 3 / 8; no two equal.
        assert_eq!(found.scores, Some(vec![1.0, 0.0, 0.375]));
        // Both kept items are met by 1 of 3: 1/3 * 2/3.
        assert!((found.r_disc.expect("scored") - 2.0 / 9.0).abs() < 1e-12);
        // Anchors score 1 and 0: log sigmoid(1).
        let expected = -(1.0 + (-1.0f64).exp()).ln();
        assert!((found.r_anchor.expect("scored") - expected).abs() < 1e-12);
        assert_eq!(found.tie_fraction, Some(0.0));
        assert!((found.abstained - 1.0 / 9.0).abs() < 1e-12);
        assert_eq!(found.verdicts[2], [None, Some(1), Some(1)]);
        assert_eq!((found.unscorable, found.anchors_unscorable), (None, None));
    }

    #[test]
    fn checks_are_judged_where_no_verdicts_are_given() {
        let found = answer(
            r#"{"prompt":"Write a note.","completions":["The red kite is here.","A kite is over there.",""],
                "rubric":[{"criterion":"red","weight":3,"check":{"kind":"contains","text":"red"}},
                          {"criterion":"asks","weight":1,"polarity":"-","check":{"kind":"contains","text":"?"}}]}"#,
        )
        .expect("an answer");
        assert_eq!(found.verdicts, [[Some(1), Some(0), Some(0)], [Some(0), Some(0), Some(1)]]);
        assert_eq!(found.scores, Some(vec![1.0, 0.25, 0.0]));
        assert_eq!(found.r_anchor, None);
    }

    #[test]
    fn an_unscorable_group_has_reasons_and_no_zeros() {
        let found = answer(
            r#"{"completions":["a","b"],"anchors":["c","d"],"rubric":[{"criterion":"x","weight":5}]}"#,
        )
        .expect("an answer");
        let json = serde_json::to_value(&found).expect("json");
        for key in ["scores", "r_disc", "r_anchor", "tie_fraction"] {
            assert_eq!(json[key], Value::Null, "{key}");
        }
        let reason = "verdicts are missing for 5 of 5 weight (at most half may be)";
        assert_eq!(json["unscorable"], reason);
        assert_eq!(json["anchors_unscorable"], reason);
        assert_eq!(json["abstained"], 1.0);
    }

    #[test]
    fn requests_that_do_not_fit_are_refused_with_place_and_expectation() {
        let with = |rest: &str| format!(r#"{{"rubric":[{{"criterion":"x","weight":5}}],{rest}}}"#);
        for (request, message) in [
            (
                with(r#""completions":[]"#),
                "no completions and no verdicts on them (expected at least one completion)",
            ),
            (
                with(r#""verdicts":[[]]"#),
                "no completions and no verdicts on them (expected at least one completion)",
            ),
            (with(r#""verdicts":[]"#), "verdicts has 0 rows (expected 1, one per item)"),
            (
                with(r#""completions":["a"],"verdicts":[[1],[0]]"#),
                "verdicts has 2 rows (expected 1, one per item)",
            ),
            (
                with(r#""completions":["a"],"verdicts":[[1,0]]"#),
                "verdicts[0] has 2 verdicts (expected 1)",
            ),
            (
                with(r#""verdicts":[[1,"yes"]]"#),
                "verdicts[0][1] is \"yes\" (expected true, false, 1, 0 or null)",
            ),
            (
                with(r#""verdicts":[[0.5]]"#),
                "verdicts[0][0] is 0.5 (expected true, false, 1, 0 or null)",
            ),
            (
                with(r#""verdicts":[[1]],"anchors":["a","b"],"anchor_verdicts":[[1]]"#),
                "anchor_verdicts[0] has 1 verdicts (expected 2)",
            ),
            (
                with(r#""verdicts":[[1]],"anchors":["a"]"#),
                "one anchor (expected at least 2, or none)",
            ),
            (r#"{"rubric":[],"completions":["a"]}"#.into(), "rubric: rubric has no items"),
            (
                r#"{"rubric":[{"criterion":"x","weight":0}],"completions":["a"]}"#.into(),
                "rubric: item 1: weight 0 (expected a whole number of 1 to 5)",
            ),
            (
                r#"{"rubric":[{"criterion":"x"}]}"#.into(),
                "request: json at rubric[0]: missing field `weight` at line 1 column 28",
            ),
        ] {
            assert_eq!(answer(&request).expect_err(&request).to_string(), message);
        }
        let ragged = r#"{"rubric":[{"criterion":"x","weight":5},{"criterion":"y","weight":1}],"verdicts":[[1,0],[1]]}"#;
        let message = answer(ragged).expect_err("ragged").to_string();
        assert_eq!(message, "verdicts[1] has 1 verdicts (expected 2)");
        assert!(answer(&with(r#""completion":["a"]"#)).is_err());
    }
}
