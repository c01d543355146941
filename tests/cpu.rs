//! CPU products: every format on every path and instruction set, against plain loops in f64.

use std::sync::Arc;

use qrun_quant::{
    Bytes, GgmlType,
    cpu::{
        Activations, Arithmetic, Gated, Isa, Job, Matrix, Tuning, matmul, matmul_gated, multiplies_gated, par::Pool,
    },
};

use crate::blocks;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn gaussian(&mut self) -> f32 {
        let mut uniform = || (self.next() >> 11) as f64 / (1u64 << 53) as f64 + 1e-18;
        let (u, v) = (uniform(), uniform());
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    }
    fn gaussians(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.gaussian()).collect()
    }
}

/// Random weights that use every bit of the format.
fn matrix(ty: GgmlType, rows: usize, cols: usize, random: &mut Random) -> Matrix {
    let (format, mut bytes) = (ty.format(), vec![0; rows * ty.bytes_of(cols)]);
    if format.block == 1 {
        format.quantize.expect("floats can be written")(&random.gaussians(rows * cols), &mut bytes);
    } else {
        bytes.fill_with(|| random.next() as u8);
        blocks::set_scales(format, &mut bytes, || half::f16::from_f32(random.gaussian() * 0.01));
    }
    Matrix::new(ty, rows, cols, Bytes::new(bytes))
}

/// `W·x` for all tokens by the engine.
fn product(w: &Matrix, x: &[f32], arithmetic: Arithmetic, isa: Isa) -> Vec<f32> {
    let mut activations = Activations::with_isa(arithmetic, isa);
    let mut y = vec![f32::NAN; x.len() / w.cols() * w.rows()];
    matmul(&mut activations, x, &mut [Job { w, y: &mut y }]);
    y
}

/// `W·x` by plain loops in f64.
fn reference(w: &Matrix, x: &[f32]) -> Vec<f64> {
    let mut rows = vec![0.0; w.rows() * w.cols()];
    for (r, row) in rows.chunks_exact_mut(w.cols()).enumerate() {
        w.row(r, row);
    }
    let dot = |w: &[f32], x: &[f32]| w.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>();
    x.chunks_exact(w.cols()).flat_map(|x| rows.chunks_exact(w.cols()).map(move |w| dot(w, x))).collect()
}

/// Activations as fast arithmetic sees them: `d·q` per 32, `d = max/levels`, q the nearest integer.
fn rounded(x: &[f32], cols: usize, levels: f32) -> Vec<f32> {
    let blocks = x.chunks(cols).flat_map(|token| token.chunks(32));
    let values = blocks.flat_map(|block| {
        let max = block.iter().fold(0f32, |m, x| m.max(x.abs()));
        let (d, inverse) = (max / levels, if max > 0.0 { levels / max } else { 0.0 });
        block.iter().map(move |x| (x * inverse).round_ties_even() * d)
    });
    values.collect()
}

/// Whether fast arithmetic multiplies in fixed point.
fn in_fixed_point(ty: GgmlType, tokens: usize) -> bool {
    matches!(ty, GgmlType::F16 | GgmlType::BF16) && tokens > 12
}

/// Weights in fixed point, as F32: per 32 of a row, multiples of 2ⁿ⁻¹² where 2ⁿ is the largest one's power of two.
fn fixed_point(w: &Matrix) -> Matrix {
    let mut bytes = Vec::new();
    let mut row = vec![0.0; w.cols()];
    for r in 0..w.rows() {
        w.row(r, &mut row);
        for block in row.chunks(32) {
            let max = block.iter().fold(0f32, |m, w| m.max(w.abs()));
            let step = if max > 0.0 { max.log2().floor().exp2() / 4096.0 } else { 1.0 };
            bytes.extend(block.iter().flat_map(|w| ((w / step).round_ties_even() * step).to_le_bytes()));
        }
    }
    Matrix::new(GgmlType::F32, w.rows(), w.cols(), Bytes::new(bytes))
}

/// Relative L2 distance; infinite where anything is NaN.
fn distance(y: &[f32], reference: &[f64]) -> f64 {
    assert_eq!(y.len(), reference.len());
    let error: f64 = y.iter().zip(reference).map(|(&y, r)| (f64::from(y) - r).powi(2)).sum();
    let norm: f64 = reference.iter().map(|r| r * r).sum();
    let distance = (error / norm).sqrt();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter().map(|y| y.to_bits()).collect()
}

