//! The normal distribution.

/// The probability below `z`.
pub fn cumulative(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// What a standard normal variable is below of with probability `p`, for `p` in (0, 1).
pub fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    // Each step halves 80: 64 of them leave less than a double can tell.
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        *(if cumulative(middle) < p { &mut low } else { &mut high }) = middle;
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed once with `scipy.stats.norm` (SciPy 1.17.1): `cdf` and `ppf`.
    #[test]
    fn values_are_those_of_a_reference() {
        for (z, p) in [
            (-3.0, 0.001349898031630093),
            (0.0, 0.5),
            (1.959963984540054, 0.975),
            (2.5, 0.9937903346742238),
        ] {
            assert!((cumulative(z) - p).abs() < 1e-14, "{z}");
            assert!((quantile(p) - z).abs() < 1e-9, "{p}");
        }
    }
}
