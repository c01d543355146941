//! Matrix times one vector, or few.

use qrun_quant::GgmlType;

pub use super::image::Image;
use crate::{Grid, Params, Ptr, Result, Stream};

/// One matrix of a product.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// `[rows]` rows of k weights.
    pub w: Ptr<u8>,
    /// `[rows]` or null.
    pub bias: Ptr<f32>,
    /// `[columns][y_stride]`.
    pub y: Ptr<f32>,
    /// Rows.
    pub rows: i32,
    /// Elements from column to column of `y`.
    pub y_stride: i32,
    /// ggml type number.
    pub format: i32,
    /// Zero.
    pub pad: i32,
}

/// Products of the same columns with up to three matrices.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct MatmulParams {
    /// Matrices.
    pub segment: [Segment; 3],
    /// How many.
    pub segments: i32,
    /// Elements of a column.
    pub k: i32,
    /// Columns.
    pub columns: i32,
    /// Where it is above 0: `y = softcap · tanh(y / softcap)`.
    pub softcap: f32,
    /// What quantized weights multiply.
    pub image: Image,
    /// What dense weights multiply, `[columns][k]`.
    pub x: Ptr<f32>,
    /// `[columns]`: columns below 0 are not written; null: all are.
    pub seq: Ptr<i32>,
}
// SAFETY: matmul.cuh
unsafe impl Params for MatmulParams {}

impl MatmulParams {
    /// The same with these matrices.
    pub fn with(mut self, segments: &[Segment]) -> Self {
        self.segment[..segments.len()].copy_from_slice(segments);
        self.segments = segments.len() as i32;
        self
    }
}

/// Gate and up.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct GluParams {
    /// Gate.
    pub gate: Segment,
    /// Up.
    pub up: Segment,
    /// Elements of a column.
    pub k: i32,
    /// Columns.
    pub columns: i32,
    /// 0 SiLU, 1 GELU.
    pub activation: i32,
    /// Stride.
    pub y_stride: i32,
    /// Input.
    pub image: Image,
    /// Input.
    pub x: Ptr<f32>,
    /// Idle columns.
    pub seq: Ptr<i32>,
    /// Output.
    pub y: Ptr<f32>,
    /// Output.
    pub out: Image,
}
// SAFETY: matmul.cuh
unsafe impl Params for GluParams {}

fn name(ty: i32, prefix: &str) -> &'static str {
    let ty = GgmlType::from_number(ty as u32).expect("a type");
    Box::leak(format!("{prefix}_{}", ty.name().to_lowercase()).into_boxed_str())
}

/// Launches.
///
/// # Errors
/// The driver's.
pub fn gemv(s: &Stream, p: &MatmulParams) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let blocks: u32 = segments.iter().map(|s| (s.rows as u32).div_ceil(8)).sum();
    let same = segments.iter().all(|s| s.format == segments[0].format);
    let name = if same { name(segments[0].format, "gemv") } else { "gemv_mixed" };
    s.launch(name, Grid::linear(blocks, 128), p)
}

/// Launches.
///
/// # Errors
/// The driver's.
pub fn glu(s: &Stream, p: &GluParams) -> Result<()> {
    let name = if p.gate.format == p.up.format { name(p.gate.format, "glu") } else { "glu_mixed" };
    s.launch(name, Grid::linear((p.gate.rows as u32).div_ceil(32), 256), p)
}
