//! Latent attention before and behind attention itself: products with a matrix for each head, ends of queries, and what is kept of a
//! token.

use qrun_cuda::{
    Arena, Ptr,
    ops::{
        activations::{QuantizedActivations, quantize_front},
        cache::CacheType,
        experts::{AllHeads, all_heads},
        gemm::gemm,
        matmul::{MatmulParams, Segment, gemv},
        product::{quantized_product, sum_product_takes},
        rope_kv::{LatentKv, Pairs, RopeKv, latent_kv, turns},
    },
};
use qrun_quant::GgmlType;

use crate::{
    cache::HostCache,
    harness::{Device, Random, UNTOUCHED, assert_close, everywhere},
    operands::{Activations, Weights, is_dense, matrix},
};

/// The product of each head's `[width][k]` with the first `k` of its `step` elements.
struct Heads {
    format: GgmlType,
    rows: usize,
    n_head: usize,
    width: usize,
    k: usize,
    step: usize,
}

impl Heads {
    fn data(&self) -> (Weights, Vec<f32>) {
        let mut random = Random::new((self.rows * 31 + self.k) as u64);
        let weights = Weights::random(&mut random, self.format, self.n_head * self.width * self.k, 0.1);
        (weights, random.normals(self.rows * self.n_head * self.step))
    }

    /// `[rows][n_head][width]`.
    fn run(&self, device: &Device) -> Vec<f32> {
        let (weights, x) = self.data();
        let (w, x) = (matrix(device, self.format, &weights.bytes, self.k), device.buffer(&x));
        let columns = self.rows * self.n_head;
        let n = columns * self.k;
        let (q, d, s) = (device.empty(n), device.empty(n / 32), device.empty(n / 16));
        let image = QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr };
        let y = device.buffer(&vec![UNTOUCHED; columns * self.width]);
        let shape = [self.rows, self.n_head];
        let (_arena, heads) = Arena::new(&device.gpu, |layout| AllHeads::take(layout, "test", shape)).expect("memory");
        let heads = heads.of(self.rows, self.n_head);
        let segment = Segment {
            w: w.ptr,
            y: y.ptr,
            rows: self.width as i32,
            y_stride: self.width as i32,
            format: self.format as i32,
            expert_rows: self.width as i32,
            ..Segment::default()
        };
        let x_step = self.step as i32;
        let product =
            heads.product(MatmulParams { k: self.k as i32, image, x: x.ptr, x_step, ..MatmulParams::default() });
        device.fence(product.experts, product.expert_tiles as usize, "tiles of heads");
        device.fence(product.y_columns, columns, "columns of heads");
        // SAFETY: buffers of these shapes, and lists with room for them, which live until the result is read.
        unsafe {
            all_heads(&device.stream, &heads).expect("a launch");
            if is_dense(self.format) {
                gemv(&device.stream, &product.with(&[segment])).expect("a launch");
            } else {
                quantize_front(&device.stream, x.ptr, image, [columns, self.k, self.step]).expect("a launch");
                gemm(&device.stream, &product.with(&[segment])).expect("a launch");
            }
        }
        let result = device.read(&y);
        if self.rows == 1 && !is_dense(self.format) {
            self.compare_at_once(device, product.with(&[segment]), &result);
        }
        result
    }

    /// Of one row the same comes of a product that quantizes what each head has, in one launch; and so of all heads as one column.
    fn compare_at_once(&self, device: &Device, product: MatmulParams, result: &[f32]) {
        let y = device.buffer(&vec![UNTOUCHED; result.len()]);
        let segment = Segment { y: y.ptr, ..product.segment[0] };
        assert!(sum_product_takes(self.k, &[self.format]));
        // SAFETY: as above.
        unsafe { quantized_product(&device.stream, &product.with(&[segment])) }.expect("a launch");
        let same = device.read(&y).iter().zip(result).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{:?}: in one launch", self.format);
        // The first rows of the first head's matrix with the first column, in two launches and in one.
        let (q, d, s) = (device.empty(self.k), device.empty(self.k / 32), device.empty(self.k / 16));
        let image = QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr };
        let both = [(); 2].map(|()| device.buffer(&vec![UNTOUCHED; self.width]));
        let [apart, at_once] = both.each_ref().map(|y| {
            let segment = Segment { y: y.ptr, expert_rows: 0, ..product.segment[0] };
            MatmulParams { k: self.k as i32, columns: 1, image, x: product.x, ..MatmulParams::default() }
                .with(&[segment])
        });
        // SAFETY: as above.
        unsafe {
            quantize_front(&device.stream, product.x, image, [1, self.k, self.k]).expect("a launch");
            gemm(&device.stream, &apart).expect("a launch");
            quantized_product(&device.stream, &at_once).expect("a launch");
        }
        let [apart, at_once] = both.map(|y| device.read(&y));
        let same = apart.iter().zip(&at_once).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same && apart[0] != UNTOUCHED, "{:?}: one column in one launch", self.format);
    }

    fn judge(&self, found: &[f32]) {
        let (weights, x) = self.data();
        let mut expected = Vec::new();
        for (column, x) in x.chunks_exact(self.step).enumerate() {
            let x = Activations::new(x[..self.k].to_vec());
            let image = if is_dense(self.format) { x.values.iter().map(|&x| f64::from(x)).collect() } else { x.image };
            let of_head = weights.values.chunks_exact(self.width * self.k).nth(column % self.n_head).expect("a head");
            let dot = |row: &[f32]| row.iter().zip(&image).map(|(&w, x)| f64::from(w) * x).sum::<f64>();
            expected.extend(of_head.chunks_exact(self.k).map(dot));
        }
        let bound = if is_dense(self.format) { 1e-5 } else { 2e-6 };
        assert_close(found, &expected, bound, &format!("{:?}, {} rows, {} heads", self.format, self.rows, self.n_head));
    }
}

