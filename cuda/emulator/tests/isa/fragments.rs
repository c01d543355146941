//! Tensor cores and ldmatrix against a plain product of matrices. Where the elements of a fragment lie is written
//! down as the manual has it: by lane and by number of the element.

use crate::isa::{
    harness::{Random, outcome},
    references::{from_16_bits, to_16_bits},
};

/// What the elements of A and B are.
#[derive(Clone, Copy, PartialEq)]
pub enum Number {
    S8,
    F16,
    Bf16,
}

/// d[m×8] = a[m×k] · b[k×8] + c. With g = lane / 4 and t = lane % 4, element i of a lane's fragment of `a` is (row,
/// column) a(g, t, i), of `b` b(g, t, i), of `c` and d c(g, t, i).
pub struct Mma {
    pub op: &'static str,
    number: Number,
    pub m: usize,
    k: usize,
    a: fn(usize, usize, usize) -> (usize, usize),
    b: fn(usize, usize, usize) -> (usize, usize),
}

/// Two elements per row; behind the first two those of the row 8 further down.
fn c(g: usize, t: usize, i: usize) -> (usize, usize) {
    (if i < 2 { g } else { g + 8 }, 2 * t + i % 2)
}

pub static MMA: &[Mma] = &[
    Mma {
        op: "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32",
        number: Number::S8,
        m: 8,
        k: 16,
        a: |g, t, i| (g, 4 * t + i),
        b: |g, t, i| (4 * t + i, g),
    },
    Mma {
        op: "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32",
        number: Number::S8,
        m: 16,
        k: 16,
        a: |g, t, i| (if i < 4 { g } else { g + 8 }, 4 * t + i % 4),
        b: |g, t, i| (4 * t + i, g),
    },
    Mma {
        op: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        number: Number::S8,
        m: 16,
        k: 32,
        a: |g, t, i| {
            (if i < 4 || (8..12).contains(&i) { g } else { g + 8 }, 4 * t + i % 4 + if i < 8 { 0 } else { 16 })
        },
        b: |g, t, i| (4 * t + i % 4 + if i < 4 { 0 } else { 16 }, g),
    },
    Mma {
        op: "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        number: Number::F16,
        m: 16,
        k: 8,
        a: |g, t, i| (if i < 2 { g } else { g + 8 }, 2 * t + i % 2),
        b: |g, t, i| (2 * t + i, g),
    },
    Mma {
        op: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        number: Number::F16,
        m: 16,
        k: 16,
        a: |g, t, i| (if i < 2 || (4..6).contains(&i) { g } else { g + 8 }, 2 * t + i % 2 + if i < 4 { 0 } else { 8 }),
        b: |g, t, i| (2 * t + i % 2 + if i < 2 { 0 } else { 8 }, g),
    },
    Mma {
        op: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        number: Number::Bf16,
        m: 16,
        k: 16,
        a: |g, t, i| (if i < 2 || (4..6).contains(&i) { g } else { g + 8 }, 2 * t + i % 2 + if i < 4 { 0 } else { 8 }),
        b: |g, t, i| (2 * t + i % 2 + if i < 2 { 0 } else { 8 }, g),
    },
];

static LDMATRIX: &[&str] = &[
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
    "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
];

/// As coverage.rs writes shapes.
pub fn shapes() -> impl Iterator<Item = String> {
    let list = |class: &str, n: usize| format!("{{{}}}", vec![class; n].join(","));
    let mma = MMA.iter().map(move |mma| {
        let (c, n) = (if mma.number == Number::S8 { "r" } else { "f" }, mma.m / 4);
        format!(
            "{} {},{},{},{}",
            mma.op,
            list(c, n),
            list("r", mma.registers(mma.m)),
            list("r", mma.registers(8)),
            list(c, n)
        )
    });
    mma.chain(LDMATRIX.iter().map(move |op| format!("{op} {},[r]", list("r", if op.contains("x4") { 4 } else { 2 }))))
}

const LANES: usize = 32;

