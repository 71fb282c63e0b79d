//! The hidden gold score, added to the audit's texts.

use coordinator::journal::{AuditEvaluation, AuditGroup, AuditLine};
use rl::gap;

/// What a completion is worth, as the world knows and nothing in training does.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The kind of task, such as "note".
    pub task: &'static str,
    /// The gold score, in [0, 1].
    pub score: f64,
    /// Each quality of the task and whether the completion has it.
    pub qualities: Vec<(&'static str, bool)>,
}

/// Judges a completion (second) of a prompt (first); nothing where no world knows the prompt.
pub type Gold<'a> = &'a dyn Fn(&str, &str) -> Option<Judged>;

/// An audit with the gold of its completions.
#[derive(Debug)]
pub struct Audited<'a> {
    /// The audit.
    pub line: &'a AuditLine,
    /// Its groups; those whose gold is not known are left out.
    pub groups: Vec<AuditedGroup<'a>>,
}

/// A group of an audit with the gold of its completions.
#[derive(Debug)]
pub struct AuditedGroup<'a> {
    /// The group.
    pub group: &'a AuditGroup,
    /// The gold of each completion.
    pub judged: Vec<Judged>,
}

/// Adds gold to audits.
#[must_use]
pub fn audited<'a>(lines: &'a [AuditLine], gold: Gold<'_>) -> Vec<Audited<'a>> {
    let with_gold = |group: &'a AuditGroup| {
        let judged = group.completions.iter().map(|text| gold(&group.prompt, text)).collect();
        Option::map(judged, |judged| AuditedGroup { group, judged })
    };
    lines
        .iter()
        .map(|line| Audited { line, groups: line.groups.iter().filter_map(with_gold).collect() })
        .collect()
}

impl Audited<'_> {
    /// The mean gold of each prompt's completions.
    pub fn prompt_means(&self) -> impl Iterator<Item = f64> {
        self.groups.iter().filter_map(|group| mean(group.gold()))
    }

    /// The mean gold, each prompt counting the same.
    #[must_use]
    pub fn gold(&self) -> Option<f64> {
        mean(self.prompt_means())
    }

    /// Whether its samples are the policy's at its step: after an evaluator phase, the samples of
    /// every earlier policy are judged again.
    #[must_use]
    pub fn is_of_its_step(&self) -> bool {
        self.line.moment != "generator"
    }

    /// The newest of the generators there were.
    #[must_use]
    pub fn generator(&self) -> Option<u64> {
        self.line.generator_versions.last().copied()
    }

    /// Of each prompt that a generator scored, by its id: the mean score and the mean gold of the
    /// same samples.
    pub fn by_prompt(&self, generator: u64) -> impl Iterator<Item = (&str, f64, f64)> {
        self.groups.iter().filter_map(move |group| {
            let score = mean(group.evaluation(generator)?.scores.iter().copied())?;
            Some((group.group.prompt_id.as_str(), score, mean(group.gold())?))
        })
    }

    /// How one generator's scores compare with gold.
    #[must_use]
    pub fn judgement(&self, generator: u64) -> Judgement {
        let evaluated: Vec<_> = self
            .groups
            .iter()
            .filter_map(|group| Some((group, group.evaluation(generator)?)))
            .filter(|(_, evaluation)| !evaluation.scores.is_empty())
            .collect();
        let compare = |with: fn(&[f64], &[f64]) -> Option<f64>| {
            mean(evaluated.iter().filter_map(|(group, evaluation)| {
                with(&evaluation.scores, &group.gold().collect::<Vec<_>>())
            }))
        };
        let scores = || evaluated.iter().map(|(_, evaluation)| evaluation.scores.as_slice());
        Judgement {
            groups: evaluated.len(),
            score: mean(self.by_prompt(generator).map(|(_, score, _)| score)),
            gold: mean(self.by_prompt(generator).map(|(_, _, gold)| gold)),
            oriented_gap: compare(gap::oriented_gap),
            pair_accuracy: compare(gap::pair_accuracy),
            tie_fraction: mean(scores().filter_map(gap::tie_fraction)),
            zero_variance: mean(scores().filter_map(|s| Some(f64::from(gap::gap(s)? <= gap::TIE)))),
            discrimination: mean(
                evaluated.iter().flat_map(|(_, e)| e.verdicts.iter()).filter_map(|row| varies(row)),
            ),
        }
    }
}

impl AuditedGroup<'_> {
    /// The gold score of each completion.
    pub fn gold(&self) -> impl Iterator<Item = f64> {
        self.judged.iter().map(|judged| judged.score)
    }

    fn evaluation(&self, generator: u64) -> Option<&AuditEvaluation> {
        self.group.evaluations.iter().find(|e| e.generator_version == generator)
    }
}

/// What one generator makes of the samples of one policy; means over groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// The groups scored.
    pub groups: usize,
    /// The mean score: the proxy, in [0, 1].
    pub score: Option<f64>,
    /// The mean gold of the same samples.
    pub gold: Option<f64>,
    /// The mean of `S_better - S_worse` over the pairs that gold tells apart.
    pub oriented_gap: Option<f64>,
    /// The share of those pairs in the right order, ties counting half.
    pub pair_accuracy: Option<f64>,
    /// The share of pairs with equal scores.
    pub tie_fraction: Option<f64>,
    /// The share of groups whose scores are all equal.
    pub zero_variance: Option<f64>,
    /// The share of items met by some of a group and not by all.
    pub discrimination: Option<f64>,
}

/// Whether some meet an item and some do not; nothing of a single completion.
fn varies(verdicts: &[rl::Verdict]) -> Option<f64> {
    let met = |value| verdicts.iter().any(|verdict| verdict.value() == Some(value));
    (verdicts.len() > 1).then(|| f64::from(met(0.0) && met(1.0)))
}

/// The mean; nothing of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0u32), |(s, n), value| (s + value, n + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_judgement_is_a_mean_over_the_groups_a_generator_scored() {
        let lines = [fixture::audit(0, 0, "start", &[0])];
        let audits = audited(&lines, &fixture::gold);
        // Golds of both groups: 0, 0.5, 1 (the share of "a" in three letters or so); scores as
        // gold in the first group, all equal in the second.
        let judgement = audits[0].judgement(0);
        assert_eq!(audits[0].gold(), Some(0.5));
        assert_eq!((judgement.groups, judgement.score, judgement.gold), (2, Some(0.5), Some(0.5)));
        // Pairs of the first group: .5, 1, .5, a mean of 2/3; of the second 0.
        assert!((judgement.oriented_gap.unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(judgement.pair_accuracy, Some(0.75));
        assert_eq!(judgement.tie_fraction, Some(0.5));
        assert_eq!(judgement.zero_variance, Some(0.5));
        assert_eq!(judgement.discrimination, Some(0.5));
        // Groups of one completion: no pair to compare, no item that could vary.
        let mut one = lines.to_vec();
        for group in &mut one[0].groups {
            group.completions.truncate(1);
            group.evaluations[0].scores.truncate(1);
            group.evaluations[0].verdicts.iter_mut().for_each(|row| row.truncate(1));
        }
        let single = audited(&one, &fixture::gold)[0].judgement(0);
        assert_eq!((single.groups, single.score), (2, Some(0.25)));
        assert_eq!((single.tie_fraction, single.zero_variance), (None, None));
        assert_eq!((single.discrimination, single.oriented_gap), (None, None));
        // No such generator: nothing was measured.
        let missing = audits[0].judgement(9);
        assert_eq!((missing.groups, missing.oriented_gap), (0, None));
    }
}
