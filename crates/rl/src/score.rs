//! From verdicts to scores: `E(x, y given C) = sum_m w_m v_m(y) / sum_m w_m`
//! (DynamicRubric, arXiv 2607.20083).

use serde::{Deserialize, Serialize};

use crate::{Polarity, Rubric, Verdict};

/// The share of a rubric's weight that may be missing before a group cannot be scored.
pub const MAX_MISSING_WEIGHT: f64 = 0.5;

/// Too much of the rubric's weight has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("verdicts are missing for {missing} of {total} weight (at most half may be)")]
pub struct Unscorable {
    /// The weight of the items left out.
    pub missing: u32,
    /// The weight of all items.
    pub total: u32,
}

/// Scores each completion: the share of the weight it earns, in [0, 1].
///
/// `verdicts` is items x completions. A positive item is earned when met, a negative one when
/// unmet. An item with a missing verdict for any completion is left out for all of them, so the
/// scores of a group stay comparable.
///
/// # Errors
/// [`Unscorable`] if more than [`MAX_MISSING_WEIGHT`] of the weight is left out, or nothing is left.
pub fn scores(rubric: &Rubric, verdicts: &[Vec<Verdict>]) -> Result<Vec<f64>, Unscorable> {
    let kept = kept_items(verdicts);
    let total: u32 = rubric.items.iter().map(|item| u32::from(item.weight)).sum();
    let weight: u32 = kept.iter().map(|&m| u32::from(rubric.items[m].weight)).sum();
    let missing = total - weight;
    if weight == 0 || f64::from(missing) > MAX_MISSING_WEIGHT * f64::from(total) {
        return Err(Unscorable { missing, total });
    }
    let completions = verdicts.first().map_or(0, Vec::len);
    Ok((0..completions)
        .map(|k| {
            let earned: f64 = kept
                .iter()
                .map(|&m| {
                    let item = &rubric.items[m];
                    let met = verdicts[m][k].value().unwrap_or(0.0);
                    f64::from(item.weight)
                        * match item.polarity {
                            Polarity::Positive => met,
                            Polarity::Negative => 1.0 - met,
                        }
                })
                .sum();
            earned / f64::from(weight)
        })
        .collect())
}

/// The items for which every completion has a verdict, by index.
pub(crate) fn kept_items(verdicts: &[Vec<Verdict>]) -> Vec<usize> {
    (0..verdicts.len()).filter(|&m| verdicts[m].iter().all(|v| v.value().is_some())).collect()
}

/// The share of verdicts that are missing, in [0, 1]; 0 without verdicts.
#[must_use]
pub fn abstained_fraction(verdicts: &[Vec<Verdict>]) -> f64 {
    let all = verdicts.iter().flatten().count();
    let missing = verdicts.iter().flatten().filter(|v| v.value().is_none()).count();
    if all == 0 { 0.0 } else { missing as f64 / all as f64 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Abstention, RubricItem};

    pub(crate) fn rubric(weights: &[i8]) -> Rubric {
        let items = weights
            .iter()
            .enumerate()
            .map(|(m, &w)| RubricItem {
                criterion: format!("item {m}"),
                weight: w.unsigned_abs(),
                polarity: if w > 0 { Polarity::Positive } else { Polarity::Negative },
                check: None,
            })
            .collect();
        Rubric { items }
    }

    /// One line per item: `1` met, `0` unmet, `?` abstained.
    pub(crate) fn verdicts(lines: &[&str]) -> Vec<Vec<Verdict>> {
        let verdict = |c| match c {
            '1' => Verdict::Met,
            '0' => Verdict::Unmet,
            _ => Verdict::Abstained(Abstention::Failed),
        };
        lines.iter().map(|line| line.chars().map(verdict).collect()).collect()
    }

    #[test]
    fn the_worked_example() {
        // Weights 5, 3, 2 with items 1 and 3 met: (5 + 2) / 10.
        assert_eq!(scores(&rubric(&[5, 3, 2]), &verdicts(&["1", "0", "1"])), Ok(vec![0.7]));
    }

    #[test]
    fn a_negative_item_is_earned_when_unmet() {
        // (3 v1 + 1 (1 - v2)) / 4 for (1,1), (1,0), (0,0).
        let scores = scores(&rubric(&[3, -1]), &verdicts(&["110", "100"]));
        assert_eq!(scores, Ok(vec![0.75, 1.0, 0.25]));
    }

    #[test]
    fn an_item_without_a_verdict_is_left_out_for_the_whole_group() {
        // Item 2 lacks a verdict for the second completion: both are scored by 5 and 2 alone.
        let scores = scores(&rubric(&[5, 3, 2]), &verdicts(&["10", "1?", "01"]));
        assert_eq!(scores, Ok(vec![5.0 / 7.0, 2.0 / 7.0]));
    }

    #[test]
    fn too_much_missing_weight_is_unscorable() {
        let missing = scores(&rubric(&[3, 2]), &verdicts(&["?1", "10"]));
        assert_eq!(missing, Err(Unscorable { missing: 3, total: 5 }));
        // Exactly half missing is still scored.
        assert_eq!(scores(&rubric(&[2, 2]), &verdicts(&["?", "1"])), Ok(vec![1.0]));
        assert!(scores(&rubric(&[]), &[]).is_err());
    }
}