impl Mma {
    /// Elements of a register.
    fn per(&self) -> usize {
        if self.number == Number::S8 { 4 } else { 2 }
    }
    /// Registers of a lane for k · `outer` elements.
    fn registers(&self, outer: usize) -> usize {
        self.k * outer / LANES / self.per()
    }
    /// The bits of an element.
    fn bits(&self, value: f32) -> u32 {
        match self.number {
            Number::S8 => u32::from(value as i8 as u8),
            Number::F16 => to_16_bits(value, 5) as u32,
            Number::Bf16 => to_16_bits(value, 8) as u32,
        }
    }
    /// Registers of all lanes: lane after lane.
    fn fragment(
        &self,
        outer: usize,
        place: fn(usize, usize, usize) -> (usize, usize),
        at: &dyn Fn(usize, usize) -> f32,
    ) -> Vec<Vec<u32>> {
        let (per, bits) = (self.per(), 32 / self.per());
        let register = |lane: usize, r: usize| {
            (0..per).fold(0, |word, e| {
                let (row, column) = place(lane / 4, lane % 4, per * r + e);
                word | self.bits(at(row, column)) << (bits * e)
            })
        };
        (0..LANES).map(|lane| (0..self.registers(outer)).map(|r| register(lane, r)).collect()).collect()
    }
    /// The instruction with its sources in %r10 (a), %r20 (b) and its accumulators in %r30 and, other ones, %r40.
    fn text(&self, same: bool) -> String {
        let list = |class: &str, first: usize, n: usize| {
            let names: Vec<String> = (first..first + n).map(|i| format!("%{class}{i}")).collect();
            format!("{{{}}}", names.join(","))
        };
        let (n, class, move_in, move_out) = match self.number {
            Number::S8 => (self.m / 4, "r", "mov.u32 %r", "mov.u32 %r"),
            _ => (self.m / 4, "f", "mov.b32 %f", "mov.b32 %r"),
        };
        let (c, d) = if class == "r" { (50, if same { 50 } else { 40 }) } else { (10, if same { 10 } else { 20 }) };
        let mut text = String::new();
        for i in 0..n {
            text += &format!("{move_in}{}, %r{}; ", c + i, 30 + i);
        }
        let (a, b) = (list("r", 10, self.registers(self.m)), list("r", 20, self.registers(8)));
        text += &format!("{} {}, {a}, {b}, {}; ", self.op, list(class, d, n), list(class, c, n));
        for i in 0..n {
            text += &format!("{move_out}{}, %{class}{}; ", 60 + i, d + i);
        }
        text
    }
}

/// Input: 12 words per lane, which become %r10 to %r13, %r20 to %r23, %r30 to %r33. Output: %r60 to %r63.
fn run(text: &str, lanes: &[[Vec<u32>; 3]]) -> Vec<u32> {
    let mut input = vec![0; LANES * 12];
    for (lane, parts) in lanes.iter().enumerate() {
        for (i, part) in parts.iter().enumerate() {
            input[12 * lane + 4 * i..][..part.len()].copy_from_slice(part);
        }
    }
    let mut body = String::from(
        "mul.wide.u32 %rd2, %r0, 48; add.s64 %rd2, %rd0, %rd2; mul.wide.u32 %rd3, %r0, 16; add.s64 %rd3, %rd1, %rd3; ",
    );
    for i in 0..12 {
        body += &format!("ld.global.u32 %r{}, [%rd2+{}]; ", 10 * (i / 4 + 1) + i % 4, 4 * i);
    }
    for i in 0..4 {
        body += &format!("mov.u32 %r{}, 0; ", 60 + i);
    }
    body += text;
    for i in 0..4 {
        body += &format!("st.global.u32 [%rd3+{}], %r{}; ", 4 * i, 60 + i);
    }
    outcome(32, "", &body, &input, LANES * 4)
}

fn matrix(n: usize, random: &mut Random, number: Number) -> Vec<f32> {
    (0..n)
        .map(|_| if number == Number::S8 { (random.below(256) as i32 - 128) as f32 } else { random.short() * 8.0 })
        .collect()
}

/// Fragments of a product by lane, and the accumulators that come of it.
pub struct Product {
    /// A, B and C.
    pub lanes: Vec<[Vec<u32>; 3]>,
    pub expected: Vec<Vec<u32>>,
}

