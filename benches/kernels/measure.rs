//! How fast the products of a format are.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use qrun::bench::Limits;
use qrun_quant::{
    Bytes, GgmlType,
    cpu::{Activations, Arithmetic, ComputeType, Job, Matrix, matmul},
};
use serde_json::{Value, json};

use super::Args;

/// Weights that one pass of a one-token row reads, in bytes.
const WORKING_SET: usize = 640 << 20;

/// Measures one format and shape, in the pool that this runs in, and the limits beside it.
pub fn row(args: &Args, ty: GgmlType, (rows, cols): (usize, usize)) -> (Value, Limits) {
    let random = random_bytes(ty, rows, cols);
    let mut repacking = Duration::ZERO;
    // Each copy has memory of its own, so that the working set does not fit into a cache.
    let copy = |_| {
        let w = Matrix::new(ty, rows, cols, Bytes::new(random.clone()));
        let start = Instant::now();
        let w = if args.no_repack { w } else { w.repack() };
        repacking += start.elapsed();
        w
    };
    let copies: Vec<Matrix> = (0..WORKING_SET.div_ceil(random.len())).map(copy).collect();
    let gigabytes = copies.iter().map(Matrix::bytes).sum::<usize>() as f64 / 1e9;
    let operations = 2.0 * (rows * cols * args.tokens) as f64;
    // Beside each other, as other work on the machine comes and goes.
    let (mut one, mut many, mut beside) = (0f64, 0f64, Limits::processor(args.threads));
    for _ in 0..2 {
        one = one.max(gigabytes / best_time(4, &copies, 1));
        many = many.max(operations / 1e9 / best_time(3, &copies[..1], args.tokens));
        beside = beside.best(Limits::processor(args.threads));
    }
    let repacked = !args.no_repack && ty.format().block > 1;
    let row = json!({
        "format": ty.name(), "rows": rows, "cols": cols,
        "repack_gb_per_s": repacked.then(|| gigabytes / repacking.as_secs_f64()),
        "one_token_gb_per_s": one, "read_share": one / beside.read_gb_per_s,
        "many_tokens_gop_per_s": many,
        "peak_share": beside.peak(ComputeType::of(ty, args.tokens)).map(|peak| many / peak),
    });
    (row, beside)
}

/// The fastest of some runs of [`products`], in seconds.
fn best_time(runs: usize, weights: &[Matrix], tokens: usize) -> f64 {
    let time = |_| {
        let start = Instant::now();
        products(weights, tokens);
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(time).fold(f64::INFINITY, f64::min)
}

/// One product with each of the matrices of one shape, activations included.
fn products(weights: &[Matrix], tokens: usize) {
    let Some((rows, cols)) = weights.first().map(|w| (w.rows(), w.cols())) else { return };
    let (x, mut y, mut activations) =
        (vectors(tokens, cols), vec![0.0; tokens * rows], Activations::new(Arithmetic::Fast));
    for w in weights {
        matmul(&mut activations, &x, &mut [Job { w, y: &mut y }]);
    }
    black_box(&y);
}

/// Vectors of numbers between −½ and ½.
pub fn vectors(tokens: usize, cols: usize) -> Vec<f32> {
    (0..tokens * cols).map(|i| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// Random bytes are weights of any format; scales that are not finite change no instruction.
pub fn random_bytes(ty: GgmlType, rows: usize, cols: usize) -> Vec<u8> {
    let mut state = 1u64;
    let bytes = (0..rows * ty.bytes_of(cols)).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Bytes below 64 keep f16 scales normal numbers; floats are kept so near to 1 that no product is
        // subnormal, which would cost a hundred times a normal one.
        if ty.format().block == 1 { 60 + (state >> 62) as u8 } else { (state >> 58) as u8 }
    });
    bytes.collect()
}
