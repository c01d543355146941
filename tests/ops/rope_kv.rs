//! Norms of heads, rotary embedding, and what is appended to the cache.

use qrun_cuda::{
    Ptr,
    ops::{
        cache::CacheType,
        rope_kv::{Pairs, RopeKv, rope_kv, turns},
    },
};

use crate::{
    cache::HostCache,
    harness::{Buffer, Device, Random, assert_close, everywhere},
};

const EPS: f32 = 1e-6;
/// Bytes of the cache before anything is appended.
const FILL: u8 = 0xA5;
const PAGES: usize = 3;

#[derive(Clone, Copy)]
struct Case {
    n_head: usize,
    n_head_kv: usize,
    head_dim: usize,
    n_rot: usize,
    pairs: Pairs,
    norm: bool,
    kind: CacheType,
    base: f64,
    magnitude: f32,
    /// Elements from head to head of queries, in heads.
    step: usize,
    /// Whether values are normed.
    v_norm: bool,
    /// Whether there are keys and values.
    own: bool,
    /// (sequence, position) per row.
    rows: &'static [(i32, i32)],
}

const FAR: &[(i32, i32)] = &[(0, 131_071), (1, 131_070), (-1, 9), (1, 131_071)];
const PAGE_EDGES: &[(i32, i32)] = &[(0, 0), (0, 63), (2, 64), (0, 65), (1, 128), (1, 200), (2, 65)];
const BASE: Case = Case {
    n_head: 4,
    n_head_kv: 4,
    head_dim: 64,
    n_rot: 64,
    pairs: Pairs::Halves,
    norm: false,
    kind: CacheType::F16,
    base: 1e4,
    magnitude: 1.0,
    step: 1,
    v_norm: false,
    own: true,
    rows: PAGE_EDGES,
};
const CASES: &[Case] = &[
    BASE,
    Case { pairs: Pairs::Interleaved, base: 5e5, rows: FAR, ..BASE },
    Case { head_dim: 256, n_rot: 256, norm: true, base: 1e6, rows: FAR, n_head: 1, n_head_kv: 1, ..BASE },
    Case { head_dim: 128, n_rot: 128, norm: true, kind: CacheType::Q8_0, n_head: 9, n_head_kv: 9, ..BASE },
    Case { head_dim: 80, n_rot: 32, kind: CacheType::Q8_0, rows: FAR, ..BASE },
    Case { head_dim: 96, n_rot: 64, magnitude: 1.5, step: 2, norm: true, ..BASE },
    Case { head_dim: 80, n_rot: 80, n_head: 2, n_head_kv: 2, ..BASE },
    Case { head_dim: 96, n_rot: 96, pairs: Pairs::Interleaved, norm: true, ..BASE },
    Case { head_dim: 16, n_rot: 16, kind: CacheType::Q8_0, n_head: 3, n_head_kv: 3, ..BASE },
    Case { head_dim: 512, n_rot: 512, norm: true, v_norm: true, rows: FAR, n_head: 2, n_head_kv: 2, ..BASE },
    Case { head_dim: 288, n_rot: 96, v_norm: true, kind: CacheType::Q8_0, n_head: 9, n_head_kv: 9, ..BASE },
    Case { head_dim: 80, n_rot: 80, norm: true, v_norm: true, ..BASE },
    Case { head_dim: 512, n_rot: 512, own: false, ..BASE },
    Case { norm: true, own: false, ..BASE },
];

struct Data {
    /// Queries and keys are the same numbers, so that what is turned can be compared with what is stored.
    qk: Vec<f32>,
    v: Vec<f32>,
    norm: Vec<f32>,
    frequency: Vec<f64>,
}

impl Case {
    fn data(&self) -> Data {
        let mut r = Random::new(self.head_dim as u64);
        let n = self.rows.len() * self.n_head * self.head_dim;
        let mut qk = r.normals(n);
        // The first head holds ones and zeros in pairs: it becomes the cosines and sines themselves.
        for row in qk.chunks_exact_mut(self.n_head * self.head_dim) {
            for i in 0..self.n_rot / 2 {
                let (a, b) = self.pair(i);
                (row[a], row[b]) = (1.0, 0.0);
            }
        }
        let frequency = (0..self.n_rot / 2).map(|i| self.base.powf(-2.0 * i as f64 / self.n_rot as f64));
        Data { qk, v: r.normals(n), norm: r.normals(self.head_dim), frequency: frequency.collect() }
    }

    fn pair(&self, i: usize) -> (usize, usize) {
        match self.pairs {
            Pairs::Interleaved => (2 * i, 2 * i + 1),
            Pairs::Halves => (i, i + self.n_rot / 2),
        }
    }

    /// What the cache gets of a head's value.
    fn value(&self, v: &[f32]) -> Vec<f64> {
        let mean = v.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / v.len() as f64;
        let factor = if self.v_norm { 1.0 / (mean + f64::from(EPS)).sqrt() } else { 1.0 };
        v.iter().map(|&x| f64::from(x) * factor).collect()
    }

    fn cache(&self) -> HostCache {
        HostCache::new(self.kind, [self.n_head_kv, self.head_dim], [3, PAGES], FILL)
    }

    fn expected(&self, data: &Data, row: usize, head: usize) -> Vec<f64> {
        let at = (row * self.n_head + head) * self.head_dim;
        let mut x: Vec<f64> = data.qk[at..at + self.head_dim].iter().map(|&x| f64::from(x)).collect();
        if self.norm {
            let rms = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + f64::from(EPS)).sqrt();
            x.iter_mut().zip(&data.norm).for_each(|(x, &w)| *x = *x / rms * f64::from(w));
        }
        for (i, frequency) in data.frequency.iter().enumerate() {
            let (a, b) = self.pair(i);
            let (sin, cos) = (f64::from(self.rows[row].1) * frequency).sin_cos();
            let (sin, cos) = (sin * f64::from(self.magnitude), cos * f64::from(self.magnitude));
            (x[a], x[b]) = (x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos);
        }
        x
    }
}

