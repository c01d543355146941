//! What lanes of machine code do together: shuffles, votes, matrices.

use crate::isa::fragments::{MMA, Product, dealt};
use crate::isa::harness::{Memory, Random};
use crate::isa::sass::harness::{CHOOSE, Code, Lanes, lanes};

const FAILED: i32 = 719;

#[test]
fn shuffles_take_the_value_of_another_lane() {
    let mut random = Random(6);
    let value = lanes(|_| 0).map(|_| random.next() as u32);
    let (by, to) = (lanes(|lane| lane as u32 * 7 % 32), lanes(|lane| lane as u32 * 5 + 3));
    for (operands, clamp, from) in [
        ("BFLY P1, R20, R12, 0x10, 0x1f", 31, lanes(|lane| lane as u32 ^ 16)),
        ("BFLY P1, R20, R12, 0x1, 0x1f", 31, lanes(|lane| lane as u32 ^ 1)),
        ("BFLY P1, R20, R12, R13, R15", 31, lanes(|lane| lane as u32 ^ by[lane])),
        ("BFLY P1, R20, R12, 0x8, 0x7", 7, lanes(|lane| lane as u32 ^ 8)),
        ("IDX P1, R20, R12, R14, 0x1f", 31, lanes(|lane| to[lane] % 32)),
        ("IDX P1, R20, R12, R14, R16", 12, lanes(|lane| to[lane] % 32)),
        ("IDX P1, R20, R12, RZ, 0x1f", 31, [0; 32]),
    ] {
        // A lane behind the clamp is not read: the own value, and the predicate says so.
        let expected = lanes(|lane| value[if from[lane] <= clamp { from[lane] as usize } else { lane }]);
        let valid = lanes(|lane| u32::from(from[lane] <= clamp));
        let given = [(12, value), (13, by), (14, to), (15, [31; 32]), (16, [12; 32]), (17, [1; 32]), (21, [0; 32])];
        // R21: 1 where P1 holds, by way of shared memory.
        let text = format!("SHFL.{operands}\nSTS [R250], RZ\n@P1 STS [R250], R17\nLDS R21, [R250]");
        assert_eq!(Code::new(&text, &given).leaves([20, 21]), [expected, valid], "{operands}");
    }
    // In segments of 8: bits 8 – 12 of the last operand are those of the lane's own number that stay.
    let segment = lanes(|lane| value[lane & 24 | 2]);
    let given = [(12, value), (14, [2; 32]), (15, [0x181f; 32])];
    assert_eq!(Code::new("SHFL.IDX PT, R20, R12, R14, R15", &given).leaves([20]), [segment]);
}

#[test]
fn lanes_that_are_missing_have_nothing_to_give() {
    let given = [(9, lanes(|lane| u32::from(lane == 6))), (12, lanes(|lane| lane as u32)), (20, [77; 32])];
    // Lane 7 reads lane 6, which is not there.
    let text = format!("{CHOOSE}@P0 SHFL.BFLY PT, R20, R12, 0x1, 0x1f\nSTS [R250], R20");
    Code::new(&text, &given).faults(&mut Memory::default(), FAILED, &["lane 7", "the value that it stores"]);
    // Nobody uses it.
    let text = format!("{CHOOSE}@P0 SHFL.BFLY PT, R20, R12, 0x1, 0x1f\nSHFL.IDX PT, R21, R20, RZ, 0x1f");
    assert_eq!(Code::new(&text, &given).leaves([21]), [[1; 32]]);
    // Lane 6 keeps what it has.
    let text = format!("{CHOOSE}@P0 SHFL.IDX PT, R20, R12, 0x3, 0x1f");
    assert_eq!(Code::new(&text, &given).leaves([20]), [lanes(|lane| if lane == 6 { 77 } else { 3 })]);
    let text = "SHFL.IDX PT, R20, R12, R40, 0x1f";
    Code::new(text, &given).faults(&mut Memory::default(), FAILED, &["the lane that it reads was never written"]);
}

