//! The grids of IQ1, IQ2 and IQ3 on the device: the magnitudes of four weights are a word there (kernels/formats/grid.cuh), of IQ1 the
//! values of eight (kernels/formats/iq1.cuh).

use qrun_quant::{GgmlType, formats::grid_quads};

use crate::{Gpu, Ptr, Result};

/// The formats of records that have a grid, and its words, in the order in which they lie.
const FORMATS: [(GgmlType, usize); 6] = [
    (GgmlType::IQ1_M, 2048),
    (GgmlType::IQ2_XXS, 512),
    (GgmlType::IQ2_XS, 1024),
    (GgmlType::IQ2_S, 2048),
    (GgmlType::IQ3_XXS, 256),
    (GgmlType::IQ3_S, 512),
];

/// Whether weights in records of a format are entries of a grid.
pub(super) fn has_grid(format: GgmlType) -> bool {
    FORMATS.iter().any(|&(ty, _)| ty == format)
}

/// Brings all grids to the device, once. An upload of a matrix whose format has one does it, for while launches are
/// recorded nothing can be allocated.
pub(super) fn keep(gpu: &Gpu) -> Result<()> {
    gpu.keep_tables(|| FORMATS.map(|(ty, _)| grid_quads(ty)).concat())
}

/// Where the grid of a format lies, at a multiple of 16 bytes; null where it has none.
pub(super) fn of(gpu: &Gpu, format: GgmlType) -> Result<Ptr<u16>> {
    let Some(i) = FORMATS.iter().position(|&(ty, _)| ty == format) else { return Ok(Ptr::NULL) };
    keep(gpu)?;
    Ok(gpu.tables().add(FORMATS[..i].iter().map(|&(_, words)| words).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn grids_have_as_many_words_as_kernels_expect() {
        for (format, words) in FORMATS {
            assert_eq!(grid_quads(format).len(), words, "{format}");
            twin::constants([(format!("{format}::GRID").as_str(), words)]);
        }
    }
}
