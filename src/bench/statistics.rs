//! Medians and percentiles of measured times.

/// The value that `p` percent lie below, linear between neighbours (as numpy does by default); 0 of nothing.
pub fn percentile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = (p / 100.0).clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// The middle value, or the mean of the two in the middle; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// The arithmetic mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The standard deviation of a sample (n − 1); 0 of fewer than two values.
pub fn deviation(values: &[f64]) -> f64 {
    let (mean, freedom) = (mean(values), values.len().saturating_sub(1).max(1));
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / freedom as f64).sqrt()
}

/// So many per second; 0 of nothing, or in no time.
pub fn rate(n: usize, seconds: f64) -> f64 {
    if n == 0 || seconds <= 0.0 { 0.0 } else { n as f64 / seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_says_the_same() {
        let values = [4.0, 1.0, 3.0, 2.0];
        // numpy.percentile([4, 1, 3, 2], [0, 50, 95, 99, 100]), numpy.std(ddof=1)
        for (p, expected) in [(0.0, 1.0), (50.0, 2.5), (95.0, 3.85), (99.0, 3.97), (100.0, 4.0)] {
            assert!((percentile(&values, p) - expected).abs() < 1e-12, "{p}");
        }
        assert!((deviation(&values) - 1.290_994_448_735_805_6).abs() < 1e-12);
        assert_eq!([median(&[]), mean(&[]), deviation(&[]), deviation(&[1.0]), rate(3, 0.0)], [0.0; 5]);
        assert!(median(&[f64::NAN]).is_nan());
    }
}