#[test]
fn each_head_multiplies_what_it_has_with_its_own_matrix() {
    let case = |format, rows, n_head| Heads { format, rows, n_head, width: 48, k: 96, step: 160 };
    let cases = [
        Heads { width: 64, ..case(GgmlType::Q8_0, 1, 20) },
        Heads { k: 256, step: 320, width: 96, ..case(GgmlType::Q6_K, 1, 3) },
        Heads { k: 128, step: 192, width: 32, ..case(GgmlType::Q5_1, 1, 4) },
        case(GgmlType::Q4_0, 5, 3),
        case(GgmlType::Q5_0, 16, 2),
        case(GgmlType::Q8_0, 70, 3),
        Heads { k: 256, step: 256, width: 16, ..case(GgmlType::Q6_K, 9, 4) },
        Heads { k: 512, step: 512, width: 128, ..case(GgmlType::Q4_K, 2, 2) },
        Heads { width: 65, ..case(GgmlType::BF16, 1, 20) },
        case(GgmlType::F32, 5, 3),
        case(GgmlType::F16, 70, 3),
    ];
    for case in cases {
        everywhere(|device| case.run(device), |found| case.judge(found));
    }
}

const EPS: f32 = 1e-6;
/// Bytes of the cache before anything is appended.
const FILL: u8 = 0xA5;
const PAGES: usize = 3;
/// (sequence, position), one of them idle.
const ROWS: &[(i32, i32)] = &[(0, 0), (0, 63), (-1, 4), (2, 64), (1, 131_071)];

/// What becomes of queries and of a token's vector.
#[derive(Clone, Copy)]
struct Case {
    rank: usize,
    n_rot: usize,
    n_head: usize,
    /// Elements of a projected query that do not turn.
    n_nope: usize,
    pairs: Pairs,
    kind: CacheType,
    magnitude: f32,
    /// Whether keys go to the host, too.
    k_out: bool,
}

const CASE: Case = Case {
    rank: 512,
    n_rot: 64,
    n_head: 20,
    n_nope: 192,
    pairs: Pairs::Interleaved,
    kind: CacheType::F16,
    magnitude: 1.0,
    k_out: true,
};

const CASES: &[Case] = &[
    CASE,
    Case { rank: 256, n_head: 7, pairs: Pairs::Halves, kind: CacheType::Q8_0, magnitude: 1.3, k_out: false, ..CASE },
    Case { rank: 96, n_rot: 16, n_head: 8, n_nope: 32, kind: CacheType::Q8_0, ..CASE },
    Case { rank: 32, n_rot: 128, n_head: 1, pairs: Pairs::Halves, ..CASE },
    Case { rank: 480, n_rot: 8, n_head: 15, n_nope: 64, k_out: false, ..CASE },
];

struct Data {
    absorbed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    norm: Vec<f32>,
    frequency: Vec<f64>,
}

impl Case {
    fn head_dim(&self) -> usize {
        self.rank + self.n_rot
    }

    fn data(&self) -> Data {
        let mut random = Random::new(self.head_dim() as u64);
        let mut values = |width: usize| random.normals(ROWS.len() * width);
        let (absorbed, queries) = (values(self.n_head * self.rank), values(self.n_head * (self.n_nope + self.n_rot)));
        let keys = values(self.head_dim());
        let frequency = (0..self.n_rot / 2).map(|i| 1e4f64.powf(-2.0 * i as f64 / self.n_rot as f64)).collect();
        Data { absorbed, queries, keys, norm: random.normals(self.rank), frequency }
    }

    fn cache(&self) -> HostCache {
        HostCache::new(self.kind, [1, self.head_dim()], [3, PAGES], FILL)
    }

    fn turned(&self, data: &Data, row: usize, x: &[f32]) -> Vec<f64> {
        let mut x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        for (i, frequency) in data.frequency.iter().enumerate() {
            let (a, b) = match self.pairs {
                Pairs::Interleaved => (2 * i, 2 * i + 1),
                Pairs::Halves => (i, i + self.n_rot / 2),
            };
            let (sin, cos) = (f64::from(ROWS[row].1) * frequency).sin_cos();
            let (sin, cos) = (sin * f64::from(self.magnitude), cos * f64::from(self.magnitude));
            (x[a], x[b]) = (x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos);
        }
        x
    }

