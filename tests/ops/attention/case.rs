//! A case of attention: what it reads and writes, and the softmax in f64 that it is judged by.

use qrun_cuda::{
    Arena, Ptr,
    ops::{
        activations::QuantizedActivations,
        attention::{Attention, Scratch, Tiling, attention},
        cache::{Cache, CacheType, PAGE},
    },
};

use crate::{
    cache::{HostCache, stored},
    harness::{Device, Random, assert_close},
    norm::judge_image,
};

/// What lies where nothing is to be written.
const UNTOUCHED: f32 = -77.0;
/// Bound on the relative L2 error against the values that the cache holds.
const EXACT: f64 = 5e-6;

#[derive(Clone, Copy)]
pub struct Case {
    pub head_dim: usize,
    pub n_head: usize,
    pub n_head_kv: usize,
    pub kind: CacheType,
    pub tiling: Tiling,
    pub splits: usize,
    pub window: usize,
    pub softcap: f32,
    /// Size of the queries, which the scale takes back; 2 makes the softmax pointed.
    pub queries: f32,
    /// Of queries with the position: growth, and from where on.
    pub growth: (f32, usize),
    /// Elements from head to head of gates, in heads; 0: there are none.
    pub gates: usize,
    /// Of the first head's sink, and what each further head has more; `None`: there are none.
    pub sinks: Option<(f32, f32)>,
    pub image: bool,
    /// Elements of keys, from the front, that are values; 0: values are apart.
    pub latent: usize,
    /// Tokens of each text behind its last row here, which all of its rows see; `None`: they see none behind them.
    pub behind: Option<usize>,
    /// (sequence, position) per row; negative sequence: idle.
    pub rows: &'static [(i32, i32)],
}

pub const BASE: Case = Case {
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
pub const PAGE_EDGES: &[(i32, i32)] = &[(0, 62), (1, 63), (2, 64), (-1, 5), (3, 127), (4, 128), (5, 0)];
/// A window of 40: contexts of W−1, W, W+1 tokens, and rings of pages that have wrapped.
pub const WINDOW_EDGES: &[(i32, i32)] = &[(0, 38), (1, 39), (2, 40), (3, 103), (4, 200), (5, 391)];
/// A prompt of one sequence, at a page's end.
pub const PROMPT: &[(i32, i32)] = &prompt::<24>(0, 55);
/// The ends of two prompts, an idle row, and a third.
pub const MIXED: &[(i32, i32)] =
    &[(0, 61), (0, 62), (0, 63), (0, 64), (2, 0), (2, 1), (2, 2), (-1, 0), (1, 9), (1, 10), (1, 11), (1, 12), (1, 13)];

/// A whole text beyond a page, an idle row, one of a token, and one of several.
pub const TEXTS: &[(i32, i32)] = &{
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

pub const fn prompt<const N: usize>(seq: i32, first: i32) -> [(i32, i32); N] {
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

    pub fn run(&self, device: &Device) -> Vec<f32> {
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

    pub fn judge(&self, found: &[f32], what: &str) {
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
