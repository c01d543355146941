//! Attention over the paged cache against a softmax in f64.

use qrun_cuda::{
    Arena, Ptr,
    ops::{
        activations::QuantizedActivations,
        attention::{Attention, Scratch, Tiling, attention},
        cache::{Cache, CacheType, PAGE},
    },
};
use qrun_emulator::Config;

use crate::{
    cache::{HostCache, stored},
    harness::{Device, Random, assert_close, everywhere},
    norm::judge_image,
};

/// What lies where nothing is to be written.
const UNTOUCHED: f32 = -77.0;
/// Bound on the relative L2 error against the values that the cache holds.
const EXACT: f64 = 5e-6;

#[derive(Clone, Copy)]
struct Case {
    head_dim: usize,
    n_head: usize,
    n_head_kv: usize,
    kind: CacheType,
    tiling: Tiling,
    splits: usize,
    window: usize,
    softcap: f32,
    /// Size of the queries, which the scale takes back; 2 makes the softmax pointed.
    queries: f32,
    /// Of queries with the position: growth, and from where on.
    growth: (f32, usize),
    /// Elements from head to head of gates, in heads; 0: there are none.
    gates: usize,
    /// Of the first head's sink, and what each further head has more; `None`: there are none.
    sinks: Option<(f32, f32)>,
    image: bool,
    /// Elements of keys, from the front, that are values; 0: values are apart.
    latent: usize,
    /// Tokens of each text behind its last row here, which all of its rows see; `None`: they see none behind them.
    behind: Option<usize>,
    /// (sequence, position) per row; negative sequence: idle.
    rows: &'static [(i32, i32)],
}

const BASE: Case = Case {
    head_dim: 64,
    n_head: 2,
    n_head_kv: 1,
    kind: CacheType::F16,
    tiling: Tiling::Rows,
    splits: 1,
    window: 0,
    softcap: 0.0,
    queries: 2.0,
    growth: (0.0, 0),
    gates: 0,
    sinks: None,
    image: false,
    latent: 0,
    behind: None,
    rows: PAGE_EDGES,
};

/// Contexts of 63, 64, 65, 128, 129 tokens and of one.
const PAGE_EDGES: &[(i32, i32)] = &[(0, 62), (1, 63), (2, 64), (-1, 5), (3, 127), (4, 128), (5, 0)];
/// A window of 40: contexts of W−1, W, W+1 tokens, and rings of pages that have wrapped.
const WINDOW_EDGES: &[(i32, i32)] = &[(0, 38), (1, 39), (2, 40), (3, 103), (4, 200), (5, 391)];
/// A prompt of one sequence, at a page's end.
const PROMPT: &[(i32, i32)] = &prompt::<24>(0, 55);
/// The ends of two prompts, an idle row, and a third.
const MIXED: &[(i32, i32)] =
    &[(0, 61), (0, 62), (0, 63), (0, 64), (2, 0), (2, 1), (2, 2), (-1, 0), (1, 9), (1, 10), (1, 11), (1, 12), (1, 13)];

/// A whole text beyond a page, an idle row, one of a token, and one of several.
const TEXTS: &[(i32, i32)] = &{
    let mut rows = [(0, 0); 75];
    let mut i = 0;
    while i < 75 {
        rows[i] = match i {
            0..67 => (0, i as i32),
            67 => (-1, 5),
            68 => (2, 0),
            _ => (1, i as i32 - 69),
        };
        i += 1;
    }
    rows
};

const fn prompt<const N: usize>(seq: i32, first: i32) -> [(i32, i32); N] {
    let mut rows = [(seq, first); N];
    let mut i = 0;
    while i < N {
        rows[i].1 += i as i32;
        i += 1;
    }
    rows
}

/// What a case reads and writes.
struct Data {
    q: Vec<f32>,
    cache: HostCache,
}

impl Case {
    fn scale(&self) -> f32 {
        2.0 / self.queries / (self.head_dim as f32).sqrt()
    }

    /// Elements of a head's value.
    fn value_dim(&self) -> usize {
        if self.latent > 0 { self.latent } else { self.head_dim }
    }

