//! Where two decoders part: a prompt goes through both, and their intermediate results are compared one by one.
//!
//! The first tensor that differs names the operation at fault: all before it agree, and most after it differ because it does.

use std::sync::{Arc, Mutex};

use qrun_models::{Entry, Forward, ForwardError, Output};

/// An intermediate result: layer (`None` outside of the layers), name, values `[tokens][width]`.
type Tapped = (Option<usize>, &'static str, Vec<f32>);

/// How far one intermediate result is from that of the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Distance {
    /// Its layer; `None` outside of the layers.
    pub layer: Option<usize>,
    /// Its name, as llama.cpp has it (`attn_norm`, `Qcur`, …).
    pub name: &'static str,
    /// `|found − reference| / |reference|` in the L2 norm; infinite where a value is not finite or the shapes differ.
    pub relative: f64,
    /// Index and both values where they are farthest apart.
    pub worst: (usize, f32, f32),
    /// Values of each: those of the decoder and those of the reference.
    pub len: [usize; 2],
}

/// Why nothing was compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// A decoder that does not give its intermediate results.
    #[error("the {which} decoder does not give its intermediate results")]
    NoTap {
        /// Which of the two backends: `first` or `second`.
        which: &'static str,
    },
    /// They do not have the same results in the same order.
    #[error("result {index}: {first} in the first decoder, {second} in the second")]
    Names {
        /// Its place in the order.
        index: usize,
        /// Its name there, or `nothing`.
        first: String,
        /// The same in the other.
        second: String,
    },
    /// A decoder refused the prompt, or failed.
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// Takes a prompt through both decoders as one batch on sequence 0; returns the distances of `found` from `reference` in the
/// order of the forward pass.
///
/// # Errors
/// A decoder without taps, decoders with other results, a prompt that does not fit.
pub fn compare(
    found: &mut dyn Forward,
    reference: &mut dyn Forward,
    tokens: &[u32],
) -> Result<Vec<Distance>, CompareError> {
    let (found, reference) = (tap(found, tokens, "first")?, tap(reference, tokens, "second")?);
    let name = |t: Option<&Tapped>| match t {
        None => "nothing".to_owned(),
        Some((None, name, _)) => (*name).to_owned(),
        Some((Some(il), name, _)) => format!("{name} of layer {il}"),
    };
    for index in 0..found.len().max(reference.len()) {
        let [first, second] = [name(found.get(index)), name(reference.get(index))];
        if first != second {
            return Err(CompareError::Names { index, first, second });
        }
    }
    Ok(found.iter().zip(&reference).map(|((layer, name, a), (_, _, b))| distance(*layer, name, a, b)).collect())
}

/// All intermediate results of a prompt.
fn tap(decoder: &mut dyn Forward, tokens: &[u32], which: &'static str) -> Result<Vec<Tapped>, CompareError> {
    let results = Arc::new(Mutex::new(Vec::new()));
    let keep = results.clone();
    let tapped = decoder.set_tap(Some(Box::new(move |layer, name, values: &[f32]| {
        keep.lock().unwrap_or_else(|e| e.into_inner()).push((layer, name, values.to_vec()));
    })));
    if !tapped {
        return Err(CompareError::NoTap { which });
    }
    decoder.rewind(0, 0);
    let last = tokens.len().saturating_sub(1);
    let entry = |(pos, &token): (usize, &u32)| Entry {
        token,
        pos: pos as u32,
        seq: 0,
        output: Output::logits_if(pos == last),
        drafted: false,
    };
    let batch: Vec<Entry> = tokens.iter().enumerate().map(entry).collect();
    let done = decoder.forward(&batch).map(drop);
    decoder.set_tap(None);
    done?;
    Ok(std::mem::take(&mut *results.lock().unwrap_or_else(|e| e.into_inner())))
}

fn distance(layer: Option<usize>, name: &'static str, found: &[f32], reference: &[f32]) -> Distance {
    let (mut error, mut size, mut worst, mut widest) = (0.0, 0.0, (0, 0.0, 0.0), -1.0);
    for (i, (&a, &b)) in found.iter().zip(reference).enumerate() {
        let apart = f64::from(a) - f64::from(b);
        error += apart * apart;
        size += f64::from(b) * f64::from(b);
        if apart.abs() > widest || !apart.is_finite() && f64::is_finite(widest) {
            (worst, widest) = ((i, a, b), if apart.is_finite() { apart.abs() } else { f64::INFINITY });
        }
    }
    let same_shape = found.len() == reference.len();
    let relative = if error == 0.0 { 0.0 } else { (error / size).sqrt() };
    let relative = if same_shape && relative.is_finite() { relative } else { f64::INFINITY };
    Distance { layer, name, relative, worst, len: [found.len(), reference.len()] }
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn what_is_not_finite_is_infinitely_far() {
        assert_eq!(distance(None, "x", &[1.0, 2.0], &[1.0, 2.0]).relative, 0.0);
        let half = distance(Some(3), "x", &[3.0, 4.5], &[3.0, 4.0]);
        assert_eq!((half.relative, half.worst), (0.1, (1, 4.5, 4.0)));
        for bad in [f32::NAN, f32::INFINITY] {
            let d = distance(None, "x", &[1.0, bad, 9.0], &[1.0, 1.0, 1.0]);
            assert_eq!((d.relative, d.worst.0), (f64::INFINITY, 1));
        }
        assert_eq!(distance(None, "x", &[1.0], &[1.0, 1.0]).relative, f64::INFINITY);
    }
}