#[test]
fn votes() {
    let chosen = |lane: usize| lane % 5 == 2 || lane > 28;
    let given = [(9, lanes(|lane| u32::from(!chosen(lane)))), (8, lanes(|lane| lane as u32 % 4)), (20, [3; 32])];
    let bits = |f: &dyn Fn(usize) -> bool| (0..32).fold(0, |bits, lane| bits | u32::from(f(lane)) << lane);
    let ones = bits(&chosen);
    for (text, expected) in [
        ("VOTE.ANY R20, PT, P0", [ones; 32]),
        ("VOTE.ANY R20, PT, !P0", [!ones; 32]),
        ("VOTE.ANY R20, PT, PT", [u32::MAX; 32]),
        ("VOTE.ANY R20, PT, !PT", [0; 32]),
        // Under a guard: only the lanes that are there count, and write.
        ("@P0 VOTE.ANY R20, PT, PT", lanes(|lane| if chosen(lane) { ones } else { 3 })),
        ("@!P0 VOTE.ANY R20, PT, P2", lanes(|lane| if chosen(lane) { 3 } else { bits(&|l| !chosen(l) && l % 4 == 0) })),
        ("VOTE.ANY RZ, P1, P0\n@P1 LDS R20, [RZ]", [9; 32]),
        ("VOTE.ANY RZ, P1, !PT\n@P1 LDS R20, [RZ]", [3; 32]),
        ("VOTEU.ANY UP1, P0\n@UP1 LDS R20, [RZ]", [9; 32]),
        ("VOTEU.ANY UP1, !PT\n@UP1 LDS R20, [RZ]", [3; 32]),
        ("VOTEU.ALL UP1, P0\n@UP1 LDS R20, [RZ]", [3; 32]),
        ("VOTEU.ALL UP1, PT\n@UP1 LDS R20, [RZ]", [9; 32]),
        ("VOTE.ALL RZ, P1, P0\n@P1 LDS R20, [RZ]", [3; 32]),
        ("@P0 VOTEU.ALL UP1, P0\n@UP1 LDS R20, [RZ]", [9; 32]),
        ("@P0 VOTEU.ANY UP1, P0\n@UP1 LDS R20, [RZ]", [9; 32]),
    ] {
        let text =
            format!("{CHOOSE}SHFL.IDX P2, RZ, RZ, R8, RZ\nSHFL.IDX PT, R21, R9, RZ, 0x1f\nSTS [0x0], R22\n{text}");
        // P2 holds in the lanes whose R8 is 0.
        let given = [&given[..], &[(22, [9; 32])]].concat();
        assert_eq!(Code::new(&text, &given).leaves([20]), [expected], "{text}");
    }
    // A uniform register has the ballot of the lanes that are there, for all of them: 0x88 is lanes 3 and 7.
    let given = [(9, lanes(|lane| u32::from(lane != 3 && lane != 7)))];
    let text = format!(
        "{CHOOSE}STS [R250], R250\nSTS [R250+0x80], R250\nBSSY B0, `(L2)\n@!P0 BRA `(L1)\n\
         VOTEU.ANY UR4, UPT, PT\nL1:\nBSYNC B0\nL2:\nLDS R20, [UR4]"
    );
    assert_eq!(Code::new(&text, &given).leaves([20]), [[0x88 - 128; 32]]);
    let text = "VOTE.ANY R20, PT, P5";
    Code::new(text, &[]).faults(&mut Memory::default(), FAILED, &["the predicate that it votes on was never written"]);
}

/// How machine code calls the products of fragments.rs.
fn name(op: &str) -> &'static str {
    match op {
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32" => "IMMA.8816.S8.S8",
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32" => "IMMA.16816.S8.S8",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" => "IMMA.16832.S8.S8",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32" => "HMMA.1688.F32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" => "HMMA.16816.F32",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" => "HMMA.16816.F32.BF16",
        _ => panic!("{op} has no name in machine code"),
    }
}

#[test]
fn products_of_matrices() {
    for mma in MMA {
        let Product { lanes: fragments, expected } = mma.product();
        let name = name(mma.op);
        let (row, column) = if name.starts_with("IMMA") { (".ROW", ".COL") } else { ("", "") };
        // A from R8 on, B from R12 on, C from R16 on; `None` where the product has no such register.
        let register = |part: usize, i: usize| fragments[0][part].get(i).map(|_| lanes(|l| fragments[l][part][i]));
        let given: Vec<(usize, Lanes)> = (0..3)
            .flat_map(|part| (0..4).map(move |i| (part, i)))
            .filter_map(|(part, i)| Some((8 + 4 * part + i, register(part, i)?)))
            .collect();
        for d in [20, 16, 8] {
            let text = format!("{name} R{d}, R8{row}, R12{column}, R16");
            let given = [&given[..], &(20..24).map(|i| (i, [0; 32])).collect::<Vec<_>>()].concat();
            let count = expected[0].len();
            let given: Vec<(usize, Lanes)> = match count {
                4 => given,
                // Registers behind the result stay.
                _ => [&given[..], &[(d + 2, [5; 32]), (d + 3, [5; 32])]].concat(),
            };
            let found = Code::new(&text, &given).leaves([d, d + 1, d + 2, d + 3]);
            for (i, found) in found.iter().enumerate() {
                let expected = if i < count { lanes(|lane| expected[lane][i]) } else { [5; 32] };
                assert_eq!(*found, expected, "{text}: register {i}");
            }
        }
    }
}

