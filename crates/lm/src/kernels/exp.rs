//! The exponential function, in a form compilers vectorise.

/// `e^x` within 2 units in the last place for `x` in [-87, 88]; 0 below and infinite above.
///
/// Splits `x = n ln 2 + r` with `|r| <= ln 2 / 2` (Cody and Waite 1980, "Software manual for the
/// elementary functions") and takes `e^r` by the minimax polynomial of Cephes' `expf`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// A sum with it is rounded to an integer, which then is its lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = 1.987_569_1e-4f32;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p.mul_add(r, c);
    }
    // 2^n: n goes to the place of the exponent, and the other bits fall off.
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    let y = (p.mul_add(r * r, r) + 1.0) * power;
    let y = if x < -87.0 { 0.0 } else { y };
    if x > 88.0 { f32::INFINITY } else { y }
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn is_the_exponential_within_two_units_in_the_last_place() {
        for i in -870_000..=880_000 {
            let x = (i as f32 * 1e-4).clamp(-87.0, 88.0);
            let want = f64::from(x).exp();
            let error = (f64::from(exp(x)) - want).abs() / want;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "exp({x}) is off by {error}");
        }
        assert_eq!([exp(0.0), exp(f32::NEG_INFINITY), exp(-100.0)], [1.0, 0.0, 0.0]);
        assert_eq!(exp(89.0), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