    /// Queries, keys, and the bytes and scales of the cache as numbers.
    fn run(&self, device: &Device) -> Vec<f32> {
        let data = self.data();
        let queries = device.buffer(&data.queries);
        let (keys, norm) = (device.buffer(&data.keys), device.buffer(&data.norm));
        let frequency = device.buffer(&data.frequency.iter().map(|f| turns(*f)).collect::<Vec<u64>>());
        let (seq, pos): (Vec<_>, Vec<_>) = ROWS.iter().copied().unzip();
        let (seq, pos) = (device.buffer(&seq), device.buffer(&pos));
        let cache = self.cache().upload(device);
        let fronts = data.absorbed.chunks_exact(self.rank);
        let q_out: Vec<f32> = fronts.flat_map(|front| [front, &vec![UNTOUCHED; self.n_rot]].concat()).collect();
        let q_out = device.buffer(&q_out);
        let k_out = device.buffer(&vec![UNTOUCHED; ROWS.len() * self.head_dim()]);
        let rope = RopeKv {
            q: queries.ptr.add(self.n_nope),
            q_out: q_out.ptr,
            k: keys.ptr,
            k_norm: norm.ptr,
            frequency: frequency.ptr,
            pos: pos.ptr,
            seq: seq.ptr,
            cache: cache.cache,
            n_head: self.n_head as i32,
            n_head_kv: 1,
            head_dim: self.head_dim() as i32,
            n_rot: self.n_rot as i32,
            pairs: self.pairs,
            eps: EPS,
            magnitude: self.magnitude,
            q_step: (self.n_nope + self.n_rot) as i32,
            ..RopeKv::default()
        };
        let k_to = if self.k_out { k_out.ptr } else { Ptr::NULL };
        let p = LatentKv { rope, k_out: k_to };
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe { latent_kv(&device.stream, ROWS.len() as u32, &p) }.expect("a launch");
        let mut all = [device.read(&q_out), device.read(&k_out)].concat();
        for (elements, scales) in &cache.planes {
            all.extend(device.read(elements).iter().map(|&x| f32::from(x)));
            all.extend(device.read(scales).iter().map(|&x| f32::from(x)));
        }
        all
    }

    fn judge(&self, mut found: &[f32], what: &str) {
        let (data, n) = (self.data(), self.head_dim());
        let query = self.n_nope + self.n_rot;
        let q = found.split_off(..ROWS.len() * self.n_head * n).expect("queries");
        let k = found.split_off(..ROWS.len() * n).expect("keys");
        for (i, q) in q.chunks_exact(n).enumerate() {
            let row = i / self.n_head;
            assert_eq!(q[..self.rank], data.absorbed[i * self.rank..][..self.rank], "{what}, query {i}");
            if ROWS[row].0 < 0 {
                assert!(q[self.rank..].iter().all(|&x| x == UNTOUCHED), "{what}: an idle row was written");
                continue;
            }
            let turned = self.turned(&data, row, &data.queries[i * query..][self.n_nope..query]);
            assert_close(&q[self.rank..], &turned, 1e-6, &format!("{what}, query {i}"));
        }
        let mut cache = self.cache();
        for (row, &(seq, pos)) in ROWS.iter().enumerate() {
            let (found, x) = (&k[row * n..][..n], &data.keys[row * n..][..n]);
            if seq < 0 || !self.k_out {
                assert!(found.iter().all(|&x| x == UNTOUCHED), "{what}: a key was written");
                continue;
            }
            let (front, turning) = x.split_at(self.rank);
            let mean = front.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / self.rank as f64;
            let rms = (mean + f64::from(EPS)).sqrt();
            let mut expected: Vec<f64> =
                front.iter().zip(&data.norm).map(|(&x, &w)| f64::from(x) / rms * f64::from(w)).collect();
            expected.extend(self.turned(&data, row, turning));
            assert_close(found, &expected, 1e-6, &format!("{what}, key {row}"));
            // What is kept are these numbers; values are not.
            cache.write(seq as usize, pos as usize, [found.to_vec(), vec![0.0; n]]);
        }
        let (elements, scales) = cache.plane(0);
        let found_elements = found.split_off(..elements.len()).expect("elements");
        let found_scales = found.split_off(..scales.len()).expect("scales");
        if self.k_out {
            assert!(found_elements.iter().zip(elements).all(|(&f, &e)| f == f32::from(e)), "{what}: elements");
            assert!(found_scales.iter().zip(scales).all(|(&f, &e)| f == f32::from(e)), "{what}: scales");
        }
        let (fill, half) = (f32::from(FILL), f32::from(u16::from_le_bytes([FILL; 2])));
        assert!(found_elements.iter().any(|&x| x != fill), "{what}: nothing was kept");
        let (values, of_values) = found.split_at(elements.len());
        assert!(values.iter().all(|&x| x == fill) && of_values.iter().all(|&x| x == half), "{what}: values");
    }
}

#[test]
fn ends_of_queries_turn_and_a_vector_is_kept_of_each_token() {
    for (i, case) in CASES.iter().enumerate() {
        everywhere(|device| case.run(device), |found| case.judge(found, &format!("case {i}")));
    }
}
