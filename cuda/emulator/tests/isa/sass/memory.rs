//! Loads, stores, constant banks, special registers, copies and atomics of machine code: every form of address, every
//! width, and what is wrong with them.

use crate::isa::harness::{Memory, ORDERS, Random, UNTOUCHED};
use crate::isa::sass::harness::{CHOOSE, Code, Lanes, PARAMS, addresses, halves, lanes};

const ILLEGAL: i32 = 700;
const MISALIGNED: i32 = 716;
const FAILED: i32 = 719;

/// An order of the lanes that is neither theirs nor its reverse.
fn mixed(lane: usize) -> usize {
    lane * 11 % 32
}

/// `ULDC`: UR4 has the first two words of the parameters, UR6 the others, UR8 what the driver knows of memory.
const UNIFORM: &str = "ULDC.64 UR4, c[0x0][0x180]\nULDC.64 UR6, c[0x0][0x188]\nULDC.64 UR8, c[0x0][0x118]\n";

fn random<const N: usize>(seed: u64) -> [u8; N] {
    let mut random = Random(seed);
    std::array::from_fn(|_| random.next() as u8)
}

/// A number of `width` bytes, or the words that a wider one has.
fn words(bytes: &[u8], width: usize) -> [u32; 4] {
    let part = |from: usize, n: usize| (0..n).fold(0, |word, i| word | u32::from(bytes[from + i]) << (8 * i));
    std::array::from_fn(|i| if 4 * i < width { part(4 * i, width.min(4)) } else { UNTOUCHED })
}

/// Addresses of global memory: the operand, what R4,R5 and UR4,UR5 hold, and what is added to them. `false`: a pair has
/// the address; `true`: R4 alone is 32 bits behind the uniform pair.
const GLOBAL: &[(&str, bool, i64)] = &[
    ("[R4]", false, 0),
    ("[R4+0x10]", false, 0x10),
    ("[R4+-0x20]", false, -0x20),
    ("[R4.64]", false, 0),
    ("[R4.64+0x20]", false, 0x20),
    ("desc[UR8][R4.64]", false, 0),
    ("desc[UR8][R4.64+0x10]", false, 0x10),
    ("desc[UR8][R4.64+-0x10]", false, -0x10),
    ("[R4.U32+UR4]", true, 0),
    ("[R4.U32+UR4+0x10]", true, 0x10),
    ("[R4.64+UR4]", true, 0),
    ("[R4.64+UR4+-0x10]", true, -0x10),
];

/// R4,R5 so that lane `l` gets the element `mixed(l)`, in a memory of 1024 bytes of which the first and the last 64 are
/// not used.
fn global(base: u64, uniform: bool, added: i64, width: usize) -> [(usize, Lanes); 2] {
    let from = if uniform { 0 } else { base };
    addresses(4, |lane| (from + 64 + (width * mixed(lane)) as u64).wrapping_add_signed(-added))
}

#[test]
fn loads_of_global_memory() {
    let loads = [
        ("LDG.E.U8.CONSTANT", 1),
        ("LDG.E.U8.CONSTANT.SYS", 1),
        ("LDG.E.U16", 2),
        ("LDG.E.U16.CONSTANT.SYS", 2),
        ("LDG.E", 4),
        ("LDG.E.SYS", 4),
        ("LDG.E.CONSTANT", 4),
        ("LDG.E.64", 8),
        ("LDG.E.NA.64.CONSTANT", 8),
        ("LDG.E.128", 16),
        ("LDG.E.NA.128.CONSTANT.SYS", 16),
    ];
    let bytes = random::<1024>(1);
    for (form, uniform, added) in GLOBAL {
        for (name, width) in loads {
            let mut memory = Memory::default();
            let base = memory.put(&bytes);
            let given = [&global(base, *uniform, *added, width)[..], &[(12, [UNTOUCHED; 32]), (13, [UNTOUCHED; 32])]];
            let (given, params) = (given.concat(), [halves(base), [0; 2]].concat());
            let text = format!("{UNIFORM}{name} R10, {form}");
            // What it does not load stays.
            let wanted = [10, 11, 12, 13];
            let given = [&given[..], &[(10, [UNTOUCHED; 32]), (11, [UNTOUCHED; 32])]].concat();
            let found = Code { params: &params, ..Code::new(&text, &given) }.run(&mut memory, wanted, ORDERS[0]);
            for lane in 0..32 {
                let expected = words(&bytes[64 + width * mixed(lane)..], width);
                assert_eq!(found.map(|register| register[lane]), expected, "{name} {form}: lane {lane}");
            }
        }
    }
}