    /// Tokens of the longest context.
    fn longest(&self) -> usize {
        self.rows.iter().map(|r| r.1 as usize + 1).max().expect("rows") + self.behind.unwrap_or(0)
    }

    /// Tokens of a sequence's text.
    fn len(&self, seq: i32) -> usize {
        let last = self.rows.iter().filter(|row| row.0 == seq).map(|row| row.1).max().expect("a row of it");
        last as usize + 1 + self.behind.unwrap_or(0)
    }

    /// Positions that a row sees.
    fn visible(&self, (seq, pos): (i32, i32)) -> std::ops::Range<usize> {
        let (pos, half) = (pos as usize, self.window / 2);
        match self.behind {
            None if self.window > 0 => (pos + 1).saturating_sub(self.window)..pos + 1,
            None => 0..pos + 1,
            Some(_) if self.window > 0 => pos.saturating_sub(half)..self.len(seq).min(pos + half + 1),
            Some(_) => 0..self.len(seq),
        }
    }

    /// Queries, and a cache that holds what some row sees and NaNs elsewhere.
    fn data(&self) -> Data {
        let mut r = Random::new((self.head_dim + self.n_head) as u64);
        let pages = match self.window {
            0 => self.longest().div_ceil(PAGE) + 1,
            w => (w + self.rows.len() + self.behind.unwrap_or(0) - 1).div_ceil(PAGE) + 1,
        };
        let mut cache = HostCache::new(self.kind, [self.n_head_kv, self.head_dim], [8, pages], 0xFF);
        let width = self.n_head_kv * self.head_dim;
        for &(seq, pos) in self.rows.iter().filter(|row| row.0 >= 0) {
            for p in self.visible((seq, pos)) {
                let of_token = &mut Random::new((seq as u64) << 32 | p as u64);
                if !cache.tokens.contains_key(&(seq as usize, p)) {
                    cache.write(seq as usize, p, [of_token.normals(width), of_token.normals(width)]);
                }
            }
        }
        let q = r.normals(self.rows.len() * self.n_head * self.head_dim).iter().map(|x| self.queries * x).collect();
        Data { q, cache }
    }

    /// Softmax in f64 over what the cache holds, or over the numbers before they were stored.
    fn expected(&self, data: &Data, row: usize, as_stored: bool) -> Vec<f64> {
        let (n, group, (seq, pos)) = (self.head_dim, self.n_head / self.n_head_kv, self.rows[row]);
        let head = |head: usize| {
            let element = |p: usize, which: usize| {
                let x = &data.cache.tokens[&(seq as usize, p)][which][head / group * n..(head / group + 1) * n];
                if as_stored { stored(self.kind, x) } else { x.iter().map(|&x| f64::from(x)).collect() }
            };
            let q = &data.q[(row * self.n_head + head) * n..][..n];
            let score = |p: usize| {
                let dot: f64 = q.iter().zip(element(p, 0)).map(|(&q, k)| f64::from(q) * k).sum();
                let grown = 1.0 + f64::from(self.growth.0) * ((1 + pos as usize / self.growth.1.max(1)) as f64).ln();
                let (dot, cap) = (dot * f64::from(self.scale()) * grown, f64::from(self.softcap));
                if cap > 0.0 { cap * (dot / cap).tanh() } else { dot }
            };
            let scores: Vec<f64> = self.visible((seq, pos)).map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sink = self.sinks.map_or(0.0, |_| (f64::from(self.sink_values()[head]) - max).exp());
            let total: f64 = scores.iter().map(|s| (s - max).exp()).sum::<f64>() + sink;
            let mut out = vec![0.0; self.value_dim()];
            for (p, s) in self.visible((seq, pos)).zip(scores) {
                out.iter_mut()
                    .zip(element(p, usize::from(self.latent == 0)))
                    .for_each(|(o, v)| *o += (s - max).exp() / total * v);
            }
            if self.gates > 0 {
                let gate = &self.gate_values()[(row * self.n_head + head) * self.gates * n..][..n];
                out.iter_mut().zip(gate).for_each(|(o, &gate)| *o /= 1.0 + (-f64::from(gate)).exp());
            }
            out
        };
        (0..self.n_head).flat_map(head).collect()
    }

