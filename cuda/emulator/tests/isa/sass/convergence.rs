//! Where lanes of machine code part and where they meet again.

use qrun_emulator::Order;

use crate::isa::harness::{Job, Memory, ORDERS, UNTOUCHED};
use crate::isa::sass::harness::{Code, Lanes, image, lanes, listing};

const FAILED: i32 = 719;

/// R1 is the lane; R20 a value of its own, which the tests change and exchange; R4 all lanes, R5 the lane's half.
/// P0 holds in every third lane, P1 in odd ones, P2 in the lower half, P3 in two of four, P4 in lanes 8 – 15.
const BEGIN: &str = "ISETP.EQ.AND P0, PT, R2, RZ, PT\nLOP3.LUT R21, R1, 0x1, RZ, 0xc0, !PT\n\
    ISETP.NE.AND P1, PT, R21, RZ, PT\nISETP.LT.AND P2, PT, R1, 0x10, PT\nLOP3.LUT R21, R1, 0x2, RZ, 0xc0, !PT\n\
    ISETP.NE.AND P3, PT, R21, RZ, PT\nLOP3.LUT R21, R1, 0x18, RZ, 0xc0, !PT\nISETP.EQ.AND P4, PT, R21, 0x8, PT\n";

/// Takes the value of the neighbour, which has to be there.
const SWAP: &str = "SHFL.BFLY PT, R20, R20, 0x1, 0x1f";

fn third(lane: usize) -> bool {
    lane.is_multiple_of(3)
}

fn value(lane: usize) -> u32 {
    100 * lane as u32
}

fn given() -> Vec<(usize, Lanes)> {
    vec![
        (1, lanes(|lane| lane as u32)),
        (2, lanes(|lane| lane as u32 % 3)),
        (4, [u32::MAX; 32]),
        (5, lanes(|lane| if lane < 16 { 0xFFFF } else { 0xFFFF_0000 })),
        (20, lanes(value)),
    ]
}

/// `L1` on one side of a branch, and the other; both go to `L2`.
fn sides(predicate: &str) -> String {
    format!("@{predicate} BRA `(L1)\nIADD3 R20, R20, 0x7, RZ\nBRA `(L2)\nL1:\nIADD3 R20, R20, 0x9, RZ\nL2:\n")
}

/// R20 behind [`sides`], of `P0`.
fn sided(lane: usize) -> u32 {
    value(lane) + if third(lane) { 9 } else { 7 }
}

/// A program with the lines, as [`BEGIN`] has it.
fn program(text: &str) -> String {
    format!("{BEGIN}{}", text.replace("SWAP", SWAP))
}

/// What it leaves in R20, in all orders.
#[track_caller]
fn leaves(text: &str) -> Lanes {
    Code::new(&program(text), &given()).leaves([20])[0]
}

/// The fault that it meets in all orders says these words.
#[track_caller]
fn faults(text: &str, says: &[&str]) {
    let (text, given) = (program(text), given());
    for order in ORDERS {
        let fault = match Code::new(&text, &given).attempt(&mut Memory::default(), [20], order) {
            Ok(_) => panic!("{order:?}: no fault was found in\n{text}"),
            Err(fault) => fault,
        };
        let silent: Vec<_> = says.iter().filter(|word| !fault.report.contains(**word)).collect();
        assert!(fault.code == FAILED && silent.is_empty(), "{order:?}: {silent:?} of {fault:?}\n{text}");
    }
}

/// Where a label of a [`program`] stands: behind the harness's own five lines and one for each register that is given.
fn address(text: &str, label: &str) -> u32 {
    let text = program(text);
    let mut before = text.lines().take_while(|line| *line != format!("{label}:")).collect::<Vec<_>>();
    assert!(before.len() < text.lines().count(), "no {label} in\n{text}");
    before.retain(|line| !line.is_empty() && !line.ends_with(':'));
    16 * (5 + given().len() + before.len()) as u32
}

