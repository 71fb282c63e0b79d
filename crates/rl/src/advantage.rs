//! Rewards of a group to advantages: `A = (R - mean) / (std + eps)` (GRPO, arXiv 2402.03300).

/// How rewards become advantages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalization {
    /// Divide by the group's standard deviation; off is Dr.GRPO (arXiv 2503.20783).
    pub std: bool,
    /// Added to the standard deviation.
    pub epsilon: f64,
}

/// Rewards closer than this to each other are equal: they carry no signal.
pub const NO_SIGNAL_STD: f64 = 1e-9;

/// Advantages relative to the group; nothing where all rewards are equal.
///
/// The standard deviation is the sample one (divided by K - 1), as in TRL and verl.
#[must_use]
pub fn advantages(rewards: &[f64], normalization: Normalization) -> Option<Vec<f64>> {
    let (mean, std) = mean_std(rewards);
    if std <= NO_SIGNAL_STD {
        return None;
    }
    let scale = if normalization.std { (std + normalization.epsilon).recip() } else { 1.0 };
    Some(rewards.iter().map(|r| (r - mean) * scale).collect())
}

/// `A = norm(R_disc) + lambda norm(R_anchor)`: the two rewards live on different scales (0.25 wide
/// against about 2), so they are combined as advantages. A reward that is equal
/// over the group contributes 0; nothing where both are.
#[must_use]
pub fn rubric_advantages(
    r_disc: &[f64],
    r_anchor: &[f64],
    lambda: f64,
    normalization: Normalization,
) -> Option<Vec<f64>> {
    let zeros = || vec![0.0; r_disc.len()];
    let disc = advantages(r_disc, normalization);
    let anchor = advantages(r_anchor, normalization);
    if disc.is_none() && (anchor.is_none() || lambda == 0.0) {
        return None;
    }
    let (disc, anchor) = (disc.unwrap_or_else(zeros), anchor.unwrap_or_else(zeros));
    Some(disc.iter().zip(&anchor).map(|(d, a)| d + lambda * a).collect())
}

/// Mean and sample standard deviation; (0, 0) of nothing.
#[must_use]
pub fn mean_std(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STD: Normalization = Normalization { std: true, epsilon: 0.0 };

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9, "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn rewards_one_two_three() {
        // mean 2, sample std 1.
        close(&advantages(&[1.0, 2.0, 3.0], STD).expect("signal"), &[-1.0, 0.0, 1.0]);
        // With eps 1 the divisor is 2; without std it is 1.
        let eps = Normalization { std: true, epsilon: 1.0 };
        close(&advantages(&[1.0, 2.0, 3.0], eps).expect("signal"), &[-0.5, 0.0, 0.5]);
        let plain = Normalization { std: false, epsilon: 1.0 };
        close(&advantages(&[0.0, 1.0], plain).expect("signal"), &[-0.5, 0.5]);
    }

    #[test]
    fn equal_rewards_have_no_signal() {
        assert_eq!(advantages(&[0.3, 0.3, 0.3], STD), None);
        assert_eq!(advantages(&[0.1 + 0.2, 0.3], STD), None);
    }

    #[test]
    fn the_rubric_advantage_adds_the_two_normalised_rewards() {
        // norm(.1, .2, .3) = -1, 0, 1; norm(-2, -4, -3) = 1, -1, 0; lambda 2: 1, -2, 1.
        let a = rubric_advantages(&[0.1, 0.2, 0.3], &[-2.0, -4.0, -3.0], 2.0, STD);
        close(&a.expect("signal"), &[1.0, -2.0, 1.0]);
    }

    #[test]
    fn one_flat_reward_leaves_the_other() {
        let a = rubric_advantages(&[0.1, 0.1, 0.1], &[1.0, 2.0, 3.0], 1.0, STD);
        close(&a.expect("signal"), &[-1.0, 0.0, 1.0]);
        assert_eq!(rubric_advantages(&[0.1; 3], &[1.0, 2.0, 3.0], 0.0, STD), None);
        assert_eq!(rubric_advantages(&[0.1; 3], &[2.0; 3], 1.0, STD), None);
    }
}
