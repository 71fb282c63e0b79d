//! Who judges: one item about one completion at a time (batching items raises ties, 2609.37145).

use rl::{Abstention, Polarity, Rubric, RubricItem, Seed, Verdict};

use crate::{content, met};

/// Judges whether a completion meets a rubric item.
pub trait Verifier {
    /// The verdict on `item` for `completion`, an answer to `prompt`. The same arguments give the
    /// same verdict, whatever was judged before.
    fn judge(&self, prompt: &str, item: &RubricItem, completion: &str, seed: Seed) -> Verdict;
}

/// The verdicts of all items on all completions, items x completions. `seed` belongs to this
/// rubric and these completions alone; its children are the items, and theirs the completions.
pub fn judge_matrix<T: AsRef<str>>(
    verifier: &dyn Verifier,
    rubric: &Rubric,
    prompt: &str,
    completions: &[T],
    seed: Seed,
) -> Vec<Vec<Verdict>> {
    (0..)
        .zip(&rubric.items)
        .map(|(m, item)| {
            (0..)
                .zip(completions)
                .map(|(k, text)| {
                    verifier.judge(prompt, item, text.as_ref(), seed.child(m).child(k))
                })
                .collect()
        })
        .collect()
}

/// Judges items by their program checks; items without one are not judgeable.
///
/// A completion that does not suffice ([`content::suffices`]) earns nothing: it does not meet
/// positive items and meets negative ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProgramVerifier {
    flip_rate: f64,
}

/// A flip rate that is no probability up to a half.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("flip rate {0} is not in 0..=0.5")]
pub struct BadFlipRate(pub f64);

impl ProgramVerifier {
    /// A verifier that answers wrongly with probability `flip_rate`, a stand-in for the noise of a
    /// judging model.
    ///
    /// # Errors
    /// [`BadFlipRate`] outside of 0..=0.5.
    pub fn new(flip_rate: f64) -> Result<Self, BadFlipRate> {
        if (0.0..=0.5).contains(&flip_rate) {
            Ok(Self { flip_rate })
        } else {
            Err(BadFlipRate(flip_rate))
        }
    }
}

impl Verifier for ProgramVerifier {
    fn judge(&self, _prompt: &str, item: &RubricItem, completion: &str, seed: Seed) -> Verdict {
        let Some(check) = &item.check else {
            return Verdict::Abstained(Abstention::NotJudgeable);
        };
        if !content::suffices(completion) {
            return Verdict::from(item.polarity == Polarity::Negative);
        }
        let flip = seed.uniform(0) < self.flip_rate;
        Verdict::from(met(check, completion) != flip)
    }
}

#[cfg(test)]
mod tests {
    use rl::score::scores;
    use rl::{Check, Stream};

    use super::*;
    use crate::parse::{Limits, parse_json};

    const SEED: fn() -> Seed = || Seed::new(1, Stream::VerdictFlips).child(0);

    fn rubric() -> Rubric {
        let text = r#"{"rubrics":[
            {"criterion":"thanks","weight":3,"check":{"kind":"contains","text":"Thank you"}},
            {"criterion":"stops","weight":2,"check":{"kind":"ends_with","text":"."}},
            {"criterion":"filler","weight":4,"polarity":"-","check":{"kind":"any_of","words":["very"]}},
            {"criterion":"repeats","weight":1,"polarity":"-","check":{"kind":"repeats","unit":"sentence"}}
        ]}"#;
        parse_json(text, Limits { min_items: 1, max_items: 8 }).expect("valid")
    }

    #[test]
    fn canaries_score_nothing_and_an_answer_its_share() {
        let verifier = ProgramVerifier::default();
        let stuffed = "Thank you. ".repeat(200);
        let completions = [
            "",
            ".",
            "Thank you.",
            &"kite ".repeat(200),
            &stuffed,
            "The very red kite is here. Thank you.",
            "The red kite is here.",
        ];
        let verdicts = judge_matrix(&verifier, &rubric(), "Write a note.", &completions, SEED());
        // The answers earn (3 + 2 + 0 + 1) / 10 and (0 + 2 + 4 + 1) / 10.
        let expected = vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.6, 0.7];
        assert_eq!(scores(&rubric(), &verdicts), Ok(expected));
    }

    #[test]
    fn an_item_without_a_check_is_not_judgeable() {
        let mut rubric = rubric();
        rubric.items[0].check = None;
        let verdicts = judge_matrix(&ProgramVerifier::default(), &rubric, "", &["", "a"], SEED());
        assert_eq!(verdicts[0], [Verdict::Abstained(Abstention::NotJudgeable); 2]);
    }

    #[test]
    fn flips_come_at_their_rate_and_again_from_the_same_seed() {
        let item = RubricItem {
            criterion: "has a".into(),
            weight: 1,
            polarity: Polarity::Positive,
            check: Some(Check::Contains { text: "a".into() }),
        };
        let rubric = Rubric { items: vec![item; 20] };
        let completions = ["a b c d"; 500];
        let verifier = ProgramVerifier::new(0.1).expect("a rate");
        let judge = |seed| judge_matrix(&verifier, &rubric, "", &completions, seed);
        let verdicts = judge(SEED());
        let flipped = verdicts.iter().flatten().filter(|&&v| v == Verdict::Unmet).count();
        // 10,000 draws at .1: mean 1000, standard deviation 30.
        assert!((880..1120).contains(&flipped), "{flipped}");
        assert_eq!(verdicts, judge(SEED()));
        assert_ne!(verdicts, judge(SEED().child(1)));
        assert_ne!(verdicts[0], verdicts[1]);
    }

    #[test]
    fn a_flip_rate_is_at_most_a_half() {
        for bad in [-0.1, 0.51, f64::NAN] {
            assert!(ProgramVerifier::new(bad).is_err(), "{bad}");
        }
    }
}
