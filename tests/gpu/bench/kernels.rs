//! The matrix kernels in every format and the shapes of real layers, beside the bandwidth of the same memory; a delta net,
//! latent attention and norms.

use std::sync::Arc;

use anyhow::Result;
use qrun_cuda::{
    Arena, Gpu, Ptr, Stream, limits,
    ops::{
        activations::{ActivationTerms, QuantizedActivations},
        formats::FORMATS,
        gemm, matmul, probe, upload,
    },
};
use qrun_quant::GgmlType;
use serde_json::{Value, json};

use crate::{Setup, latent, machine, norms, recurrent};

/// Rows and weights per row: gate or up, down, head of gemma-3-1b; o, gate or up, down, head of llama-3.2-1b; gate
/// or up, down of llama-3.1-8b.
#[rustfmt::skip]
const SHAPES: [(usize, usize); 9] = [
    (6912, 1152), (1152, 6912), (262_144, 1152),
    (2048, 2048), WIDE, (2048, 8192), (128_256, 2048),
    (14_336, 4096), (4096, 14_336),
];
/// Where several columns are measured too.
const WIDE: (usize, usize) = (8192, 2048);
/// Columns there: a few for both kernels, and a prompt for the tensor cores.
const COLUMNS: [usize; 5] = [2, 4, 8, 16, 512];

