//! Matrices of more than 2 and 4 GiB, whose last rows lie beyond what 32 bits count: their first and last rows.

use qrun_cuda::{
    Pinned, Ptr, Result, Stream,
    ops::{
        gemm::gemm,
        matmul::{MatmulParams, QuantizedActivations, Segment, gemv},
        upload::bytes_on_device,
    },
};
use qrun_emulator::Config;
use qrun_quant::GgmlType;

use crate::{
    harness::{Buffer, Device, Random, assert_close},
    operands::{Activations, Weights, matrix},
};

/// Rows at each end that are written and judged; the others hold whatever they hold.
const ENDS: usize = 64;
/// On the emulator only the first and the last blocks of a launch run: these hold [`ENDS`] rows or more.
const BLOCKS: u64 = 8;

/// A product, as it is launched.
type Launch = unsafe fn(&Stream, &MatmulParams) -> Result<()>;

/// A matrix that is there at its ends.
struct Large {
    device: Device,
    format: GgmlType,
    rows: usize,
    k: usize,
    bytes: Buffer<u8>,
    /// Values of the rows at both ends.
    ends: [Vec<f32>; 2],
}

impl Large {
    /// None where a card has no room for it.
    fn new(format: GgmlType, [rows, k]: [usize; 2]) -> Option<Self> {
        let mut random = Random::new(rows as u64);
        let ends = [0, rows - ENDS].map(|_| Weights::random(&mut random, format, ENDS * k, 1.0));
        // Made where all blocks of a launch run.
        let laid_out = {
            let device = Device::new(Config::default());
            ends.each_ref().map(|weights| device.read(&matrix(&device, format, &weights.bytes, k)))
        };
        let device = Device::new(Config { blocks: BLOCKS, ..Config::default() });
        let len = bytes_on_device(format, [rows, k]);
        if device.gpu.free_memory().expect("the driver") < len as u64 + (1 << 30) {
            return None;
        }
        let bytes = device.empty::<u8>(len);
        for (first, laid_out) in [0, rows - ENDS].into_iter().zip(&laid_out) {
            let mut pinned = Pinned::new(&device.gpu, laid_out.len()).expect("pinned memory");
            pinned.as_mut_slice().copy_from_slice(laid_out);
            let at = bytes.ptr.add(bytes_on_device(format, [first, k]));
            // SAFETY: rows at an end of the matrix, whose buffer is dropped after `pinned` has waited for the copy.
            unsafe { device.stream.copy_in(at, &pinned, pinned.len()) }.expect("a copy");
        }
        let ends = ends.map(|weights| weights.values);
        Some(Self { device, format, rows, k, bytes, ends })
    }

    /// Multiplies some columns, and judges the rows at both ends.
    fn check(&self, columns: usize, launch: Launch) {
        let Self { device, rows, k, .. } = self;
        let dense = self.format.format().block == 1;
        let x = Activations::new(Random::new(columns as u64).normals(columns * k));
        let (values, q) = (device.buffer(&x.values), device.buffer(&x.q));
        let (d, s) = (device.buffer(&x.d), device.buffer(&x.s));
        let y = device.empty::<f32>(rows * columns);
        let segment = Segment {
            w: self.bytes.ptr,
            y: y.ptr,
            rows: *rows as i32,
            y_stride: *rows as i32,
            format: self.format as i32,
            ..Segment::default()
        };
        let params = MatmulParams {
            k: *k as i32,
            columns: columns as i32,
            image: match dense {
                true => QuantizedActivations::default(),
                false => QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr },
            },
            x: if dense { values.ptr } else { Ptr::NULL },
            ..MatmulParams::default()
        };
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe { launch(&device.stream, &params.with(&[segment])) }.expect("a launch");
        let x: Vec<f64> = if dense { x.values.iter().map(|&v| f64::from(v)).collect() } else { x.image };
        for (first, weights) in [0, rows - ENDS].into_iter().zip(&self.ends) {
            for (column, x) in x.chunks(*k).enumerate() {
                let mut found = Pinned::new(&device.gpu, ENDS).expect("pinned memory");
                let at = y.ptr.add(column * rows + first);
                // SAFETY: values at an end of a column of `y`, which lives until the copy was waited for.
                unsafe { device.stream.copy_out(&mut found, at, ENDS) }.expect("a copy");
                device.stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
                let dot = |w: &[f32]| w.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum();
                let expected: Vec<f64> = weights.chunks(*k).map(dot).collect();
                let what = format!("{} {rows}×{k}, rows from {first}, column {column} of {columns}", self.format);
                assert_close(&found, &expected, if dense { 1e-5 } else { 1e-6 }, &what);
            }
        }
    }
}

#[test]
fn rows_beyond_four_gib_are_found() {
    for (format, shape) in [(GgmlType::F32, [262_144, 5376]), (GgmlType::Q8_0, [300_000, 8192])] {
        let Some(large) = Large::new(format, shape) else {
            crate::skip::skip("less memory than the matrix has");
            continue;
        };
        large.check(1, gemv);
        large.check(3, gemv);
        large.check(5, gemm);
        large.check(33, gemm);
    }
}
