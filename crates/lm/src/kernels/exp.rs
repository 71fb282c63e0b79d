//! The exponential function, in a form compilers vectorise.

/// `e^x` within 2 units in the last place; 0 below about -87, where the result would be subnormal,
/// and infinite above about 88.7.
///
/// Splits `x = n ln 2 + r` with `|r| <= ln 2 / 2` (Cody and Waite 1980, "Software manual for the
/// elementary functions") and takes `e^r` by the minimax polynomial of Cephes' `expf`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding and taking it off rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 355.0 / 512.0;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let held = x.clamp(-87.336_54, 88.722_83);
    let n = held.mul_add(std::f32::consts::LOG2_E, ROUND) - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, held));
    let mut p = 1.987_569_1e-4f32;
    for c in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = p.mul_add(r, c);
    }
    let e_r = p.mul_add(r * r, r) + 1.0;
    // In two factors, since 2^128 is no f32.
    let half = (n as i32) >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    let y = e_r * power(half) * power(n as i32 - half);
    if x < -87.336_54 {
        0.0
    } else if x > 88.722_83 {
        f32::INFINITY
    } else {
        y
    }
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn is_the_exponential_within_two_units_in_the_last_place() {
        for i in -870_000..=887_000 {
            let x = i as f32 * 1e-4;
            let want = f64::from(x).exp();
            let error = (f64::from(exp(x)) - want).abs() / want;
            assert!(
                error < 2.0 * f64::from(f32::EPSILON),
                "exp({x}) is off by {error}"
            );
        }
        assert_eq!(
            [exp(0.0), exp(f32::NEG_INFINITY), exp(-100.0)],
            [1.0, 0.0, 0.0]
        );
        assert_eq!(exp(89.0), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
