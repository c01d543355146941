//! Atomics and asynchronous copies of machine code.

use crate::isa::harness::{Memory, ORDERS, Random};
use crate::isa::sass::harness::{CHOOSE, Code, Lanes, addresses, lanes};

const ILLEGAL: i32 = 700;
const MISALIGNED: i32 = 716;
const FAILED: i32 = 719;

/// Lanes of a 64-bit value.
fn wide([low, high]: [Lanes; 2]) -> [u64; 32] {
    std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
}

/// Whether lanes that added to the same place got its values one after the other, in whatever order; what it holds then.
#[track_caller]
fn one_after_another(from: u64, added: &[(u64, u64)]) -> u64 {
    let mut left = added.to_vec();
    let mut value = from;
    while !left.is_empty() {
        let next = left.iter().position(|(old, _)| *old == value);
        let (_, more) = left.remove(next.unwrap_or_else(|| panic!("no lane found {value} of {left:?}")));
        value = value.wrapping_add(more);
    }
    value
}

#[test]
fn sums_at_an_address_of_shared_memory() {
    let places = lanes(|lane| 64 + 4 * (lane as u32 % 5));
    let more = lanes(|lane| 1 + lane as u32 * lane as u32);
    let given = [(4, places), (12, more), (13, [100; 32])];
    let text = "STS [R250+0x40], R13\nATOMS.ADD R20, [R4], R12\nLDS R21, [R4]";
    for order in ORDERS {
        let [old, sums] = Code::new(text, &given).run(&mut Memory::default(), [20, 21], order);
        for place in 0..5 {
            let at: Vec<usize> = (0..32).filter(|lane| lane % 5 == place).collect();
            let added: Vec<(u64, u64)> = at.iter().map(|&l| (old[l].into(), more[l].into())).collect();
            let sum = one_after_another(100, &added);
            at.iter().for_each(|&lane| assert_eq!(u64::from(sums[lane]), sum, "lane {lane}"));
        }
    }
    let at = |text: &str| {
        let text = format!("ULDC UR4, c[0x0][0x180]\nSTS [0x40], RZ\n{text}\nLDS R20, [0x40]");
        Code { params: &[0x30], ..Code::new(&text, &given) }.leaves([20])
    };
    let sum: u32 = more.iter().sum();
    assert_eq!(at("ATOMS.ADD RZ, [0x40], R12"), [[sum; 32]]);
    assert_eq!(at("ATOMS.ADD RZ, [UR4+0x10], R12"), [[sum; 32]]);
}

#[test]
fn lanes_count_themselves() {
    // Three places, and lanes that do not take part.
    let given = [(9, lanes(|lane| u32::from(lane % 8 == 3))), (4, lanes(|lane| 4 * (lane as u32 % 3)))];
    for form in ["[R4+URZ+0x20]", "[R4+UR4]"] {
        let text = format!(
            "{CHOOSE}ULDC UR4, c[0x0][0x180]\nSTS [R250+0x20], R250\n@P0 ATOMS.POPC.INC.32 RZ, {form}\n\
             LDS R20, [R4+0x20]"
        );
        let count = |place: usize| (0..32).filter(|lane| lane % 8 != 3 && lane % 3 == place).count() as u32;
        let expected = lanes(|lane| 4 * (lane as u32 % 3) + count(lane % 3));
        assert_eq!(Code { params: &[0x20], ..Code::new(&text, &given) }.leaves([20]), [expected], "{form}");
    }
}