/// The turned queries, the values as they are stored, then the four planes of the cache, each byte and each scale as a number.
fn run(device: &Device, case: &Case) -> Vec<f32> {
    let data = case.data();
    let (seq, pos): (Vec<_>, Vec<_>) = case.rows.iter().copied().unzip();
    let (q, v, norm) = (device.buffer(&data.qk), device.buffer(&data.v), device.buffer(&data.norm));
    let k = device.buffer(&data.qk);
    let frequency = device.buffer(&data.frequency.iter().map(|f| turns(*f)).collect::<Vec<u64>>());
    let (pos, seq): (Buffer<i32>, Buffer<i32>) = (device.buffer(&pos), device.buffer(&seq));
    let cache = case.cache().upload(device);
    // Between the heads of queries lies what is nobody's.
    let apart = data
        .qk
        .chunks_exact(case.head_dim)
        .flat_map(|head| head.iter().copied().chain(std::iter::repeat_n(f32::NAN, (case.step - 1) * case.head_dim)));
    let queries = device.buffer(&apart.collect::<Vec<f32>>());
    let norm_ptr = if case.norm { norm.ptr } else { Ptr::NULL };
    let p = RopeKv {
        q: if case.step > 1 { queries.ptr } else { q.ptr },
        q_out: q.ptr,
        k: if case.own { k.ptr } else { Ptr::NULL },
        v: if case.own { v.ptr } else { Ptr::NULL },
        q_norm: norm_ptr,
        k_norm: norm_ptr,
        frequency: frequency.ptr,
        pos: pos.ptr,
        seq: seq.ptr,
        cache: cache.cache,
        n_head: case.n_head as i32,
        n_head_kv: case.n_head_kv as i32,
        head_dim: case.head_dim as i32,
        n_rot: case.n_rot as i32,
        pairs: case.pairs,
        eps: EPS,
        magnitude: case.magnitude,
        q_step: (case.step * case.head_dim) as i32,
        v_norm: case.v_norm.into(),
        share: 0.0,
    };
    // SAFETY: buffers of these shapes, which live until the results are read.
    unsafe { rope_kv(&device.stream, case.rows.len() as u32, &p) }.expect("a launch");
    // Normed values are queries that are normed by ones and do not turn.
    if case.v_norm {
        let ones = device.buffer(&vec![1f32; case.head_dim]);
        let step = case.head_dim as i32;
        let values = RopeKv { q: v.ptr, q_out: v.ptr, q_norm: ones.ptr, k: Ptr::NULL, n_rot: 0, q_step: step, ..p };
        // SAFETY: as above.
        unsafe { rope_kv(&device.stream, case.rows.len() as u32, &values) }.expect("a launch");
    }
    let mut all = [device.read(&q), device.read(&v)].concat();
    for (elements, scales) in &cache.planes {
        all.extend(device.read(elements).iter().map(|&x| f32::from(x)));
        all.extend(device.read(scales).iter().map(|&x| f32::from(x)));
    }
    all
}

fn judge(case: &Case, found: &mut &[f32], what: &str) {
    let data = case.data();
    let width = case.n_head * case.head_dim;
    let q = found.split_off(..data.qk.len()).expect("queries");
    let v = found.split_off(..data.v.len()).expect("values");
    let mut expected = case.cache();
    for (row, &(seq, pos)) in case.rows.iter().enumerate() {
        let row_of = row * width..(row + 1) * width;
        if seq < 0 {
            assert_eq!(q[row_of.clone()], data.qk[row_of], "{what}: an idle row was turned");
            continue;
        }
        for head in 0..case.n_head {
            let at = (row * case.n_head + head) * case.head_dim;
            for (i, (found, expected)) in q[at..].iter().zip(case.expected(&data, row, head)).enumerate() {
                let error = (f64::from(*found) - expected).abs();
                let bound = if head == 0 && !case.norm { 3e-7 } else { 1e-6 * expected.abs().max(1.0) };
                assert!(error <= bound, "{what}, row {row}, head {head}, element {i}: {found} for {expected}");
            }
            let value = at..at + case.head_dim;
            assert_close(&v[value.clone()], &case.value(&data.v[value]), 1e-6, what);
        }
        if case.own {
            expected.write(seq as usize, pos as usize, [q[row_of.clone()].to_vec(), v[row_of].to_vec()]);
        }
    }
    for which in 0..2 {
        let (elements, scales) = expected.plane(which);
        let found_elements = found.split_off(..elements.len()).expect("elements");
        assert!(found_elements.iter().zip(elements).all(|(&f, &e)| f == f32::from(e)), "{what}: plane {which}");
        let found_scales = found.split_off(..scales.len()).expect("scales");
        assert!(found_scales.iter().zip(scales).all(|(&f, &e)| f == f32::from(e)), "{what}: scales {which}");
    }
}

#[test]
fn rope_turns_and_the_cache_gets_every_token_and_nothing_else() {
    everywhere(
        |device| CASES.iter().flat_map(|case| run(device, case)).collect(),
        |mut found| {
            for (i, case) in CASES.iter().enumerate() {
                judge(case, &mut found, &format!("case {i}, head_dim {}", case.head_dim));
            }
            assert!(found.is_empty());
        },
    );
}
