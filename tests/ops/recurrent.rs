//! Delta nets, Mamba-2 and short convolutions: against f64 token by token, with the states they leave, and against themselves: tokens of a
//! sequence one at a time, all at once, or cut anywhere.

mod reference;

use qrun_cuda::{
    Ptr,
    ops::{
        activations::QuantizedActivations,
        cache::PAGE,
        mamba::{Mamba, mamba},
        recurrent::{DeltaNet, ShortConv, States, delta_net, short_conv},
    },
};

use crate::{
    harness::{Buffer, Device, assert_close, everywhere},
    operands::Activations,
};
use reference::{EPS, Layer, Reference, Token};

/// What is not written stays so.
const UNTOUCHED: f32 = -777.0;
/// Pages of a sequence: positions 0 to 255.
const SLOTS: usize = 4;

/// Tokens of some sequences: `(sequence, first position, tokens)`.
type Run = (usize, usize, usize);

#[derive(Clone, Copy)]
struct Case {
    layer: Layer,
    runs: &'static [Run],
    image: bool,
}

const DELTA: Layer = Layer::Delta { heads: [1, 2], dims: [16, 32], taps: 4, grouped: false };
/// From nothing, from inside a block, from its end and its beginning on, and over the ends of blocks.
const RUNS: &[Run] = &[(2, 0, 9), (0, 62, 4), (4, 63, 2), (1, 64, 1), (3, 5, 125)];
const SHORT: &[Run] = &[(1, 60, 7), (0, 0, 3)];
const CASES: &[Case] = &[
    Case { layer: DELTA, runs: RUNS, image: true },
    Case { layer: Layer::Delta { heads: [1, 1], dims: [128, 128], taps: 4, grouped: false }, runs: SHORT, image: true },
    Case { layer: Layer::Delta { heads: [2, 6], dims: [16, 8], taps: 8, grouped: true }, runs: RUNS, image: false },
    Case { layer: Layer::Delta { heads: [2, 4], dims: [100, 40], taps: 2, grouped: false }, runs: SHORT, image: false },
    Case { layer: Layer::Mamba { heads: [2, 4], dims: [24, 48], taps: 4, bias: true }, runs: RUNS, image: false },
    Case { layer: Layer::Mamba { heads: [1, 4], dims: [128, 64], taps: 4, bias: false }, runs: SHORT, image: false },
    Case { layer: Layer::Mamba { heads: [4, 4], dims: [100, 8], taps: 2, bias: true }, runs: SHORT, image: false },
    Case { layer: Layer::Mamba { heads: [1, 8], dims: [4, 128], taps: 8, bias: true }, runs: SHORT, image: false },
    Case { layer: Layer::Conv { channels: 160, taps: 3 }, runs: RUNS, image: true },
    Case { layer: Layer::Conv { channels: 45, taps: 8 }, runs: RUNS, image: false },
];

/// A layer on a device, and the pages of all sequences.
struct OnDevice<'a> {
    device: &'a Device,
    case: Case,
    pages: Buffer<f32>,
    table: Buffer<i32>,
}

impl<'a> OnDevice<'a> {
    /// The page of a block; no two sequences have theirs in a row.
    fn page(seq: usize, block: usize) -> usize {
        (block * 5 + seq * 7 + 3) % 20
    }

    /// Pages that hold the states before the runs, and nothing else.
    fn new(device: &'a Device, case: Case, before: &[(usize, usize, Vec<f32>)]) -> Self {
        let len = case.layer.page();
        let mut pages = vec![UNTOUCHED; 20 * len];
        for (seq, pos, page) in before {
            pages[Self::page(*seq, pos / PAGE) * len..][..len].copy_from_slice(page);
        }
        let table: Vec<i32> = (0..5 * SLOTS).map(|i| Self::page(i / SLOTS, i % SLOTS) as i32).collect();
        Self { device, case, pages: device.buffer(&pages), table: device.buffer(&table) }
    }

    /// Rows `(sequence, position)`; a sequence below 0 is idle. The results, their images and scales.
    fn launch(&self, rows: &[(i32, usize)], sequences: i32) -> Vec<f32> {
        self.launch_guesses(rows, sequences, 0)
    }

    /// The same; a state stays behind the first `keeps` rows of a sequence.
    fn launch_guesses(&self, rows: &[(i32, usize)], sequences: i32, keeps: i32) -> Vec<f32> {
        let (y, image) = self.launch_to(true, rows, sequences, keeps);
        if self.case.image {
            let live: Vec<f32> = y.iter().map(|&y| if y == UNTOUCHED { 0.0 } else { y }).collect();
            let x = Activations::new(live);
            assert_eq!(image, (x.q, x.d, x.s), "the image");
        }
        y
    }

