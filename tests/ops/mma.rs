//! Which lane holds what: every fragment word of ptx.cuh against the layouts of the PTX manual, which are written down here
//! as data. The emulator was written from the same manual; a real GPU has the last word.

use std::mem::offset_of;

use half::{bf16, f16};
use qrun_cuda::{Grid, Params, Ptr};

use crate::harness::{Device, Random, everywhere};

const LANES: usize = 32;
/// The last operation of the kernel.
const CP_ASYNC: i32 = 10;

#[repr(C)]
#[derive(Clone, Copy)]
struct FragmentsParams {
    op: i32,
    pad: i32,
    a: Ptr<u32>,
    b: Ptr<u32>,
    c: Ptr<u32>,
}
// SAFETY: the struct of the same name in fragments.cu.
unsafe impl Params for FragmentsParams {}

#[derive(Clone, Copy, PartialEq)]
enum Number {
    S8,
    F16,
    Bf16,
}

/// Where the elements of an operand are. Lane (g = lane / 4, t = lane % 4); register r holds `4 / bytes` elements, of which
/// element e lies at (outer, inner) = (g + registers[r].0, per · t + e + registers[r].1): outer is the row of A or the
/// column of B, inner is k.
type Operand = &'static [(usize, usize)];

/// c[m×8] += a[m×k] · b[k×8]; accumulator i of a lane is row g + 8·(i / 2), column 2t + i % 2.
struct Mma {
    op: i32,
    name: &'static str,
    number: Number,
    k: usize,
    a: Operand,
    b: Operand,
    accumulators: usize,
    sm: u32,
}

const MMA: &[Mma] = &[
    Mma { op: 0, name: "s8 m8n8k16", number: Number::S8, k: 16, a: &[(0, 0)], b: &[(0, 0)], accumulators: 2, sm: 75 },
    Mma {
        op: 1,
        name: "s8 m16n8k16",
        number: Number::S8,
        k: 16,
        a: &[(0, 0), (8, 0)],
        b: &[(0, 0)],
        accumulators: 4,
        sm: 75,
    },
    Mma {
        op: 2,
        name: "s8 m16n8k32",
        number: Number::S8,
        k: 32,
        a: &[(0, 0), (8, 0), (0, 16), (8, 16)],
        b: &[(0, 0), (0, 16)],
        accumulators: 4,
        sm: 75,
    },
    Mma {
        op: 3,
        name: "f16 m16n8k8",
        number: Number::F16,
        k: 8,
        a: &[(0, 0), (8, 0)],
        b: &[(0, 0)],
        accumulators: 4,
        sm: 75,
    },
    Mma {
        op: 4,
        name: "f16 m16n8k16",
        number: Number::F16,
        k: 16,
        a: &[(0, 0), (8, 0), (0, 8), (8, 8)],
        b: &[(0, 0), (0, 8)],
        accumulators: 4,
        sm: 75,
    },
    Mma {
        op: 5,
        name: "bf16 m16n8k16",
        number: Number::Bf16,
        k: 16,
        a: &[(0, 0), (8, 0), (0, 8), (8, 8)],
        b: &[(0, 0), (0, 8)],
        accumulators: 4,
        sm: 80,
    },
];

/// Small integers, which every kind of number holds and sums exactly.
fn bits(number: Number, value: i32) -> u32 {
    match number {
        Number::S8 => u32::from(value as i8 as u8),
        Number::F16 => u32::from(f16::from_f32(value as f32).to_bits()),
        Number::Bf16 => u32::from(bf16::from_f32(value as f32).to_bits()),
    }
}

/// Fills the registers of all lanes (`stride` per lane) from `at(outer, inner)`.
fn fragments(mma: &Mma, operand: Operand, stride: usize, at: impl Fn(usize, usize) -> i32) -> Vec<u32> {
    let width = if mma.number == Number::S8 { 8 } else { 16 };
    let per = 32 / width;
    let mut words = vec![0; LANES * stride];
    for lane in 0..LANES {
        for (register, &(outer, inner)) in operand.iter().enumerate() {
            words[stride * lane + register] = (0..per).fold(0, |word, e| {
                word | bits(mma.number, at(lane / 4 + outer, per * (lane % 4) + e + inner)) << (width * e)
            });
        }
    }
    words
}

fn run(device: &Device, op: i32, [a, b, c]: [&[u32]; 3]) -> Vec<u32> {
    let (a, b, c) = (device.buffer(a), device.buffer(b), device.buffer(c));
    let params = FragmentsParams { op, pad: 0, a: a.ptr, b: b.ptr, c: c.ptr };
    // SAFETY: the kernel takes these parameters; the buffers have a row for each of 32 lanes.
    unsafe { device.stream.launch("fragments", Grid::linear(1, 32), &params) }.expect("a launch");
    device.read(&c)
}

/// Words travel through `everywhere` as the floats of their two halves.
fn halves(words: Vec<u32>) -> Vec<f32> {
    words.iter().flat_map(|w| [(w >> 16) as f32, (w & 0xffff) as f32]).collect()
}
fn words(halves: &[f32]) -> Vec<u32> {
    halves.chunks(2).map(|h| (h[0] as u32) << 16 | h[1] as u32).collect()
}

