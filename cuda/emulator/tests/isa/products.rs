//! Products of a matrix with columns, as the kernels of product, gemv and gemm take them: operands in a format, and what
//! they have to give.

use std::time::Duration;

use qrun_emulator::{
    Order,
    isa::{Counts, Module},
};

use crate::isa::{
    harness::{Memory, Random},
    records::{F16, Format, Q4_K, Q5_0, Q8_0, Weights},
    trial::{IDLE, Params, Trial, close, floats, image_of},
};

/// Rows, columns and k of a product, row tiles of a block (of the kernels that are told), blocks in x and y, threads.
type Shape = ([usize; 3], i32, [u32; 3]);

/// One column of a long row, then several of a short one.
pub fn gemv(trial: &Trial<'_>, format: Format) -> Result<(), String> {
    matmul(trial, format, ([9, 1, 1184], 0, [2, 1, 128]))?;
    matmul(trial, format, ([11, 3, 160], 0, [2, 1, 128]))
}

/// Up to 8 columns, and more, in two blocks; rows so long that the warps take turns more than once.
pub fn few(trial: &Trial<'_>, format: Format) -> Result<(), String> {
    matmul(trial, format, ([16, 11, 2336], 0, [1, 1, 256]))?;
    matmul(trial, format, ([21, 20, 160], 0, [2, 2, 256]))
}

/// A kernel for up to `most` columns: so many chunks that their sums take two rounds, in blocks of fewer and of more row tiles
/// than there are, of records that are full and that are not; more columns than a block has; and a gate.
pub fn product(trial: &Trial<'_>, format: Format, most: usize) -> Result<(), String> {
    let shapes: &[Shape] = match most {
        1 => &[([9, 1, 1184], 1, [1, 1, 128]), ([40, 1, 2176], 8, [1, 1, 512]), ([37, 1, 640], 2, [2, 1, 160])],
        8 => &[([16, 7, 3232], 1, [1, 1, 128]), ([21, 20, 160], 1, [2, 3, 128]), ([40, 8, 512], 4, [1, 1, 160])],
        _ => &[([16, 11, 2336], 1, [1, 1, 128]), ([21, 20, 160], 1, [2, 2, 128]), ([40, 16, 512], 4, [1, 1, 96])],
    };
    shapes.iter().try_for_each(|&([rows, columns, k], tiles, grid)| {
        matmul(trial, format, ([rows, columns, k.next_multiple_of(format.block)], tiles, grid))
    })?;
    gated(trial, format, most)
}

/// Columns of activations: numbers as they are for dense weights; else in blocks of 32 with a scale, in octet order.
struct Columns {
    numbers: Vec<f32>,
    q: Vec<i8>,
    d: Vec<f32>,
    s: Vec<f32>,
    /// What is multiplied.
    values: Vec<f64>,
}

impl Columns {
    fn random(n: usize, dense: bool, factor: f32, random: &mut Random) -> Self {
        let numbers = floats(n, random);
        let (mut q, mut d, mut s, mut values) = (vec![0i8; n], vec![], vec![], vec![]);
        for block in 0..n / 32 {
            let scale = factor * (0.01 + random.below(50) as f32 / 1000.0);
            let mut sums = [0; 2];
            for e in 0..32 {
                let of_element = random.below(255) as i32 - 127;
                q[32 * block + (e & 12) * 2 + (e & 16) / 4 + e % 4] = of_element as i8;
                sums[e / 16] += of_element;
                values.push(f64::from(scale) * f64::from(of_element));
            }
            d.push(scale);
            s.extend(sums.map(|sum| scale * sum as f32));
        }
        if dense {
            values = numbers.iter().map(|&v| f64::from(v)).collect();
        }
        Self { numbers, q, d, s, values }
    }

    fn put(&self, params: Params, dense: bool, memory: &mut Memory) -> Params {
        if dense {
            return params.set("x", memory.put(&self.numbers));
        }
        params
            .set("image.QuantizedActivations.q", memory.put(&self.q))
            .set("image.QuantizedActivations.d", memory.put(&self.d))
            .set("image.QuantizedActivations.s", memory.put(&self.s))
    }
}

/// `[columns][rows]`: W · x, and the bias.
fn products(w: &[f64], columns: &Columns, bias: &[f32], k: usize) -> Vec<f64> {
    let dot = |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(w, x)| w * x).sum::<f64>();
    let of_column = |column: &[f64]| {
        let rows = w.chunks_exact(k).zip(bias);
        rows.map(|(row, &bias)| dot(row, column) + f64::from(bias)).collect::<Vec<_>>()
    };
    columns.values.chunks_exact(k).flat_map(of_column).collect()
}

