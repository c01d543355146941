//! Latent attention in the shapes of real models, beside the bandwidth of the same memory: a token behind many, and a prompt.

use anyhow::Result;
use qrun_cuda::{
    Arena, Gpu, Pinned, Stream, limits,
    ops::{
        attention::{Attention, Scratch, Tiling, attention},
        cache::{Cache, CacheType, PAGE},
        probe::{ELEMENT, SUMS},
    },
};
use serde_json::{Value, json};

use crate::{
    Setup,
    machine::{best, milliseconds},
};

/// Heads, elements of a key, and those of them that are its value: GLM 4.7 Flash, DeepSeek V3, Mistral Small 4.
const SHAPES: [[usize; 3]; 3] = [[20, 576, 512], [128, 576, 512], [32, 320, 256]];
/// Tokens before the one that is decoded, that included.
const DEPTH: usize = 8192;
/// Tokens of a prompt.
const PROMPT: usize = 512;
/// Sequences that take turns, so that the keys of none are still in the L2 cache when it is its turn again.
const SEQUENCES: usize = 32;

/// Two rows per shape.
pub fn speed(setup: &Setup) -> Result<Vec<Value>> {
    let (shapes, sizes) =
        if setup.dry { (&SHAPES[..1], [96, 3, 2]) } else { (&SHAPES[..], [DEPTH, PROMPT, SEQUENCES]) };
    let mut rows = Vec::new();
    for &shape in shapes {
        rows.extend(measure(shape, sizes)?);
    }
    Ok(rows)
}

fn measure([n_head, head_dim, rank]: [usize; 3], [depth, prompt, sequences]: [usize; 3]) -> Result<[Value; 2]> {
    let gpu = Gpu::open(0)?;
    let stream = Stream::new(&gpu)?;
    let of_sequence = depth.max(prompt).div_ceil(PAGE);
    let pages = sequences * of_sequence;
    let bytes = pages * CacheType::F16.page_bytes(head_dim).0;
    let (n, blocks) = (prompt.max(sequences), 8 * gpu.properties().multiprocessors as usize);
    let (_arena, (keys, vectors, ints, scratch, sums)) = Arena::new(&gpu, |c| {
        let vectors = c.take::<f32>("vectors", prompt * n_head * (head_dim + rank));
        let ints = c.take::<i32>("ints", pages + 3 * n);
        let scratch = Scratch::take(c, [1, n_head, n_head * rank], depth);
        (c.take::<u8>("keys", bytes), vectors, ints, scratch, c.take::<u32>("sums", blocks * SUMS))
    })?;
    // Tables, then positions of a prompt, its sequence, and those of single tokens: all at the same position, the last.
    let mut host = Pinned::new(&gpu, pages + 3 * n)?;
    for (i, number) in host.as_mut_slice().iter_mut().enumerate() {
        *number = match i.checked_sub(pages) {
            None => i,
            Some(i) if i < n => i,
            Some(i) if i < 2 * n => 0,
            Some(i) => (i - 2 * n) % sequences,
        } as i32;
    }
    let mut last = Pinned::new(&gpu, 1)?;
    last.as_mut_slice()[0] = depth as i32 - 1;
    let (_more, at_end) = Arena::new(&gpu, |c| c.take::<i32>("last", 1))?;
    // SAFETY: the parts have so many elements, and `sums` was taken for these blocks. Keys of zeros: what they are does not matter.
    let bandwidth = unsafe {
        stream.zero(keys, bytes)?;
        stream.zero(vectors, prompt * n_head * (head_dim + rank))?;
        stream.copy_in(ints, &host, pages + 3 * n)?;
        stream.copy_in(at_end, &last, 1)?;
        scratch.clear(&stream, 1, n_head)?;
        limits::read_bandwidth_over(&stream, keys.cast(), (bytes / ELEMENT) as u32, sums)?
    };
    let cache = Cache { k: keys, table: ints, pages: of_sequence as i32, kind: CacheType::F16, ..Cache::default() };
    let launch = |rows: usize, sequence: usize| {
        let numbers = ints.add(pages);
        let (tiling, pos, seq) = match rows {
            1 => (Tiling::Rows, at_end, numbers.add(2 * n + sequence)),
            _ => (Tiling::Prompt, numbers, numbers.add(n)),
        };
        let a = Attention {
            q: vectors,
            pos,
            seq,
            cache,
            out: vectors.add(prompt * n_head * head_dim),
            scratch,
            tiling,
            rows,
            n_head,
            n_head_kv: 1,
            head_dim,
            latent: Some(rank),
            scale: 1.0,
            ..Attention::default()
        };
        // SAFETY: parts of the arenas with room for a prompt, which live until each run was waited for.
        unsafe { attention(&stream, &a) }
    };
    let row = |rows: usize, copies: usize| -> Result<Value> {
        let graph = stream.capture(|_| (0..copies).try_for_each(|copy| launch(rows, copy)))?;
        let ms = best(5, || milliseconds(&gpu, &stream, || graph.launch(&stream)))? / copies as f64;
        let seen = if rows == 1 { depth } else { rows * (rows + 1) / 2 };
        let read = if rows == 1 { depth } else { rows };
        let gb_per_s = (2 * head_dim * read) as f64 / 1e6 / ms;
        Ok(json!({
            "kernel": "latent_attention",
            "rows": n_head,
            "k": head_dim,
            "columns": rows,
            "us": (ms * 1e5).round() / 100.0,
            "GB_per_s": gb_per_s.round(),
            "percent_of_read": (gb_per_s / bandwidth * 100.0).round(),
            // Queries and weights go through the tensor cores twice, but count once.
            "TFLOP_per_s": ((2 * n_head * seen * (head_dim + rank)) as f64 / ms / 1e7).round() / 100.0,
        }))
    };
    Ok([row(1, sequences)?, row(prompt, 1)?])
}
