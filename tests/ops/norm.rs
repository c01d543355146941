//! Norms with their residual sum and their image.

use qrun_cuda::{
    Ptr,
    ops::{
        activations::QuantizedActivations,
        norm::{NormKind, NormParams, norm},
    },
};

use crate::harness::{Buffer, Device, Random, assert_close, everywhere};

const EPS: f32 = 1e-6;
const POST_EPS: f32 = 1e-2;
/// What lies where nothing is to be written.
const UNTOUCHED: f32 = -77.0;

#[derive(Clone, Copy)]
struct Case {
    kind: NormKind,
    n: usize,
    /// Per row of `x`; negative: idle. Where all are 0, the kernel is told of none.
    seq: &'static [i32],
    add: bool,
    post: bool,
    image: bool,
    index: Option<&'static [i32]>,
    /// Size of the numbers.
    size: f32,
    /// Factor on what joins.
    scale: f32,
    /// Factor on the stream with it.
    x_scale: f32,
    /// Whether something is added at last.
    bias: bool,
}

const BASE: Case = Case {
    kind: NormKind::Rms,
    n: 64,
    seq: &[0, -1, 3],
    add: false,
    post: false,
    image: false,
    index: None,
    size: 1.0,
    scale: 1.0,
    x_scale: 1.0,
    bias: false,
};
const CASES: &[Case] = &[
    Case { n: 2, ..BASE },
    Case { n: 30, add: true, ..BASE },
    Case { n: 62, add: true, post: true, ..BASE },
    Case { n: 1152, add: true, post: true, image: true, size: 300.0, scale: 0.22, ..BASE },
    Case { n: 2080, add: true, image: true, seq: &[0], size: 1e-3, ..BASE },
    Case { n: 32, image: true, ..BASE },
    Case { n: 544, image: true, add: true, seq: &[0, 0, 0, -1, 1], ..BASE },
    Case { n: 96, add: true, post: true, image: true, seq: &[0, 1, 2, 3], index: Some(&[3, -1, 0]), ..BASE },
    Case { n: 4098, seq: &[5], ..BASE },
    Case { n: 70, seq: &[0, 0], add: true, scale: 3.0, ..BASE },
    Case { n: 1152, add: true, post: true, image: true, x_scale: 0.07, ..BASE },
    Case { n: 62, add: true, x_scale: 30.0, size: 1e-3, ..BASE },
    Case { kind: NormKind::Layer, n: 2, ..BASE },
    Case { kind: NormKind::Layer, n: 96, add: true, x_scale: 0.5, ..BASE },
    Case { kind: NormKind::Layer, n: 90, add: true, scale: 0.22, ..BASE },
    Case { kind: NormKind::Layer, n: 1152, add: true, post: true, image: true, size: 300.0, ..BASE },
    Case { kind: NormKind::Layer, n: 4098, seq: &[0, 1, -1], add: true, index: Some(&[1, 0]), ..BASE },
    Case { kind: NormKind::Layer, n: 2, bias: true, ..BASE },
    Case { kind: NormKind::Layer, n: 90, bias: true, add: true, x_scale: 0.5, ..BASE },
    Case { kind: NormKind::Layer, n: 384, bias: true, add: true, image: true, seq: &[0, 0, -1, 2], ..BASE },
    Case { kind: NormKind::Layer, n: 4128, bias: true, image: true, add: true, index: Some(&[2, -1, 0]), ..BASE },
    Case { kind: NormKind::None, n: 62, add: true, post: true, ..BASE },
    Case { kind: NormKind::None, n: 2080, add: true, image: true, scale: 0.22, size: 1e-3, ..BASE },
    Case { kind: NormKind::None, n: 96, image: true, index: Some(&[2, -1]), ..BASE },
];