/// (rows, columns in blocks of the format, tokens): tails of tiles, panels and everything else.
const SHAPES: &[(usize, usize, usize)] = &[
    (1, 1, 1),
    (1, 2, 5),
    (15, 1, 4),
    (16, 3, 1),
    (17, 2, 2),
    (31, 4, 3),
    (32, 1, 8),
    (33, 5, 9),
    (40, 36, 1),
    (40, 7, 6),
    (5, 9, 17),
    (48, 2, 7),
    (35, 37, 11),
    (70, 37, 19),
    (20, 3, 40),
];

/// Every shape of a type, with columns that a row of floats may have too.
fn shapes(ty: GgmlType) -> impl Iterator<Item = (usize, usize, usize)> {
    let block = ty.format().block;
    SHAPES.iter().map(move |&(rows, blocks, tokens)| match block {
        1 => (rows, blocks * 33 - 1, tokens),
        256 => (rows, blocks.min(6) * 256, tokens),
        n => (rows, blocks * n, tokens),
    })
}

#[test]
fn fast_products_are_those_of_the_quantized_operands() {
    let mut random = Random(1);
    for ty in GgmlType::all() {
        for (rows, cols, tokens) in shapes(ty) {
            let (w, x) = (matrix(ty, rows, cols, &mut random), random.gaussians(cols * tokens));
            let truth = match ty.format().block {
                1 if in_fixed_point(ty, tokens) => reference(&fixed_point(&w), &rounded(&x, cols, 8191.0)),
                1 => reference(&w, &x),
                _ => reference(&w, &rounded(&x, cols, 127.0)),
            };
            let fast = product(&w, &x, Arithmetic::Fast, Isa::best());
            let off = distance(&fast, &truth);
            assert!(off <= 1e-6, "{ty} {rows}x{cols}, {tokens} tokens: off by {off:e}");
        }
    }
}

#[test]
fn fast_products_are_near_those_of_floats() {
    let mut random = Random(2);
    for ty in GgmlType::all() {
        for tokens in [3, 20] {
            let (w, x) = (matrix(ty, 40, 1280, &mut random), random.gaussians(1280 * tokens));
            let off = distance(&product(&w, &x, Arithmetic::Fast, Isa::best()), &reference(&w, &x));
            let limit = if ty.format().block == 1 { 2e-4 } else { 1e-2 };
            assert!(off <= limit, "{ty}, {tokens} tokens: off by {off:e}");
        }
    }
}

/// Each block has a scale of its own: none is lost beside another of the same row.
#[test]
fn fixed_point_takes_blocks_of_any_magnitude() {
    let mut random = Random(10);
    let (rows, tokens) = (20, 13);
    for (ty, powers) in [(GgmlType::BF16, -96..96), (GgmlType::F16, -24..16)] {
        for power in powers {
            let weights: Vec<u8> = (0..rows * 64)
                .flat_map(|i| {
                    // Beside a block of ones, one of 2ⁿ that meets activations of 2⁻ⁿ.
                    let w = (1.0 + random.gaussian().abs() % 1.0)
                        * f32::exp2(if i % 64 < 32 { 0 } else { power } as f32)
                        / 2.0;
                    match ty {
                        GgmlType::F16 => half::f16::from_f32(w).to_le_bytes(),
                        _ => half::bf16::from_f32(w).to_le_bytes(),
                    }
                })
                .collect();
            let w = Matrix::new(ty, rows, 64, Bytes::new(weights));
            let mut x = random.gaussians(64 * tokens);
            x.iter_mut().enumerate().for_each(|(i, x)| {
                if i % 64 >= 32 {
                    *x *= f32::exp2(-power as f32)
                }
            });
            let off = distance(&product(&w, &x, Arithmetic::Fast, Isa::best()), &reference(&w, &x));
            assert!(off <= 3e-4, "{ty} 2^{power}: off by {off:e}");
        }
    }
}

#[test]
fn exact_products_are_those_of_f64() {
    let mut random = Random(3);
    for ty in GgmlType::all() {
        for (rows, cols, tokens) in shapes(ty) {
            let (w, x) = (matrix(ty, rows, cols, &mut random), random.gaussians(cols * tokens));
            let off = distance(&product(&w, &x, Arithmetic::Exact, Isa::best()), &reference(&w, &x));
            assert!(off <= 1e-7, "{ty} {rows}x{cols}, {tokens} tokens: off by {off:e}");
        }
    }
}