    /// `[rows][n_head][gates · head_dim]`, of which the first `head_dim` gate.
    fn gate_values(&self) -> Vec<f32> {
        Random::new(99).normals(self.rows.len() * self.n_head * self.gates * self.head_dim)
    }

    /// `[n_head]`.
    fn sink_values(&self) -> Vec<f32> {
        let (first, more) = self.sinks.unwrap_or_default();
        (0..self.n_head).map(|head| first + more * head as f32).collect()
    }

    fn run(&self, device: &Device) -> Vec<f32> {
        let data = self.data();
        let (gate, sinks) = (device.buffer(&self.gate_values()), device.buffer(&self.sink_values()));
        let (seq, pos): (Vec<_>, Vec<_>) = self.rows.iter().copied().unzip();
        let ends: Vec<i32> = seq.iter().map(|&seq| self.len(seq) as i32).collect();
        let end = device.buffer(&ends);
        let (seq, pos, q) = (device.buffer(&seq), device.buffer(&pos), device.buffer(&data.q));
        let rows = self.rows.len();
        let n = rows * self.n_head * self.value_dim();
        let out = device.buffer(&vec![UNTOUCHED; n]);
        let (iq, id, is) = (device.empty(n), device.empty(n / 32), device.empty(n / 16));
        let image = if self.image {
            QuantizedActivations { q: iq.ptr, d: id.ptr, s: is.ptr }
        } else {
            QuantizedActivations::default()
        };
        let cache = data.cache.upload(device);
        let of_values = |at| if self.latent > 0 { Cache { v: Ptr::NULL, v_scale: Ptr::NULL, ..at } } else { at };
        let shape = [rows, self.n_head, self.n_head * self.value_dim()];
        let n_ctx = self.longest();
        let (_arena, scratch) =
            Arena::new(&device.gpu, |layout| Scratch::take(layout, shape, n_ctx)).expect("device memory");
        // SAFETY: it was taken for these rows and heads.
        unsafe { scratch.clear(&device.stream, rows, self.n_head) }.expect("a launch");
        let a = Attention {
            q: q.ptr,
            pos: pos.ptr,
            seq: seq.ptr,
            end: if self.behind.is_some() { end.ptr } else { Ptr::NULL },
            cache: of_values(cache.cache),
            out: if self.image { Ptr::NULL } else { out.ptr },
            image,
            scratch,
            splits: self.splits,
            rope: None,
            tiling: self.tiling,
            rows,
            n_head: self.n_head,
            n_head_kv: self.n_head_kv,
            head_dim: self.head_dim,
            latent: (self.latent > 0).then_some(self.latent),
            window: self.window,
            scale: self.scale(),
            softcap: self.softcap,
            growth: self.growth.0,
            grows_every: self.growth.1,
            gate: if self.gates > 0 { gate.ptr } else { Ptr::NULL },
            gate_step: self.gates * self.head_dim,
            sinks: if self.sinks.is_some() { sinks.ptr } else { Ptr::NULL },
        };
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe {
            if self.image {
                // Twice: the tickets must be back at zero.
                attention(&device.stream, &a).expect("a launch");
            }
            attention(&device.stream, &Attention { out: out.ptr, ..a }).expect("a launch");
        }
        let mut all = device.read(&out);
        if self.image {
            all.extend(device.read::<i8>(&iq).iter().map(|&q| f32::from(q)));
            all.extend([device.read(&id), device.read(&is)].concat());
        }
        all
    }

    fn judge(&self, found: &[f32], what: &str) {
        let data = self.data();
        let width = self.n_head * self.value_dim();
        let n = self.rows.len() * width;
        for (row, &(seq, pos)) in self.rows.iter().enumerate() {
            let (at, what) = (row * width, format!("{what}, position {pos}"));
            let x = &found[at..at + width];
            if seq < 0 {
                assert!(x.iter().all(|&x| x == UNTOUCHED), "{what}: an idle row was written");
                continue;
            }
            assert_close(x, &self.expected(&data, row, true), EXACT, &format!("{what}, values as stored"));
            let bound = if self.kind == CacheType::F16 { 1e-3 } else { 2e-2 };
            assert_close(
                x,
                &self.expected(&data, row, false),
                bound,
                &format!("{what}, values before they were stored"),
            );
            if self.image {
                let (q, rest) = found[n..].split_at(n);
                let (d, s) = rest.split_at(n / 32);
                judge_image(x, [&q[at..], &d[at / 32..], &s[at / 16..]], &what);
            }
        }
    }
}

