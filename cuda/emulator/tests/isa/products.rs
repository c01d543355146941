//! Products of a matrix with columns, as the kernels of gemv and gemm take them: operands in a format, and what they
//! have to give.

use std::time::Duration;

use qrun_emulator::{
    Order,
    isa::{Counts, Module},
};

use crate::isa::{
    harness::{Memory, Random},
    references::{from_16_bits, to_16_bits},
    trial::{IDLE, Params, Trial, close, floats},
};

/// A format of weights: ggml's number, and bytes of 32 weights.
pub type Format = (i32, usize);
pub const F32: Format = (0, 128);
pub const F16: Format = (1, 64);
pub const Q5_0: Format = (6, 22);
pub const Q8_0: Format = (8, 34);
pub const BF16: Format = (30, 64);
pub const MXFP4: Format = (39, 17);

/// 32 weights as bytes, and what they stand for.
fn block(format: Format, random: &mut Random) -> (Vec<u8>, Vec<f64>) {
    let exponent = if format == BF16 { 8 } else { 5 };
    match format {
        Q8_0 => {
            let d = to_16_bits(0.01 + random.below(100) as f32 / 1000.0, exponent);
            let q: Vec<u8> = (0..32).map(|_| random.next() as u8).collect();
            let values = q.iter().map(|&q| f64::from(q as i8) * from_16_bits(d, exponent)).collect();
            ([(d as u16).to_le_bytes().to_vec(), q].concat(), values)
        }
        Q5_0 => {
            let d = to_16_bits(0.01 + random.below(100) as f32 / 1000.0, exponent);
            let (fifth, q) = (random.next() as u32, (0..16).map(|_| random.next() as u8).collect::<Vec<_>>());
            let nibbles = q.iter().map(|q| q % 16).chain(q.iter().map(|q| q / 16)).enumerate();
            let value = |(e, nibble)| f64::from(u32::from(nibble) + (fifth >> e & 1) * 16) - 16.0;
            let values = nibbles.map(|n| value(n) * from_16_bits(d, exponent)).collect();
            ([&(d as u16).to_le_bytes()[..], &fifth.to_le_bytes(), &q].concat(), values)
        }
        MXFP4 => {
            let e = 120 + random.below(6);
            let q: Vec<u8> = (0..16).map(|_| random.next() as u8).collect();
            let value = |q: u8| {
                let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(q % 8)];
                2f64.powi(e as i32 - 127) * if q < 8 { size } else { -size }
            };
            let values = q.iter().map(|q| value(q % 16)).chain(q.iter().map(|q| value(q / 16))).collect();
            ([vec![e as u8], q.clone()].concat(), values)
        }
        F32 => {
            let values = floats(32, random);
            (values.iter().flat_map(|v| v.to_le_bytes()).collect(), values.iter().map(|&v| v.into()).collect())
        }
        _ => {
            let bits: Vec<u64> = floats(32, random).iter().map(|&v| to_16_bits(v, exponent)).collect();
            let values = bits.iter().map(|&b| from_16_bits(b, exponent)).collect();
            (bits.iter().flat_map(|&b| (b as u16).to_le_bytes()).collect(), values)
        }
    }
}

/// One column of a long row, then several of a short one.
pub fn gemv(trial: &Trial<'_>, format: Format) -> Result<(), String> {
    matmul(trial, format, [9, 1, 1184], [2, 1, 128])?;
    matmul(trial, format, [11, 3, 160], [2, 1, 128])
}

/// Up to 8 columns, and more, in two blocks; rows so long that the warps take turns more than once.
pub fn few(trial: &Trial<'_>, format: Format) -> Result<(), String> {
    matmul(trial, format, [16, 11, 2336], [1, 1, 256])?;
    matmul(trial, format, [21, 20, 160], [2, 2, 256])
}

/// y = W · x; where there are several columns with a bias, and some of them idle. `grid` is blocks in x and y, threads.
pub fn matmul(trial: &Trial<'_>, format: Format, [rows, columns, k]: [usize; 3], grid: [u32; 3]) -> Result<(), String> {
    const GAP: usize = 3;
    let mut random = Random((rows * columns) as u64);
    let (mut bytes, mut w) = (vec![], vec![]);
    for _ in 0..rows * k / 32 {
        let (block, values) = block(format, &mut random);
        bytes.extend(block);
        w.extend(values);
    }
    let several = columns > 1;
    let bias = if several { floats(rows, &mut random) } else { vec![0.0; rows] };
    // Numbers as they are for dense weights; else in blocks of 32 with a scale, in octet order.
    let numbers = floats(columns * k, &mut random);
    let (mut q, mut d, mut s, mut values) = (vec![0i8; columns * k], vec![], vec![], vec![]);
    for block in 0..columns * k / 32 {
        let scale = 0.01 + random.below(50) as f32 / 1000.0;
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
    let dense = ![Q5_0, Q8_0, MXFP4].contains(&format);
    if dense {
        values = numbers.iter().map(|&v| f64::from(v)).collect();
    }
    let seq: Vec<i32> = (0..columns as i32).map(|c| if c % 4 == 2 { -1 } else { c }).collect();
    let stride = rows + GAP;
    let expected: Vec<f64> = (0..columns * stride)
        .map(|at| {
            let (column, row) = (at / stride, at % stride);
            if row >= rows || seq[column] < 0 {
                return f64::from(IDLE);
            }
            let dot: f64 = (0..k).map(|i| w[row * k + i] * values[column * k + i]).sum();
            dot + f64::from(bias[row])
        })
        .collect();
    let mut memory = Memory::default();
    let (at_w, at_bias, at_y) = (memory.put(&bytes), memory.put(&bias), memory.put(&vec![IDLE; columns * stride]));
    let mut params = Params::new("MatmulParams")
        .set("segment.Segment.w", at_w)
        .set("segment.Segment.bias", if several { at_bias } else { 0 })
        .set("segment.Segment.y", at_y)
        .set("segment.Segment.rows", rows as i32)
        .set("segment.Segment.y_stride", stride as i32)
        .set("segment.Segment.format", format.0)
        .set("segments", 1)
        .set("k", k as i32)
        .set("columns", columns as i32)
        .set("seq", if several { memory.put(&seq) } else { 0 });
    if dense {
        params = params.set("x", memory.put(&numbers));
    } else {
        params = params
            .set("image.QuantizedActivations.q", memory.put(&q))
            .set("image.QuantizedActivations.d", memory.put(&d))
            .set("image.QuantizedActivations.s", memory.put(&s));
    }
    let [x, y, threads] = grid;
    trial.run(&memory, &params.bytes, [x, y, 1], threads, 0)?;
    close(&memory.get(at_y), &expected, if dense { 1e-5 } else { 1e-6 })
}

/// What a matrix of 1152 rows of 6912 weights takes: Gemma 3 1B's down projection for one token, in q8_0 or q5_0.
pub fn gemv_of_1152_rows(module: &Module, kernel: &str) -> (Counts, Duration) {
    let format = if kernel == "gemv_q8_0" { Q8_0 } else { Q5_0 };
    let trial = Trial::new(module, kernel, Order::Forward);
    matmul(&trial, format, [1152, 1, 6912], [144, 1, 128]).expect("it is right");
    (trial.counts.into_inner(), trial.time.get())
}