#[test]
fn a_region_ends_with_all_lanes() {
    let expected = lanes(|lane| sided(lane ^ 1));
    for (begin, end) in [("BSSY", "BSYNC"), ("BSSY.RECONVERGENT", "BSYNC.RECONVERGENT")] {
        assert_eq!(leaves(&format!("{begin} B0, `(L2)\n{}{end} B0\nSWAP", sides("P0"))), expected);
    }
    // Lanes do not meet by standing at the same instruction.
    faults(&format!("BSSY B0, `(L2)\n{}SWAP", sides("P0")), &["the value that it stores", "was never written"]);
    // The barrier of another number is not this one.
    faults(&format!("BSSY B0, `(L2)\n{}BSYNC B1\nSWAP", sides("P0")), &["no BSSY began"]);
}

#[test]
fn a_region_within_another() {
    // The lower half meets in the inner one, while the upper half waits or is still to come.
    let inner = "BSSY B0, `(L9)\n@!P2 BRA `(L8)\nBSSY B1, `(L2)\n{SIDES}BSYNC B1\nSWAP\n\
                 BRA `(L9)\nL8:\nIADD3 R20, R20, 0x1, RZ\nL9:\nBSYNC B0\nSHFL.BFLY PT, R20, R20, 0x10, 0x1f\n";
    let expected = |lane: usize| if lane < 16 { value(lane ^ 16) + 1 } else { sided(lane ^ 17) };
    assert_eq!(leaves(&inner.replace("{SIDES}", &sides("P0"))), lanes(expected));
    let without = inner.replace("{SIDES}", &sides("P0")).replace("BSYNC B1\n", "");
    faults(&without, &["the value that it stores"]);
}

/// Splits that never meet in between go through the same region, each on its own.
#[test]
fn two_splits_pass_one_region() {
    let text = format!(
        "BSSY B1, `(L9)\n@P3 BRA `(L5)\nIADD3 R20, R20, 0x40, RZ\nL5:\nBSSY B0, `(L2)\n{}BSYNC B0\nSWAP\n\
         BSYNC B1\nL9:\nSHFL.BFLY PT, R20, R20, 0x2, 0x1f\n",
        sides("P0")
    );
    let expected = |lane: usize| sided(lane) + if lane & 2 == 0 { 0x40 } else { 0 };
    assert_eq!(leaves(&text), lanes(|lane| expected(lane ^ 3)));
}

/// Pairs of lanes go as often as their number says through a loop whose region brings each pair together.
#[test]
fn a_region_within_a_loop() {
    let text = format!(
        "SHF.R.U32.HI R22, RZ, 0x1, R1\nLOP3.LUT R22, R22, 0x3, RZ, 0xc0, !PT\nBSSY B1, `(L9)\nL7:\n\
         BSSY B0, `(L2)\n{}BSYNC B0\nSWAP\nISETP.NE.AND P5, PT, R22, RZ, PT\nIADD3 R22, R22, -0x1, RZ\n\
         @P5 BRA `(L7)\nL9:\nBSYNC B1\nSHFL.BFLY PT, R20, R20, 0x1f, 0x1f\n",
        sides("P0")
    );
    let of = |lane: usize| {
        let mut pair = [value(lane), value(lane ^ 1)];
        for _ in 0..=lane / 2 % 4 {
            let added = |lane: usize| if third(lane) { 9 } else { 7 };
            pair = [pair[1] + added(lane ^ 1), pair[0] + added(lane)];
        }
        pair[0]
    };
    assert_eq!(leaves(&text), lanes(|lane| of(lane ^ 31)));
    // The other pair goes round more often, or less.
    faults(&text.replace("BSYNC B1\n", ""), &["the value that it stores"]);
}

