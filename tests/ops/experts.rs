//! Experts: the choice against ten obvious lines, the lists of rows against the choices, products and sums against f64; and a row's
//! bits whatever stands beside it.

use qrun_cuda::{
    Arena, Ptr,
    ops::{
        activations::QuantizedActivations,
        experts::{Choices, Join, Route, SIGMOID, SOFTMAX, SOFTMAX_OF_CHOSEN, join, route},
        formats::takes_scale,
        gemm,
        matmul::{MatmulParams, Segment, gemv},
        params::{ExpertTile, SILU},
    },
};
use qrun_quant::GgmlType;

use crate::{
    glu::gated,
    harness::{Buffer, Device, Random, UNTOUCHED, assert_close, everywhere},
    operands::{Activations, Weights, is_dense, matrix},
};

/// Experts of a layer and how rows choose.
#[derive(Clone, Copy, Debug)]
struct Case {
    n_expert: usize,
    n_used: usize,
    gating: i32,
    norm: bool,
    bias: bool,
    factor: bool,
    scale: f32,
    rows: usize,
    /// Every so many rows one is idle; 0: none.
    idle: usize,
    /// Groups, how many of them are used, and how many scores say how good one is; 0: none.
    groups: [usize; 3],
}

const CASE: Case = Case {
    n_expert: 12,
    n_used: 3,
    gating: SOFTMAX,
    norm: true,
    bias: false,
    factor: false,
    scale: 1.0,
    rows: 1,
    idle: 0,
    groups: [0; 3],
};

const CASES: &[Case] = &[
    CASE,
    Case { rows: 5, norm: false, ..CASE },
    Case { n_expert: 128, n_used: 8, rows: 33, idle: 4, ..CASE },
    Case { n_expert: 256, n_used: 8, rows: 2, scale: 2.5, ..CASE },
    Case { n_expert: 512, n_used: 10, rows: 9, ..CASE },
    Case { n_expert: 32, n_used: 4, gating: SOFTMAX_OF_CHOSEN, norm: false, rows: 150, ..CASE },
    Case { n_expert: 70, n_used: 6, gating: SIGMOID, bias: true, scale: 1.5, rows: 16, idle: 5, ..CASE },
    Case { n_expert: 33, n_used: 32, gating: SIGMOID, norm: false, factor: true, rows: 8, ..CASE },
    Case { n_expert: 4, n_used: 4, factor: true, rows: 1, ..CASE },
    Case { groups: [4, 2, 2], rows: 7, ..CASE },
    Case { n_expert: 256, n_used: 8, gating: SIGMOID, bias: true, groups: [8, 4, 2], rows: 33, idle: 4, ..CASE },
    // A group of one, and more choices than the groups that are used have experts.
    Case { n_expert: 32, n_used: 6, groups: [32, 3, 1], rows: 9, ..CASE },
    Case { n_expert: 70, n_used: 3, groups: [2, 1, 35], rows: 2, ..CASE },
    // Experts with more than one tile, of 16 and of 64 columns.
    Case { rows: 60, ..CASE },
    Case { n_expert: 4, n_used: 2, rows: 150, ..CASE },
];

/// What goes into a choice.
struct Router {
    logits: Vec<f32>,
    bias: Vec<f32>,
    factor: Vec<f32>,
    seq: Vec<i32>,
}

impl Router {
    fn new(c: &Case) -> Self {
        let mut random = Random::new((c.n_expert * 31 + c.rows) as u64);
        // Steps of an eighth: some are equal, none nearly so.
        let mut logits: Vec<f32> =
            random.normals(c.rows * c.n_expert).into_iter().map(|x| (8.0 * x).round() / 8.0).collect();
        if c.gating == SIGMOID && c.rows > 1 {
            logits[1] = f32::NAN;
        }
        let bias = random.normals(c.n_expert).into_iter().map(|x| (4.0 * x).round() / 4.0).collect();
        let factor = (0..c.n_expert).map(|_| 0.5 + random.uniform() as f32).collect();
        let seq = (0..c.rows).map(|row| if c.idle > 0 && row % c.idle == 1 { -1 } else { 7 }).collect();
        Self { logits, bias, factor, seq }
    }