#[test]
fn one_address_of_a_uniform_register() {
    let bytes = random::<64>(2);
    for (form, at) in [("[UR4]", 16), ("[UR4+0x8]", 24), ("[UR4+-0x10]", 0)] {
        let mut memory = Memory::default();
        let base = memory.put(&bytes) + 16;
        let params = [halves(base), [0; 2]].concat();
        let text = format!("{UNIFORM}LDG.E.64.SYS R10, {form}");
        let found = Code { params: &params, ..Code::new(&text, &[]) }.run(&mut memory, [10, 11], ORDERS[0]);
        let expected = words(&bytes[at..], 8);
        assert_eq!(found, [[expected[0]; 32], [expected[1]; 32]], "{form}");
    }
}

#[test]
fn stores_to_global_memory() {
    let stores =
        [("STG.E.U8", 1), ("STG.E.U16.SYS", 2), ("STG.E", 4), ("STG.E.SYS", 4), ("STG.E.64", 8), ("STG.E.128", 16)];
    let values = random::<512>(3);
    let given: [(usize, Lanes); 4] =
        std::array::from_fn(|i| (12 + i, lanes(|l| words(&values[16 * l + 4 * i..], 4)[0])));
    for (form, uniform, added) in GLOBAL {
        for (name, width) in stores {
            let mut memory = Memory::default();
            let base = memory.put(&[0xDD_u8; 640]);
            let given = [&global(base, *uniform, *added, width)[..], &given].concat();
            let params = [halves(base), [0; 2]].concat();
            let text = format!("{UNIFORM}{name} {form}, R12");
            let [] = Code { params: &params, ..Code::new(&text, &given) }.run(&mut memory, [], ORDERS[0]);
            let mut expected = [0xDD_u8; 640];
            for lane in 0..32 {
                let at = 64 + width * mixed(lane);
                expected[at..at + width].copy_from_slice(&values[16 * lane..][..width]);
            }
            assert_eq!(memory.get::<u8>(base), expected, "{name} {form}");
            assert!(memory.published.borrow().is_empty(), "{name} {form}");
        }
    }
}

#[test]
fn a_host_sees_strong_stores_of_the_system() {
    for (name, words) in [("STG.E.STRONG.SYS", 1), ("STG.E.128.STRONG.SYS", 4)] {
        let mut memory = Memory::default();
        let base = memory.put(&[0_u32; 4]);
        let given = [&addresses(4, |_| base)[..], &[12, 13, 14, 15].map(|i| (i, [i as u32; 32]))].concat();
        let given = [&given[..], &[(9, lanes(|lane| u32::from(lane != 5)))]].concat();
        let text = format!("{CHOOSE}@P0 {name} [R4.64], R12");
        let [] = Code::new(&text, &given).run(&mut memory, [], ORDERS[0]);
        assert_eq!(*memory.published.borrow(), [Some(base)], "{name}");
        let expected = [12, 13, 14, 15].map(|word| if word < 12 + words { word } else { 0 });
        assert_eq!(memory.get::<u32>(base), expected, "{name}");
    }
}

/// Addresses of shared memory: the operand, by what R4 is multiplied, what UR4 holds and what is added.
const SHARED: &[(&str, u32, u32, i32)] = &[
    ("[R4]", 1, 0, 0),
    ("[R4+0x40]", 1, 0, 0x40),
    ("[R4+-0x40]", 1, 0, -0x40),
    ("[R4+UR4]", 1, 0x40, 0),
    ("[R4+UR4+0x40]", 1, 0x20, 0x40),
    ("[R4+URZ+0x20]", 1, 0, 0x20),
    ("[R4.X4]", 4, 0, 0),
    ("[R4.X4+0x30]", 4, 0, 0x30),
    ("[R4.X4+UR4]", 4, 0x10, 0),
    ("[R4.X4+UR4+-0x40]", 4, 0x60, -0x40),
];