#[test]
fn lanes_that_break_are_not_waited_for() {
    // Two of four leave the inner region for the end of the outer one: before the others come to BSYNC, or later.
    let before = format!("@P3 BREAK B0\n@P3 BRA `(L8)\n{}BSYNC B0\nSWAP\nL8:\n", sides("P0"));
    let after = format!("@P3 BRA `(L7)\n{}BSYNC B0\nSWAP\nBRA `(L8)\nL7:\nBREAK B0\nL8:\n", sides("P0"));
    let left = |lane: usize| if lane & 2 == 0 { sided(lane ^ 1) } else { value(lane) };
    for inner in [before, after] {
        let text = format!("BSSY B1, `(L9)\nBSSY B0, `(L2)\n{inner}L9:\nBSYNC B1\nSHFL.BFLY PT, R20, R20, 0x3, 0x1f\n");
        assert_eq!(leaves(&text), lanes(|lane| left(lane ^ 3)));
        let stuck = text.replace("@P3 BREAK B0\n", "").replace("BREAK B0\n", "");
        faults(&stuck, &["waits for ever", "`BSYNC B0`", "`BSYNC B1`"]);
    }
}

/// Pairs leave a loop one after the other; those that stay exchange in each turn.
#[test]
fn lanes_break_out_of_a_loop() {
    let text = "SHF.R.U32.HI R22, RZ, 0x1, R1\nBSSY B1, `(L9)\nL7:\nBSSY B0, `(L5)\n\
         ISETP.EQ.AND P5, PT, R22, RZ, PT\n@P5 BREAK B0\n@P5 BRA `(L9)\nIADD3 R22, R22, -0x1, RZ\n\
         @P0 BRA `(L5)\nIADD3 R20, R20, 0x5, RZ\nL5:\nBSYNC B0\nSWAP\nBRA `(L7)\nL9:\nBSYNC B1\n\
         SHFL.BFLY PT, R20, R20, 0x1f, 0x1f\n";
    let of = |lane: usize| {
        let added = |lane: usize| if third(lane) { 0 } else { 5 };
        (0..lane / 2)
            .fold([value(lane), value(lane ^ 1)], |[own, other], _| [other + added(lane ^ 1), own + added(lane)])[0]
    };
    assert_eq!(leaves(text), lanes(|lane| of(lane ^ 31)));
}

#[test]
fn lanes_that_return_are_not_waited_for() {
    let stay = |lane: usize| if lane & 2 == 0 { sided(lane ^ 1) } else { UNTOUCHED };
    let sides = sides("P0");
    for text in [
        format!("BSSY B0, `(L2)\n@P3 EXIT\n{sides}BSYNC B0\nSWAP"),
        format!("BSSY B0, `(L2)\nEXIT P3\n{sides}BSYNC B0\nSWAP"),
        format!("PLOP3.LUT P5, PT, P3, PT, PT, 0x8, 0x0\nBSSY B0, `(L2)\nEXIT !P5\n{sides}BSYNC B0\nSWAP"),
        // The others wait already.
        format!("BSSY B0, `(L2)\n@P3 BRA `(L7)\n{sides}BSYNC B0\nSWAP\nBRA `(L8)\nL7:\nEXIT\nL8:\n"),
        format!("@P3 BRA `(L7)\n{sides}WARPSYNC 0xffffffff\nSWAP\nBRA `(L8)\nL7:\nEXIT\nL8:\n"),
    ] {
        assert_eq!(leaves(&text), lanes(stay), "{text}");
    }
    // A guard and a condition: both have to hold.
    let both = |lane: usize| if lane & 2 != 0 && lane < 16 { UNTOUCHED } else { value(lane) };
    assert_eq!(leaves("@P2 EXIT P3\n"), lanes(both));
    // What a lane that returned would have given is not there.
    faults("@P1 EXIT\nSWAP", &["the value that it stores"]);
}