/// Instruction sets, layouts, batches and threads: none of them changes a bit.
#[test]
fn every_path_gives_the_same_bits() {
    let mut random = Random(4);
    for ty in GgmlType::all() {
        // Of so many tokens weights are unpacked into memory.
        for (rows, cols, tokens) in shapes(ty).chain([(33, 512, 60)]) {
            let (w, x) = (matrix(ty, rows, cols, &mut random), random.gaussians(cols * tokens));
            let tiles = w.clone().repack();
            for arithmetic in [Arithmetic::Fast, Arithmetic::Exact] {
                let expected = bits(&product(&w, &x, arithmetic, Isa::Scalar));
                for isa in Isa::available() {
                    for (name, w) in [("file", &w), ("tiles", &tiles)] {
                        let what = format!("{ty} {rows}x{cols}, {tokens} tokens, {arithmetic:?}, {isa:?}, {name}");
                        assert_eq!(bits(&product(w, &x, arithmetic, isa)), expected, "{what}");
                        // In fixed point, twenty by twenty.
                        let fixed = arithmetic == Arithmetic::Fast && in_fixed_point(ty, tokens);
                        let n = if fixed { 20.min(tokens) } else { 1 };
                        let in_parts = x.chunks_exact(n * cols).flat_map(|x| product(w, x, arithmetic, isa));
                        assert_eq!(bits(&in_parts.collect::<Vec<_>>()), expected, "{what}, in parts of {n}");
                    }
                }
            }
        }
    }
}

/// Panels of other sizes, as for other processors.
#[test]
fn no_tuning_changes_a_bit() {
    let mut random = Random(11);
    for ty in GgmlType::all() {
        // Several panels of 12 blocks, one of 64.
        let (w, x) = (matrix(ty, 35, 1024, &mut random), random.gaussians(1024 * 50));
        let expected = bits(&product(&w, &x, Arithmetic::Fast, Isa::Scalar));
        for isa in Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar) {
            for tuning in Tuning::ALL {
                let mut y = vec![f32::NAN; 50 * 35];
                let mut activations = Activations::with_tuning(Arithmetic::Fast, isa, tuning);
                matmul(&mut activations, &x, &mut [Job { w: &w, y: &mut y }]);
                assert_eq!(bits(&y), expected, "{ty}, {isa:?}, {tuning:?}");
            }
        }
    }
}