#[test]
fn tensor_cores_take_the_layouts_of_the_manual() {
    for mma in MMA {
        let mut random = Random::new(mma.op as u64);
        let most = if mma.number == Number::S8 { 255 } else { 33 };
        let small =
            |random: &mut Random| random.below(most) as i32 - most as i32 / 2 - i32::from(mma.number == Number::S8);
        let rows = 4 * mma.accumulators;
        let a: Vec<i32> = (0..rows * mma.k).map(|_| small(&mut random)).collect();
        let b: Vec<i32> = (0..8 * mma.k).map(|_| small(&mut random)).collect();
        let c: Vec<i32> = (0..rows * 8).map(|_| small(&mut random)).collect();
        let place = |lane: usize, i: usize| (lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2;
        let word = |value: i32| if mma.number == Number::S8 { value as u32 } else { (value as f32).to_bits() };
        let start: Vec<u32> =
            (0..LANES * 4).map(|i| if i % 4 < mma.accumulators { word(c[place(i / 4, i % 4)]) } else { 7 }).collect();
        let expected: Vec<u32> = (0..LANES * 4)
            .map(|i| {
                if i % 4 >= mma.accumulators {
                    return 7;
                }
                let at = place(i / 4, i % 4);
                let dot: i32 = (0..mma.k).map(|k| a[at / 8 * mma.k + k] * b[at % 8 * mma.k + k]).sum();
                word(c[at] + dot)
            })
            .collect();
        let a = fragments(mma, mma.a, 4, |row, k| a[row * mma.k + k]);
        let b = fragments(mma, mma.b, 2, |column, k| b[column * mma.k + k]);
        everywhere(
            |device| match device.gpu.target().sm >= mma.sm {
                true => halves(run(device, mma.op, [&a, &b, &start])),
                false => halves(expected.clone()),
            },
            |found| assert_eq!(words(found), expected, "{}", mma.name),
        );
    }
}

#[test]
fn ldmatrix_deals_out_rows() {
    let mut random = Random::new(3);
    let rows: Vec<u32> = (0..LANES * 4).map(|_| random.next() as u32).collect();
    let element = |row: usize, i: usize| rows[4 * row + i / 2] >> (16 * (i % 2)) & 0xffff;
    // Lane i gives row given[i]: a permutation that no two lanes share.
    let given: Vec<usize> = (0..LANES).map(|i| (i * 5 + 3) % LANES).collect();
    let b: Vec<u32> = given.iter().flat_map(|&row| [row as u32, 0]).collect();
    for (op, matrices, transposed) in [(6, 2, false), (7, 2, true), (8, 4, false), (9, 4, true)] {
        let expected: Vec<u32> = (0..LANES * 4)
            .map(|i| {
                let (lane, matrix) = (i / 4, i % 4);
                if matrix >= matrices {
                    return 7;
                }
                let at = |h: usize| match transposed {
                    false => element(given[8 * matrix + lane / 4], 2 * (lane % 4) + h),
                    true => element(given[8 * matrix + 2 * (lane % 4) + h], lane / 4),
                };
                at(0) | at(1) << 16
            })
            .collect();
        everywhere(
            |device| halves(run(device, op, [&rows, &b, &[7; LANES * 4]])),
            |found| assert_eq!(words(found), expected, "ldmatrix x{matrices}, transposed: {transposed}"),
        );
    }
}

#[test]
fn cp_async_copies_or_clears_sixteen_bytes() {
    let mut random = Random::new(4);
    let rows: Vec<u32> = (0..LANES * 4).map(|_| random.next() as u32).collect();
    let wanted: Vec<[u32; 2]> = (0..LANES).map(|i| [(i * 7 % LANES) as u32, u32::from(i % 3 != 0)]).collect();
    let expected: Vec<u32> = (0..LANES * 4)
        .map(|i| {
            let lane = i / 4;
            let [from, valid] = wanted[if lane < 16 { 15 - lane } else { 47 - lane }];
            valid * rows[4 * from as usize + i % 4]
        })
        .collect();
    everywhere(
        |device| halves(run(device, CP_ASYNC, [&rows, wanted.as_flattened(), &[7; LANES * 4]])),
        |found| assert_eq!(words(found), expected),
    );
}

#[test]
fn the_kernel_has_the_same_parameters() {
    let number = |name: &str| {
        let line = qrun_emulator::LAYOUT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.expect("a line of cuda/emulator/kernel/layout.cpp").parse::<usize>().expect("a number")
    };
    assert_eq!(size_of::<FragmentsParams>(), number("fragments::FragmentsParams"));
    let offsets = [
        ("op", offset_of!(FragmentsParams, op)),
        ("pad", offset_of!(FragmentsParams, pad)),
        ("a", offset_of!(FragmentsParams, a)),
        ("b", offset_of!(FragmentsParams, b)),
        ("c", offset_of!(FragmentsParams, c)),
    ];
    for (field, offset) in offsets {
        assert_eq!(offset, number(&format!("fragments::FragmentsParams.{field}")), "{field}");
    }
    assert_eq!(CP_ASYNC as usize, number("fragments::CP_ASYNC"));
}
