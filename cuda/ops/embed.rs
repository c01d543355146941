//! Embedding rows.

use qrun_quant::GgmlType;

use super::{formats, grids};
use crate::{Grid, Params, Ptr, Result, Stream};

/// Elements of a block.
const ELEMENTS: u32 = 1024;

/// Rows of the embedding matrix, chosen by token ids in device memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct EmbedParams {
    /// The matrix: a row of k weights per token, from a multiple of 16 bytes on; laid out as for a product.
    pub w: Ptr<u8>,
    /// `[rows]` ids; each has a row in the matrix.
    pub token: Ptr<i32>,
    /// `[rows]`: rows with a negative number are idle and not written; null: none is.
    pub seq: Ptr<i32>,
    /// `[rows][k]`: the result.
    pub y: Ptr<f32>,
    /// Tokens to look up.
    pub rows: i32,
    /// Elements of a row.
    pub k: i32,
    /// ggml type number of the matrix.
    pub format: i32,
    /// What each weight is multiplied with.
    pub scale: f32,
    /// Of formats whose weights are entries of a grid: [`embed`] sets it.
    pub weight_grid: Ptr<u16>,
    /// `[k]`: joins each row; or null.
    pub add: Ptr<f32>,
}
// SAFETY: EmbedParams in kernels/embed.cu; the test below compares size and offsets.
unsafe impl Params for EmbedParams {}

/// `y[row] = scale · w[token[row]] + add`, to the last bit what `quant` dequantizes, times the scale.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that its fields name.
pub unsafe fn embed(stream: &Stream, p: &EmbedParams) -> Result<()> {
    let format = GgmlType::from_number(p.format as u32).expect("a ggml type with kernels").format();
    assert!((p.k as usize).is_multiple_of(format.block), "rows of {} weights in {}", p.k, format.name);
    assert!(p.w.address().is_multiple_of(16), "weights begin at a multiple of 16 bytes");
    let records = formats::kernels(p.format).records;
    let params = EmbedParams { format: records as i32, weight_grid: grids::of(stream.gpu(), records)?, ..*p };
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch("embed", Grid::plane(p.rows as u32, (p.k as u32).div_ceil(ELEMENTS), 128), &params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(EmbedParams as "embed::EmbedParams" { w, token, seq, y, rows, k, format, scale, weight_grid, add });
    }
}
