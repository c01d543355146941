//! Norms in the widths of real models, beside the bandwidth of the same memory: of a token, and of a prompt.

use anyhow::Result;
use qrun_cuda::{
    Arena, Gpu, Ptr, Stream, limits,
    ops::{
        activations::QuantizedActivations,
        norm::{NormKind, NormParams, norm},
        probe::{ELEMENT, SUMS},
    },
};
use serde_json::{Value, json};

use crate::{
    Setup,
    machine::{best, milliseconds},
};

const KINDS: [(&str, NormKind); 3] =
    [("rms_norm", NormKind::Rms), ("layer_norm", NormKind::Layer), ("residual_add", NormKind::None)];
/// Widths: gemma-3-1b, Granite 3 8B and OLMo 2 7B.
const WIDTHS: [usize; 2] = [1152, 4096];
/// Rows of a prompt.
const PROMPT: usize = 512;
/// Rows that take turns, so that none is still in the L2 cache when it is its turn again.
const ROWS: usize = 8192;

/// A row per kind, width, and number of rows.
pub fn speed(setup: &Setup) -> Result<Vec<Value>> {
    let (widths, prompt, all) = if setup.dry { (&WIDTHS[..1], 4, 8) } else { (&WIDTHS[..], PROMPT, ROWS) };
    let mut rows = Vec::new();
    for &n in widths {
        rows.extend(measure(n, prompt, all)?);
    }
    Ok(rows)
}

fn measure(n: usize, prompt: usize, all: usize) -> Result<Vec<Value>> {
    let gpu = Gpu::open(0)?;
    let stream = Stream::new(&gpu)?;
    let blocks = 8 * gpu.properties().multiprocessors as usize;
    let (_arena, (x, add, weight, image, sums)) = Arena::new(&gpu, |c| {
        let image = QuantizedActivations::take(c, "image", prompt, n);
        let [x, add] = ["x", "add"].map(|name| c.take::<f32>(name, all * n));
        (x, add, c.take::<f32>("weight", n), image, c.take::<u32>("sums", blocks * SUMS))
    })?;
    let elements = (4 * all * n / ELEMENT) as u32;
    // SAFETY: the rows and the weights have so many elements, and `sums` was taken for these blocks.
    let bandwidth = unsafe {
        // Zeros: what is normed does not matter here.
        stream.zero(x, all * n)?;
        stream.zero(add, all * n)?;
        stream.zero(weight, n)?;
        limits::read_bandwidth_over(&stream, x.cast(), elements, sums)?
    };
    let mut rows = Vec::new();
    for (name, kind) in KINDS {
        let weight = if kind == NormKind::None { Ptr::NULL } else { weight };
        for columns in [1, prompt] {
            let turns = all / columns;
            let launch = |turn: usize| {
                let [x, add] = [x, add].map(|at| at.add(turn * columns * n));
                let p = NormParams { x, add, weight, x_out: x, image, n: n as i32, eps: 1e-6, ..NormParams::default() };
                // SAFETY: rows of the arena, and an image of a prompt, which live until each run was waited for.
                unsafe { norm(&stream, columns as u32, kind, &p) }
            };
            let graph = stream.capture(|_| (0..turns).try_for_each(launch))?;
            let ms = best(5, || milliseconds(&gpu, &stream, || graph.launch(&stream)))? / turns as f64;
            // The stream and what joins it in, the stream and the image out.
            let gb_per_s = 13.375 * (columns * n) as f64 / 1e6 / ms;
            rows.push(json!({
                "kernel": name,
                "rows": n,
                "k": n,
                "columns": columns,
                "us": (ms * 1e5).round() / 100.0,
                "GB_per_s": gb_per_s.round(),
                "percent_of_read": (gb_per_s / bandwidth * 100.0).round(),
                // Per element: its sum, square, product with the factor and with the weight.
                "TFLOP_per_s": (6.0 * (columns * n) as f64 / ms / 1e7).round() / 100.0,
            }));
        }
    }
    Ok(rows)
}