struct Data {
    x: Vec<f32>,
    add: Vec<f32>,
    post: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Case {
    fn data(&self) -> Data {
        let mut r = Random::new(self.n as u64);
        let rows = self.seq.len();
        let mut many = |n, scale: f32| r.normals(n).iter().map(|x| x * scale).collect::<Vec<_>>();
        let (x, add) = (many(rows * self.n, self.size), many(rows * self.n, 2.0 * self.size));
        Data { x, add, post: many(self.n, 1.0), weight: many(self.n, 1.0), bias: many(self.n, 1.0) }
    }

    /// Row of x for each row of y; none: idle.
    fn sources(&self) -> Vec<Option<usize>> {
        match self.index {
            Some(index) => index.iter().map(|&i| usize::try_from(i).ok()).collect(),
            None => self.seq.iter().enumerate().map(|(i, &s)| (s >= 0).then_some(i)).collect(),
        }
    }

    /// x, y, and the image's q, d and s, one after the other.
    fn lengths(&self) -> [usize; 5] {
        let (x, y) = (self.seq.len() * self.n, self.sources().len() * self.n);
        let image = if self.image { y } else { 0 };
        [x, y, image, image / 32, image / 16]
    }
}

fn run(device: &Device, case: &Case) -> Vec<f32> {
    let data = case.data();
    let lengths = case.lengths();
    let optional = |on: bool, values: &[f32]| on.then(|| device.buffer(values));
    let ptr = |b: &Option<Buffer<f32>>| b.as_ref().map_or(Ptr::NULL, |b| b.ptr);
    let (x, weight, seq) = (device.buffer(&data.x), device.buffer(&data.weight), device.buffer(case.seq));
    let (add, post) = (optional(case.add, &data.add), optional(case.post, &data.post));
    let bias = optional(case.bias, &data.bias);
    let index = case.index.map(|i| device.buffer(i));
    let y = device.buffer(&vec![UNTOUCHED; lengths[1]]);
    let q = device.buffer(&vec![UNTOUCHED as i8; lengths[2]]);
    let (d, s) = (device.buffer(&vec![UNTOUCHED; lengths[3]]), device.buffer(&vec![UNTOUCHED; lengths[4]]));
    let image = if case.image {
        QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr }
    } else {
        QuantizedActivations::default()
    };
    let p = NormParams {
        x: x.ptr,
        add: ptr(&add),
        post: ptr(&post),
        weight: if case.kind == NormKind::None { Ptr::NULL } else { weight.ptr },
        x_out: if case.add && case.index.is_none() { x.ptr } else { Ptr::NULL },
        seq: if case.seq.iter().all(|&s| s == 0) { Ptr::NULL } else { seq.ptr },
        index: index.as_ref().map_or(Ptr::NULL, |b| b.ptr),
        y: y.ptr,
        image,
        n: case.n as i32,
        eps: EPS,
        post_eps: POST_EPS,
        scale: case.scale,
        x_scale: case.x_scale,
        share: 0.0,
        bias: ptr(&bias),
    };
    // SAFETY: buffers of these shapes, which live until the results are read.
    unsafe { norm(&device.stream, case.sources().len() as u32, case.kind, &p) }.expect("a launch");
    let mut all = [device.read(&x), device.read(&y)].concat();
    if case.image {
        all.extend(device.read(&q).iter().map(|&q| f32::from(q)));
        all.extend([device.read(&d), device.read(&s)].concat());
    }
    all
}

fn judge(case: &Case, found: &[f32], what: &str) {
    let (data, n) = (case.data(), case.n);
    let mut rest = found;
    let [x, y, q, d, s] = case.lengths().map(|len| rest.split_off(..len).expect("all parts"));
    let mean = |v: &[f64]| v.iter().sum::<f64>() / n as f64;
    let rms = |v: &[f64], eps: f32| (mean(&v.iter().map(|x| x * x).collect::<Vec<_>>()) + f64::from(eps)).sqrt();
    let mut expected_x: Vec<f64> = data.x.iter().map(|&x| f64::from(x)).collect();
    for (row, source) in case.sources().into_iter().enumerate() {
        let y = &y[row * n..(row + 1) * n];
        let Some(source) = source else {
            assert!(y.iter().all(|&y| y == UNTOUCHED), "{what}: an idle row was written");
            continue;
        };
        let add: Vec<f64> = data.add[source * n..(source + 1) * n].iter().map(|&x| f64::from(x)).collect();
        let mut joined = expected_x[source * n..(source + 1) * n].to_vec();
        if case.add {
            for (i, x) in joined.iter_mut().enumerate() {
                let add = if case.post { add[i] / rms(&add, POST_EPS) * f64::from(data.post[i]) } else { add[i] };
                *x += add * f64::from(case.scale);
            }
        }
        let off = if case.kind == NormKind::Layer { mean(&joined) } else { 0.0 };
        let centred: Vec<f64> = joined.iter().map(|x| x - off).collect();
        let factor = if case.kind == NormKind::None { 1.0 } else { 1.0 / rms(&centred, EPS) };
        let weight = |i: usize| if case.kind == NormKind::None { 1.0 } else { f64::from(data.weight[i]) };
        let bias = |i: usize| if case.bias { f64::from(data.bias[i]) } else { 0.0 };
        let normed = centred.iter().enumerate().map(|(i, x)| x * factor * weight(i) + bias(i));
        let expected: Vec<f64> = normed.collect();
        assert_close(y, &expected, 3e-7, what);
        if case.index.is_none() {
            let scaled = joined.iter().map(|x| x * if case.add { f64::from(case.x_scale) } else { 1.0 });
            expected_x[source * n..(source + 1) * n].iter_mut().zip(scaled).for_each(|(to, x)| *to = x);
        }
        if case.image {
            judge_image(y, [&q[row * n..], &d[row * n / 32..], &s[row * n / 16..]], what);
        }
    }
    assert_close(x, &expected_x, 1e-7, what);
}