/// y = W · x; where there are several columns with a bias, and some of them idle.
pub fn matmul(trial: &Trial<'_>, format: Format, ([rows, columns, k], tiles, grid): Shape) -> Result<(), String> {
    const GAP: usize = 3;
    let mut random = Random((rows * columns) as u64);
    let w = Weights::random(format, [rows, k], &mut random);
    let several = columns > 1;
    let bias = if several { floats(rows, &mut random) } else { vec![0.0; rows] };
    let x = Columns::random(columns * k, format.dense(), 1.0, &mut random);
    let seq: Vec<i32> = (0..columns as i32).map(|c| if c % 4 == 2 { -1 } else { c }).collect();
    let stride = rows + GAP;
    let all = products(&w.values(), &x, &bias, k);
    let expected: Vec<f64> = (0..columns * stride)
        .map(|at| match (at / stride, at % stride) {
            (column, row) if row < rows && seq[column] >= 0 => all[column * rows + row],
            _ => f64::from(IDLE),
        })
        .collect();
    let mut memory = Memory::default();
    let (at_w, at_bias) = (memory.put(&w.on_device()), memory.put(&bias));
    let at_y = memory.put(&vec![IDLE; columns * stride]);
    let params = Params::new("MatmulParams")
        .set("segment.Segment.w", at_w)
        .set("segment.Segment.bias", if several { at_bias } else { 0 })
        .set("segment.Segment.y", at_y)
        .set("segment.Segment.rows", rows as i32)
        .set("segment.Segment.y_stride", stride as i32)
        .set("segment.Segment.format", format.number)
        .set("segments", 1)
        .set("k", k as i32)
        .set("columns", columns as i32)
        .set("seq", if several { memory.put(&seq) } else { 0 })
        .cut(tiles, grid[2] / 32, k);
    let params = x.put(params, format.dense(), &mut memory);
    let [x, y, threads] = grid;
    trial.run(&memory, &params.bytes, [x, y, 1], threads, 0)?;
    close(&memory.get(at_y), &expected, if format.dense() { 1e-5 } else { 1e-6 })
}

/// y = SiLU(gate · x) · (up · x), as numbers and as an image, with a bias each; the second column is idle.
fn gated(trial: &Trial<'_>, format: Format, most: usize) -> Result<(), String> {
    const ROWS: usize = 64;
    const WARPS: u32 = 5;
    let (columns, k) = (most.min(5), 416_usize.next_multiple_of(format.block));
    let mut random = Random(12);
    // Small, so that SiLU is no straight line.
    let x = Columns::random(columns * k, false, if format == Q4_K { 1e-3 } else { 1e-2 }, &mut random);
    let seq: Vec<i32> = (0..columns as i32).map(|c| if c == 1 { -1 } else { c }).collect();
    let mut memory = Memory::default();
    let mut params = Params::new("MatmulParams");
    let y = memory.put(&vec![IDLE; columns * ROWS]);
    let [gate, up] = [0, 1].map(|i| {
        let (w, bias) = (Weights::random(format, [ROWS, k], &mut random), floats(ROWS, &mut random));
        let segment = Params::new("Segment")
            .set("w", memory.put(&w.on_device()))
            .set("bias", memory.put(&bias))
            .set("y", if i == 0 { y } else { 0 })
            .set("rows", ROWS as i32)
            .set("y_stride", ROWS as i32)
            .set("format", format.number)
            .bytes;
        params.bytes[i * segment.len()..][..segment.len()].copy_from_slice(&segment);
        products(&w.values(), &x, &bias, k)
    });
    let n = columns * ROWS;
    let (q, d, s) = (memory.put(&vec![99i8; n]), memory.put(&vec![IDLE; n / 32]), memory.put(&vec![IDLE; n / 16]));
    let params = x
        .put(params, false, &mut memory)
        .set("segments", 2)
        .set("k", k as i32)
        .set("columns", columns as i32)
        .set("seq", memory.put(&seq))
        .cut(4, WARPS, k)
        .set("gated", 1)
        .set("activation", 0)
        .set("out.QuantizedActivations.q", q)
        .set("out.QuantizedActivations.d", d)
        .set("out.QuantizedActivations.s", s);
    trial.run(&memory, &params.bytes, [ROWS as u32 / 32, 1, 1], 32 * WARPS, 0).map_err(|e| format!("gated: {e}"))?;
    let idle = |at: usize| at / ROWS == 1;
    let expected: Vec<f64> = (0..n)
        .map(|at| if idle(at) { f64::from(IDLE) } else { gate[at] / (1.0 + (-gate[at]).exp()) * up[at] })
        .collect();
    let y = memory.get::<f32>(y);
    close(&y, &expected, 2e-6).map_err(|e| format!("gated: {e}"))?;
    image_of(&y, &|block| idle(32 * block), &memory.get(q), &memory.get(d), &memory.get(s))
}

/// What a matrix of 1152 rows of 6912 weights takes: Gemma 3 1B's down projection for one token, in q8_0, q5_0 or f16.
pub fn product_of_1152_rows(module: &Module, kernel: &str) -> (Counts, Duration) {
    let trial = Trial::new(module, kernel, Order::Forward);
    let (format, tiles, grid) = match kernel {
        "product_1_q8_0" => (Q8_0, 1, [72, 1, 9 * 32]),
        "product_1_q5_0" => (Q5_0, 1, [72, 1, 9 * 32]),
        _ => (F16, 0, [144, 1, 128]),
    };
    matmul(&trial, format, ([1152, 1, 6912], tiles, grid)).expect("it is right");
    (trial.counts.into_inner(), trial.time.get())
}
