//! What matrix times activations takes, however many columns there are (kernels/matmul.cuh).

use super::image::Image;
use crate::{Params, Ptr};

/// One matrix of a launch.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// `[rows]` rows of `k` weights.
    pub w: Ptr<u8>,
    /// `[rows]`, or null.
    pub bias: Ptr<f32>,
    /// `[columns][y_stride]`.
    pub y: Ptr<f32>,
    /// Rows of the matrix.
    pub rows: i32,
    /// Elements from column to column of `y`.
    pub y_stride: i32,
    /// The ggml type's number.
    pub format: i32,
    /// Zero.
    pub pad: i32,
}

/// `y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row])`, for up to three matrices over the same activations.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct MatmulParams {
    /// The matrices.
    pub segment: [Segment; 3],
    /// How many of them there are.
    pub segments: i32,
    /// Weights of a row.
    pub k: i32,
    /// Columns.
    pub columns: i32,
    /// `y` becomes `softcap · tanh(y / softcap)` where this is positive.
    pub softcap: f32,
    /// What quantized weights multiply.
    pub image: Image,
    /// `[columns][k]`: what dense weights multiply.
    pub x: Ptr<f32>,
    /// `[columns]`: columns with a negative number are left as they are; null: none is.
    pub seq: Ptr<i32>,
}

// SAFETY: the struct of the same name in kernels/matmul.cuh; addresses first, the 4-byte numbers in pairs.
unsafe impl Params for MatmulParams {}