#[test]
fn lanes_meet_by_masks() {
    let sides = sides("P0");
    let expected = lanes(|lane| sided(lane ^ 1));
    for sync in ["WARPSYNC 0xffffffff", "WARPSYNC R4", "WARPSYNC.ALL"] {
        assert_eq!(leaves(&format!("{sides}{sync}\nSWAP")), expected, "{sync}");
    }
    // Each half is in its own mask, and does not wait for the other, which may be anywhere.
    let halves = format!("@P2 BRA `(L6)\nL6:\n{sides}WARPSYNC R5\nSWAP");
    assert_eq!(leaves(&halves), expected);
    let halves = format!("@P2 BRA `(L6)\nBRA `(L8)\nL6:\n{sides}WARPSYNC 0xffff\nSWAP\nL8:\n");
    assert_eq!(leaves(&halves), lanes(|lane| if lane < 16 { sided(lane ^ 1) } else { value(lane) }));
    // Half of the lanes are not there for the other half.
    let halves = format!("@P2 BRA `(L6)\nL6:\n{sides}WARPSYNC R5\nSHFL.BFLY PT, R20, R20, 0x10, 0x1f\n");
    faults(&halves, &["the value that it stores"]);
    faults("WARPSYNC 0xffff\n", &["lanes 16-31", "they are not in their own mask 0xffff"]);
    faults("WARPSYNC R40\n", &["its mask of lanes was never written"]);
}

/// The lanes are together as far as `ENDCOLLECTIVE`, and are what they were before behind it.
#[test]
fn a_collective_brings_lanes_together_for_a_while() {
    let collective = "WARPSYNC.COLLECTIVE R4, `(L3)\nSWAP\nENDCOLLECTIVE\nL3:\n";
    let sides = sides("P0");
    assert_eq!(leaves(&format!("{sides}{collective}")), lanes(|lane| sided(lane ^ 1)));
    assert_eq!(leaves(&format!("{sides}{collective}{collective}")), lanes(sided));
    faults(&format!("{sides}{collective}SWAP"), &["the value that it stores"]);
    // As the compiler writes it: a region in which the lanes of each side are.
    let region = format!("BSSY B1, `(L9)\n{sides}BSSY B2, `(L3)\n{collective}BSYNC B2\nL9:\nBSYNC B1\nSWAP");
    assert_eq!(leaves(&region), lanes(sided));
    // Lanes that were together remain so.
    assert_eq!(leaves(&format!("{collective}SWAP")), lanes(value));
    // The lower half alone.
    let half = "@!P2 BRA `(L3)\nWARPSYNC.COLLECTIVE R5, `(L3)\nSWAP\nENDCOLLECTIVE\nL3:\n";
    assert_eq!(leaves(half), lanes(|lane| value(if lane < 16 { lane ^ 1 } else { lane })));
}

/// `BRA.DIV` jumps where lanes of its mask are elsewhere, `BRA.CONV` where none is.
#[test]
fn branches_by_whether_lanes_are_together() {
    let jumped = "{BRANCH} `(L5)\nBRA `(L6)\nL5:\nIADD3 R20, R20, 0x1, RZ\nL6:\n";
    for (branch, together, apart) in [
        ("BRA.DIV", 0, 1),
        ("BRA.DIV ~URZ,", 0, 1),
        ("BRA.DIV UR4,", 0, 1),
        ("BRA.CONV", 1, 0),
        ("BRA.CONV ~URZ,", 1, 0),
        ("BRA.CONV UR4,", 1, 0),
    ] {
        let jumped = jumped.replace("{BRANCH}", branch);
        assert_eq!(leaves(&format!("R2UR UR4, R4\n{jumped}")), lanes(|lane| value(lane) + together), "{branch}");
        let text = format!("R2UR UR4, R4\n{}{jumped}", sides("P0"));
        assert_eq!(leaves(&text), lanes(|lane| sided(lane) + apart), "{branch}");
    }
    // The lower half is together, and asks for no other lane; then a third of it is elsewhere.
    for (branch, together, apart) in [("BRA.DIV UR4,", 0, 1), ("BRA.CONV UR4,", 1, 0)] {
        let jumped = jumped.replace("{BRANCH}", branch);
        let of = |lane: usize, plain: fn(usize) -> u32, added: u32| {
            if lane < 16 { plain(lane) + added } else { value(lane) }
        };
        let text = format!("R2UR UR4, R5\n@!P2 BRA `(L6)\n{jumped}");
        assert_eq!(leaves(&text), lanes(|lane| of(lane, value, together)), "{branch}");
        let text = format!("R2UR UR4, R5\n@!P2 BRA `(L6)\n{}{jumped}", sides("P0"));
        assert_eq!(leaves(&text), lanes(|lane| of(lane, sided, apart)), "{branch}");
    }
}

