//! Sizes that tiles of weights, panels of activations and kernels agree on.

/// Columns that share one scale.
pub(super) const BLOCK: usize = 32;
/// Rows per tile of weights.
pub const ROWS: usize = 16;
/// Columns per step of a row in floats: lanes that a dot product is spread over.
pub(super) const LANES: usize = 16;
/// Tokens per panel for few tokens, or few registers.
pub(super) const NARROW: usize = 4;
/// Tokens per panel for 32 registers.
pub(super) const WIDE: usize = 6;
/// Tokens per panel for the tiles of AMX.
pub(super) const TILE: usize = 16;

/// What int8 sums of products start at: as bits of an f32, this plus an integer below 2²² is the float 1.5·2²³
/// plus that integer, so that sums need no conversion. It is in the `bias` of activations already.
pub(super) const OFFSET: i32 = 0x4b40_0000;
/// Adding 1.5·2²³ rounds to an integer, ties to even, and leaves it in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// A line of the cache: four bytes for each of 16 rows, or 16 floats.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [[u8; 4]; 16]);

impl Line {
    pub(super) const ZERO: Line = Line([[0; 4]; 16]);
    pub(super) const BYTES: usize = size_of::<Self>();
}

pub(super) fn bytes_mut(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: a line is 64 bytes without padding; the length is that of the lines.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
}

pub(super) fn bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}

/// Steps of a row in floats; the last one is filled up with zeros.
pub(super) fn steps(cols: usize) -> usize {
    cols.div_ceil(LANES)
}
