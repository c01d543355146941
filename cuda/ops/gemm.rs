//! Matrix times several columns on tensor cores: prefill, and batches of sequences that decode.

use qrun_quant::GgmlType;

use super::{activations::QuantizedActivations, matmul::MatmulParams};
use crate::{Grid, Params, Ptr, Result, Stream};

/// Up to here `gemm_few` is launched, whose blocks do 16 rows × 16 columns and share the weights through the L2 cache; beyond,
/// `gemm_<format>` with 64 × 64.
const FEW: i32 = 32;

/// A row of the kernels' table: the format, the name of its wide kernel, that of its narrow one.
type Names = (GgmlType, &'static str, &'static str);

const KERNELS: &[Names] = &[
    (GgmlType::F32, "gemm_f32", "gemm_few_f32"),
    (GgmlType::F16, "gemm_f16", "gemm_few_f16"),
    (GgmlType::BF16, "gemm_bf16", "gemm_few_bf16"),
    (GgmlType::Q4_0, "gemm_q4_0", "gemm_few_q4_0"),
    (GgmlType::Q4_1, "gemm_q4_1", "gemm_few_q4_1"),
    (GgmlType::Q5_0, "gemm_q5_0", "gemm_few_q5_0"),
    (GgmlType::Q5_1, "gemm_q5_1", "gemm_few_q5_1"),
    (GgmlType::Q8_0, "gemm_q8_0", "gemm_few_q8_0"),
    (GgmlType::Q2_K, "gemm_q2_k", "gemm_few_q2_k"),
    (GgmlType::Q3_K, "gemm_q3_k", "gemm_few_q3_k"),
    (GgmlType::Q4_K, "gemm_q4_k", "gemm_few_q4_k"),
    (GgmlType::Q5_K, "gemm_q5_k", "gemm_few_q5_k"),
    (GgmlType::Q6_K, "gemm_q6_k", "gemm_few_q6_k"),
    (GgmlType::IQ4_NL, "gemm_iq4_nl", "gemm_few_iq4_nl"),
    (GgmlType::IQ4_XS, "gemm_iq4_xs", "gemm_few_iq4_xs"),
];

/// Whether `gemm` multiplies rows of `k` weights: it works in blocks of 32. Other dense matrices take gemv.
pub fn takes(k: usize) -> bool {
    k.is_multiple_of(32)
}

/// `y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row])` for each segment; all segments in the same format. Quantized
/// weights multiply `image`, dense ones `x`. A column's bits do not depend on the other columns of the launch.
///
/// # Errors
/// The driver's.
pub fn gemm(stream: &Stream, p: &MatmulParams) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let number = segments[0].format;
    let format = GgmlType::from_number(number as u32).expect("a ggml type with kernels");
    assert!(segments.iter().all(|s| s.format == number), "segments of one gemm have one format");
    let k = p.k as usize;
    assert!(takes(k) && k.is_multiple_of(format.format().block), "rows of {k} weights in {format}");
    let missing = if format.format().block == 1 { p.x.is_null() } else { p.image.q.is_null() };
    assert!(!missing, "{format} weights have activations to multiply");
    let &(_, wide, few) = KERNELS.iter().find(|n| n.0 == format).expect("every format has kernels");
    let (name, tile, columns, threads) = if p.columns <= FEW { (few, 16, 16, 256) } else { (wide, 64, 64, 128) };
    let tiles: u32 = segments.iter().map(|s| (s.rows as u32).div_ceil(tile)).sum();
    stream.launch(name, Grid::plane(tiles, (p.columns as u32).div_ceil(columns), threads), p)
}

/// Parameters of [`glu_act`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GluActParams {
    /// `[columns][stride]`: the gate before its activation.
    pub gate: Ptr<f32>,
    /// `[columns][stride]`: what is gated.
    pub up: Ptr<f32>,
    /// Elements from column to column of both.
    pub stride: i32,
    /// Elements of a column.
    pub rows: i32,
    /// Columns.
    pub columns: i32,
    /// 0: SiLU; 1: GELU, tanh form.
    pub activation: i32,
    /// `[columns][y_stride]`, or null.
    pub y: Ptr<f32>,
    /// Elements from column to column of `y`.
    pub y_stride: i32,
    /// Zero.
    pub pad: i32,
    /// The same as an image of k = `rows` (a multiple of 32), or null.
    pub out: QuantizedActivations,
    /// `[columns]`: columns with a negative number are left as they are; null: none is.
    pub seq: Ptr<i32>,
}
// SAFETY: the struct of the same name in glu_act.cu.
unsafe impl Params for GluActParams {}

/// `activation(gate) · up` of what one `gemm` with two segments has written.
///
/// # Errors
/// The driver's.
pub fn glu_act(stream: &Stream, p: &GluActParams) -> Result<()> {
    assert!(p.out.q.is_null() || p.rows % 32 == 0, "an image of {} elements", p.rows);
    let blocks = (p.rows as u32).div_ceil(32).div_ceil(8);
    stream.launch("glu_act", Grid::plane(blocks, p.columns as u32, 256), p)
}