/// Lanes call one function from two places, and each returns to its own.
#[test]
fn calls_return_by_lane() {
    let text = "BSSY B0, `(L3)\nCALL.REL.NOINC `(L5)\nL1:\nIADD3 R20, R20, 0x1, RZ\nBRA `(L3)\nL2:\n\
        IADD3 R20, R20, 0x2, RZ\nL3:\nBSYNC B0\nSWAP\nBRA `(L9)\nL5:\nIADD3 R20, R20, 0x10, RZ\n\
        RET.REL.NODEC R6 `(k)\nL9:\n";
    // Two more registers are given.
    let to = |label: &str| address(text, label) + 32;
    let to = |lane: usize| to(if third(lane) { "L2" } else { "L1" });
    let given = [given(), vec![(6, lanes(to)), (7, [0; 32])]].concat();
    let expected = |lane: usize| value(lane) + if third(lane) { 0x12 } else { 0x11 };
    assert_eq!(Code::new(&program(text), &given).leaves([20])[0], lanes(|lane| expected(lane ^ 1)));
    let misaligned = [&given[..], &[(6, [0x18; 32])]].concat();
    Code::new(&program(text), &misaligned).faults(&mut Memory::default(), FAILED, &["jumps to 0x18"]);
}

/// A `switch` by a table in constant bank 2: added to the register is what leads back to the begin of the kernel.
#[test]
fn jumps_by_a_table() {
    let of = |back: u32| {
        format!(
            "LDC R6, c[0x2][R6]\nBSSY B0, `(L9)\nL0:\nBRX R6 -{back:#x} (*\"BRANCH_TARGETS L1,L2,L3\"*)\nL1:\n\
             IADD3 R20, R20, 0x1, RZ\nBRA `(L9)\nL2:\nIADD3 R20, R20, 0x2, RZ\nBRA `(L9)\nL3:\n\
             IADD3 R20, R20, 0x3, RZ\nL9:\nBSYNC B0\nSWAP"
        )
    };
    let given = [given(), vec![(6, lanes(|lane| 4 * (lane as u32 % 3))), (7, [0; 32])]].concat();
    let to = |label: &str| address(&of(0), label) + 32;
    let table: Vec<u8> = ["L1", "L2", "L3"].iter().flat_map(|label| to(label).to_le_bytes()).collect();
    let text = program(&of(to("L0") + 16));
    let code = Code { table: &table, ..Code::new(&text, &given) };
    assert_eq!(code.leaves([20])[0], lanes(|lane| value(lane ^ 1) + 1 + (lane as u32 ^ 1) % 3));
    let table = [&table[..4], &0x7000_u32.to_le_bytes(), &table[8..]].concat();
    let code = Code { table: &table, ..Code::new(&text, &given) };
    code.faults(&mut Memory::default(), FAILED, &["lane 1 ", "jumps to 0x7000, where no instruction is"]);
}

