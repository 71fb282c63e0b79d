//! The rubric generator's two rewards (DynamicRubric, arXiv 2607.20083).

use serde::{Deserialize, Serialize};

use crate::score::kept_items;
use crate::{Rubric, Verdict};

/// How well a rubric tells the completions of a group apart:
/// `R_disc = sum_m w_m vbar_m (1 - vbar_m) / sum_m w_m`, in [0, 0.25].
///
/// `verdicts` is items x completions; items with a missing verdict are left out, as in the score.
/// 0 where no item is left.
#[must_use]
pub fn r_disc(rubric: &Rubric, verdicts: &[Vec<Verdict>]) -> f64 {
    let (mut spread, mut weight) = (0.0, 0.0);
    for m in kept_items(verdicts) {
        let row = &verdicts[m];
        let mean = row.iter().filter_map(|v| v.value()).sum::<f64>() / row.len() as f64;
        let w = f64::from(rubric.items[m].weight);
        spread += w * mean * (1.0 - mean);
        weight += w;
    }
    if weight == 0.0 { 0.0 } else { spread / weight }
}

/// How the scores of ranked anchors are compared with their ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnchorLoss {
    /// `sum_{i<j} log sigmoid(S_i - S_j) / ((j - i) 2^(i-1))`: pairs near the top and near each
    /// other weigh most (rank-biased precision). Answers of equal rank share the mean of their
    /// places.
    #[default]
    PairRbp,
    /// Log-likelihood of the ranking under Plackett and Luce with the scores as utilities.
    Listnet,
    /// `-sum_{i<j} max(0, margin - (S_i - S_j)) / pairs` with a margin of 0.1.
    Margin,
}

/// The margin of [`AnchorLoss::Margin`], in score units.
const MARGIN: f64 = 0.1;

/// The anchor reward: how well scores `S_1 .. S_n` reproduce the ranking, 0 at best, lower is worse.
///
/// `ranks` is not decreasing (best first); pairs of equal rank contribute nothing, and the order of
/// answers of equal rank changes nothing.
#[must_use]
pub fn r_anchor(loss: AnchorLoss, scores: &[f64], ranks: &[u32]) -> f64 {
    let pairs = || {
        (0..scores.len())
            .flat_map(|i| (i + 1..scores.len()).map(move |j| (i, j)))
            .filter(|&(i, j)| ranks[i] < ranks[j])
    };
    match loss {
        AnchorLoss::PairRbp => {
            let place = places(ranks);
            let weight = |i: usize, j: usize| ((place[j] - place[i]) * place[i].exp2()).recip();
            pairs().map(|(i, j)| weight(i, j) * log_sigmoid(scores[i] - scores[j])).sum()
        }
        AnchorLoss::Listnet => (0..scores.len())
            .map(|i| {
                // Those ranked below i, and i itself: the chance that i is picked first of them.
                let rest = (i + 1..scores.len()).filter(|&j| ranks[i] < ranks[j]);
                let total: f64 = rest.map(|j| (scores[j] - scores[i]).exp()).sum();
                -total.ln_1p()
            })
            .sum(),
        AnchorLoss::Margin => {
            let count = pairs().count();
            let lost: f64 = pairs().map(|(i, j)| (MARGIN - (scores[i] - scores[j])).max(0.0)).sum();
            if count == 0 { 0.0 } else { -lost / count as f64 }
        }
    }
}

/// How many answers are above each, counting those of its own rank half: 0, 1, 2 .. without ties.
fn places(ranks: &[u32]) -> Vec<f64> {
    let place = |rank: &u32| {
        let above = ranks.iter().filter(|other| *other < rank).count();
        let beside = ranks.iter().filter(|other| *other == rank).count() - 1;
        above as f64 + beside as f64 / 2.0
    };
    ranks.iter().map(place).collect()
}