fn check(cases: &[Case]) {
    for (i, case) in cases.iter().enumerate() {
        let what = format!("case {i}, head_dim {}, {} heads on {}", case.head_dim, case.n_head, case.n_head_kv);
        everywhere(|device| case.run(device), |found| case.judge(found, &what));
    }
}

/// Runs two cases on every device and has `compare` look at both results.
fn compare(cases: [Case; 2], compare: impl Fn(&[f32], &[f32])) {
    everywhere(
        |device| cases.iter().flat_map(|case| case.run(device)).collect(),
        |found| {
            let (a, b) = found.split_at(found.len() / 2);
            compare(a, b);
        },
    );
}

#[test]
fn every_ratio_of_heads_and_every_size_of_them() {
    check(&[
        BASE,
        Case { n_head: 3, n_head_kv: 3, head_dim: 16, ..BASE },
        Case { n_head: 6, n_head_kv: 2, head_dim: 80, ..BASE },
        Case { n_head: 4, head_dim: 256, image: true, ..BASE },
        Case { n_head: 5, head_dim: 96, image: true, splits: 3, ..BASE },
        Case { n_head: 7, head_dim: 128, kind: CacheType::Q8_0, ..BASE },
        Case { n_head: 16, n_head_kv: 2, head_dim: 32, splits: 2, ..BASE },
        Case { n_head: 20, head_dim: 16, rows: &[(0, 70)], ..BASE },
        Case { n_head: 4, head_dim: 512, image: true, splits: 3, ..BASE },
        Case { n_head: 3, head_dim: 288, ..BASE },
    ]);
}

#[test]
fn q8_0_heads_that_end_within_a_block() {
    check(&[
        Case { kind: CacheType::Q8_0, head_dim: 16, ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 80, n_head_kv: 2, ..BASE },
        // Where the first page of sequence 1 is the last of the pool.
        Case { kind: CacheType::Q8_0, head_dim: 80, n_head_kv: 2, rows: &[(1, 127)], ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 256, image: true, splits: 4, ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 512, n_head: 8, n_head_kv: 2, splits: 4, ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 64, tiling: Tiling::Prompt, rows: MIXED, ..BASE },
    ]);
}

#[test]
fn windows_end_where_they_should_and_rings_wrap() {
    let windowed = Case { window: 40, rows: WINDOW_EDGES, ..BASE };
    check(&[
        windowed,
        Case { splits: 4, kind: CacheType::Q8_0, ..windowed },
        Case { tiling: Tiling::Prompt, rows: PROMPT, ..windowed },
        Case { tiling: Tiling::Prompt, window: 9, rows: MIXED, head_dim: 128, ..windowed },
        Case { window: 1, ..windowed },
    ]);
}

#[test]
fn prompts_and_what_is_mixed_with_them() {
    let prompt = Case { tiling: Tiling::Prompt, rows: PROMPT, ..BASE };
    check(&[
        prompt,
        Case { rows: MIXED, n_head: 6, n_head_kv: 2, image: true, ..prompt },
        Case { rows: MIXED, n_head: 5, head_dim: 128, kind: CacheType::Q8_0, ..prompt },
        Case { head_dim: 256, n_head: 4, ..prompt },
        Case { head_dim: 512, n_head: 4, ..prompt },
        Case { rows: MIXED, n_head: 3, head_dim: 512, kind: CacheType::Q8_0, ..prompt },
        Case { n_head: 70, head_dim: 16, rows: &[(0, 3), (0, 4)], ..prompt },
        // Blocks that have nothing to do.
        Case { rows: &[(-1, 3), (-2, 4)], ..prompt },
    ]);
}