/// R12,R13 is what memory has to hold, R14,R15 what is stored.
#[test]
fn one_lane_swaps() {
    let new = lanes(|lane| 7000 + lane as u32);
    // Odd lanes compare with what is there, others with what has another upper half.
    let upper = lanes(|lane| 6 - lane as u32 % 2);
    let given = [(4, [64; 32]), (10, [3; 32]), (11, [5; 32]), (12, [3; 32]), (13, upper), (14, new), (15, [9; 32])];
    for order in ORDERS {
        let text = "STS.64 [0x40], R10\nATOMS.CAST.SPIN.64 R20, [R4], R12, R14\nLDS.64 R22, [R4]";
        let [swapped, zero, low, high] = Code::new(text, &given).run(&mut Memory::default(), [20, 21, 22, 23], order);
        let winner: Vec<usize> = (0..32).filter(|&lane| swapped[lane] == 1).collect();
        assert!(winner.len() == 1 && !winner[0].is_multiple_of(2) && swapped.iter().sum::<u32>() == 1, "{swapped:?}");
        assert_eq!((zero, low, high), ([0; 32], [new[winner[0]]; 32], [9; 32]));
        // The register of the result may be that of the new value.
        let text = text.replace("R20, [R4]", "R14, [R4]");
        let [swapped] = Code::new(&text, &given).run(&mut Memory::default(), [14], order);
        assert_eq!(swapped.iter().sum::<u32>(), 1);
        let text = "STS.64 [0x40], R10\nATOMS.CAST.SPIN.64 P0, [R4], R12, R14\n@P0 STS [0x80], R14\nLDS R20, [0x80]\n\
                    LDS R21, [R4]";
        let [said, held] = Code::new(text, &given).run(&mut Memory::default(), [20, 21], order);
        assert_eq!(said, held);
    }
}

#[test]
fn a_loop_in_which_every_lane_swaps() {
    // Each lane leaves the value of the one before it: together they form a chain.
    let given = [(4, [64; 32]), (10, [500; 32]), (11, [1; 32]), (14, lanes(|lane| lane as u32)), (15, [1; 32])];
    for (result, again) in [("P0", ""), ("R22", "SHFL.IDX P1, RZ, RZ, R22, RZ\n")] {
        let jump = if again.is_empty() { "@!P0" } else { "@P1" };
        let text = format!(
            "STS.64 [0x40], R10\nL1:\nLDS.64 R20, [R4]\nATOMS.CAST.SPIN.64 {result}, [R4], R20, R14\n{again}\
             {jump} BRA `(L1)\nLDS.64 R24, [R4]"
        );
        for order in ORDERS {
            let [before, upper] = Code::new(&text, &given).run(&mut Memory::default(), [20, 21], order);
            let (mut at, mut seen) = (500, 0);
            while let Some(next) = (0..32).find(|&lane| before[lane] == at && at != lane as u32) {
                (at, seen) = (next as u32, seen + 1);
            }
            assert_eq!((seen, upper), (32, [1; 32]), "{before:?}");
        }
    }
}

#[test]
fn atomics_of_global_memory() {
    let place = |lane: usize| lane % 3;
    let mut random = Random(4);
    let values: [u64; 32] = std::array::from_fn(|_| random.next());
    let [(_, low), (_, high)] = addresses(12, |lane| values[lane]);
    for (name, wide_value) in [("ADD.64", true), ("ADD", false)] {
        for form in ["[R4]", "[R4.64]", "[R4.64+0x10]", "desc[UR8][R4.64]"] {
            for order in ORDERS {
                let mut memory = Memory::default();
                let base = memory.put(&[u64::MAX - 5; 3]);
                let below = if form.contains("+0x10") { 16 } else { 0 };
                let given = [&addresses(4, |lane| base + 8 * place(lane) as u64 - below)[..], &[(12, low), (13, high)]];
                let given = given.concat();
                let text = format!(
                    "ULDC.64 UR8, c[0x0][0x118]\nATOMG.E.{name}.STRONG.GPU PT, R20, {form}, R12\n\
                     RED.E.{name}.STRONG.GPU {form}, R12"
                );
                // The upper half is not written where a word is added.
                let given = [&given[..], &[(21, [u32::MAX; 32])]].concat();
                let found = wide(Code::new(&text, &given).run(&mut memory, [20, 21], order));
                let part = |value: u64| if wide_value { value } else { u64::from(value as u32) };
                for i in 0..3 {
                    let at = (0..32).filter(|lane| place(*lane) == i);
                    let added: Vec<(u64, u64)> = at.map(|lane| (part(found[lane]), part(values[lane]))).collect();
                    let mut sums = added.iter().map(|(old, more)| part(old.wrapping_add(*more)));
                    // Whatever came last, its sum is what RED began with.
                    let total = added.iter().fold(u64::MAX - 5, |sum, (_, more)| sum.wrapping_add(*more));
                    assert!(sums.any(|sum| sum == part(total)), "{name} {form}");
                    assert!(added.iter().any(|(old, _)| *old == part(u64::MAX - 5)), "{name} {form}");
                    let twice = added.iter().fold(total, |sum, (_, more)| sum.wrapping_add(*more));
                    let held = memory.get::<u64>(base)[i];
                    assert_eq!(part(held), part(twice), "{name} {form}");
                    if !wide_value {
                        assert_eq!(held >> 32, u64::from(u32::MAX), "{name} {form}: the next word");
                    }
                }
            }
        }
    }
}

