//! The rubric generator's rewards with their guards.
//!
//! `R_disc` is a weighted mean over items: few items win, duplicates are free, and pure noise
//! scores .25. Each guard takes back one of these; with all of them off the rewards are those of
//! the paper (2607.20083), `rl::reward`.

use rl::reward::{AnchorLoss, r_anchor};
use rl::score::scores;
use rl::{Anchor, Polarity, Rubric, RubricItem, Seed, Unscorable, Verdict};
use serde::{Deserialize, Serialize};

use crate::{Verifier, judge_matrix};

/// What may lower `R_disc`. An item's share is lowered, its weight stays in the denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Guards {
    /// An item that parts the completions as an earlier one does (the same verdicts, or exactly
    /// the opposite ones) contributes nothing.
    pub duplicate_penalty: bool,
    /// The completions are judged twice, and an item's share is multiplied by
    /// `max(0, 2 a - 1)`, where `a` is the share of verdicts that agree: 1 for a stable item, 0
    /// for a thrown coin.
    pub noise_discount: bool,
    /// In its training the generator reads the first half of the group and is judged on the rest.
    pub holdout_half: bool,
    /// An item whose sign the ranked anchors contradict, by more than one flipped verdict could,
    /// contributes nothing.
    pub anchor_veto: bool,
}

impl Guards {
    /// How many completions of a group a generator in training reads, from the first on.
    #[must_use]
    pub fn seen(self, completions: usize) -> usize {
        if self.holdout_half { completions / 2 } else { completions }
    }

    fn judged(self, completions: usize) -> std::ops::Range<usize> {
        let first = if self.holdout_half { self.seen(completions) } else { 0 };
        first..completions
    }
}

/// The verdicts on one rubric, each matrix items x texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// On the completions of the group.
    pub completions: Vec<Vec<Verdict>>,
    /// On the same, judged again, where [`Guards::noise_discount`] is on.
    pub again: Option<Vec<Vec<Verdict>>>,
    /// On the answers of the anchor.
    pub anchors: Vec<Vec<Verdict>>,
}

/// Judges a rubric on the completions of a group and on the answers of its anchor; `seed` belongs
/// to this rubric of this group alone.
pub fn judge_rubric<T: AsRef<str>>(
    verifier: &dyn Verifier,
    rubric: &Rubric,
    (anchor, completions): (&Anchor, &[T]),
    guards: Guards,
    seed: Seed,
) -> Judged {
    let prompt = &anchor.prompt.text;
    let judge = |seed| judge_matrix(verifier, rubric, prompt, completions, seed);
    Judged {
        completions: judge(seed.child(0)),
        again: guards.noise_discount.then(|| judge(seed.child(1))),
        anchors: judge_matrix(verifier, rubric, prompt, &anchor.answers, seed.child(2)),
    }
}

/// The two rewards of a rubric, and what the guards found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RubricReward {
    /// In [0, 0.25].
    pub r_disc: f64,
    /// 0 at best.
    pub r_anchor: f64,
    /// Items that the duplicate penalty silenced.
    pub duplicates: u32,
    /// Items that the anchor veto silenced.
    pub vetoed: u32,
    /// Items that all or none of the completions meet.
    pub saturated: u32,
}

/// The rewards of a rubric; `ranks` are those of the anchor's answers, best first.
///
/// # Errors
/// [`Unscorable`] where too many verdicts on the anchors, or all on the completions, are missing.
pub fn rubric_reward(
    rubric: &Rubric,
    judged: &Judged,
    ranks: &[u32],
    loss: AnchorLoss,
    guards: Guards,
) -> Result<RubricReward, Unscorable> {
    scores(rubric, &judged.completions)?;
    let anchor_scores = scores(rubric, &judged.anchors)?;
    let mut reward = RubricReward {
        r_disc: 0.0,
        r_anchor: r_anchor(loss, &anchor_scores, ranks),
        duplicates: 0,
        vetoed: 0,
        saturated: 0,
    };
    let (mut spread, mut weight) = (0.0, 0.0);
    let mut earlier: Vec<Vec<bool>> = Vec::new();
    for (m, item) in rubric.items.iter().enumerate() {
        let row = &judged.completions[m];
        let Some(mut met) = known(&row[guards.judged(row.len())]) else {
            continue;
        };
        let w = f64::from(item.weight);
        let mean = met.iter().filter(|&&met| met).count() as f64 / met.len().max(1) as f64;
        weight += w;
        // Opposite rows part the completions alike: compare them from the same side.
        if met.first() == Some(&true) {
            met.iter_mut().for_each(|met| *met = !*met);
        }
        if mean * (1.0 - mean) == 0.0 {
            reward.saturated += 1;
        } else if guards.anchor_veto && is_contradicted(item, &judged.anchors[m], ranks) {
            reward.vetoed += 1;
        } else if guards.duplicate_penalty && earlier.contains(&met) {
            reward.duplicates += 1;
        } else {
            let again = judged.again.as_ref().map(|again| again[m].as_slice());
            spread += w * mean * (1.0 - mean) * again.map_or(1.0, |again| stability(row, again));
            earlier.push(met);
        }
    }
    if weight > 0.0 {
        reward.r_disc = spread / weight;
    }
    Ok(reward)
}

