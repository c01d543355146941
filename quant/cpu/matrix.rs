//! A weight matrix `[rows][cols]` in one of the formats of the table.

use crate::{Bytes, GgmlType, gguf::Tensor};

/// Weights of one matrix, row-major in file layout.
#[derive(Debug, Clone)]
pub struct Matrix {
    ty: GgmlType,
    rows: usize,
    cols: usize,
    data: Bytes,
}

impl Matrix {
    /// A matrix over bytes in file layout. Panics when the length does not fit the shape: the GGUF
    /// reader has checked that already.
    pub fn new(ty: GgmlType, rows: usize, cols: usize, data: Bytes) -> Self {
        assert_eq!(data.len(), rows * ty.bytes_of(cols), "{rows} x {cols} {ty}");
        Self { ty, rows, cols, data }
    }

    /// The matrix of a tensor; all dimensions after the first are rows.
    pub fn from_tensor(t: &Tensor) -> Self {
        Self::new(t.ty, t.rows(), t.cols(), t.data.clone())
    }

    /// Some consecutive rows as a matrix of their own (the parts of a fused `attn_qkv`).
    pub fn slice_rows(&self, rows: std::ops::Range<usize>) -> Self {
        let row = self.ty.bytes_of(self.cols);
        let data = self.data.slice(rows.start * row..rows.end * row);
        Self { rows: rows.len(), data, ..*self }
    }

    /// Format of the weights.
    pub fn ty(&self) -> GgmlType {
        self.ty
    }
    /// Number of rows: outputs of `W·x`.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Number of columns: inputs of `W·x`.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// Bytes that one pass over the matrix reads.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// Dequantizes one row into `out[cols]` (embedding lookup, exact arithmetic).
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let n = self.ty.bytes_of(self.cols);
        (self.ty.format().dequantize)(&self.data[row * n..(row + 1) * n], out);
    }
}