#[test]
fn the_greatest_of_64_bits() {
    let mut random = Random(5);
    let values: [u64; 32] = std::array::from_fn(|_| random.next());
    for text in [
        "RED.E.MAX.64.STRONG.GPU [R4+0x8], R12",
        "REDG.E.MAX.64.STRONG.GPU desc[UR8][R4.64+0x8], R12",
        "ATOMG.E.MAX.64.STRONG.GPU PT, R20, desc[UR8][R4.64+0x8], R12",
    ] {
        let mut memory = Memory::default();
        let base = memory.put(&[1_u64, 2, 3]);
        let given = [addresses(4, |_| base), addresses(12, |lane| values[lane])].concat();
        let text = format!("ULDC.64 UR8, c[0x0][0x118]\n{text}");
        let [] = Code::new(&text, &given).run(&mut memory, [], ORDERS[1]);
        let most = values.into_iter().max().expect("32 of them");
        assert!(most > i64::MAX as u64, "one that would be negative");
        assert_eq!(memory.get::<u64>(base), [1, most, 3], "{text}");
    }
}

/// Lanes whose R9 is 0 copy, the others fill with zeros: R4,R5 global, R6 shared.
fn copies(text: &str, given: &[(usize, Lanes)]) -> Result<[Lanes; 4], String> {
    let mut memory = Memory::default();
    let bytes: Vec<u32> = (0..128).map(|i| 1000 + i).collect();
    let base = memory.put(&bytes);
    // Where nothing is copied the address does not matter.
    let from = addresses(4, |lane| if lane % 3 == 0 { base + 16 * (31 - lane) as u64 } else { 8 });
    let given = [&from[..], &[(6, lanes(|l| 16 * l as u32)), (9, lanes(|l| l as u32 % 3))], given].concat();
    let text = format!("{CHOOSE}ULDC.64 UR8, c[0x0][0x118]\n{text}\nLDS.128 R20, [R6]");
    let left = Code::new(&text, &given).attempt(&mut memory, [20, 21, 22, 23], ORDERS[0]);
    left.map_err(|fault| fault.report)
}

#[test]
fn copies_to_shared_memory() {
    let expected =
        [0, 1, 2, 3].map(|i| lanes(|lane| if lane % 3 == 0 { 1000 + 4 * (31 - lane as u32) + i } else { 0 }));
    for copy in ["LDGSTS.E.BYPASS.128 [R6], [R4.64], P0", "LDGSTS.E.BYPASS.128 [R6], desc[UR8][R4.64], P0"] {
        // What is there before is replaced, by zeros too.
        let text = format!("STS.128 [R6], R4\n{copy}\nLDGDEPBAR\nDEPBAR.LE SB0, 0x0");
        let given = [(7, [7; 32])];
        assert_eq!(copies(&text, &given), Ok(expected), "{copy}");
    }
    let copy = "LDGSTS.E.BYPASS.128 [R7+0x10], [R4.64], P0\nLDGDEPBAR\nDEPBAR.LE SB0, 0x0";
    let given = [(7, lanes(|lane| (16 * lane as u32).wrapping_sub(16)))];
    assert_eq!(copies(copy, &given), Ok(expected));
}