impl Mma {
    /// A product of random matrices, all of it exact in f32. Accumulators of integers begin anywhere, and may wrap.
    pub fn product(&self) -> Product {
        let mut random = Random((self.m * self.k) as u64);
        let integers = self.number == Number::S8;
        let (a, b) = (matrix(self.m * self.k, &mut random, self.number), matrix(self.k * 8, &mut random, self.number));
        let mut start = || if integers { random.next() as u32 } else { (random.short() * 64.0).to_bits() };
        let start: Vec<u32> = (0..self.m * 8).map(|_| start()).collect();
        let value = |(row, column): (usize, usize)| {
            let terms = (0..self.k).map(|k| f64::from(a[row * self.k + k]) * f64::from(b[k * 8 + column]));
            let (dot, from) = (terms.sum::<f64>(), start[row * 8 + column]);
            match integers {
                true => from.wrapping_add(dot as i32 as u32),
                false => ((f64::from(f32::from_bits(from)) + dot) as f32).to_bits(),
            }
        };
        let of_a = self.fragment(self.m, self.a, &|row, k| a[row * self.k + k]);
        let of_b = self.fragment(8, self.b, &|k, column| b[k * 8 + column]);
        let places = |lane: usize| (0..self.m / 4).map(move |i| c(lane / 4, lane % 4, i));
        let of_c = |lane: usize| places(lane).map(|(row, column)| start[row * 8 + column]).collect();
        Product {
            lanes: (0..LANES).map(|l| [of_a[l].clone(), of_b[l].clone(), of_c(l)]).collect(),
            expected: (0..LANES).map(|lane| places(lane).map(value).collect()).collect(),
        }
    }
}

#[test]
fn products_of_matrices() {
    for mma in MMA {
        let Product { lanes, expected } = mma.product();
        for same in [true, false] {
            let found = run(&mma.text(same), &lanes);
            for (lane, expected) in expected.iter().enumerate() {
                let found = &found[4 * lane..][..expected.len()];
                assert_eq!(found, expected, "{}: lane {lane}, same registers for c and d: {same}", mma.op);
            }
        }
    }
}

/// The ends of the formats: denormals count, infinities and what is no number come through, and products are not
/// rounded to the format of the factors.
#[test]
fn ends_of_the_formats() {
    for mma in MMA.iter().filter(|mma| mma.number != Number::S8) {
        let exponent = if mma.number == Number::F16 { 5 } else { 8 };
        let value = |bits: u64| from_16_bits(bits, exponent) as f32;
        let (infinity, one) = (f32::INFINITY, 1.0);
        let (least, most) = (value(1), value(if exponent == 5 { 0x7BFF } else { 0x5F7F }));
        for (x, y, expected) in [
            (least, one, least),
            (most, most, most * most),
            (infinity, one, infinity),
            (infinity, -one, -infinity),
            (infinity, 0.0, f32::NAN),
            (f32::NAN, one, f32::NAN),
        ] {
            // Only element (3, 5) of A and (5, 2) of B: only (3, 2) of the result, and what is no number elsewhere in
            // its row and column.
            let of_a = mma.fragment(16, mma.a, &|row, k| if (row, k) == (3, 5) { x } else { 0.0 });
            let of_b = mma.fragment(8, mma.b, &|k, column| if (k, column) == (5, 2) { y } else { 0.0 });
            let lanes: Vec<[Vec<u32>; 3]> =
                (0..LANES).map(|l| [of_a[l].clone(), of_b[l].clone(), vec![0; 4]]).collect();
            let found = run(&mma.text(true), &lanes);
            let (lane, i) = (0..LANES)
                .flat_map(|l| (0..4).map(move |i| (l, i)))
                .find(|&(l, i)| c(l / 4, l % 4, i) == (3, 2))
                .expect("it is there");
            let found = f32::from_bits(found[4 * lane + i]);
            assert!(
                found == expected || found.is_nan() && expected.is_nan(),
                "{}: {x} · {y}: expected {expected}, found {found}",
                mma.op
            );
        }
    }
}

/// Each lane gets elements 2t, 2t + 1 of row g of each matrix; transposed: element g of rows 2t, 2t + 1.
pub fn dealt(rows: &[u32], given: &[usize], transposed: bool, lane: usize, matrix: usize) -> u32 {
    let element = |row: usize, i: usize| rows[4 * row + i / 2] >> (16 * (i % 2)) & 0xFFFF;
    let (g, t) = (lane / 4, lane % 4);
    let half = |h: usize| match transposed {
        false => element(given[8 * matrix + g], 2 * t + h),
        true => element(given[8 * matrix + 2 * t + h], g),
    };
    half(0) | half(1) << 16
}