    /// Experts of a row, best first, and their weights.
    fn choose(&self, c: &Case, row: usize) -> Vec<(usize, f64)> {
        let x = &self.logits[row * c.n_expert..][..c.n_expert];
        let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exp = |x: f32| (f64::from(x) - f64::from(top)).exp();
        let total: f64 = x.iter().map(|&x| exp(x)).sum();
        let p = |e: usize| match c.gating {
            SOFTMAX => exp(x[e]) / total,
            SIGMOID => 1.0 / (1.0 + (-f64::from(x[e])).exp()),
            _ => f64::from(x[e]),
        };
        let score = |e: usize| {
            let score = p(e) + if c.bias { f64::from(self.bias[e]) } else { 0.0 };
            if score.is_nan() { f64::NEG_INFINITY } else { score }
        };
        let sorted = |mut of: Vec<usize>, score: &dyn Fn(usize) -> f64| {
            of.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
            of
        };
        let [groups, used, best_of_group] = c.groups;
        let size = c.n_expert / groups.max(1);
        let sum_of_best = |group: usize| {
            sorted((group * size..(group + 1) * size).collect(), &score)[..best_of_group]
                .iter()
                .map(|&e| score(e))
                .sum()
        };
        let kept = &sorted((0..groups).collect(), &sum_of_best)[..used];
        let in_groups = |e: usize| if groups == 0 || kept.contains(&(e / size)) { score(e) } else { f64::NEG_INFINITY };
        let mut best = sorted((0..c.n_expert).collect(), &in_groups);
        best.truncate(c.n_used);
        let chosen: f64 = best.iter().map(|&e| exp(x[e])).sum();
        let weight = |e: usize| if c.gating == SOFTMAX_OF_CHOSEN { exp(x[e]) / chosen } else { p(e) };
        let sum: f64 = if c.norm { best.iter().map(|&e| weight(e)).sum() } else { 1.0 };
        let factor = |e: usize| f64::from(c.scale) * if c.factor { f64::from(self.factor[e]) } else { 1.0 };
        best.into_iter().map(|e| (e, weight(e) / sum * factor(e))).collect()
    }
}

/// Choices on the device.
struct Routed {
    /// Holds what `route` points to.
    _inputs: (Vec<Buffer<f32>>, Buffer<i32>, Arena),
    route: Route,
}

impl Routed {
    fn new(device: &Device, c: &Case, router: &Router) -> Self {
        let floats = [&router.logits, &router.bias, &router.factor].map(|values| device.buffer(values));
        let seq = device.buffer(&router.seq);
        let (arena, choices) =
            Arena::new(&device.gpu, |layout| Choices::take(layout, "test", [c.rows, c.n_expert, c.n_used]))
                .expect("device memory");
        let or_null = |wanted: bool, at: Ptr<f32>| if wanted { at } else { Ptr::NULL };
        let params = Route {
            logits: floats[0].ptr,
            bias: or_null(c.bias, floats[1].ptr),
            factor: or_null(c.factor, floats[2].ptr),
            seq: seq.ptr,
            choices,
            rows: c.rows as i32,
            n_expert: c.n_expert as i32,
            n_used: c.n_used as i32,
            gating: c.gating,
            norm: i32::from(c.norm),
            scale: c.scale,
            groups: c.groups[0] as i32,
            groups_used: c.groups[1] as i32,
            best_of_group: c.groups[2] as i32,
            ..Route::default()
        };
        let n = c.rows * c.n_used;
        for part in [choices.chosen, choices.rows_of, choices.choices_of, choices.ranks] {
            device.fence(part, n, "choices");
        }
        device.fence(choices.weights, n, "weights of choices");
        device.fence(choices.tiles, params.of_rows(MatmulParams::default()).expert_tiles as usize, "tiles of choices");
        // SAFETY: buffers of these shapes, which live as long as what is returned.
        unsafe { route(&device.stream, &params) }.expect("a launch");
        Self { _inputs: (floats.into(), seq, arena), route: params }
    }
}

