//! Counter-based randomness: every random draw of a run is a pure function of where it happens.
//!
//! A draw is keyed by `(run seed, stream, group, rollout, position)`, so the same group sampled
//! again, on another worker or after a crash, gives the same tokens. The mixing function is
//! SplitMix64's finaliser (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number
//! generators"), applied once per key component.

/// What a draw is for; two streams never share numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Stream {
    /// Tokens sampled from the policy.
    PolicyTokens = 1,
    /// Tokens sampled from the rubric generator.
    GeneratorTokens = 2,
    /// Verdicts flipped by the program verifier.
    VerdictFlips = 3,
    /// The order in which prompts are drawn, per epoch.
    PromptOrder = 4,
    /// Initial weights of a model.
    Weights = 5,
    /// Corpora, anchors and other data made from a seed.
    Data = 6,
    /// Tokens sampled for the audit, apart from training draws.
    AuditTokens = 7,
}

/// A place in a run at which random numbers are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    /// The root of one stream of a run.
    #[must_use]
    pub fn new(run_seed: u64, stream: Stream) -> Self {
        Self(mix(mix(run_seed) ^ (stream as u64).wrapping_mul(GOLDEN)))
    }

    /// The seed of the `index`-th child (a group of a stream, a rollout of a group, ...).
    #[must_use]
    pub fn child(self, index: u64) -> Self {
        Self(mix(self.0.wrapping_add(GOLDEN) ^ mix(index.wrapping_add(GOLDEN))))
    }

    /// 64 random bits at `position`.
    #[must_use]
    pub fn bits(self, position: u64) -> u64 {
        mix(self.0 ^ mix(position.wrapping_mul(GOLDEN).wrapping_add(1)))
    }

    /// A uniform number in [0, 1) at `position`, with 53 random bits.
    #[must_use]
    pub fn uniform(self, position: u64) -> f64 {
        (self.bits(position) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform integer in `0..bound` at `position`; `bound` must not be 0.
    ///
    /// The bias of the multiply-shift reduction is below `bound / 2^64`.
    #[must_use]
    pub fn below(self, position: u64, bound: u64) -> u64 {
        ((u128::from(self.bits(position)) * u128::from(bound)) >> 64) as u64
    }

    /// `0..len` in random order (Fisher and Yates).
    #[must_use]
    pub fn permutation(self, len: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            let j = self.below(i as u64, i as u64 + 1) as usize;
            order.swap(i, j);
        }
        order
    }

    /// The seed as a plain number, to send over the wire.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// The inverse of [`Seed::to_u64`].
    #[must_use]
    pub fn from_u64(value: u64) -> Self {
        Self(value)
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_every_part_of_the_key() {
        let base = Seed::new(1, Stream::PolicyTokens).child(2).child(3).bits(4);
        for other in [
            Seed::new(2, Stream::PolicyTokens).child(2).child(3).bits(4),
            Seed::new(1, Stream::GeneratorTokens).child(2).child(3).bits(4),
            Seed::new(1, Stream::PolicyTokens).child(3).child(3).bits(4),
            Seed::new(1, Stream::PolicyTokens).child(2).child(2).bits(4),
            Seed::new(1, Stream::PolicyTokens).child(2).child(3).bits(5),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn uniform_has_the_mean_and_spread_of_a_uniform_number() {
        let seed = Seed::new(7, Stream::Data);
        let n = 100_000;
        let draws: Vec<f64> = (0..n).map(|i| seed.uniform(i)).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|u| (u - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 0.002, "{variance}");
        assert!(draws.iter().all(|u| (0.0..1.0).contains(u)));
    }

    #[test]
    fn a_permutation_holds_each_index_once() {
        let mut order = Seed::new(3, Stream::PromptOrder).permutation(1000);
        assert_ne!(order[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        order.sort_unstable();
        assert!(order.iter().enumerate().all(|(i, &v)| i == v));
    }
}