#[test]
fn matrices_from_shared_memory() {
    let mut random = Random(9);
    let rows: Vec<u32> = (0..LANES * 4).map(|_| random.next() as u32).collect();
    // Lane i names row given[i].
    let given: Vec<usize> = (0..LANES).map(|i| (i * 11 + 5) % LANES).collect();
    for op in LDMATRIX {
        let matrices = if op.contains("x4") { 4 } else { 2 };
        // Lanes that name no row may hold anything (on SM 8.0).
        let address = |lane: usize| if lane < 8 * matrices { given[lane] as u32 * 16 } else { 0x7FFF_FFF3 };
        let input: Vec<u32> = (0..LANES).flat_map(|l| [&rows[4 * l..4 * l + 4], &[address(l)]].concat()).collect();
        let list = if matrices == 4 { "{%r60,%r61,%r62,%r63}" } else { "{%r60,%r61}" };
        let mut body = String::from(
            "mul.wide.u32 %rd2, %r0, 20; add.s64 %rd2, %rd0, %rd2; mul.wide.u32 %rd3, %r0, 16; \
             add.s64 %rd3, %rd1, %rd3; mov.u64 %rd4, tile; add.s64 %rd5, %rd4, %rd3; sub.s64 %rd5, %rd5, %rd1; \
             cvt.u32.u64 %r5, %rd4; ",
        );
        for i in 0..4 {
            body += &format!(
                "ld.global.u32 %r{0}, [%rd2+{1}]; st.shared.u32 [%rd5+{1}], %r{0}; mov.u32 %r{2}, 7; ",
                10 + i,
                4 * i,
                60 + i
            );
        }
        body += &format!("ld.global.u32 %r6, [%rd2+16]; add.s32 %r6, %r6, %r5; bar.warp.sync -1; {op} {list}, [%r6]; ");
        for i in 0..4 {
            body += &format!("st.global.u32 [%rd3+{}], %r{}; ", 4 * i, 60 + i);
        }
        let found = outcome(32, ".shared .align 16 .b8 tile[512];", &body, &input, LANES * 4);
        for lane in 0..LANES {
            for matrix in 0..4 {
                let expected =
                    if matrix < matrices { dealt(&rows, &given, op.contains("trans"), lane, matrix) } else { 7 };
                assert_eq!(found[4 * lane + matrix], expected, "{op}: lane {lane}, matrix {matrix}");
            }
        }
    }
}

/// Both together, as kernels use them: A (16 × 16) and B (16 × 8) row by row in shared memory, A read as it is, B
/// transposed.
#[test]
fn a_product_of_what_lies_in_shared_memory() {
    let mut random = Random(10);
    let (a, b) = (matrix(256, &mut random, Number::F16), matrix(128, &mut random, Number::F16));
    let pairs =
        |m: &[f32]| m.chunks(2).map(|p| (to_16_bits(p[0], 5) | to_16_bits(p[1], 5) << 16) as u32).collect::<Vec<_>>();
    let input = [pairs(&a), pairs(&b)].concat();
    let mut body = String::from(
        "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd0, %rd2; mov.u64 %rd4, tile; add.s64 %rd5, %rd4, %rd2; \
         cvt.u32.u64 %r5, %rd4; mul.wide.u32 %rd6, %r0, 16; add.s64 %rd7, %rd1, %rd6; ",
    );
    for at in (0..6).map(|i| 128 * i) {
        body += &format!("ld.global.u32 %r6, [%rd3+{at}]; st.shared.u32 [%rd5+{at}], %r6; ");
    }
    // Lane l names row l % 16 of A, columns 8 · (l / 16) …; and row l % 16 of B.
    body += "bar.warp.sync -1; and.b32 %r7, %r0, 15; shl.b32 %r8, %r7, 5; add.s32 %r8, %r8, %r5; \
             shr.u32 %r9, %r0, 4; shl.b32 %r9, %r9, 4; add.s32 %r8, %r8, %r9; \
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r8]; shl.b32 %r8, %r7, 4; \
             add.s32 %r8, %r8, %r5; add.s32 %r8, %r8, 512; \
             ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r20,%r21}, [%r8]; mov.f32 %f1, 0f00000000; \
             mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; \
             mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r10,%r11,%r12,%r13}, \
             {%r20,%r21}, {%f1,%f2,%f3,%f4}; \
             st.global.f32 [%rd7], %f1; st.global.f32 [%rd7+4], %f2; st.global.f32 [%rd7+8], %f3; \
             st.global.f32 [%rd7+12], %f4; ";
    let found = outcome(32, ".shared .align 16 .b8 tile[768];", &body, &input, LANES * 4);
    for (i, found) in found.iter().enumerate() {
        let (row, column) = c(i / 16, i / 4 % 4, i % 4);
        let expected: f32 = (0..16).map(|k| a[row * 16 + k] * b[k * 8 + column]).sum();
        assert_eq!(f32::from_bits(*found), expected, "row {row}, column {column}");
    }
}