    /// Results, in numbers if `numbers`, and their image.
    fn launch_to(&self, numbers: bool, rows: &[(i32, usize)], sequences: i32, keeps: i32) -> (Vec<f32>, Image) {
        let (d, layer) = (self.device, self.case.layer);
        let tokens: Vec<Token> = rows.iter().map(|&(seq, pos)| layer.token(seq.max(0) as usize, pos)).collect();
        let buffer = |of: &dyn Fn(&Token) -> Vec<f32>| d.buffer(&tokens.iter().flat_map(of).collect::<Vec<f32>>());
        let (input, z) = (buffer(&|t| t.input.clone()), buffer(&|t| t.z.clone()));
        let pos = d.buffer(&rows.iter().map(|row| row.1 as i32).collect::<Vec<_>>());
        let seq = d.buffer(&rows.iter().map(|row| row.0).collect::<Vec<_>>());
        let n = rows.len() * layer.width();
        let y = d.buffer(&vec![UNTOUCHED; n]);
        let (iq, id, is) = (d.buffer(&vec![0i8; n]), d.buffer(&vec![0f32; n / 32]), d.buffer(&vec![0f32; n / 16]));
        let image = match self.case.image {
            true => QuantizedActivations { q: iq.ptr, d: id.ptr, s: is.ptr },
            false => QuantizedActivations::default(),
        };
        let to = if numbers { y.ptr } else { Ptr::NULL };
        let state = States {
            pages: self.pages.ptr,
            table: self.table.ptr,
            pos: pos.ptr,
            seq: seq.ptr,
            slots: SLOTS as i32,
            len: layer.page() as i32,
            rows: rows.len() as i32,
            sequences,
            keeps,
            pad: 0,
        };
        let data = layer.data();
        let (conv, norm) = (d.buffer(&data.conv), d.buffer(&data.norm));
        let (dt, a) = (d.buffer(&data.dt), d.buffer(&data.a));
        match layer {
            Layer::Conv { channels, taps } => {
                let (channels, taps) = (channels as i32, taps as i32);
                let p = ShortConv { state, input: input.ptr, conv: conv.ptr, y: to, image, channels, taps };
                // SAFETY: buffers of these shapes, which live until the results are read.
                unsafe { short_conv(&d.stream, &p) }.expect("a launch");
            }
            Layer::Mamba { heads: [n_group, n_head], dims: [dim_k, dim_v], taps, bias: has_bias } => {
                let (bias, factors) = (d.buffer(&data.bias), d.buffer(&data.d));
                let p = Mamba {
                    state,
                    input: input.ptr,
                    conv: conv.ptr,
                    bias: if has_bias { bias.ptr } else { Ptr::NULL },
                    dt: dt.ptr,
                    a: a.ptr,
                    d: factors.ptr,
                    y: to,
                    n_group: n_group as i32,
                    n_head: n_head as i32,
                    dim_k: dim_k as i32,
                    dim_v: dim_v as i32,
                    taps: taps as i32,
                    stride: (layer.width() + layer.channels() + n_head) as i32,
                };
                // SAFETY: buffers of these shapes, which live until the results are read.
                unsafe { mamba(&d.stream, &p) }.expect("a launch");
            }
            Layer::Delta { heads: [n_k, n_v], dims: [dim_k, dim_v], taps, grouped } => {
                let group = n_v / n_k;
                // Grouped: of each key head the betas of its value heads, then their alphas.
                let both = buffer(&|t| {
                    let (alpha, beta) = (t.alpha.chunks_exact(group), t.beta.chunks_exact(group));
                    beta.zip(alpha).flat_map(|(beta, alpha)| [beta, alpha].concat()).collect()
                });
                let (alpha, beta) = (buffer(&|t| t.alpha.clone()), buffer(&|t| t.beta.clone()));
                let [alpha, beta]: [Ptr<f32>; 2] =
                    if grouped { [both.ptr.add(group), both.ptr] } else { [alpha.ptr, beta.ptr] };
                let p = DeltaNet {
                    state,
                    input: input.ptr,
                    z: z.ptr,
                    alpha,
                    beta,
                    conv: conv.ptr,
                    dt: dt.ptr,
                    a: a.ptr,
                    norm: norm.ptr,
                    y: to,
                    image,
                    n_head_k: n_k as i32,
                    n_head_v: n_v as i32,
                    dim_k: dim_k as i32,
                    dim_v: dim_v as i32,
                    taps: taps as i32,
                    grouped: i32::from(grouped),
                    eps: EPS,
                    pad: 0,
                };
                // SAFETY: buffers of these shapes, which live until the results are read.
                unsafe { delta_net(&d.stream, &p) }.expect("a launch");
            }
        }
        (d.read(&y), (d.read(&iq), d.read(&id), d.read(&is)))
    }
}

/// Integers, scales and sums of half blocks.
type Image = (Vec<i8>, Vec<f32>, Vec<f32>);

/// The states before each run, as pages.
fn before(case: &Case) -> Vec<(usize, usize, Vec<f32>)> {
    let states = case.runs.iter().filter(|run| run.1 > 0).map(|&(seq, start, _)| {
        let mut reference = Reference::new(case.layer);
        (0..start).for_each(|pos| drop(reference.next(&case.layer.token(seq, pos))));
        (seq, start - 1, reference.page().iter().map(|&x| x as f32).collect())
    });
    states.collect()
}