#[test]
fn copies_arrive_when_they_are_waited_for() {
    let copy = "LDGSTS.E.BYPASS.128 [R6], [R4.64], P0\n";
    let other = "LDGSTS.E.BYPASS.128 [R6+0x200], [R4.64], P0\n";
    for (text, arrives) in [
        (format!("{copy}LDGDEPBAR\nDEPBAR.LE SB0, 0x0"), true),
        (format!("{copy}LDGDEPBAR\nLDGDEPBAR\nDEPBAR.LE SB0, 0x1"), true),
        (format!("{copy}LDGDEPBAR\n{other}LDGDEPBAR\nDEPBAR.LE SB0, 0x1"), true),
        (format!("{other}LDGDEPBAR\n{copy}LDGDEPBAR\nDEPBAR.LE SB0, 0x1"), false),
        (format!("{copy}LDGDEPBAR\nDEPBAR.LE SB0, 0x1"), false),
        (format!("{copy}LDGDEPBAR"), false),
        (format!("{copy}DEPBAR.LE SB0, 0x0"), false),
        (copy.to_owned(), false),
    ] {
        let found = copies(&text, &[]);
        match arrives {
            true => assert!(found.is_ok(), "{text}: {found:?}"),
            false => assert!(found.as_ref().is_err_and(|why| why.contains("nobody waited for")), "{text}: {found:?}"),
        }
    }
}

#[test]
fn what_is_wrong_with_atomics_and_copies() {
    let at = |text: &str, of: &dyn Fn(u64, usize) -> u64, shared: u32, code: i32, says: &[&str]| {
        let mut memory = Memory::default();
        let base = memory.put(&[0_u64; 32]);
        let given = [&addresses(4, |lane| of(base, lane))[..], &[(6, lanes(|l| l as u32 % 2 * shared)), (12, [1; 32])]];
        let given = [&given.concat()[..], &[(13, [1; 32])]].concat();
        let text = format!("STS.128 [RZ], RZ\n{text}");
        Code { shared: 64, ..Code::new(&text, &given) }.faults(&mut memory, code, says);
    };
    let own = |base: u64, _: usize| base;
    at("RED.E.ADD.64.STRONG.GPU [R4.64], R12", &|b, l| b + 4 * (l as u64 / 31), 0, MISALIGNED, &["lane 31"]);
    at("ATOMG.E.ADD.STRONG.GPU PT, R20, [R4], R12", &|b, l| b + 256 * (l as u64 / 31), 0, ILLEGAL, &["lane 31"]);
    at("RED.E.ADD.64.STRONG.GPU [R4], R40", &own, 0, FAILED, &["never written"]);
    at("LDG.E.CONSTANT R20, [R4]\nRED.E.ADD.STRONG.GPU [R4], R12", &own, 0, FAILED, &["`RED.E.ADD", ".nc"]);
    at("ATOMS.ADD RZ, [R6], R12", &own, 64, ILLEGAL, &["lanes 1, 3", "shared address 0x40"]);
    at("ATOMS.POPC.INC.32 RZ, [R6+URZ]", &own, 2, MISALIGNED, &["lanes 1, 3"]);
    at("ATOMS.CAST.SPIN.64 P0, [R6], R12, R12", &own, 4, MISALIGNED, &["lanes 1, 3", "not a multiple of 8"]);
    at("ATOMS.CAST.SPIN.64 P0, [R6], R12, R12", &own, 16, FAILED, &["nothing wrote"]);
    at("ATOMS.CAST.SPIN.64 P0, [R6], R12, R39", &own, 0, FAILED, &["never written"]);
    at("LDGSTS.E.BYPASS.128 [R6], [R4.64], PT", &|b, l| b + 8 * (l as u64 % 2), 16, MISALIGNED, &["lanes 1, 3"]);
    at("LDGSTS.E.BYPASS.128 [R6], [R4.64], PT", &|b, l| b + 256 * (l as u64 % 2), 16, ILLEGAL, &["lanes 1, 3"]);
    at("LDGSTS.E.BYPASS.128 [R6], [R4.64], PT", &own, 8, MISALIGNED, &["lanes 1, 3", "shared"]);
    at("LDGSTS.E.BYPASS.128 [R6], [R4.64], PT", &own, 64, ILLEGAL, &["lanes 1, 3", "shared"]);
    at("LDGSTS.E.BYPASS.128 [R6], [R4.64], P3", &own, 0, FAILED, &["whether it copies", "never written"]);
}