/// The image of `x`, from its definition.
pub fn judge_image(x: &[f32], [q, d, s]: [&[f32]; 3], what: &str) {
    for (b, block) in x.chunks(32).enumerate() {
        let scale = block.iter().fold(0f32, |m, x| m.max(x.abs())) / 127.0;
        assert_eq!(d[b], scale, "{what}: scale of block {b}");
        let mut sums = [0.0; 2];
        for (e, x) in block.iter().enumerate() {
            let expected = if scale > 0.0 { (x / scale).round_ties_even() } else { 0.0 };
            let place = 8 * (e % 16 / 4) + 4 * (e / 16) + e % 4;
            assert_eq!(q[32 * b + place], expected, "{what}: element {e} of block {b}");
            sums[e / 16] += expected;
        }
        assert_eq!([s[2 * b], s[2 * b + 1]], sums.map(|sum| scale * sum), "{what}: sums of block {b}");
    }
}

#[test]
fn norms_are_exact() {
    everywhere(
        |device| CASES.iter().flat_map(|case| run(device, case)).collect(),
        |mut found| {
            for (i, case) in CASES.iter().enumerate() {
                let len = case.lengths().iter().sum();
                judge(case, found.split_off(..len).expect("all cases"), &format!("case {i}, n {}", case.n));
            }
        },
    );
}

/// What quantized consumers get: no numbers beside the image.
#[test]
fn an_image_alone_is_the_same_image() {
    let case = Case { n: 96, image: true, seq: &[0, 2], ..BASE };
    let data = case.data();
    let image = |device: &Device, with_numbers: bool| {
        let (x, weight) = (device.buffer(&data.x), device.buffer(&data.weight));
        let (q, d, s) = (device.buffer(&[0i8; 192]), device.buffer(&[0f32; 6]), device.buffer(&[0f32; 12]));
        let y = with_numbers.then(|| device.buffer(&[0f32; 192]));
        let p = NormParams {
            x: x.ptr,
            weight: weight.ptr,
            y: y.as_ref().map_or(Ptr::NULL, |y| y.ptr),
            image: QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr },
            n: 96,
            eps: EPS,
            ..NormParams::default()
        };
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe { norm(&device.stream, 2, NormKind::Rms, &p) }.expect("a launch");
        let q = device.read(&q).iter().map(|&q| f32::from(q)).collect();
        [q, device.read(&d), device.read(&s)].concat()
    };
    everywhere(
        |device| [image(device, true), image(device, false)].concat(),
        |found| assert!(found[..210] == found[210..] && found.iter().any(|&x| x != 0.0)),
    );
}

/// Also those of a LayerNorm with a bias, which are the stream that the next sum goes to.
#[test]
fn rows_are_normed_in_place() {
    let rows = |device: &Device, (kind, n): (NormKind, usize), apart: bool| {
        let mut random = Random::new(n as u64);
        let [x, add] = [2, 2].map(|rows| device.buffer(&random.normals(rows * n)));
        let [weight, bias] = [1, 1].map(|rows| device.buffer(&random.normals(rows * n)));
        let y = device.buffer(&vec![UNTOUCHED; 2 * n]);
        let to = if apart { &y } else { &x };
        let (add, bias) = if kind == NormKind::Layer { (add.ptr, bias.ptr) } else { (Ptr::NULL, Ptr::NULL) };
        let weight = weight.ptr;
        let p = NormParams { x: x.ptr, add, weight, bias, y: to.ptr, n: n as i32, eps: EPS, ..NormParams::default() };
        // SAFETY: buffers of these shapes, which live until the results are read.
        unsafe { norm(&device.stream, 2, kind, &p) }.expect("a launch");
        device.read(to)
    };
    const ROWS: [(NormKind, usize); 5] = [
        (NormKind::Rms, 70),
        (NormKind::Rms, 544),
        (NormKind::Rms, 4098),
        (NormKind::Layer, 70),
        (NormKind::Layer, 4098),
    ];
    everywhere(
        |device| ROWS.iter().flat_map(|&of| [rows(device, of, true), rows(device, of, false)].concat()).collect(),
        |mut found| {
            for (kind, n) in ROWS {
                let both = found.split_off(..4 * n).expect("both");
                assert!(both[..2 * n] == both[2 * n..], "{kind:?}, rows of {n}");
            }
        },
    );
}
