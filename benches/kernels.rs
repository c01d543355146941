//! CPU products by format: how near the machine's limits they come, measured in the same run.
//!
//! `cargo bench --bench kernels -- [FORMAT…] [--threads N] [--tokens N] [--no-repack]`
//!
//! One token reads the weights once: GB/s beside the read bandwidth, over more weights than the caches
//! hold. Many tokens multiply: GOP/s beside a loop of nothing but int8 dot products, or multiply-additions for floats.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A bench prints.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use qrun_quant::{
    Bytes, GgmlType,
    cpu::{Activations, Arithmetic, Job, Matrix, limits, matmul, par::Pool},
};

/// Weights that one pass of a one-token row reads.
const WORKING_SET: usize = 640 << 20;

/// Layer shapes (rows, columns) of gemma-3-1b, its head, and llama-3.2-1b.
const SHAPES: &[(usize, usize)] = &[(6912, 1152), (1152, 6912), (8192, 2048), (262_144, 1152)];

struct Options {
    formats: Vec<GgmlType>,
    threads: usize,
    tokens: usize,
    repack: fn(Matrix) -> Matrix,
}

fn options() -> Options {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut options = Options { formats: Vec::new(), threads: cores, tokens: 512, repack: Matrix::repack };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse().ok()).expect("a number after this flag");
        match arg.as_str() {
            "--bench" => {}
            "--threads" => options.threads = number(),
            "--tokens" => options.tokens = number(),
            "--no-repack" => options.repack = |m| m,
            name => options.formats.push(GgmlType::from_name(name).expect("the name of a format")),
        }
    }
    if options.formats.is_empty() {
        options.formats.extend(GgmlType::all());
    }
    options
}

fn main() {
    let options = options();
    let pool = Pool::new(options.threads).expect("a pool of threads");
    pool.install(|| run(&options));
}

fn run(options: &Options) {
    let peaks = [limits::dot_peak(options.threads), limits::fma_peak(options.threads)].map(|p| p.unwrap_or(0.0));
    println!("{} threads: int8 dot products {:.0} GOP/s, f32 {:.0} GOP/s", options.threads, peaks[0], peaks[1]);
    println!(
        "format   rows x cols      repack |   1 token: GB/s  of read | {:3} tokens: GOP/s  of peak",
        options.tokens
    );
    for &ty in &options.formats {
        for &(rows, cols) in SHAPES {
            if !cols.is_multiple_of(ty.format().block) {
                continue;
            }
            let random = random_bytes(ty, rows, cols);
            let mut repacking = Duration::ZERO;
            let copy = |_| {
                // Each copy has memory of its own, so that the working set does not fit into a cache.
                let w = Matrix::new(ty, rows, cols, Bytes::new(random.clone()));
                let start = Instant::now();
                let w = (options.repack)(w);
                repacking += start.elapsed();
                w
            };
            let copies: Vec<Matrix> = (0..WORKING_SET.div_ceil(random.len())).map(copy).collect();
            let bytes: usize = copies.iter().map(Matrix::bytes).sum();
            let repacked = match ty.format().block {
                1 => "        –".into(),
                _ => format!("{:4.1} GB/s", bytes as f64 / 1e9 / repacking.as_secs_f64()),
            };
            // Beside each other, as other work on the machine comes and goes.
            let (mut one, mut read) = (0f64, 0f64);
            for _ in 0..2 {
                one = one.max(bytes as f64 / 1e9 / best_time(4, || products(&copies, 1)));
                read = read.max(limits::read_bandwidth(options.threads));
            }
            let operations = 2.0 * (rows * cols * options.tokens) as f64;
            let many = operations / 1e9 / best_time(5, || products(&copies[..1], options.tokens));
            let peak = peaks[usize::from(ty.format().block == 1)];
            println!(
                "{:7} {rows:6} x {cols:<6} {repacked} |          {:6.1} {:7.0} % |         {:8.0} {:7.0} %",
                ty.name(),
                one,
                100.0 * one / read,
                many,
                100.0 * many / peak,
            );
        }
    }
}

/// The fastest of some runs, in seconds.
fn best_time(runs: usize, mut f: impl FnMut()) -> f64 {
    let mut time = || {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// One product with each of the matrices, activations included.
fn products(weights: &[Matrix], tokens: usize) {
    let (rows, cols) = (weights[0].rows(), weights[0].cols());
    let x: Vec<f32> = (0..tokens * cols).map(|i| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5).collect();
    let (mut activations, mut y) = (Activations::new(Arithmetic::Fast), vec![0.0; tokens * rows]);
    for w in weights {
        matmul(&mut activations, &x, &mut [Job { w, y: &mut y }]);
    }
    black_box(&y);
}

/// Random bytes are weights of any format; scales that are not finite change no instruction.
fn random_bytes(ty: GgmlType, rows: usize, cols: usize) -> Vec<u8> {
    let mut state = 1u64;
    let bytes = (0..rows * ty.bytes_of(cols)).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Bytes below 64 keep f16 scales normal numbers; floats are kept so near to 1 that no product is
        // subnormal, which would cost a hundred times a normal one.
        if ty.format().block == 1 { 60 + (state >> 62) as u8 } else { (state >> 58) as u8 }
    });
    bytes.collect()
}