/// Two products that are joined while they are in the cache: those of each, and what joins them.
#[test]
fn gated_products_are_the_products_of_both() {
    let (mut random, activate) = (Random(12), |gate: &mut [f32], up: &[f32]| {
        gate.iter_mut().zip(up).for_each(|(gate, up)| *gate = gate.max(0.0) * up);
    });
    for (types, (rows, cols, tokens)) in [
        ([GgmlType::Q4_K, GgmlType::Q4_K], (128, 512, 64)),
        // Of other formats the sums lie in another order.
        ([GgmlType::F32, GgmlType::Q6_K], (300, 512, 49)),
        ([GgmlType::Q8_0, GgmlType::BF16], (33, 96, 61)),
        ([GgmlType::F16, GgmlType::F16], (5, 70, 100)),
    ] {
        let [gate, up] = types.map(|ty| matrix(ty, rows, cols, &mut random));
        let x = random.gaussians(cols * tokens);
        for isa in Isa::available() {
            let mut expected = product(&gate, &x, Arithmetic::Fast, isa);
            activate(&mut expected, &product(&up, &x, Arithmetic::Fast, isa));
            let (mut activations, mut y) =
                (Activations::with_isa(Arithmetic::Fast, isa), vec![f32::NAN; tokens * rows]);
            assert!(multiplies_gated(&activations, tokens) && !multiplies_gated(&activations, 8));
            let gated = Gated { gate: &gate, up: &up, y: &mut y, activate: &activate };
            Pool::new(3).expect("threads").install(|| matmul_gated(&mut activations, &x, gated));
            assert_eq!(bits(&y), bits(&expected), "{types:?} {rows}x{cols}, {tokens} tokens, {isa:?}");
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let mut random = Random(5);
    let x = random.gaussians(1024 * 5);
    let weights: Vec<Matrix> =
        GgmlType::all().map(|ty| matrix(ty, 300, 1024, &mut random)).map(Matrix::repack).collect();
    let run = |threads: usize| {
        Pool::new(threads).expect("threads").install(|| {
            let mut activations = Activations::new(Arithmetic::Fast);
            // All in one call: more jobs than one parallel region takes.
            let mut y = vec![vec![f32::NAN; 300 * 5]; weights.len()];
            let mut jobs: Vec<Job> = weights.iter().zip(&mut y).map(|(w, y)| Job { w, y }).collect();
            matmul(&mut activations, &x, &mut jobs);
            y.iter().flat_map(|y| bits(y)).collect::<Vec<_>>()
        })
    };
    let one = run(1);
    for (w, y) in weights.iter().zip(one.chunks(300 * 5)) {
        assert_eq!(bits(&product(w, &x, Arithmetic::Fast, Isa::best())), y, "{} alone", w.ty());
    }
    for threads in [2, 3, 7] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}

#[test]
fn repacked_rows_are_those_of_the_file() {
    let mut random = Random(6);
    for ty in GgmlType::all() {
        for (rows, cols, _) in shapes(ty) {
            let w = matrix(ty, rows, cols, &mut random);
            let tiles = w.clone().repack();
            let (mut a, mut b) = (vec![0.0; cols], vec![f32::NAN; cols]);
            for r in 0..rows {
                w.row(r, &mut a);
                tiles.row(r, &mut b);
                assert_eq!(bits(&a), bits(&b), "{ty} {rows}x{cols}, row {r}");
            }
        }
    }
}

/// As some tiles are packed, and then all: rows are the file's, products those of tiles packed before.
#[test]
fn tiles_that_are_packed_as_needed_change_no_bit() {
    let mut random = Random(9);
    for ty in GgmlType::all() {
        for (rows, cols, tokens) in shapes(ty) {
            let (w, x) = (matrix(ty, rows, cols, &mut random), random.gaussians(cols * tokens));
            let want = bits(&product(&w.clone().repack(), &x, Arithmetic::Fast, Isa::best()));
            let allowance = Arc::default();
            let lazy = w.clone().repack_as_needed(&allowance);
            // None, a third, the rest; none are left.
            for allowed in [0, w.repacked_bytes() / 3, w.repacked_bytes(), 0] {
                allowance.set(allowed);
                let what = format!("{ty} {rows}x{cols}, {tokens} tokens, {allowed} bytes");
                assert_eq!(bits(&product(&lazy, &x, Arithmetic::Fast, Isa::best())), want, "{what}");
                for r in [0, rows / 2, rows - 1] {
                    let (mut a, mut b) = (vec![0.0; cols], vec![f32::NAN; cols]);
                    w.row(r, &mut a);
                    lazy.row(r, &mut b);
                    assert_eq!(bits(&a), bits(&b), "{what}, row {r}");
                }
            }
        }
    }
}

/// Two models on threads of their own may share a matrix.
#[test]
fn a_matrix_that_many_threads_pack_is_packed_once() {
    let mut random = Random(10);
    let (w, x) = (matrix(GgmlType::Q4_K, 4096, 512, &mut random), random.gaussians(512 * 20));
    let want = bits(&product(&w, &x, Arithmetic::Fast, Isa::best()));
    let allowance = Arc::default();
    let lazy = w.clone().repack_as_needed(&allowance);
    allowance.set(usize::MAX);
    std::thread::scope(|scope| {
        for tokens in [1, 20, 5, 20] {
            let (lazy, x, want) = (&lazy, &x[..512 * tokens], &want[..4096 * tokens]);
            scope.spawn(move || assert_eq!(bits(&product(lazy, x, Arithmetic::Fast, Isa::best())), want));
        }
    });
}

/// What a tile takes of memory by what the file does: codes from a grid are wider than their index, and digits of base 3
/// have a place each.
fn growth(ty: GgmlType) -> f64 {
    match ty {
        GgmlType::TQ1_0 => 1.223,
        GgmlType::IQ1_S => 2.081,
        GgmlType::IQ1_M => 1.965,
        GgmlType::IQ2_XXS => 1.576,
        GgmlType::IQ2_XS => 1.487,
        GgmlType::IQ2_S => 1.342,
        GgmlType::IQ3_XXS => 1.388,
        GgmlType::IQ3_S => 1.237,
        _ => 1.02,
    }
}

#[test]
fn repacking_takes_no_more_bytes_and_slices() {
    let mut random = Random(7);
    for ty in GgmlType::all() {
        let w = matrix(ty, 64, 1024, &mut random);
        let tiles = w.clone().repack();
        let most = w.bytes() as f64 * growth(ty);
        assert!(tiles.bytes() as f64 <= most, "{ty}: {} for {}", tiles.bytes(), w.bytes());
        assert_eq!(tiles.bytes(), w.repacked_bytes(), "{ty}");
        let x = random.gaussians(1024 * 2);
        let whole = product(&w, &x, Arithmetic::Fast, Isa::best());
        let allowance = Arc::default();
        let lazy = w.clone().repack_as_needed(&allowance);
        allowance.set(usize::MAX);
        // The third is packed by this slice, and found so the fourth time.
        for w in [&w, &tiles, &lazy, &lazy] {
            let part = product(&w.slice_rows(16..48), &x, Arithmetic::Fast, Isa::best());
            for t in 0..2 {
                assert_eq!(bits(&part[t * 32..][..32]), bits(&whole[t * 64 + 16..][..32]), "{ty}");
            }
        }
        assert_eq!(bits(&product(&lazy, &x, Arithmetic::Fast, Isa::best())), bits(&whole), "{ty}");
        // Tiles of its own would be others.
        let odd = product(&lazy.slice_rows(3..20), &x, Arithmetic::Fast, Isa::best());
        assert_eq!(bits(&odd[..17]), bits(&whole[3..20]), "{ty}");
    }
}

#[test]
fn what_is_not_finite_is_seen() {
    let mut random = Random(8);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for (ty, tokens) in GgmlType::all().flat_map(|ty| [(ty, 1), (ty, 14)]) {
            let (w, mut x) = (matrix(ty, 8, 512, &mut random), random.gaussians(512 * tokens));
            x[300] = bad;
            for arithmetic in [Arithmetic::Fast, Arithmetic::Exact] {
                for isa in Isa::available() {
                    let y = product(&w, &x, arithmetic, isa);
                    let what = format!("{ty} {tokens} {arithmetic:?} {isa:?}: {bad} gave {y:?}");
                    assert!(y[..8].iter().all(|y| !y.is_finite()), "{what}");
                    assert!(y[8..].iter().all(|y| y.is_finite()), "{what}");
                }
            }
        }
        for (ty, tokens) in [(GgmlType::F16, 1), (GgmlType::F16, 14), (GgmlType::BF16, 1), (GgmlType::BF16, 14)] {
            let mut bytes = matrix(ty, 8, 70, &mut random).file_bytes().to_vec();
            let bad = if ty == GgmlType::F16 {
                half::f16::from_f32(bad).to_le_bytes()
            } else {
                half::bf16::from_f32(bad).to_le_bytes()
            };
            // One weight of row 5, in a block that is not whole.
            bytes[2 * (5 * 70 + 67)..][..2].copy_from_slice(&bad);
            let w = Matrix::new(ty, 8, 70, Bytes::new(bytes));
            for isa in Isa::available() {
                let y = product(&w, &random.gaussians(70 * tokens), Arithmetic::Fast, isa);
                for (i, y) in y.iter().enumerate() {
                    assert_eq!(y.is_finite(), i % 8 != 5, "{ty} {tokens} {isa:?}: row {} is {y}", i % 8);
                }
            }
        }
    }
}

#[test]
fn zeros_tiny_and_huge_activations() {
    let mut random = Random(9);
    for ty in GgmlType::all() {
        let w = matrix(ty, 20, 512, &mut random);
        for n in [512, 512 * 14] {
            assert!(product(&w, &vec![0.0; n], Arithmetic::Fast, Isa::best()).iter().all(|&y| y == 0.0), "{ty}");
            for scale in [1e-38, 1e-31, 1e-20, 1e20] {
                let x: Vec<f32> = random.gaussians(n).iter().map(|x| x * scale).collect();
                let y = product(&w, &x, Arithmetic::Fast, Isa::best());
                assert!(y.iter().all(|y| y.is_finite()), "{ty} {scale:e}: {y:?}");
            }
        }
    }
}