#[test]
fn loads_and_stores_of_shared_memory() {
    let accesses = [
        ("STS", "LDS", 4),
        ("STS", "LDS.U", 4),
        ("STS.64", "LDS.64", 8),
        ("STS.64", "LDS.U.64", 8),
        ("STS.128", "LDS.128", 16),
        ("STS.128", "LDS.U.128", 16),
    ];
    let values: [Lanes; 4] = std::array::from_fn(|i| lanes(|lane| (1 + i as u32) << 16 | lane as u32));
    for (form, factor, uniform, added) in SHARED {
        for (store, load, width) in accesses {
            // The element `mixed` of those behind byte 128; R6 has its address as it is.
            let at = |lane: usize| (128 + width * mixed(lane)) as u32;
            let of = |lane: usize| at(lane).wrapping_add_signed(-added).wrapping_sub(*uniform) / factor;
            let mut given = vec![(4, lanes(of)), (6, lanes(at))];
            given.extend((0..4).map(|i| (12 + i, values[i])));
            let params = [*uniform, 0, 0, 0];
            // Stored by the form and loaded by the address, and the other way round.
            for [to, from] in [[*form, "[R6]"], ["[R6]", form]] {
                let text = format!("{UNIFORM}{store} {to}, R12\n{load} R20, {from}");
                let code = Code { params: &params, ..Code::new(&text, &given) };
                match width {
                    4 => assert_eq!(code.leaves([20]), values[..1], "{text}"),
                    8 => assert_eq!(code.leaves([20, 21]), values[..2], "{text}"),
                    _ => assert_eq!(code.leaves([20, 21, 22, 23]), values, "{text}"),
                }
            }
        }
    }
}

#[test]
fn one_address_of_shared_memory() {
    let given = [(12, lanes(|lane| lane as u32)), (13, [7; 32])];
    let of = |text: &str, params: &[u32]| {
        let text = format!("{UNIFORM}STS [R250+0x80], R12\n{text}");
        // Lane 0 lies at 0x80, lane 3 at 0x8c.
        Code { params, ..Code::new(&text, &given[..1]) }.leaves([20])[0]
    };
    assert_eq!(of("LDS R20, [0x8c]", &[0; 4]), [3; 32]);
    assert_eq!(of("LDS R20, [UR4]", &[0x90, 0, 0, 0]), [4; 32]);
    assert_eq!(of("LDS R20, [UR4+0x10]", &[0x90, 0, 0, 0]), [8; 32]);
    let text = "STS [0x40], R13\nSTS.U16 [0x46], R13\nLDS R20, [0x40]";
    assert_eq!(Code::new(text, &given).leaves([20]), [[7; 32]]);
}

#[test]
fn halves_of_words_in_shared_memory() {
    let given = [(12, lanes(|lane| 0xABCD_0000 | lane as u32)), (13, [0x1111_1111; 32])];
    let text = "STS [R250], R13\nSTS.U16 [R250+0x2], R12\nLDS R20, [R250]";
    assert_eq!(Code::new(text, &given).leaves([20]), [lanes(|lane| (lane as u32) << 16 | 0x1111)]);
    for load in ["LDS.U16", "LDS.U.U16"] {
        let text = format!("STS [R250], R12\n{load} R20, [R250+0x2]\n{load} R21, [R250]");
        assert_eq!(Code::new(&text, &given).leaves([20, 21]), [[0xABCD; 32], lanes(|lane| lane as u32)], "{load}");
    }
}

#[test]
fn constant_banks() {
    let params = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000];
    let table: Vec<u8> = (1..=6_u32).flat_map(u32::to_le_bytes).collect();
    let of = |text: &str| {
        // R4: 0, 4, 8 or 12; R5 counts from below.
        let given =
            [(4, lanes(|lane| 4 * (lane as u32 % 4))), (5, lanes(|lane| (4 * (lane as u32 % 4)).wrapping_sub(8)))];
        Code { params: &params, table: &table, ..Code::new(text, &given) }.leaves([20, 21])
    };
    let by_lane = |words: [u32; 4]| lanes(|lane| words[lane % 4]);
    let same = |a: u32, b: u32| [[a; 32], [b; 32]];
    assert_eq!(PARAMS, 0x180);
    assert_eq!(of("LDC.64 R20, c[0x0][0x188]"), same(0x3000, 0x4000));
    assert_eq!(of("LDC R21, c[0x0][0x184]\nLDC R20, c[0x2][0x8]"), same(3, 0x2000));
    let indexed = [by_lane([0x2000, 0x3000, 0x4000, 0x5000]), by_lane([2, 3, 4, 5])];
    assert_eq!(of("LDC R20, c[0x0][R4+0x184]\nLDC R21, c[0x2][R4+0x4]"), indexed);
    let below = [by_lane([0x1000, 0x2000, 0x3000, 0x4000]), by_lane([1, 2, 3, 4])];
    assert_eq!(of("LDC R20, c[0x0][R5+0x188]\nLDC R21, c[0x2][R4]"), below);
}

/// What a uniform register holds, as the address of a word of shared memory: word `i` holds 4·i.
fn uniform(code: &Code<'_>, register: &str) -> u32 {
    let text = format!("STS [R250], R250\nSTS [R250+0x80], R30\n{}\nLDS R20, [{register}]", code.text);
    let given = [code.given, &[(30, lanes(|lane| 128 + 4 * lane as u32))]].concat();
    let [found] = Code { text: &text, given: &given, ..*code }.leaves([20]);
    assert_eq!(found, [found[0]; 32]);
    found[0]
}

