//! One token from one row of logits.

use rl::TokenSet;

/// How tokens are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// What logits are divided by; 0 takes the most likely token.
    pub temperature: f64,
    /// Draw only from the most likely tokens that together have this probability; 1 for all.
    pub top_p: f64,
    /// Draw only from this many most likely tokens; 0 for all.
    pub top_k: usize,
    /// Longest completion, in tokens.
    pub max_tokens: usize,
    /// Tokens that end a completion, themselves its last token.
    pub stop: Vec<u32>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: 0, max_tokens: 64, stop: Vec::new() }
    }
}

impl SamplingParams {
    /// The temperature log-probabilities are taken at: the one tokens are drawn at, and 1 where
    /// the most likely is taken, since a division by 0 has no distribution.
    #[must_use]
    pub fn scoring_temperature(&self) -> f64 {
        if self.temperature == 0.0 { 1.0 } else { self.temperature }
    }

    /// The first parameter that is out of range and what was expected of it.
    pub(crate) fn problem(&self) -> Option<String> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            let found = self.temperature;
            return Some(format!("temperature is {found}: expected a number of at least 0"));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            let found = self.top_p;
            return Some(format!("top_p is {found}: expected a number above 0 and at most 1"));
        }
        (self.max_tokens == 0).then(|| "max_tokens is 0: expected at least 1".to_owned())
    }
}

/// The token drawn by `uniform` in `[0, 1)`, with its log-probability; `None` where no token is
/// allowed.
///
/// The log-probability is that of `softmax(logits / temperature)` over the allowed tokens, which
/// is what the learner computes again. `top_p` and `top_k` only restrict the draw: they leave the
/// reported distribution whole.
pub(crate) fn draw(
    logits: &[f32],
    allowed: Option<&TokenSet>,
    params: &SamplingParams,
    uniform: f64,
) -> Option<(u32, f32)> {
    let temperature = params.scoring_temperature();
    let is_allowed = |id: u32| allowed.is_none_or(|set| set.contains(id));
    let mut candidates: Vec<(u32, f64)> = (0..)
        .zip(logits)
        .filter(|&(id, _)| is_allowed(id))
        .map(|(id, &logit)| (id, f64::from(logit) / temperature))
        .collect();
    let top = candidates.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    for (_, score) in &mut candidates {
        *score = (*score - top.1).exp();
    }
    let total: f64 = candidates.iter().map(|(_, weight)| weight).sum();
    let logprob = |weight: f64| (weight.ln() - total.ln()) as f32;
    if params.temperature == 0.0 {
        return Some((top.0, logprob(1.0)));
    }
    let mass = restrict(&mut candidates, params, total);
    let mut left = uniform * mass;
    let drawn = candidates.iter().find(|(_, weight)| {
        left -= weight;
        left < 0.0
    });
    // Rounding may leave a sliver at the end: it belongs to the last token that has any weight.
    let &(id, weight) = drawn.or_else(|| candidates.iter().rfind(|(_, weight)| *weight > 0.0))?;
    Some((id, logprob(weight)))
}

/// Keeps what `top_k` and `top_p` leave, and says what it weighs.
fn restrict(candidates: &mut Vec<(u32, f64)>, params: &SamplingParams, total: f64) -> f64 {
    if params.top_k == 0 && params.top_p == 1.0 {
        return total;
    }
    candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if params.top_k > 0 {
        candidates.truncate(params.top_k);
    }
    let mut mass = 0.0;
    let enough = candidates.iter().position(|(_, weight)| {
        mass += weight;
        mass >= params.top_p * total
    });
    if let Some(last) = enough {
        candidates.truncate(last + 1);
    }
    mass
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of the distribution 0.1, 0.2, 0.3, 0.4.
    fn logits() -> Vec<f32> {
        [0.1f32, 0.2, 0.3, 0.4].map(f32::ln).to_vec()
    }

    fn draws(params: &SamplingParams, allowed: Option<&TokenSet>) -> Vec<(u32, f32)> {
        (0..100).map(|i| draw(&logits(), allowed, params, f64::from(i) / 100.0).unwrap()).collect()
    }

    fn counts(draws: &[(u32, f32)]) -> [usize; 4] {
        [0, 1, 2, 3].map(|id| draws.iter().filter(|draw| draw.0 == id).count())
    }

    #[test]
    fn tokens_come_as_often_as_they_are_likely() {
        let draws = draws(&SamplingParams::default(), None);
        assert_eq!(counts(&draws), [10, 20, 30, 40]);
        for (id, logprob) in draws {
            assert!((logprob - logits()[id as usize]).abs() < 1e-6);
        }
    }

    #[test]
    fn a_mask_renormalises_and_truncation_does_not() {
        let odd = TokenSet::of(4, [1, 3]);
        let masked = draws(&SamplingParams::default(), Some(&odd));
        assert!(counts(&masked).iter().zip([0, 33, 0, 67]).all(|(&n, m)| n.abs_diff(m) <= 1));
        assert!((masked[0].1 - (1.0f32 / 3.0).ln()).abs() < 1e-6);
        for params in [
            SamplingParams { top_k: 2, ..SamplingParams::default() },
            SamplingParams { top_p: 0.7, ..SamplingParams::default() },
        ] {
            let cut = draws(&params, None);
            assert!(counts(&cut).iter().zip([0, 0, 43, 57]).all(|(&n, m)| n.abs_diff(m) <= 1));
            assert!(cut.iter().any(|&(id, p)| id == 3 && (p - 0.4f32.ln()).abs() < 1e-6));
        }
    }

    #[test]
    fn temperature_sharpens_and_zero_takes_the_most_likely() {
        let half = SamplingParams { temperature: 0.5, ..SamplingParams::default() };
        // Squares 1, 4, 9, 16 of 30.
        assert!(
            counts(&draws(&half, None))
                .iter()
                .zip([3, 13, 30, 54])
                .all(|(&n, m)| n.abs_diff(m) <= 1)
        );
        let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
        assert_eq!(counts(&draws(&greedy, None)), [0, 0, 0, 100]);
        assert!((draws(&greedy, None)[0].1 - 0.4f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn nothing_allowed_is_nothing_drawn() {
        let params = SamplingParams::default();
        assert_eq!(draw(&logits(), Some(&TokenSet::empty(4)), &params, 0.5), None);
    }
}