#[test]
fn products_without_a_sum() {
    for mma in MMA {
        let Product { lanes: fragments, .. } = mma.product();
        let name = name(mma.op);
        let (row, column) = if name.starts_with("IMMA") { (".ROW", ".COL") } else { ("", "") };
        let given: Vec<(usize, Lanes)> = (0..2)
            .flat_map(|part| (0..fragments[0][part].len()).map(move |i| (part, i)))
            .map(|(part, i)| (8 + 4 * part + i, lanes(|lane| fragments[lane][part][i])))
            .collect();
        let zeros: Vec<(usize, Lanes)> = (16..20).map(|i| (i, [0; 32])).collect();
        let given = [&given[..], &zeros].concat();
        let of = |c: &str| Code::new(&format!("{name} R20, R8{row}, R12{column}, {c}"), &given).leaves([20, 21]);
        assert_eq!(of("RZ"), of("R16"), "{name}");
        assert_ne!(of("RZ")[0], [0; 32], "{name}");
    }
}

#[test]
fn matrices_from_shared_memory() {
    let mut random = Random(7);
    let words: Vec<u32> = (0..128).map(|_| random.next() as u32).collect();
    let named: Vec<usize> = (0..32).map(|lane| (lane * 11 + 5) % 32).collect();
    let given: Vec<(usize, Lanes)> = (0..4)
        .map(|i| (12 + i, lanes(|lane| words[4 * lane + i])))
        .chain([(4, lanes(|lane| 16 * lane as u32)), (5, lanes(|lane| 16 * named[lane] as u32))])
        .chain((20..24).map(|i| (i, [7; 32])))
        .collect();
    for (text, matrices) in [
        ("LDSM.16.M88.4 R20, [R5]", 4),
        ("LDSM.16.MT88.4 R20, [R5]", 4),
        ("LDSM.16.M88.2 R20, [R5]", 2),
        ("LDSM.16.MT88.2 R20, [R5+0x100]", 2),
        ("LDSM.16.M88.4 R20, [R5+0x100]", 4),
    ] {
        let added = if text.contains("+0x100") { 0x100 } else { 0 };
        let store = format!("STS.128 [R4{}], R12\n{text}", if added > 0 { "+0x100" } else { "" });
        let found = Code::new(&store, &given).leaves([20, 21, 22, 23]);
        for (matrix, found) in found.iter().enumerate() {
            let transposed = text.contains("MT88");
            let of = |lane: usize| if matrix < matrices { dealt(&words, &named, transposed, lane, matrix) } else { 7 };
            assert_eq!(*found, lanes(of), "{text}: matrix {matrix}");
        }
    }
}

#[test]
fn matrices_need_all_lanes_and_their_values() {
    let given: Vec<(usize, Lanes)> =
        (8..20).map(|i| (i, [0; 32])).chain([(9, lanes(|lane| u32::from(lane == 7)))]).collect();
    let of = |text: &str, code: i32, says: &[&str]| Code::new(text, &given).faults(&mut Memory::default(), code, says);
    let guarded = format!("{CHOOSE}@P0 HMMA.1688.F32 R20, R8, R12, R16");
    of(&guarded, FAILED, &["must be executed by all lanes", "lanes 7"]);
    let guarded = format!("{CHOOSE}@P0 LDSM.16.M88.4 R20, [R8]");
    of(&guarded, FAILED, &["must be executed by all lanes", "lanes 7"]);
    of("HMMA.16816.F32 R24, R10, R18, R20", FAILED, &["register 0 of its operand c was never written"]);
    of("HMMA.16816.F32 R24, R18, R10, R12", FAILED, &["register 2 of its operand a was never written"]);
    of("IMMA.8816.S8.S8 R24, R8.ROW, R20.COL, R10", FAILED, &["register 0 of its operand b was never written"]);
    of("STS.128 [R250], R16\nLDSM.16.M88.4 R20, [R8]", 716, &["lanes 1-3"]);
    of("LDSM.16.M88.4 R20, [R8]", FAILED, &["nothing wrote"]);
    of("LDSM.16.M88.4 R20, [R250.X4]", FAILED, &["nothing wrote"]);
    of("LDSM.16.M88.2 R20, [R8+0x400]", 700, &["lanes 0-15", "shared address 0x400"]);
}