#[test]
fn constant_banks_to_uniform_registers() {
    let params = [0x10, 0x20, 0x30, 0x40, 8, 12];
    let table: Vec<u8> = [0x44_u32, 0x48, 0x4c, 0x50].into_iter().flat_map(u32::to_le_bytes).collect();
    for (text, register, expected) in [
        ("ULDC UR4, c[0x0][0x184]", "UR4", 0x20),
        ("ULDC.64 UR4, c[0x0][0x188]", "UR5", 0x40),
        ("LDCU UR4, c[0x0][0x180]", "UR4", 0x10),
        ("LDCU.64 UR4, c[0x0][0x180]", "UR5", 0x20),
        ("LDCU.128 UR4, c[0x0][0x180]", "UR7", 0x40),
        ("ULDC UR4, c[0x2][0x8]", "UR4", 0x4c),
        ("ULDC UR3, c[0x0][0x190]\nULDC UR4, c[0x0][UR3+0x180]", "UR4", 0x30),
        ("ULDC UR3, c[0x0][0x190]\nULDC.64 UR4, c[0x0][UR3+0x180]", "UR5", 0x40),
        ("ULDC UR3, c[0x0][0x194]\nULDC UR4, c[0x2][UR3]", "UR4", 0x50),
    ] {
        let code = Code { params: &params, table: &table, ..Code::new(text, &[]) };
        assert_eq!(uniform(&code, register), expected, "{text}");
    }
}

#[test]
fn uniform_loads_reach_lanes_that_are_not_there() {
    let given = [(9, lanes(|lane| u32::from(lane % 3 != 0)))];
    let text = format!(
        "{CHOOSE}BSSY B0, `(L2)\n@P0 BRA `(L1)\nULDC UR4, c[0x0][0x180]\nULDC UR5, c[0x0][0x184]\n\
         ULDC UR6, c[0x0][UR5+0x180]\nL1:\nBSYNC B0\nL2:"
    );
    let code = Code { params: &[0x14, 8, 0x24], ..Code::new(&text, &given) };
    assert_eq!((uniform(&code, "UR4"), uniform(&code, "UR6")), (0x14, 0x24));
}

#[test]
fn special_registers() {
    let text = "S2R R10, SR_TID.X\nS2R R11, SR_LANEID\nS2R R12, SR_LTMASK\nS2R R13, SR_CTAID.X\n\
                S2R R14, SR_CgaCtaId\nS2R R15, SR_TID.Y";
    let found = Code::new(text, &[]).leaves([10, 11, 12, 13, 14, 15]);
    let below = lanes(|lane| ((1_u64 << lane) - 1) as u32);
    let zero = [0; 32];
    assert_eq!(found, [lanes(|lane| lane as u32), lanes(|lane| lane as u32), below, zero, zero, zero]);
    for name in ["SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z", "SR_CgaCtaId"] {
        let text = format!("S2UR UR4, {name}");
        assert_eq!(uniform(&Code::new(&text, &[]), "UR4"), 0, "{name}");
    }
}