/// A kernel and its name.
type Kernel = (&'static str, unsafe fn(&Stream, &matmul::MatmulParams) -> qrun_cuda::Result<()>);
const GEMV: Kernel = ("gemv", matmul::gemv);
const PRODUCT: Kernel = ("product", gemm::gemm);
const GEMM: Kernel = ("gemm", gemm::gemm);

/// What one format is measured with.
struct Bench {
    gpu: Arc<Gpu>,
    stream: Stream,
    ty: GgmlType,
    /// Copies of a matrix follow each other here, so that none is still in the L2 cache when it is its turn again.
    weights: Ptr<u8>,
    bytes: usize,
    image: QuantizedActivations,
    x: Ptr<f32>,
    terms: ActivationTerms,
    y: Ptr<f32>,
    /// GB/s of reading `weights`.
    bandwidth: f64,
}

/// GB/s of every format and shape.
pub fn speed(setup: &Setup) -> Result<Value> {
    let (shapes, columns): (&[_], &[_]) = if setup.dry { (&[(64, 512)], &[2]) } else { (&SHAPES, &COLUMNS) };
    let mut rows = Vec::new();
    // Those that have kernels of their own.
    for ty in FORMATS.iter().filter(|f| f.records == f.format).map(|f| f.format) {
        let shapes: Vec<_> = shapes.iter().copied().filter(|s| s.1.is_multiple_of(ty.format().block)).collect();
        let bench = Bench::new(ty, &shapes, columns[columns.len() - 1], if setup.dry { 0 } else { 4 })?;
        let few = if ty.format().block == 1 { GEMV } else { PRODUCT };
        for shape in shapes {
            rows.push(bench.measure(few, shape, 1)?);
            for &columns in columns.iter().filter(|_| setup.dry || shape == WIDE) {
                if columns <= 16 {
                    rows.push(bench.measure(few, shape, columns)?);
                }
                // Of quantized weights the same kernel, up to 32 columns.
                if shape.1.is_multiple_of(32) && (few.0 == "gemv" || columns > 32) {
                    rows.push(bench.measure(GEMM, shape, columns)?);
                }
            }
        }
    }
    rows.extend(recurrent::speed(setup)?);
    rows.extend(latent::speed(setup)?);
    rows.extend(norms::speed(setup)?);
    Ok(Value::Array(rows))
}

impl Bench {
    /// Buffers for these shapes, the weights at least `caches` times as large as the L2 cache.
    fn new(ty: GgmlType, shapes: &[(usize, usize)], columns: usize, caches: usize) -> Result<Self> {
        let gpu = Gpu::open(0)?;
        let stream = Stream::new(&gpu)?;
        let most = |of: &dyn Fn(&(usize, usize)) -> usize| shapes.iter().map(of).max().unwrap_or(0);
        let (rows, k, largest) = (most(&|s| s.0), most(&|s| s.1), most(&|s| upload::bytes_on_device(ty, [s.0, s.1])));
        let seed = seed(ty);
        let bytes = largest.max(caches * gpu.properties().l2 as usize).next_multiple_of(seed.len());
        let blocks = 8 * gpu.properties().multiprocessors as usize;
        let (arena, (weights, image, x, terms, y, sums)) = Arena::new(&gpu, |c| {
            let image = QuantizedActivations::take(c, "image", columns, k);
            let weights = c.take::<u8>("weights", bytes);
            // Outputs of one column in every row, of all columns in the wide shape.
            let y = c.take::<f32>("y", rows.max(WIDE.0 * columns));
            let (x, terms) = (c.take::<f32>("x", columns * k), ActivationTerms::take(c, "terms", columns, k));
            (weights, image, x, terms, y, c.take::<u32>("sums", blocks * probe::SUMS))
        })?;
        // The process ends after this part, and the memory with it.
        std::mem::forget(arena);
        let numbers: Vec<u8> = (0..columns * k).flat_map(|i| noise(i).to_le_bytes()).collect();
        let bytes_of_q: Vec<u8> = (0..columns * k).map(|i| (noise(i) * 100.0) as i8 as u8).collect();
        let scales = vec![0x3f; columns * k / 4];
        // Weights of any bits, whatever their layout: what they stand for does not matter here.
        let sources: [(Ptr<u8>, &[u8]); 5] = [
            (weights, &seed),
            (x.cast(), &numbers),
            (image.q.cast(), &bytes_of_q),
            (image.d.cast(), &scales[..columns * k / 8]),
            (image.s.cast(), &scales),
        ];
        let sources = sources.map(|(to, bytes)| upload::Source::Bytes(to, bytes));
        let staging = upload::Staging::at(Ptr::NULL, 0);
        // SAFETY: parts of the arena, which is never freed, with room for the bytes; none passes through staging.
        unsafe { upload::upload(&gpu, &stream, staging, &sources, &mut |_, _| ())? };
        let mut filled = seed.len();
        while filled < bytes {
            let n = filled.min(bytes - filled);
            let (to, elements) = (weights.add(filled).cast(), (n / probe::ELEMENT) as u32);
            // SAFETY: from the weights that are there to their room behind them.
            unsafe { probe::copy(&stream, blocks as u32, weights.cast(), to, elements)? };
            filled += n;
        }
        let elements = (bytes / probe::ELEMENT) as u32;
        // SAFETY: the weights have so many elements, and `sums` was taken for these blocks.
        let bandwidth = unsafe { limits::read_bandwidth_over(&stream, weights.cast(), elements, sums)? };
        Ok(Self { gpu, stream, ty, weights, bytes, image, x, terms, y, bandwidth })
    }

    /// One kernel on matrices of one shape, and so many columns.
    fn measure(&self, (name, kernel): Kernel, (rows, k): (usize, usize), columns: usize) -> Result<Value> {
        let one = upload::bytes_on_device(self.ty, [rows, k]);
        let copies = (self.bytes / one).clamp(1, 200);
        let dense = self.ty.format().block == 1;
        let launch = |copy: usize| {
            let segment = matmul::Segment {
                w: self.weights.add(copy * one),
                y: self.y,
                rows: rows as i32,
                y_stride: rows as i32,
                format: self.ty as i32,
                ..matmul::Segment::default()
            };
            let params = matmul::MatmulParams {
                k: k as i32,
                columns: columns as i32,
                image: if dense { QuantizedActivations::default() } else { self.image },
                x: if dense { self.x } else { Ptr::NULL },
                terms: self.terms,
                ..matmul::MatmulParams::default()
            };
            // SAFETY: a copy among the weights, and parts of the arena for the most rows, weights and columns.
            unsafe { kernel(&self.stream, &params.with(&[segment])) }
        };
        let graph = self.stream.capture(|_| (0..copies).try_for_each(launch))?;
        let once = || machine::milliseconds(&self.gpu, &self.stream, || graph.launch(&self.stream));
        let ms = machine::best(5, once)? / copies as f64;
        let gb_per_s = one as f64 / 1e6 / ms;
        Ok(json!({
            "kernel": format!("{name}_{}", self.ty.name().to_lowercase()),
            "rows": rows,
            "k": k,
            "columns": columns,
            "us": machine::rounded(ms * 1e3),
            "GB_per_s": gb_per_s.round(),
            "percent_of_read": (gb_per_s / self.bandwidth * 100.0).round(),
            "TFLOP_per_s": machine::rounded(2.0 * (rows * k * columns) as f64 / ms / 1e9),
        }))
    }
}

/// Some thousand weights in whole blocks, and whole 16-byte elements; zeros in a format that qrun only reads.
fn seed(ty: GgmlType) -> Vec<u8> {
    let values: Vec<f32> = (0..probe::ELEMENT * 1024).map(noise).collect();
    let mut out = vec![0; ty.bytes_of(values.len())];
    if let Some(quantize) = ty.format().quantize {
        quantize(&values, &mut out);
    }
    out
}

/// Numbers between -1 and 1, without pattern.
fn noise(i: usize) -> f32 {
    let mixed = (i as u32).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
    (mixed >> 8) as f32 / (1 << 23) as f32 - 1.0
}