fn read<T: Copy + Default>(device: &Device, at: Ptr<T>, n: usize) -> Vec<T> {
    let mut pinned = qrun_cuda::Pinned::new(&device.gpu, n).expect("pinned memory");
    // SAFETY: `at` is a part of the arena of the choices with so many numbers, which lives until the copy was waited for.
    unsafe { device.stream.copy_out(&mut pinned, at, n) }.expect("a copy");
    device.stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
    pinned.to_vec()
}

/// No choice is lost or doubled, a tile has one expert and no more columns than it may.
fn check_tiles(device: &Device, c: &Case, r: &Route, chosen: &[i32]) {
    let product = r.of_rows(MatmulParams::default());
    let tiles = read(device, product.experts, product.expert_tiles as usize);
    let n = chosen.len();
    let (rows_of, choices_of) = (read(device, product.x_columns, n), read(device, product.y_columns, n));
    let mut met = vec![0; n];
    for ExpertTile { expert, first, columns, .. } in tiles {
        assert!((0..=product.columns).contains(&columns), "{c:?}: {columns} columns");
        for i in first..first + columns {
            let choice = choices_of[i as usize] as usize;
            assert_eq!(chosen[choice], expert, "{c:?}: choice {choice}");
            assert_eq!(rows_of[i as usize] as usize, choice / c.n_used, "{c:?}: choice {choice}");
            met[choice] += 1;
        }
    }
    for (choice, met) in met.into_iter().enumerate() {
        assert_eq!(met, i32::from(chosen[choice] >= 0), "{c:?}: choice {choice}");
    }
}

#[test]
fn experts_are_those_of_ten_lines() {
    for c in CASES {
        let router = Router::new(c);
        let run = |device: &Device| {
            let routed = Routed::new(device, c, &router);
            let n = c.rows * c.n_used;
            let chosen = read(device, routed.route.choices.chosen, n);
            check_tiles(device, c, &routed.route, &chosen);
            let weights = read(device, routed.route.choices.weights, n);
            let weights = weights.iter().zip(&chosen).map(|(&w, &e)| if e < 0 { 0.0 } else { w });
            chosen.iter().map(|&e| e as f32).chain(weights).collect()
        };
        everywhere(run, |found| {
            let (chosen, weights) = found.split_at(c.rows * c.n_used);
            for (row, experts) in chosen.chunks(c.n_used).enumerate() {
                let idle = router.seq[row] < 0;
                let want: Vec<f32> =
                    router.choose(c, row).iter().map(|(e, _)| if idle { -1.0 } else { *e as f32 }).collect();
                assert_eq!(experts, want, "{c:?}: row {row}");
            }
            let of_row = |row| router.choose(c, row).into_iter().map(move |(_, w)| (row, w));
            let want = (0..c.rows).flat_map(of_row).map(|(row, w)| if router.seq[row] < 0 { 0.0 } else { w });
            assert_close(weights, &want.collect::<Vec<f64>>(), 1e-6, &format!("{c:?}: weights"));
        });
    }
}

/// `[rows, k, n_expert, n_used, rows of the launch]`: tiles of 1, 8, 16 and 64 columns, several of one expert, experts without rows.
const SHAPES: &[[usize; 5]] = &[[48, 256, 4, 2, 1], [32, 512, 6, 3, 5], [80, 256, 12, 2, 16], [48, 256, 4, 2, 150]];

/// Weights of all experts, one below the other, each with as many rows again in front of those that are multiplied.
struct Experts {
    weights: Weights,
    /// One for each, where their format has room for it.
    scales: Vec<f32>,
    bias: Vec<f32>,
    x: Activations,
    router: Router,
}

