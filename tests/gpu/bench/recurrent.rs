//! Delta nets and Mamba-2 in the shapes of real layers, beside the bandwidth of the same memory: a token, and a prompt.

use anyhow::Result;
use qrun_cuda::{
    Arena, Gpu, Pinned, Stream, limits,
    ops::{
        activations::QuantizedActivations,
        mamba::{Mamba, mamba},
        probe::{ELEMENT, SUMS},
        recurrent::{DeltaNet, States, delta_net, head_len},
    },
};
use serde_json::{Value, json};

use crate::{
    Setup,
    machine::{best, milliseconds},
};

/// Heads that have a matrix each.
#[derive(Clone, Copy)]
struct Shape {
    kernel: &'static str,
    /// Heads of keys (groups of Mamba-2) and of values.
    heads: [usize; 2],
    /// Elements of a key and of a value.
    dims: [usize; 2],
}

/// Qwen 3.5 0.8B, 9B and 27B, Granite 4 H Micro, Nemotron 3 Nano.
const SHAPES: [Shape; 5] = [
    Shape { kernel: "delta_net", heads: [16, 16], dims: [128, 128] },
    Shape { kernel: "delta_net", heads: [16, 32], dims: [128, 128] },
    Shape { kernel: "delta_net", heads: [16, 48], dims: [128, 128] },
    Shape { kernel: "mamba", heads: [1, 64], dims: [128, 64] },
    Shape { kernel: "mamba", heads: [8, 64], dims: [128, 64] },
];
/// Tokens that the convolution sees.
const TAPS: usize = 4;
/// Tokens of a prompt.
const PROMPT: usize = 512;
/// Sequences whose states take turns, so that none is still in the L2 cache when it is its turn again.
const SEQUENCES: usize = 32;

/// A row per shape and number of tokens.
pub fn speed(setup: &Setup) -> Result<Vec<Value>> {
    let (shapes, prompt, sequences) =
        if setup.dry { (vec![SHAPES[0], SHAPES[3]], 8, 2) } else { (SHAPES.to_vec(), PROMPT, SEQUENCES) };
    let mut rows = Vec::new();
    for shape in shapes {
        rows.extend(measure(shape, prompt, sequences)?);
    }
    Ok(rows)
}

fn measure(shape: Shape, prompt: usize, sequences: usize) -> Result<[Value; 2]> {
    let Shape { kernel, heads: [n_head_k, n_head_v], dims: [dim_k, dim_v] } = shape;
    let gpu = Gpu::open(0)?;
    let stream = Stream::new(&gpu)?;
    let (page, inner) = (n_head_v * head_len([dim_k, dim_v, TAPS]), n_head_v * dim_v);
    let channels = 2 * n_head_k * dim_k + inner;
    // What a projection gives a token: Mamba-2 its gates and time steps besides.
    let width = channels + inner + n_head_v;
    let blocks = 8 * gpu.properties().multiprocessors as usize;
    let (_arena, (pages, vectors, ints, given, sums)) = Arena::new(&gpu, |c| {
        let image = QuantizedActivations::take(c, "image", prompt, inner);
        // Zeros: what is multiplied does not matter here, and no state grows.
        let vectors = c.take::<f32>("vectors", prompt * width + channels * TAPS);
        let ints = c.take::<i32>("ints", 4 * prompt.max(sequences));
        let y = c.take::<f32>("y", prompt * inner);
        (c.take::<f32>("pages", sequences * page), vectors, ints, (image, y), c.take::<u32>("sums", blocks * SUMS))
    })?;
    let (image, heads_out) = given;
    // Tables, then positions, then sequences: number 0 for the prompt, each its own for single tokens.
    let n = prompt.max(sequences);
    let mut host = Pinned::new(&gpu, 4 * n)?;
    for i in 0..n {
        let numbers = host.as_mut_slice();
        numbers[i] = (i % sequences) as i32;
        numbers[n + i] = i as i32 + 1;
        numbers[2 * n + i] = 0;
        numbers[3 * n + i] = (i % sequences) as i32;
    }
    let elements = (4 * sequences * page / ELEMENT) as u32;
    // SAFETY: the parts of the arena have so many elements, and `sums` was taken for these blocks.
    let bandwidth = unsafe {
        stream.zero(pages, sequences * page)?;
        stream.zero(vectors, prompt * width + channels * TAPS)?;
        stream.copy_in(ints, &host, 4 * n)?;
        limits::read_bandwidth_over(&stream, pages.cast(), elements, sums)?
    };
    let launch = |rows: usize, first: usize| {
        let states = States {
            pages,
            table: ints,
            pos: ints.add(n),
            seq: if rows > 1 { ints.add(2 * n) } else { ints.add(3 * n + first) },
            slots: 1,
            len: page as i32,
            rows: rows as i32,
            sequences: i32::from(rows > 1),
            ..States::default()
        };
        if kernel == "mamba" {
            let params = Mamba {
                state: states,
                input: vectors,
                conv: vectors,
                bias: vectors,
                dt: vectors,
                a: vectors,
                d: vectors,
                y: heads_out,
                n_group: n_head_k as i32,
                n_head: n_head_v as i32,
                dim_k: dim_k as i32,
                dim_v: dim_v as i32,
                taps: TAPS as i32,
                stride: width as i32,
            };
            // SAFETY: parts of the arena with room for a prompt, which live until each run was waited for.
            return unsafe { mamba(&stream, &params) };
        }
        let (y, pad) = (qrun_cuda::Ptr::NULL, 0);
        let params = DeltaNet {
            state: states,
            input: vectors,
            z: vectors,
            alpha: vectors,
            beta: vectors,
            conv: vectors,
            dt: vectors,
            a: vectors,
            norm: vectors,
            y,
            image,
            n_head_k: n_head_k as i32,
            n_head_v: n_head_v as i32,
            dim_k: dim_k as i32,
            dim_v: dim_v as i32,
            taps: TAPS as i32,
            grouped: 0,
            eps: 1e-6,
            pad,
        };
        // SAFETY: parts of the arena with room for a prompt, which live until each run was waited for.
        unsafe { delta_net(&stream, &params) }
    };
    let row = |rows: usize, copies: usize| -> Result<Value> {
        let graph = stream.capture(|_| (0..copies).try_for_each(|copy| launch(rows, copy)))?;
        let ms = best(5, || milliseconds(&gpu, &stream, || graph.launch(&stream)))? / copies as f64;
        // In once, and out once and at each end of a block of 64 positions but the last.
        let bytes = 4 * page * (2 + rows / 64);
        let gb_per_s = bytes as f64 / 1e6 / ms;
        Ok(json!({
            "kernel": kernel,
            "rows": n_head_v,
            "k": dim_k,
            "columns": rows,
            "us": (ms * 1e5).round() / 100.0,
            "GB_per_s": gb_per_s.round(),
            "percent_of_read": (gb_per_s / bandwidth * 100.0).round(),
            // Per token and element of the state: decay, change, read; a delta net finds besides.
            "TFLOP_per_s": (if kernel == "mamba" { 5.0 } else { 7.0 } * (rows * n_head_v * dim_k * dim_v) as f64 / ms / 1e7).round() / 100.0,
        }))
    };
    Ok([row(1, sequences)?, row(prompt, 1)?])
}
