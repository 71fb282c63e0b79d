//! How far apart scores are, and whether in the right direction: exact ties,
//! gaps and wrong signs are reported together, never the raw gap alone.

/// Scores closer than this are tied.
pub const TIE: f64 = 1e-9;

/// The share of pairs with equal scores, in [0, 1]; nothing with fewer than two scores.
#[must_use]
pub fn tie_fraction(scores: &[f64]) -> Option<f64> {
    mean(pairs(scores.len()).map(|(i, j)| f64::from((scores[i] - scores[j]).abs() <= TIE)))
}

/// The mean absolute difference over pairs, in score units; nothing with fewer than two scores.
#[must_use]
pub fn gap(scores: &[f64]) -> Option<f64> {
    mean(pairs(scores.len()).map(|(i, j)| (scores[i] - scores[j]).abs()))
}

/// The mean of `S_better - S_worse` over the pairs that `truth` tells apart; nothing if it tells
/// none apart. Negative where the scores point the wrong way.
#[must_use]
pub fn oriented_gap(scores: &[f64], truth: &[f64]) -> Option<f64> {
    oriented(scores, truth, |difference| difference)
}

/// The share of pairs that `truth` tells apart and the scores order rightly, ties counting half.
#[must_use]
pub fn pair_accuracy(scores: &[f64], truth: &[f64]) -> Option<f64> {
    oriented(
        scores,
        truth,
        |difference| {
            if difference.abs() <= TIE { 0.5 } else { f64::from(difference > 0.0) }
        },
    )
}

fn oriented(scores: &[f64], truth: &[f64], value: impl Fn(f64) -> f64) -> Option<f64> {
    let told = pairs(scores.len())
        .filter(|&(i, j)| (truth[i] - truth[j]).abs() > TIE)
        .map(|(i, j)| if truth[i] > truth[j] { (i, j) } else { (j, i) });
    mean(told.map(|(better, worse)| value(scores[better] - scores[worse])))
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

/// The mean; nothing of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), v| (sum + v, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_and_gaps_over_pairs() {
        // Pairs: (.5,.5) tied, (.5,1) and (.5,1) half apart.
        let scores = [0.5, 0.5, 1.0];
        assert!((tie_fraction(&scores).expect("pairs") - 1.0 / 3.0).abs() < 1e-12);
        assert!((gap(&scores).expect("pairs") - 1.0 / 3.0).abs() < 1e-12);
        // Without a pair there is nothing to be tied or apart.
        assert_eq!((tie_fraction(&[0.1]), gap(&[0.1]), gap(&[])), (None, None, None));
    }

    #[test]
    fn the_oriented_gap_knows_the_wrong_way() {
        let truth = [0.9, 0.5, 0.5];
        // Pairs told apart: (0,1), (0,2): differences .4 and -.2.
        let scores = [0.6, 0.2, 0.8];
        assert!((oriented_gap(&scores, &truth).expect("pairs") - 0.1).abs() < 1e-12);
        assert_eq!(pair_accuracy(&scores, &truth), Some(0.5));
        assert_eq!(pair_accuracy(&[0.3, 0.3], &[1.0, 0.0]), Some(0.5));
        assert_eq!(oriented_gap(&scores, &[0.5; 3]), None);
    }
}