fn log_sigmoid(x: f64) -> f64 {
    -(-x).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::{rubric, verdicts};

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    #[test]
    fn discriminability_of_one_item_over_eight_completions() {
        // m met of 8: (m/8)(1 - m/8) = 0, 7/64, 12/64, 15/64, 16/64.
        let table = [
            ("00000000", 0.0),
            ("10000000", 7.0 / 64.0),
            ("11000000", 12.0 / 64.0),
            ("11100000", 15.0 / 64.0),
            ("11110000", 0.25),
            ("11111111", 0.0),
        ];
        for (row, expected) in table {
            close(r_disc(&rubric(&[3]), &verdicts(&[row])), expected, 1e-12);
        }
    }

    #[test]
    fn discriminability_is_a_weighted_mean_over_items() {
        // (4 * 0.25 + 1 * 0) / 5, and the polarity of an item does not matter.
        close(r_disc(&rubric(&[4, 1]), &verdicts(&["1100", "1111"])), 0.2, 1e-12);
        close(r_disc(&rubric(&[-4, 1]), &verdicts(&["1100", "1111"])), 0.2, 1e-12);
    }

    #[test]
    fn an_item_without_a_verdict_does_not_count_as_unmet() {
        close(r_disc(&rubric(&[4, 1]), &verdicts(&["1100", "1?11"])), 0.25, 1e-12);
        close(r_disc(&rubric(&[4]), &verdicts(&["1?"])), 0.0, 1e-12);
    }

    #[test]
    fn anchor_reward_check_values_for_seven_answers() {
        let ranks: Vec<u32> = (0..7).collect();
        let falling: Vec<f64> = (0..7).map(|i| 1.0 - f64::from(i) / 6.0).collect();
        let rising: Vec<f64> = falling.iter().rev().copied().collect();
        let top_two = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        for (scores, expected) in
            [(&[0.5; 7][..], -3.096), (&falling, -2.369), (&rising, -4.041), (&top_two, -2.112)]
        {
            close(r_anchor(AnchorLoss::PairRbp, scores, &ranks), expected, 5e-4);
        }
        // The pair weights sum to 4.467 = -R(all tied) / ln 2.
        let tied = r_anchor(AnchorLoss::PairRbp, &[0.0; 7], &ranks);
        close(-tied / std::f64::consts::LN_2, 4.467, 5e-4);
    }

    #[test]
    fn tied_anchors_contribute_no_pair() {
        for loss in [AnchorLoss::PairRbp, AnchorLoss::Listnet, AnchorLoss::Margin] {
            close(r_anchor(loss, &[0.1, 0.9], &[0, 0]), 0.0, 1e-12);
        }
    }

    #[test]
    fn the_order_within_a_tier_changes_nothing() {
        let ranks = [0, 0, 1, 2, 2, 2];
        let scores = [0.9, 0.2, 0.4, 0.1, 0.8, 0.5];
        let swapped = [0.2, 0.9, 0.4, 0.5, 0.1, 0.8];
        for loss in [AnchorLoss::PairRbp, AnchorLoss::Listnet, AnchorLoss::Margin] {
            close(r_anchor(loss, &scores, &ranks), r_anchor(loss, &swapped, &ranks), 1e-12);
        }
        // Places 1/2, 1/2 and 2: two pairs that weigh 1 / (1.5 sqrt 2), each log sigmoid 0.
        let expected = -2.0 * std::f64::consts::LN_2 / (1.5 * 2f64.sqrt());
        close(r_anchor(AnchorLoss::PairRbp, &[0.5; 3], &[0, 0, 1]), expected, 1e-12);
    }

    #[test]
    fn every_loss_prefers_the_right_order() {
        for loss in [AnchorLoss::PairRbp, AnchorLoss::Listnet, AnchorLoss::Margin] {
            let right = r_anchor(loss, &[0.9, 0.5, 0.1], &[0, 1, 2]);
            let tied = r_anchor(loss, &[0.5, 0.5, 0.5], &[0, 1, 2]);
            let wrong = r_anchor(loss, &[0.1, 0.5, 0.9], &[0, 1, 2]);
            assert!(right > tied && tied > wrong, "{loss:?}: {right} {tied} {wrong}");
        }
    }

    #[test]
    fn listnet_of_two_is_the_log_probability_of_the_pair() {
        // -ln(1 + e^(0.2 - 0.7))
        let expected = -(1.0 + (-0.5f64).exp()).ln();
        close(r_anchor(AnchorLoss::Listnet, &[0.7, 0.2], &[0, 1]), expected, 1e-12);
    }

    #[test]
    fn margin_counts_what_falls_short_of_it() {
        // Pairs (.5,.45), (.5,.2), (.45,.2): short by .05, 0, 0; mean over 3.
        close(r_anchor(AnchorLoss::Margin, &[0.5, 0.45, 0.2], &[0, 1, 2]), -0.05 / 3.0, 1e-12);
    }
}