#[test]
fn each_row_has_the_products_of_its_experts() {
    use GgmlType::*;
    for (i, format) in [Q8_0, Q4_K, MXFP4, Q5_0, Q6_K, IQ2_S, IQ3_XXS, IQ1_S, NVFP4, Q1_0, TQ1_0, F32, F16, BF16]
        .into_iter()
        .enumerate()
    {
        for &[rows, k, n_expert, n_used, columns] in SHAPES {
            let c = Case { n_expert, n_used, rows: columns, idle: if columns > 8 { 7 } else { 0 }, ..CASE };
            let mut random = Random::new((rows + k + i) as u64);
            // The second half of each expert's rows is multiplied.
            let each = 2 * rows;
            let e = Experts {
                weights: Weights::random(&mut random, format, n_expert * each * k, 1.0),
                scales: (0..n_expert).map(|e| if takes_scale(format) { 0.5 + 0.1 * e as f32 } else { 1.0 }).collect(),
                bias: random.normals(n_expert * each),
                x: Activations::new(random.normals(columns * k)),
                router: Router::new(&c),
            };
            let idle = |row: usize| e.router.seq[row] < 0;
            let values: Vec<f64> = e.x.values.iter().map(|&x| f64::from(x)).collect();
            let product = |row: usize, expert: usize, r: usize| {
                let x = if is_dense(format) { &values } else { &e.x.image };
                let dot = |at: usize| f64::from(e.weights.values[r * k + at]) * x[row * k + at];
                (0..k).map(dot).sum::<f64>() * f64::from(e.scales[expert]) + f64::from(e.bias[r])
            };
            for is_gated in [false, true].into_iter().take(if is_dense(format) { 1 } else { 2 }) {
                let mut want = Vec::new();
                for row in 0..columns {
                    for (expert, _) in e.router.choose(&c, row) {
                        want.extend((expert * each..expert * each + rows).map(|r| match is_gated {
                            _ if idle(row) => f64::from(UNTOUCHED),
                            false => product(row, expert, r + rows),
                            true => gated(product(row, expert, r), product(row, expert, r + rows), SILU),
                        }));
                    }
                }
                let what = format!("{format} {:?}, gated: {is_gated}", [rows, k, n_expert, n_used, columns]);
                let tolerance = if is_dense(format) { 1e-5 } else { f64::from(1 + u8::from(is_gated)) * 1e-6 };
                let (alone, of) = (0..columns.min(3), (format, [rows, k], is_gated));
                let run = |device: &Device| {
                    let mut y = products(device, &c, &e, of, 0..columns);
                    // The first ones again, each alone.
                    for row in alone.clone() {
                        y.extend(products(device, &Case { rows: 1, idle: 0, ..c }, &e, of, row..row + 1));
                    }
                    y
                };
                everywhere(run, |y| {
                    let (all, each_alone) = y.split_at(columns * n_used * rows);
                    assert_close(all, &want, tolerance, &what);
                    for (row, y) in alone.clone().zip(each_alone.chunks(n_used * rows)).filter(|(row, _)| !idle(*row)) {
                        let same = y.iter().zip(&all[row * n_used * rows..]).all(|(a, b)| a.to_bits() == b.to_bits());
                        assert!(same, "{what}: row {row} alone");
                    }
                });
            }
        }
    }
}