/// Whole texts, and the front of some; windows wider and narrower than a tile, odd and even.
#[test]
fn rows_see_what_lies_behind_them() {
    let whole = Case { tiling: Tiling::Prompt, behind: Some(0), rows: TEXTS, ..BASE };
    check(&[
        whole,
        Case { behind: Some(70), n_head: 6, n_head_kv: 2, image: true, ..whole },
        Case { window: 40, head_dim: 128, ..whole },
        Case { window: 5, behind: Some(3), n_head: 3, n_head_kv: 3, head_dim: 32, ..whole },
        Case { window: 7, kind: CacheType::Q8_0, head_dim: 256, n_head: 4, ..whole },
        Case { behind: Some(9), kind: CacheType::Q8_0, head_dim: 80, ..whole },
        Case { head_dim: 512, n_head: 4, ..whole },
        Case { head_dim: 80, latent: 64, n_head: 3, behind: Some(1), ..whole },
        Case { rows: &[(0, 0)], ..whole },
    ]);
    // The last row sees what one does that sees up to itself.
    let last = Case { rows: &[(0, 69)], ..whole };
    compare([last, Case { behind: None, ..last }], |a, b| assert!(a == b, "the last row"));
}

/// Those of DeepSeek V3 and of Mistral Small 4, and smaller ones: keys that end within 32 elements.
#[test]
fn latent_attention_has_values_in_its_keys() {
    let deepseek = Case { head_dim: 576, latent: 512, n_head: 20, image: true, ..BASE };
    let small = Case { head_dim: 80, latent: 64, n_head: 3, ..BASE };
    let prompt = Case { tiling: Tiling::Prompt, rows: MIXED, ..small };
    check(&[
        Case { splits: 3, rows: &[(0, 130), (-1, 3), (1, 40)], ..deepseek },
        Case { kind: CacheType::Q8_0, rows: &[(0, 70)], ..deepseek },
        Case { head_dim: 320, latent: 256, n_head: 9, growth: (0.5, 30), ..deepseek },
        small,
        Case { kind: CacheType::Q8_0, splits: 2, head_dim: 48, latent: 32, ..small },
        Case { rows: &[(0, 62), (0, 63), (0, 64)], tiling: Tiling::Prompt, n_head: 18, ..deepseek },
        Case { kind: CacheType::Q8_0, head_dim: 320, latent: 256, image: true, ..prompt },
        Case { n_head: 5, ..prompt },
    ]);
    for (kind, head_dim, latent, rows) in
        [(CacheType::F16, 576, 512, ENDS), (CacheType::Q8_0, 80, 64, MIXED), (CacheType::F16, 320, 256, PROMPT)]
    {
        let prompt = Case { kind, head_dim, latent, rows, tiling: Tiling::Prompt, ..small };
        compare([prompt, Case { tiling: Tiling::Rows, splits: 5, ..prompt }], |a, b| assert!(a == b, "{head_dim}"));
    }
}

#[test]
fn soft_caps_gates_and_queries_of_any_size() {
    check(&[
        Case { softcap: 2.0, ..BASE },
        Case { queries: 8e37, ..BASE },
        Case { queries: 1e-30, tiling: Tiling::Prompt, rows: MIXED, ..BASE },
        Case { growth: (0.5, 30), gates: 2, image: true, ..BASE },
        Case { growth: (0.1, 1), gates: 1, tiling: Tiling::Prompt, rows: MIXED, head_dim: 80, n_head: 4, ..BASE },
        Case { gates: 2, splits: 3, kind: CacheType::Q8_0, head_dim: 256, ..BASE },
        Case { softcap: 0.5, tiling: Tiling::Prompt, rows: MIXED, kind: CacheType::Q8_0, head_dim: 128, ..BASE },
    ]);
}