/// Results and pages of: all runs in one launch; each run cut in two; tokens of all sequences one at a time, beside an idle row; all
/// but the first tokens of a run as guesses, which are taken into the state afterwards.
fn run(device: &Device, case: &Case) -> Vec<f32> {
    let states = before(case);
    let rows: Vec<(i32, usize)> =
        case.runs.iter().flat_map(|&(seq, start, n)| (start..start + n).map(move |pos| (seq as i32, pos))).collect();
    let width = case.layer.width();
    let whole = OnDevice::new(device, *case, &states);
    let mut all = whole.launch(&rows, 5);
    if case.image {
        let (y, image) = OnDevice::new(device, *case, &states).launch_to(false, &rows, 5, 0);
        assert!(y.iter().all(|&y| y == UNTOUCHED), "numbers that nobody asked for");
        let x = Activations::new(all.clone());
        assert_eq!(image, (x.q, x.d, x.s), "the image alone");
    }
    all.extend(device.read(&whole.pages));
    let in_parts = OnDevice::new(device, *case, &states);
    for &(seq, start, n) in case.runs {
        let cut = start + n / 3;
        for part in [start..cut, cut..start + n].into_iter().filter(|part| !part.is_empty()) {
            let rows: Vec<_> = part.map(|pos| (seq as i32, pos)).collect();
            all.extend(in_parts.launch(&rows, 5));
        }
    }
    all.extend(device.read(&in_parts.pages));
    let single = OnDevice::new(device, *case, &states);
    let mut given = vec![vec![]; rows.len()];
    for turn in 0..case.runs.iter().map(|run| run.2).max().expect("a run") {
        let mut now: Vec<(i32, usize)> = vec![(-1, 0)];
        now.extend(case.runs.iter().filter(|run| turn < run.2).map(|&(seq, start, _)| (seq as i32, start + turn)));
        for (row, y) in now.iter().zip(single.launch(&now, 0).chunks_exact(width)) {
            match rows.iter().position(|other| other == row) {
                Some(at) => given[at] = y.to_vec(),
                None => assert!(y.iter().all(|&y| y == UNTOUCHED), "an idle row was written"),
            }
        }
    }
    all.extend(given.concat());
    all.extend(device.read(&single.pages));
    let guessed = OnDevice::new(device, *case, &states);
    all.extend(guessed.launch_guesses(&rows, 5, 1));
    let is_first = |&(seq, pos): &(i32, usize)| case.runs.iter().any(|run| (run.0 as i32, run.1) == (seq, pos));
    // Each in the row that it had; the last sequence's are all wrong.
    let right = |row: &(i32, usize)| !is_first(row) && row.0 != case.runs[case.runs.len() - 1].0 as i32;
    let accepted: Vec<_> = rows.iter().map(|row| if right(row) { *row } else { (-1, 0) }).collect();
    guessed.launch(&accepted, 5);
    let (seq, start, n) = case.runs[case.runs.len() - 1];
    // They are fed after all, behind the first one.
    let rest: Vec<_> = (start + 1..start + n).map(|pos| (seq as i32, pos)).collect();
    guessed.launch(&rest, 5);
    all.extend(device.read(&guessed.pages));
    all
}

fn judge(case: &Case, found: &[f32], what: &str) {
    let (width, len) = (case.layer.width(), case.layer.page());
    let tokens: usize = case.runs.iter().map(|run| run.2).sum();
    let (whole, others) = found.split_at(tokens * width + 20 * len);
    for (other, how) in others.chunks_exact(whole.len()).zip(["cut in two", "one at a time", "as guesses"]) {
        let differ = whole.iter().zip(other).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        assert_eq!(differ, 0, "{what}, {how}: of {} values", whole.len());
    }
    let (mut y, pages) = whole.split_at(tokens * width);
    let mut written = Vec::new();
    for &(seq, start, n) in case.runs {
        let mut reference = Reference::new(case.layer);
        (0..start).for_each(|pos| drop(reference.next(&case.layer.token(seq, pos))));
        for pos in start..start + n {
            let expected = reference.next(&case.layer.token(seq, pos));
            let (of_token, rest) = y.split_at(width);
            assert_close(of_token, &expected, 1e-5, &format!("{what}, position {pos} of sequence {seq}"));
            y = rest;
            if pos % PAGE == PAGE - 1 || pos + 1 == start + n {
                let page = OnDevice::page(seq, pos / PAGE);
                assert_close(
                    &pages[page * len..][..len],
                    &reference.page(),
                    1e-5,
                    &format!("{what}, the state after {pos}"),
                );
                written.push(page);
            }
        }
        written.extend(start.checked_sub(1).map(|last| OnDevice::page(seq, last / PAGE)));
    }
    for (page, values) in pages.chunks_exact(len).enumerate().filter(|(page, _)| !written.contains(page)) {
        assert!(values.iter().all(|&x| x == UNTOUCHED), "{what}: page {page} is nobody's");
    }
}

#[test]
fn tokens_find_what_those_before_them_left_however_they_come() {
    for (i, case) in CASES.iter().enumerate() {
        everywhere(|device| run(device, case), |found| judge(case, found, &format!("case {i}")));
    }
}