/// `[choice][rows]` of some columns.
fn products(
    device: &Device,
    c: &Case,
    e: &Experts,
    (format, [rows, k], is_gated): (GgmlType, [usize; 2], bool),
    columns: std::ops::Range<usize>,
) -> Vec<f32> {
    let part = |values: &[f32], each: usize| values[columns.start * each..columns.end * each].to_vec();
    let router = Router {
        logits: part(&e.router.logits, c.n_expert),
        bias: e.router.bias.clone(),
        factor: e.router.factor.clone(),
        seq: e.router.seq[columns.clone()].to_vec(),
    };
    let (w, bias) = (matrix(device, format, &e.weights.bytes, k), device.buffer(&e.bias));
    let scales = device.buffer(&e.scales);
    let q = device.buffer(&e.x.q[columns.start * k..columns.end * k]);
    let (d, s) = (device.buffer(&part(&e.x.d, k / 32)), device.buffer(&part(&e.x.s, k / 16)));
    let y = device.buffer(&vec![UNTOUCHED; columns.len() * c.n_used * rows]);
    let second = Segment {
        w: w.ptr.add(qrun_cuda::ops::upload::bytes_on_device(format, [rows, k])),
        bias: bias.ptr.add(rows),
        y: y.ptr,
        rows: rows as i32,
        y_stride: rows as i32,
        format: format as i32,
        expert_rows: 2 * rows as i32,
        scale: if takes_scale(format) { scales.ptr } else { Ptr::NULL },
    };
    let x = device.buffer(&part(&e.x.values, k));
    let image = QuantizedActivations { q: q.ptr, d: d.ptr, s: s.ptr };
    let params = MatmulParams {
        k: k as i32,
        image,
        x: x.ptr,
        gated: is_gated.into(),
        activation: SILU,
        ..MatmulParams::default()
    };
    let first = Segment { w: w.ptr, bias: bias.ptr, ..second };
    let params = if is_gated { params.with(&[first, second]) } else { params.with(&[second]) };
    // Last, so that it may still run when the product starts.
    let routed = Routed::new(device, c, &router);
    let params = routed.route.of_rows(params);
    // SAFETY: buffers of these shapes, which live until the results are read.
    unsafe { if gemm::takes(&params) { gemm::gemm(&device.stream, &params) } else { gemv(&device.stream, &params) } }
        .expect("a launch");
    device.read(&y)
}

#[test]
fn rows_get_the_sum_of_their_experts() {
    for (n, n_used, rows, shared, gate) in [(288, 3, 4, false, false), (64, 8, 1, true, true), (513, 1, 3, true, false)]
    {
        let mut random = Random::new(n as u64);
        let (x, weights) = (random.normals(rows * n_used * n), random.normals(rows * n_used));
        let (beside, gates) = (random.normals(rows * n), random.normals(rows));
        let seq: Vec<i32> = (0..rows).map(|row| if row == 2 { -1 } else { 0 }).collect();
        let of = |row: usize, i: usize| -> f64 {
            let mut sum: f64 = (row * n_used..(row + 1) * n_used)
                .map(|choice| f64::from(weights[choice]) * f64::from(x[choice * n + i]))
                .sum();
            if shared {
                let passes = if gate { 1.0 / (1.0 + (-f64::from(gates[row])).exp()) } else { 1.0 };
                sum += passes * f64::from(beside[row * n + i]);
            }
            if seq[row] < 0 { f64::from(UNTOUCHED) } else { sum }
        };
        let want: Vec<f64> = (0..rows * n).map(|at| of(at / n, at % n)).collect();
        let run = |device: &Device| {
            let [x, weights, beside, gates] = [&x, &weights, &beside, &gates].map(|values| device.buffer(values));
            let (seq, y) = (device.buffer(&seq), device.buffer(&vec![UNTOUCHED; rows * n]));
            let params = Join {
                x: x.ptr,
                weights: weights.ptr,
                shared: if shared { beside.ptr } else { Ptr::NULL },
                gate: if gate { gates.ptr } else { Ptr::NULL },
                seq: seq.ptr,
                y: y.ptr,
                n_used: n_used as i32,
                n: n as i32,
            };
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe { join(&device.stream, rows, &params) }.expect("a launch");
            device.read(&y)
        };
        everywhere(run, |y| assert_close(y, &want, 1e-6, &format!("{n} elements of {n_used} experts")));
    }
}