#[test]
fn sinks_take_their_share() {
    let sinks = Case { sinks: Some((-3.0, 1.5)), n_head: 6, n_head_kv: 2, ..BASE };
    check(&[
        sinks,
        Case { splits: 5, kind: CacheType::Q8_0, image: true, ..sinks },
        Case { window: 40, rows: WINDOW_EDGES, splits: 2, ..sinks },
        Case { tiling: Tiling::Prompt, rows: MIXED, head_dim: 128, ..sinks },
        Case { tiling: Tiling::Prompt, rows: PROMPT, gates: 1, ..sinks },
        // Nothing is left beside the one, nothing is taken by the other.
        Case { sinks: Some((30.0, 0.0)), head_dim: 256, ..sinks },
        Case { sinks: Some((-1e4, 0.0)), rows: ENDS, splits: 3, ..sinks },
    ]);
    let prompt = Case { rows: MIXED, tiling: Tiling::Prompt, ..sinks };
    compare([prompt, Case { tiling: Tiling::Rows, splits: 4, ..prompt }], |a, b| assert!(a == b, "decode and prefill"));
}

/// The ends of contexts of one part, of whole pages, of several parts of a page, and of a window.
const ENDS: &[(i32, i32)] = &[(0, 300), (1, 17), (2, 128), (3, 63), (4, 64)];

/// Where a window of 90 leaves the first page.
const LATE: &[(i32, i32)] = &prompt::<12>(1, 148);

#[test]
fn how_many_blocks_share_a_row_is_not_in_the_bits() {
    use CacheType::*;
    for (kind, head_dim, window, splits) in [
        (F16, 64, 0, 2),
        (F16, 64, 0, 64),
        (F16, 80, 100, 3),
        (Q8_0, 128, 0, 3),
        (Q8_0, 64, 40, 8),
        (F16, 256, 0, 5),
        (F16, 512, 0, 7),
    ] {
        let one = Case { kind, head_dim, window, n_head: 4, rows: ENDS, ..BASE };
        compare([one, Case { splits, ..one }], |a, b| assert!(a == b, "{splits} splits, a window of {window}"));
    }
    // As many tickets as there are heads and rows.
    let one = Case { n_head: 3, n_head_kv: 3, rows: ENDS, ..BASE };
    compare([one, Case { splits: 3, ..one }], |a, b| assert!(a == b, "3 splits, a head of k and v for each of q"));
}

#[test]
fn a_row_is_the_same_to_the_bit_alone_and_in_any_company() {
    for (kind, head_dim) in
        [(CacheType::F16, 64), (CacheType::Q8_0, 128), (CacheType::F16, 256), (CacheType::Q8_0, 512)]
    {
        for (rows, window, splits) in [(MIXED, 0, 1), (PROMPT, 40, 5), (ENDS, 0, 64), (LATE, 90, 2)] {
            let prompt = Case { kind, head_dim, rows, window, tiling: Tiling::Prompt, n_head: 3, ..BASE };
            compare([prompt, Case { tiling: Tiling::Rows, splits, ..prompt }], |a, b| {
                assert!(a == b, "decode and prefill");
            });
        }
    }
}

/// Rows whose parts are larger than a page, and where they become so.
#[test]
fn sixty_four_splits_at_position_5000() {
    const FAR: &[(i32, i32)] = &[(0, 5000), (1, 1023), (2, 4095), (2, 4096), (2, 4097)];
    // One order is enough: whether orders matter is asked above.
    for (sm, kind) in [(75, CacheType::F16), (80, CacheType::Q8_0)] {
        let case = Case { kind, n_head: 4, splits: 64, rows: FAR, ..BASE };
        let device = Device::new(Config { sm, ..Config::default() });
        let rows = case.run(&device);
        case.judge(&rows, &format!("sm_{sm}, 64 splits"));
        for (tiling, splits) in [(Tiling::Rows, 1), (Tiling::Rows, 7), (Tiling::Prompt, 1)] {
            assert!(rows == Case { tiling, splits, ..case }.run(&device), "sm_{sm}, {tiling:?}, {splits} splits");
        }
        let window = Case { window: 512, ..case };
        window.judge(&window.run(&device), &format!("sm_{sm}, 64 splits, a window of 512"));
    }
}

#[test]
fn forty_heads_on_two() {
    let many = Case { n_head: 40, n_head_kv: 2, head_dim: 32, rows: &[(0, 70), (1, 5)], ..BASE };
    check(&[
        many,
        Case { splits: 3, image: true, kind: CacheType::Q8_0, ..many },
        Case { tiling: Tiling::Prompt, rows: MIXED, ..many },
    ]);
}