#[test]
fn what_is_wrong_with_an_address() {
    let base = |memory: &mut Memory| memory.put(&[0_u32; 32]);
    let at = |f: &dyn Fn(u64, usize) -> u64, text: &str, code: i32, says: &[&str]| {
        let mut memory = Memory::default();
        let start = base(&mut memory);
        let given = [&addresses(4, |lane| f(start, lane))[..], &[(12, [1; 32])]].concat();
        Code::new(text, &given).faults(&mut memory, code, says);
    };
    let row = |base: u64, lane: usize| base + 4 * lane as u64;
    at(
        &|b, l| row(b, l) + 8,
        "LDG.E R10, [R4.64]",
        ILLEGAL,
        &["lanes 30-31", "line 18 `LDG.E R10, [R4.64]`", "reads 4 bytes"],
    );
    at(&|b, l| row(b, l) + 8, "STG.E [R4], R12", ILLEGAL, &["lanes 30-31", "`STG.E [R4], R12`"]);
    at(&|b, l| row(b, l) + 2 * u64::from(l == 7), "LDG.E R10, [R4]", MISALIGNED, &["lane 7", "not a multiple of 4"]);
    at(&|b, _| b + 8, "LDG.E.128 R10, [R4]", MISALIGNED, &["lanes 0-31", "not a multiple of 16"]);
    at(&|b, _| b + 124, "LDG.E.64 R10, [R4]", MISALIGNED, &["not a multiple of 8"]);
    at(&|b, _| b + 128, "RED.E.ADD.STRONG.GPU [R4.64], R12", ILLEGAL, &["updates 4 bytes"]);
    at(&|_, l| 4 * l as u64, "LDG.E R10, [R4]", ILLEGAL, &["lanes 0-31"]);
    at(&row, "LDG.E.CONSTANT R10, [R4.64]\nSTG.E [R4.64], R12", FAILED, &["`STG.E [R4.64], R12`", ".nc"]);
    at(
        &row,
        "STG.E [R4.64], R12\nLDG.E.U8.CONSTANT R10, [R4.64]",
        FAILED,
        &["`LDG.E.U8.CONSTANT R10, [R4.64]`", ".nc"],
    );
    at(&row, "STG.E [R4.64], R40", FAILED, &["the value that it stores", "lanes 0-31"]);
    at(&row, "STG.E [R40.64], R12", FAILED, &["its address was never written"]);
    at(&row, "STG.E.128 [R4], R12", MISALIGNED, &["lanes 1-3, 5-7"]);
    let shared = |text: &str, of: &dyn Fn(usize) -> u32, code: i32, says: &[&str]| {
        let given = [(4, lanes(of)), (12, [1; 32]), (13, [2; 32])];
        Code { shared: 128, ..Code::new(text, &given) }.faults(&mut Memory::default(), code, says);
    };
    shared("STS [R4], R12", &|l| 4 * l as u32 + 4, ILLEGAL, &["lane 31", "shared address 0x80", "128 bytes"]);
    shared("STS.64 [R4], R12", &|l| 4 * l as u32, ILLEGAL, &["lane 31"]);
    shared("STS.64 [R4], R12", &|l| 4 * (l as u32 % 2), MISALIGNED, &["not a multiple of 8"]);
    shared("STS [R4.X4+-0x4], R12", &|l| l as u32, ILLEGAL, &["lane 0", "0xfffffffc"]);
    shared("LDS R10, [R4]\nSTS [R4], R10", &|l| 4 * l as u32, FAILED, &["the value that it stores", "nothing wrote"]);
    shared("ATOMS.ADD R10, [R4], R12", &|_| 0, FAILED, &["nothing wrote"]);
    shared("LDC R10, c[0x0][R4+0x160]", &|l| l as u32 * 4, ILLEGAL, &["lanes 8-31", "parameters"]);
    shared("LDC R10, c[0x2][R4]", &|l| l as u32 * 4, ILLEGAL, &["lanes 0-31", "constant bank 2"]);
    shared("LDC.64 R10, c[0x0][R4+0x160]", &|l| l as u32 % 2 * 4, MISALIGNED, &["lane 1", "not a multiple of 8"]);
}

#[test]
fn names_that_are_not_known() {
    for (text, says) in [
        ("LDG.E.U8.S R4, [R2]", ".S"),
        ("LDG.E.128.EF R4, [R2]", ".EF"),
        ("LDG.E R4, [R2.X7]", "not an address"),
        ("LDG.E R4, [P0]", "not an address"),
        ("ATOMG.E.MIN.STRONG.GPU PT, R4, [R2], R6", ".MIN"),
        ("ATOMG.E.ADD.STRONG.GPU P0, R4, [R2], R6", "its predicate"),
        ("ATOMS.POPC.INC.32 R4, [R2]", "what it returns"),
        ("ATOMS.CAS R4, [R2], R6, R8", "not an instruction"),
        ("DEPBAR.LE SB1, 0x0", "its barrier"),
        ("S2R R4, SR_CLOCKLO", "SR_CLOCKLO"),
        ("LDC R4, c[0x3][0x0]", "constant bank 3"),
        ("LDC R4, c[0x0][0x40]", "c[0x0][0x40] is neither a parameter"),
        ("ULDC UR4, c[0x2][0x10]", "behind the end"),
        ("LDSM.16.M88 R4, [R2]", "how many"),
        ("SHFL.UP PT, R4, R4, 0x1, RZ", ".UP"),
        ("VOTE.EQ R4, PT, P0", ".EQ"),
        ("VOTE R4, PT, P0", "what it asks"),
        ("HMMA.16816.F16 R4, R4, R8, R10", "16816.F16"),
        ("IMMA.8816.U8.S8 R4, R4.ROW, R8.COL, R10", "8816.U8.S8"),
        ("IMMA.8816.S8.S8 R4, R4.COL, R8.COL, R10", "expected .ROW"),
    ] {
        Code::new(text, &[]).faults(&mut Memory::default(), 0, &[text, says]);
    }
}