/// The verdicts as booleans, if none is missing.
fn known(row: &[Verdict]) -> Option<Vec<bool>> {
    row.iter().map(|verdict| verdict.value().map(|value| value > 0.5)).collect()
}

/// `max(0, 2 a - 1)` with `a` the share of equal verdicts among those given both times; 0 where
/// there is none.
fn stability(first: &[Verdict], second: &[Verdict]) -> f64 {
    let pairs = first.iter().zip(second).filter_map(|(a, b)| Some((a.value()?, b.value()?)));
    let (equal, all) =
        pairs.fold((0u32, 0u32), |(equal, all), (a, b)| (equal + u32::from(a == b), all + 1));
    let agreement = f64::from(equal) / f64::from(all.max(1));
    (2.0 * agreement - 1.0).max(0.0)
}

/// Whether worse answers earn the item more often than better ones, over pairs of unequal rank.
fn is_contradicted(item: &RubricItem, row: &[Verdict], ranks: &[u32]) -> bool {
    let earned = |verdict: Verdict| match item.polarity {
        Polarity::Positive => verdict.value(),
        Polarity::Negative => verdict.value().map(|value| 1.0 - value),
    };
    let mut difference = 0.0;
    for (i, &better) in row.iter().enumerate() {
        for (j, &worse) in row.iter().enumerate() {
            if let (true, Some(a), Some(b)) = (ranks[i] < ranks[j], earned(better), earned(worse)) {
                difference += a - b;
            }
        }
    }
    // One flipped verdict moves the sum by at most n - 1: less than that may be noise.
    difference < -(row.len() as f64 - 1.0)
}

/// What became of one rubric of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was judged.
    Rewarded(RubricReward),
    /// Its text is no valid rubric.
    Invalid,
    /// Its verdicts could not be had: nobody's fault, so it gets no reward at all.
    Unscorable(Unscorable),
}

/// The rewards of a group's rubrics, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupRewards {
    /// `(R_disc, R_anchor)`; nothing for an unscorable rubric, which is not trained on.
    pub rewards: Vec<Option<(f64, f64)>>,
    /// How many rubrics are invalid.
    pub invalid: u32,
    /// How many could not be scored.
    pub unscorable: u32,
}

