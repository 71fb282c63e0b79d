//! A cursor over counter-based random numbers.

use rl::Seed;

/// The random choices of one place, one after the other; the same seed gives the same ones.
#[derive(Debug, Clone)]
pub struct Draws {
    seed: Seed,
    position: u64,
}

impl Draws {
    /// The choices of a seed, from its first.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self { seed, position: 0 }
    }

    /// A uniform index in `0..bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.position += 1;
        self.seed.below(self.position, bound as u64) as usize
    }

    /// A uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.position += 1;
        self.seed.uniform(self.position)
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// One of the choices, which must not be empty.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// `count` of the choices, none twice, in random order; all of them where there are fewer.
    pub fn sample<T: Copy>(&mut self, choices: &[T], count: usize) -> Vec<T> {
        let mut sample = choices.to_vec();
        self.shuffle(&mut sample);
        sample.truncate(count);
        sample
    }

    /// Puts values into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}
