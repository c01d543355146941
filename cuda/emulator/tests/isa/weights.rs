//! What a weight costs the kernels for one column, by format (`product_1`, of dense ones `gemv`): warp instructions, loads
//! of weights (`.nc`, which loads nothing else) and their sectors in the PTX that is shipped. The matrix has 288 rows of 6912
//! weights (a quarter of Gemma 3 1B's down projection), and there is one token.
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

/// Warps of a block of `product_1`, which the records of a row divide among.
const WARPS: u32 = 9;

/// Format, its number in ggml, weights and bytes of a block, of quantized ones of a tile record; then what `counted` finds:
/// warp instructions, loads of weights, sectors of these loads.
type Row = (&'static str, i32, [usize; 2], [u64; 3]);

const TABLE: &[Row] = &[
    ("f32", 0, [1, 4], [194688, 15552, 248832]),
    ("f16", 1, [1, 2], [288432, 15552, 124416]),
    ("q4_0", 2, [16 * 128, 1152], [162000, 2916, 34992]),
    ("q4_1", 3, [16 * 128, 1280], [199188, 3888, 38880]),
    ("q5_0", 6, [16 * 128, 1408], [218646, 3888, 42768]),
    ("q5_1", 7, [16 * 128, 1536], [249894, 4860, 46656]),
    ("q8_0", 8, [16 * 128, 2176], [141030, 4860, 66096]),
    ("q2_k", 10, [16 * 256, 1344], [255222, 2916, 20412]),
    ("q3_k", 11, [16 * 256, 1824], [219924, 3402, 27702]),
    ("q4_k", 12, [16 * 256, 2304], [192384, 2916, 34992]),
    ("q5_k", 13, [16 * 256, 2816], [234504, 3888, 42768]),
    ("q6_k", 14, [16 * 256, 3360], [217818, 4374, 51030]),
    ("iq4_nl", 20, [16 * 128, 1152], [268074, 2916, 34992]),
    ("iq4_xs", 23, [16 * 256, 2208], [243396, 3402, 33534]),
    ("bf16", 30, [1, 2], [257328, 15552, 124416]),
    ("mxfp4", 39, [16 * 128, 1088], [316998, 2916, 33048]),
    ("iq2_xxs", 16, [16 * 256, 1120], [315090, 2466, 17586]),
    ("iq2_xs", 17, [16 * 256, 1248], [398232, 2988, 20106]),
    ("iq2_s", 22, [16 * 256, 1312], [446094, 3546, 22230]),
    ("iq3_xxs", 18, [16 * 256, 1632], [297900, 2448, 25074]),
    ("iq3_s", 21, [16 * 256, 1760], [357678, 2952, 27306]),
    ("iq1_m", 29, [16 * 256, 928], [398142, 2574, 16398]),
    ("nvfp4", 40, [16 * 128, 1152], [344250, 2916, 34992]),
    ("q1_0", 41, [16 * 128, 288], [177138, 1944, 8748]),
    ("q2_0", 42, [16 * 128, 576], [162504, 1944, 17496]),
];

/// Warp instructions, loads of weights, their sectors. Weights are zero: what is executed does not depend on them.
fn counted(texts: &[Module], (name, format, [weights, bytes], _): &Row) -> [u64; 3] {
    let dense = *weights == 1;
    let (kernel, blocks, threads) = match dense {
        true => (format!("gemv_{name}"), ROWS / 8, 128),
        false => (format!("product_1_{name}"), ROWS / 16, 32 * WARPS),
    };
    let module = texts.iter().find(|module| module.kernel(&kernel).is_some()).expect("it is shipped");
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
        .set("columns", 1)
        // Words of the largest grid, for formats that have one.
        .set("weight_grid", memory.put(&[0u16; 2048]))
        .cut(1, WARPS, K);
    let params = if dense {
        params.set("x", memory.put(&[1f32; K]))
    } else {
        params
            .set("image.QuantizedActivations.q", memory.put(&[1i8; K]))
            .set("image.QuantizedActivations.d", memory.put(&[1f32; K / 32]))
            .set("image.QuantizedActivations.s", memory.put(&[1f32; K / 16]))
    };
    trial.run(&memory, &params.bytes, [blocks as u32, 1, 1], threads, 0).unwrap_or_else(|e| panic!("{kernel}: {e}"));
    assert!(memory.get::<f32>(y).iter().all(|v| *v == 0.0), "{kernel} has not written every row");
    let counts = trial.counts.into_inner();
    let (all, lines) = (counts.kernel(&kernel), module.kernel(&kernel).expect("it ran").listing());
    let of_weights = all.at.iter().zip(lines).filter(|(_, (_, text))| text.contains("ld.global.nc"));
    let sum = of_weights.fold([0; 2], |[loads, sectors], (at, _)| [loads + at.executed, sectors + at.sectors]);
    [counts.warp_instructions(), sum[0], sum[1]]
}

#[test]
fn what_a_weight_costs() {
    let texts = shipped();
    let texts = ["gemv", "rare", "product"].map(|name| Module::parse(&texts[name]).expect("it is shipped"));
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for row in TABLE {
        let (name, format, block, expected) = row;
        let found = counted(&texts, row);
        let block =
            if block[0] == 1 { format!("{block:?}") } else { format!("[16 * {}, {}]", block[0] / 16, block[1]) };
        table += &format!("    ({name:?}, {format}, {block}, {found:?}),\n");
        let told = |[all, loads, sectors]: [u64; 3]| {
            let per_weights = all as f64 * 32.0 / (ROWS * K) as f64;
            let per_load = sectors as f64 / loads.max(1) as f64;
            format!("{per_weights:.2} instructions per 32 weights, {per_load:.2} sectors per load of weights")
        };
        if found != *expected {
            wrong.push(format!("{name}: {}, expected {}", told(found), told(*expected)));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf that is meant, the table is\n{table}", wrong.join("\n"));
}