/// Rewards for all rubrics of a group, the invalid ones included.
///
/// An invalid rubric gets the minimum: an `R_disc` of 0, and as `R_anchor` that of evenly spaced
/// scores in fully reversed order (-4.041 for seven answers), or the group's lowest if that is
/// lower yet. So it never beats a valid rubric, and has a reward where no rubric is valid.
#[must_use]
pub fn group_rewards(outcomes: &[Outcome], ranks: &[u32], loss: AnchorLoss) -> GroupRewards {
    let last = ranks.len().saturating_sub(1).max(1) as f64;
    let reversed: Vec<f64> = (0..ranks.len()).map(|i| i as f64 / last).collect();
    let lowest = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Rewarded(reward) => Some(reward.r_anchor),
            Outcome::Invalid | Outcome::Unscorable(_) => None,
        })
        .fold(r_anchor(loss, &reversed, ranks), f64::min);
    let mut group = GroupRewards::default();
    for outcome in outcomes {
        group.rewards.push(match outcome {
            Outcome::Rewarded(reward) => Some((reward.r_disc, reward.r_anchor)),
            Outcome::Invalid => {
                group.invalid += 1;
                Some((0.0, lowest))
            }
            Outcome::Unscorable(_) => {
                group.unscorable += 1;
                None
            }
        });
    }
    group
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rl::reward::r_disc;
    use rl::{Abstention, Check, Prompt, Stream};

    use super::*;
    use crate::ProgramVerifier;

    const LOSS: AnchorLoss = AnchorLoss::PairRbp;
    const OFF: Guards = Guards {
        duplicate_penalty: false,
        noise_discount: false,
        holdout_half: false,
        anchor_veto: false,
    };

    fn rubric(weights: &[i8]) -> Rubric {
        let item = |&weight: &i8| RubricItem {
            criterion: format!("weighs {weight}"),
            weight: weight.unsigned_abs(),
            polarity: if weight > 0 { Polarity::Positive } else { Polarity::Negative },
            check: None,
        };
        Rubric { items: weights.iter().map(item).collect() }
    }

    /// One line per item: `1` met, `0` unmet, `?` abstained.
    fn matrix(lines: &[&str]) -> Vec<Vec<Verdict>> {
        let verdict = |c| match c {
            '1' => Verdict::Met,
            '0' => Verdict::Unmet,
            _ => Verdict::Abstained(Abstention::Failed),
        };
        lines.iter().map(|line| line.chars().map(verdict).collect()).collect()
    }

    fn judged(completions: &[&str], anchors: &[&str]) -> Judged {
        Judged { completions: matrix(completions), again: None, anchors: matrix(anchors) }
    }

    fn reward(weights: &[i8], judged: &Judged, guards: Guards) -> RubricReward {
        let ranks: Vec<u32> = (0..judged.anchors[0].len() as u32).collect();
        rubric_reward(&rubric(weights), judged, &ranks, LOSS, guards).expect("scorable")
    }

    #[test]
    fn duplicates_and_opposites_contribute_nothing() {
        let on = Guards { duplicate_penalty: true, ..OFF };
        let rows = judged(&["1100", "1100", "0011", "1000", "1111"], &["10"; 5]);
        // v (1 - v) = 1/4, 1/4, 1/4, 3/16, 0 with weights 4, 2, 1, 3, 2.
        let all = reward(&[4, 2, -1, 3, 2], &rows, OFF);
        assert!((all.r_disc - (7.0 / 4.0 + 9.0 / 16.0) / 12.0).abs() < 1e-12);
        assert_eq!((all.duplicates, all.saturated), (0, 1));
        let fewer = reward(&[4, 2, -1, 3, 2], &rows, on);
        assert!((fewer.r_disc - (4.0 / 4.0 + 9.0 / 16.0) / 12.0).abs() < 1e-12);
        assert_eq!((fewer.duplicates, fewer.saturated), (2, 1));
    }

    #[test]
    fn unstable_items_are_discounted() {
        let mut rows = judged(&["1100", "1100", "1100"], &["10"; 3]);
        // Agreement 4/4, 3/4, and 1/3 of the three verdicts given twice: factors 1, 1/2, 0.
        rows.again = Some(matrix(&["1100", "1101", "0?10"]));
        let found = reward(&[2, 2, 1], &rows, OFF).r_disc;
        assert!((found - (2.0 + 1.0 + 0.0) * 0.25 / 5.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn a_held_out_half_is_what_counts() {
        let on = Guards { holdout_half: true, ..OFF };
        let rows = judged(&["0101111", "1100000"], &["10"; 2]);
        // Seven completions, three seen: rows 1111 and 0000 of the rest.
        assert_eq!((on.seen(7), OFF.seen(7)), (3, 7));
        assert_eq!(reward(&[3, 1], &rows, on).r_disc, 0.0);
        let rows = judged(&["1110011", "0001000"], &["10"; 2]);
        // Rows 0011 and 1000: (3/4 + 3/16) / 4.
        let found = reward(&[3, 1], &rows, on).r_disc;
        assert!((found - 15.0 / 64.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn items_of_the_wrong_sign_are_vetoed() {
        let on = Guards { anchor_veto: true, ..OFF };
        // Earned by better, by worse, by neither more, by worse, by better answers; the last
        // contradicts no more than one flipped verdict may: -3 of 4 answers.
        let anchors = ["1100", "0011", "0110", "1100", "0011", "0001"];
        let rows = judged(&["1100"; 6], &anchors);
        let found = reward(&[1, 1, 1, -1, -1, 1], &rows, on);
        assert_eq!(found.vetoed, 2);
        assert!((found.r_disc - 4.0 * 0.25 / 6.0).abs() < 1e-12);
        // Answers of equal rank cannot contradict.
        let tied = rubric_reward(&rubric(&[1; 6]), &rows, &[0; 4], LOSS, on).expect("scorable");
        assert_eq!(tied.vetoed, 0);
    }

    #[test]
    fn missing_verdicts_are_no_low_reward() {
        let rows = judged(&["1?", "11"], &["10", "10"]);
        let missing = rubric_reward(&rubric(&[3, 1]), &rows, &[0, 1], LOSS, OFF);
        assert_eq!(missing, Err(Unscorable { missing: 3, total: 4 }));
        let rows = judged(&["10", "11"], &["?0", "10"]);
        assert!(rubric_reward(&rubric(&[3, 1]), &rows, &[0, 1], LOSS, OFF).is_err());
    }

    #[test]
    fn an_invalid_rubric_gets_the_minimum_and_an_unscorable_one_nothing() {
        let ranks: Vec<u32> = (0..7).collect();
        let valid = |r_anchor| {
            Outcome::Rewarded(RubricReward {
                r_disc: 0.1,
                r_anchor,
                duplicates: 0,
                vetoed: 0,
                saturated: 0,
            })
        };
        let missing = Outcome::Unscorable(Unscorable { missing: 1, total: 1 });
        let group = group_rewards(&[valid(-3.0), Outcome::Invalid, missing], &ranks, LOSS);
        assert_eq!((group.invalid, group.unscorable), (1, 1));
        let [Some(first), Some((disc, anchor)), None] = group.rewards[..] else {
            panic!("{group:?}")
        };
        assert_eq!((first, disc), ((0.1, -3.0), 0.0));
        assert!((anchor - -4.041).abs() < 5e-4, "{anchor}");
        let low = group_rewards(&[Outcome::Invalid, valid(-5.0)], &ranks, LOSS);
        assert_eq!(low.rewards[0], Some((0.0, -5.0)));
        let alone = group_rewards(&[Outcome::Invalid], &[0], LOSS);
        assert_eq!(alone.rewards, [Some((0.0, 0.0))]);
    }

    #[test]
    fn judging_fills_what_the_guards_need() {
        let anchor = Anchor {
            prompt: Prompt { id: "a".into(), text: "Write.".into() },
            answers: vec!["The red kite is here.".into(), "The kite is over there.".into()],
            ranks: vec![0, 1],
        };
        let mut rubric = rubric(&[1]);
        rubric.items[0].check = Some(Check::Contains { text: "red".into() });
        let completions = ["A kite is over there.", "A red kite is there."];
        let judge = |guards| {
            let seed = Seed::new(1, Stream::VerdictFlips);
            let verifier = ProgramVerifier::default();
            judge_rubric(&verifier, &rubric, (&anchor, &completions), guards, seed)
        };
        let once = judge(OFF);
        assert_eq!(once, judged(&["01"], &["10"]));
        let twice = judge(Guards { noise_discount: true, ..OFF });
        assert_eq!(twice.again, Some(once.completions));
    }

    proptest! {
        #[test]
        fn off_is_the_paper_and_guards_only_lower(
            rows in proptest::collection::vec(
                ("[01]{6}|[01?]{6}", "[01]{6}", "[01]{3}", 1..6i8, any::<bool>()), 1..7),
            bits in any::<[bool; 3]>(),
        ) {
            let column = |pick: fn(&(String, String, String, i8, bool)) -> &str| {
                matrix(&rows.iter().map(pick).collect::<Vec<_>>())
            };
            let weights: Vec<i8> =
                rows.iter().map(|row| if row.4 { row.3 } else { -row.3 }).collect();
            let rubric = rubric(&weights);
            let mut judged = Judged {
                completions: column(|row| &row.0),
                again: None,
                anchors: column(|row| &row.2),
            };
            let Ok(plain) = rubric_reward(&rubric, &judged, &[0, 1, 2], LOSS, OFF) else {
                return Ok(());
            };
            let paper = r_disc(&rubric, &judged.completions);
            prop_assert!((plain.r_disc - paper).abs() < 1e-12);
            judged.again = bits[0].then(|| column(|row| &row.1));
            let guards = Guards { duplicate_penalty: bits[1], anchor_veto: bits[2], ..OFF };
            let found = rubric_reward(&rubric, &judged, &[0, 1, 2], LOSS, guards).expect("as before");
            prop_assert!(found.r_disc >= 0.0 && found.r_disc <= plain.r_disc + 1e-12);
            prop_assert_eq!(found.r_anchor, plain.r_anchor);
        }
    }
}
