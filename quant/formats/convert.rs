//! Weights from one format into another, on all threads of the current pool.

use rayon::prelude::*;

use super::GgmlType;

/// Weights per piece of work: a multiple of every block, small enough for a thread's cache.
const PIECE: usize = 8192;

/// Converts whole rows. `out` must have exactly the bytes that the weights in `data` need as `to`.
///
/// Pieces are converted independently: the result does not depend on the number of threads. Panics
/// where `to` is a format that qrun only reads, or where lengths do not fit.
pub fn convert(from: GgmlType, data: &[u8], to: GgmlType, out: &mut [u8]) {
    let quantize = to.format().quantize.unwrap_or_else(|| panic!("{to} is a format that qrun only reads"));
    let n = data.len() / from.format().bytes * from.format().block;
    assert!(data.len() == from.bytes_of(n) && out.len() == to.bytes_of(n), "{n} weights from {from} to {to}");
    let pieces = data.par_chunks(from.bytes_of(PIECE)).zip(out.par_chunks_mut(to.bytes_of(PIECE)));
    pieces.for_each_init(
        || vec![0.0; PIECE],
        |values, (data, out)| {
            let values = &mut values[..data.len() / from.format().bytes * from.format().block];
            (from.format().dequantize)(data, values);
            quantize(values, out);
        },
    );
}
