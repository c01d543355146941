//! What a weight costs the kernels of gemv, by format: warp instructions, loads of weights (`.nc`, which loads nothing
//! else) and their sectors in the PTX that is shipped, the same for compute_75 and compute_80. The matrix has 288 rows of
//! 6912 weights (a quarter of Gemma 3 1B's down projection), and there is one token.
//!
//! The table has today's numbers. More is refused; so is less, until the table says so: a failure prints the rows
//! as they have to be. `cargo test -p qrun-emulator --test emulator what_a_weight_costs` is all it takes.

use qrun_emulator::{Order, isa::Module};

use crate::isa::{
    coverage::shipped,
    harness::Memory,
    trial::{IDLE, Params, Trial},
};

const ROWS: usize = 288;
const K: usize = 6912;

/// Format, its number in ggml, weights and bytes of a block; warp instructions, loads of weights, their sectors.
type Row = (&'static str, i32, [usize; 2], [u64; 3]);

const TABLE: &[Row] = &[
    ("f32", 0, [1, 4], [194688, 15552, 248832]),
    ("f16", 1, [1, 2], [288432, 15552, 124416]),
    ("q4_0", 2, [32, 18], [155376, 20160, 183024]),
    ("q4_1", 3, [32, 20], [149616, 12096, 116640]),
    ("q5_0", 6, [32, 22], [276912, 36288, 392976]),
    ("q5_1", 7, [32, 24], [235440, 16128, 186624]),
    ("q8_0", 8, [32, 34], [166032, 36288, 590976]),
    ("q2_k", 10, [256, 84], [251424, 24192, 88452]),
    ("q3_k", 11, [256, 110], [473760, 76608, 243000]),
    ("q4_k", 12, [256, 144], [235296, 20160, 132192]),
    ("q5_k", 13, [256, 176], [347472, 36288, 163296]),
    ("q6_k", 14, [256, 210], [426240, 72576, 423306]),
    ("iq4_nl", 20, [32, 18], [267696, 20160, 183024]),
    ("iq4_xs", 23, [256, 136], [273456, 12096, 77904]),
    ("bf16", 30, [1, 2], [257328, 15552, 124416]),
    ("mxfp4", 39, [32, 17], [355392, 36288, 321624]),
];

/// Weights are zero: what is executed does not depend on them.
fn counted(module: &Module, (name, format, [weights, bytes], _): &Row) -> [u64; 3] {
    let kernel = format!("gemv_{name}");
    let trial = Trial::new(module, &kernel, Order::Forward);
    let mut memory = Memory::default();
    let w = memory.put(&vec![0u8; ROWS * K / weights * bytes]);
    let y = memory.put(&[IDLE; ROWS]);
    let params = Params::new("MatmulParams")
        .set("segment.Segment.w", w)
        .set("segment.Segment.y", y)
        .set("segment.Segment.rows", ROWS as i32)
        .set("segment.Segment.y_stride", ROWS as i32)
        .set("segment.Segment.format", *format)
        .set("segments", 1)
        .set("k", K as i32)
        .set("columns", 1);
    let params = if [0, 1, 30].contains(format) {
        params.set("x", memory.put(&[1f32; K]))
    } else {
        params
            .set("image.QuantizedActivations.q", memory.put(&[1i8; K]))
            .set("image.QuantizedActivations.d", memory.put(&[1f32; K / 32]))
            .set("image.QuantizedActivations.s", memory.put(&[1f32; K / 16]))
    };
    trial.run(&memory, &params.bytes, [ROWS as u32 / 8, 1, 1], 128, 0).unwrap_or_else(|e| panic!("{kernel}: {e}"));
    assert!(memory.get::<f32>(y).iter().all(|v| *v == 0.0), "{kernel} has not written every row");
    let counts = trial.counts.into_inner();
    let (all, lines) = (counts.kernel(&kernel), module.kernel(&kernel).expect("it ran").listing());
    let of_weights = all.at.iter().zip(lines).filter(|(_, (_, text))| text.contains("ld.global.nc"));
    let sum = of_weights.fold([0; 2], |[loads, sectors], (at, _)| [loads + at.executed, sectors + at.sectors]);
    [counts.warp_instructions(), sum[0], sum[1]]
}

#[test]
fn what_a_weight_costs() {
    let modules = [75, 80].map(|sm| Module::parse(&shipped(sm)["gemv"]).expect("it is shipped"));
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for row in TABLE {
        let (name, format, block, expected) = row;
        let [found, other] = [0, 1].map(|i| counted(&modules[i], row));
        assert_eq!(found, other, "gemv_{name}: compute_75 and compute_80 differ");
        table += &format!("    ({name:?}, {format}, {block:?}, {found:?}),\n");
        let told = |[instructions, loads, sectors]: [u64; 3]| {
            let per_32 = instructions as f64 * 32.0 / (ROWS * K) as f64;
            let per_load = sectors as f64 / loads.max(1) as f64;
            format!("{per_32:.2} instructions per 32 weights, {per_load:.2} sectors per load of weights")
        };
        if found != *expected {
            wrong.push(format!("gemv_{name}: {}, expected {}", told(found), told(*expected)));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf that is meant, the table is\n{table}", wrong.join("\n"));
}
