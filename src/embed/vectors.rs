//! What is done with vectors: norms and similarities, as llama.cpp has them.

/// What a vector is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalize {
    /// Nothing: it stays as the model gives it.
    None,
    /// Its largest element becomes 32760, so that all of them fit 16-bit integers.
    Int16,
    /// Its p-norm: 2 is the Euclidean length, 1 the sum of magnitudes.
    Norm(u16),
}

impl Default for Normalize {
    fn default() -> Self {
        Self::Norm(2)
    }
}

impl Normalize {
    /// Divides a vector. One of zeros stays.
    pub fn apply(self, x: &mut [f32]) {
        let magnitudes = || x.iter().map(|x| f64::from(x.abs()));
        let divisor = match self {
            Self::None => return,
            Self::Int16 => magnitudes().fold(0.0, f64::max) / 32760.0,
            Self::Norm(2) => magnitudes().map(|x| x * x).sum::<f64>().sqrt(),
            Self::Norm(p) => magnitudes().map(|x| x.powf(p.into())).sum::<f64>().powf(1.0 / f64::from(p)),
        };
        if divisor > 0.0 {
            x.iter_mut().for_each(|x| *x = (f64::from(*x) / divisor) as f32);
        }
    }
}

/// The cosine of the angle between two vectors of as many elements: 1 where both are zero, 0 where one is.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let (a2, b2) = (dot(a, a), dot(b, b));
    match (a2 == 0.0, b2 == 0.0) {
        (true, true) => 1.0,
        (false, false) => dot(a, b) / (a2.sqrt() * b2.sqrt()),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_divided_by_their_norms() {
        for (how, expected) in [
            (Normalize::None, [3.0, -4.0, 0.0]),
            (Normalize::Int16, [24570.0, -32760.0, 0.0]),
            (Normalize::Norm(1), [3.0 / 7.0, -4.0 / 7.0, 0.0]),
            (Normalize::Norm(2), [0.6, -0.8, 0.0]),
            (Normalize::Norm(3), [3.0 / 91f32.cbrt(), -4.0 / 91f32.cbrt(), 0.0]),
        ] {
            let mut x = [3.0, -4.0, 0.0];
            how.apply(&mut x);
            assert!(x.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()), "{how:?}: {x:?}");
            let mut zeros = [0.0; 3];
            how.apply(&mut zeros);
            assert_eq!(zeros, [0.0; 3], "{how:?}");
        }
    }

    #[test]
    fn cosines_of_zeros_are_those_of_llama_cpp() {
        assert_eq!(cosine(&[3.0, 4.0], &[4.0, 3.0]), 0.96);
        assert_eq!((cosine(&[0.0], &[0.0]), cosine(&[0.0], &[1.0]), cosine(&[-2.0], &[1.0])), (1.0, 0.0, -1.0));
    }
}