/// The block's barrier takes warps whose lanes are together.
#[test]
fn barriers_of_a_block() {
    let stored = "S2R R22, SR_TID.X\nISETP.EQ.AND P5, PT, R22, 0x25, PT\n";
    let shown = "SEL R20, R4, RZ, P6\n";
    for (warps, found) in [(1, 0), (2, u32::MAX)] {
        // Thread 37 is in the second warp.
        let text = program(&format!("{stored}BAR.RED.OR.DEFER_BLOCKING 0x0, P5\nB2R.RESULT RZ, P6\n{shown}"));
        let given = given();
        assert_eq!(Code { warps, ..Code::new(&text, &given) }.leaves([20])[0], [found; 32]);
    }
    // A lane that returned is not waited for.
    assert_eq!(leaves("@P1 EXIT\nBAR.SYNC 0x0\n"), lanes(|lane| if lane % 2 == 0 { value(lane) } else { UNTOUCHED }));
    faults("@P4 BAR.SYNC 0x0\n", &["lanes 0-7, 16-31", "must be executed by all lanes of a warp together"]);
    // One side at one barrier, the other at the next.
    faults("@P4 BRA `(L1)\nBAR.SYNC 0x0\nL1:\nBAR.SYNC.DEFER_BLOCKING 0x0\n", &["waits for ever", "`BAR.SYNC"]);
    let apart = "@P4 BRA `(L1)\nBAR.SYNC 0x0\nBRA `(L2)\nL1:\nWARPSYNC 0xffffffff\nL2:\n";
    faults(apart, &["waits for ever", "lanes 8-15", "lanes 0-7, 16-31", "`WARPSYNC 0xffffffff`"]);
}

#[test]
fn lanes_that_wait_for_each_other_for_ever() {
    faults("BSYNC B3\n", &["waits at a convergence barrier that no BSSY began"]);
    let text = "BSSY B0, `(L2)\n@P2 BRA `(L1)\nBSYNC B0\nBRA `(L2)\nL1:\nWARPSYNC 0xffffffff\nL2:\n";
    faults(text, &["waits for ever"]);
    faults("BSSY B0, `(L1)\n@P2 BSYNC B0\nL1:\n", &["a guarded BSYNC is not known"]);
}

#[test]
fn code_that_does_not_end() {
    let given = given();
    Code::new("L1:\nBRA `(L1)", &given).faults(&mut Memory::default(), FAILED, &["does not end: 16777216 branches"]);
    let module = qrun_emulator::isa::Module::disassembled(&image(75, 0x160, 0, 0, &[]), &listing("NOP\n"));
    let fault = Job::new("", 32, &[]).of(&module.expect("it is a kernel"), &Memory::default()).expect_err("no EXIT");
    assert!(fault.report.contains("runs over the end of the kernel"), "{fault:?}");
    for (text, says) in [
        ("BRA `(L8)", "no instruction behind label L8"),
        ("BRA 0x70", "it has no label"),
        ("BSSY B16, `(L1)\nL1:", "B16 is not a convergence barrier"),
        ("RET.REL.NODEC R6 `(other)", "expected the kernel's own name"),
        ("BAR.SYNC 0x1", "this machine knows barrier 0 alone"),
        ("WARPSYNC.EXCLUSIVE R4", "EXCLUSIVE"),
        ("CALL.ABS.NOINC `(L1)\nL1:", "ABS"),
    ] {
        Code::new(text, &given).faults(&mut Memory::default(), 0, &[says]);
    }
}

/// The orders are adversarial: a result that depends on which side goes first differs between them.
#[test]
fn either_side_goes_first() {
    let text = program(
        "BSSY B0, `(L2)\n@P0 BRA `(L1)\nSTS [RZ], R4\nBRA `(L2)\nL1:\nSTS [RZ], RZ\nL2:\nBSYNC B0\nLDS R20, [RZ]\n",
    );
    let given = given();
    let left = |order: Order| Code::new(&text, &given).run(&mut Memory::default(), [20], order)[0];
    assert_eq!([Order::Forward, Order::Reverse].map(left), [[0; 32], [u32::MAX; 32]]);
    let random: Vec<Lanes> = (0..16).map(|seed| left(Order::Random(seed))).collect();
    assert!(random.contains(&[0; 32]) && random.contains(&[u32::MAX; 32]), "chance takes one side always");
}
