//! Where sources come from, uniform registers, lanes that hold nothing, and what is refused.

use qrun_emulator::Order;

use crate::isa::{
    harness::{Memory, Random},
    rows::{any, nasty},
    sass::harness::{Code, PARAMS, lanes},
};

/// Constant banks, uniform registers and numbers in the places of sources.
#[test]
fn places() {
    let (x, y, table) = (0x8123_4567u32, 0xFFFF_FF9Cu32, [1, 0, 0, 0x80]);
    let (p, q) = (PARAMS, PARAMS + 4);
    let cases = [
        (format!("IADD3 R20, R10, -c[0x0][{p:#x}], RZ"), 5u32.wrapping_sub(x)),
        (format!("IADD3 R20, R10, c[0x0][{p:#x}], RZ"), x.wrapping_add(5)),
        (format!("IMAD R20, R10, c[0x0][{q:#x}], R10"), y.wrapping_mul(5).wrapping_add(5)),
        (format!("MOV R20, c[0x0][{q:#x}]"), y),
        (format!("IABS R20, c[0x0][{q:#x}]"), 100),
        (format!("I2F R20, c[0x0][{q:#x}]"), (-100f32).to_bits()),
        (format!("IMAD.WIDE.U32 R20, R10, 0x2, c[0x0][{p:#x}]"), x.wrapping_add(10)),
        (format!("IMAD.WIDE.U32 R20, R10, 0x2, c[0x0][{p:#x}]\nMOV R20, R21"), y),
        ("MOV R20, c[0x2][0x0]".to_owned(), 0x8000_0001),
        (format!("ULDC UR4, c[0x0][{p:#x}]\nLOP3.LUT R20, R10, UR4, RZ, 0x3c, !PT"), x ^ 5),
        (format!("ULDC UR4, c[0x0][{p:#x}]\nIADD3 R20, R10, -UR4, RZ"), 5u32.wrapping_sub(x)),
        (format!("ULDC.64 UR4, c[0x0][{p:#x}]\nIMAD.WIDE R20, R10, 0x1, UR4\nMOV R20, R21"), y),
        ("IADD3 R20, R10, -0x6, RZ".to_owned(), u32::MAX),
    ];
    for (text, expected) in cases {
        let given = [(10, lanes(|_| 5))];
        let code = Code { params: &[x, y], table: &table, ..Code::new(&text, &given) };
        assert_eq!(code.leaves([20])[0], [expected; 32], "{text}");
    }
}

/// The same of one value for the whole warp: `U` before the name and its registers.
#[test]
fn uniform_instructions() {
    // R10, R12, R14 are words, R16, R17 a pair; UP1 is the lowest bit of R18.
    let lines = [
        "IADD3 R20, R10, R12, R14",
        "IADD3 R20, P4, R10, -0x3, RZ",
        "IADD3 R20, P4, PT, R10, -R12, RZ",
        "IADD3.X R20, R10, R12, ~R14, P1, !PT",
        "IADD3.64 R20, PT, PT, R16, 0x6c00, RZ",
        "IADD3.64 R20, PT, PT, R16, R12, RZ",
        "IMAD R20, R10, 0x70, R14",
        "IMAD R20, R10, R12, 0x1",
        "IMAD.WIDE R20, R10, R12, R16",
        "IMAD.WIDE.U32 R20, R10, 0x70, R16",
        "ISETP.GE.AND P4, PT, R10, R12, PT",
        "ISETP.NE.U32.AND P4, PT, R10, 0x3, P1",
        "LEA R20, P4, R10, R12, 0x3",
        "LEA R20, R10, 0x400, 0x18",
        "LEA.HI R20, R10, R12, R14, 0x5",
        "LEA.HI.SX32 R20, R10, 0x1, 0x1c",
        "LEA.HI.X R20, R10, R12, R14, 0x2, P1",
        "LOP3.LUT R20, R10, R12, R14, 0xe2, !PT",
        "LOP3.LUT P4, RZ, R10, 0x1, RZ, 0xc0, !PT",
        "MOV R20, R10",
        "MOV R20, 0x1234",
        "SEL R20, R10, R12, P1",
        "SHF.L.U32 R20, R10, 0x3, RZ",
        "SHF.L.U64.HI R20, R10, 0x3, R14",
        "SHF.R.S32.HI R20, RZ, 0x1f, R10",
        "SHF.R.U32.HI R20, RZ, 0x5, R10",
        "VIMNMX.S32 R20, R10, 0x4, PT",
        "FFMA R20, R10, -R12, 1",
        "I2F.U32.RP R20, R10",
        "F2I.U32.TRUNC.NTZ R20, R10",
        "MOV.64 R20, 0x3ff71547652b82fe",
    ];
    let mut random = Random(3);
    for line in lines {
        let uniform = |text: &str| {
            let registers = (10..22).rev().map(|n| (format!("R{n}"), format!("UR{n}")));
            let others = [("RZ", "URZ"), ("PT", "UPT"), ("P1", "UP1"), ("P4", "UP4")];
            let all = registers.chain(others.map(|(a, b)| (a.to_owned(), b.to_owned())));
            all.fold(format!("U{text}"), |text, (from, to)| text.replace(&from, &to))
        };
        let moved: String = (10..19).map(|n| format!("R2UR UR{n}, R{n}\n")).collect();
        let before = format!(
            "{moved}R2P PR, R18, 0x2\nUISETP.NE.AND UP1, UPT, UR18, URZ, UPT\nMOV R20, RZ\nMOV R21, RZ\nUMOV UR20, URZ\n\
             UMOV UR21, URZ\nISETP.NE.AND P4, PT, RZ, RZ, PT\nUISETP.NE.AND UP4, UPT, URZ, URZ, UPT\n"
        );
        // A lane of its own for the vector's instruction, in which the values are those of lane 0.
        let text = format!(
            "{before}{}\n{line}\nMOV R30, UR20\nMOV R31, UR21\nUSEL UR22, URZ, 0x1, !UP4\nMOV R32, UR22\n\
             SEL R33, RZ, 0x1, !P4",
            uniform(line)
        );
        for _ in 0..24 {
            let list = nasty('r');
            let mut value =
                || if random.below(2) == 0 { list[random.below(list.len())] } else { any('r', &mut random) };
            let values: Vec<u32> = (0..8).map(|_| value() as u32).collect();
            let mut given: Vec<_> = (0..8).map(|n| (10 + n, lanes(|_| values[n]))).collect();
            given.push((18, lanes(|_| if values[0] & 1 == 0 { 0 } else { 2 })));
            let code = Code::new(&text, &given);
            let [low, high, holds, low_too, high_too, holds_too] =
                code.run(&mut Memory::default(), [20, 21, 33, 30, 31, 32], Order::Forward);
            assert_eq!((low_too, high_too, holds_too), (low, high, holds), "{text}\n{values:x?}");
        }
    }
}

/// Bits of a register that nobody wrote before.
#[test]
fn predicates_are_kept_as_bits_of_a_register() {
    let text = "ISETP.NE.AND P0, PT, R10, RZ, PT\nLOP3.LUT R30, R30, 0xffffffef, RZ, 0xc0, !PT\n\
        @P0 LOP3.LUT R30, R30, 0x10, RZ, 0xfc, !PT\nLOP3.LUT P1, RZ, R30, 0x10, RZ, 0xc0, !PT\nSEL R20, RZ, 0x1, !P1";
    let given = [(10, lanes(|i| i as u32 % 3))];
    let code = Code::new(text, &given);
    let [found] = code.run(&mut Memory::default(), [20], Order::Forward);
    assert_eq!(found, lanes(|i| u32::from(i % 3 != 0)));
}

/// A uniform register has its value in all lanes, also where not all of them wrote it.
#[test]
fn uniform_registers_belong_to_the_warp() {
    let text = "R2P PR, R10, 0x1\nBSSY B0, `(L1)\n@P0 BRA `(L1)\nUMOV UR4, 0x5\nUISETP.NE.AND UP2, UPT, UR4, 0x4, UPT\n\
        R2UR UR5, R11\nUIADD3 UR4, UR4, UR5, URZ\nL1:\nBSYNC B0\nMOV R20, UR4\nUSEL UR6, URZ, 0x1, !UP2\nMOV R21, UR6";
    // Lane 3 is the first that does not jump.
    let given = [(10, lanes(|lane| u32::from(lane < 3))), (11, lanes(|lane| lane as u32))];
    assert_eq!(Code::new(text, &given).leaves([20, 21]), [[8; 32], [1; 32]]);
}

/// Inactive lanes keep what they have.
#[test]
fn guards() {
    let text = "R2P PR, R10, 0x1\n@P0 IADD3 R11, P1, R11, -0x1, RZ\n@!P0 IMAD.WIDE R12, R11, 0x2, RZ\n\
        @P0 ISETP.EQ.AND P0, PT, R11, R11, !PT\nP2R R14, PR, RZ, 0x1";
    let given = [
        (10, lanes(|lane| lane as u32 & 1)),
        (11, lanes(|lane| lane as u32 + 100)),
        (12, lanes(|_| 7)),
        (13, lanes(|_| 7)),
    ];
    let odd = |odd: u32, even: &dyn Fn(usize) -> u32| lanes(|lane| if lane % 2 == 1 { odd } else { even(lane) });
    let [first, second, third, fourth] = Code::new(text, &given).leaves([11, 12, 13, 14]);
    assert_eq!(first, lanes(|lane| lane as u32 + 100 - (lane as u32 & 1)));
    assert_eq!((second, third), (odd(7, &|lane| 2 * (lane as u32 + 100)), odd(7, &|_| 0)));
    assert_eq!(fourth, [0; 32]);
}

/// What is computed of nothing is nothing; what does not ask for it is there.
#[test]
fn lanes_that_hold_nothing() {
    let given = [(10, lanes(|lane| lane as u32)), (11, lanes(|_| 0)), (18, lanes(|_| 2))];
    for text in [
        "IADD3 R20, R10, R30, RZ",
        "FFMA R20, R10, -R30, RZ",
        "IMAD.WIDE R20, R10, R11, R30",
        "IMAD.HI.U32 R20, R10, R11, R30",
        "DADD R20, R10, R30",
        "IADD3.X R20, R10, R11, RZ, P3, !PT",
        "LEA.HI.X R20, R10, R11, R11, 0x1, P3",
        "SEL R20, R10, R11, P3",
        "P2R R20, PR, RZ, 0x8",
        "ISETP.NE.AND P4, PT, R10, R30, PT\nSEL R20, R10, R11, P4",
        "ISETP.NE.AND.EX P4, PT, R11, R11, PT, P3\nSEL R20, R10, R11, P4",
        "R2P PR, R30, 0x10\nSEL R20, R10, R11, P4",
        "PLOP3.LUT P4, PT, P1, P3, PT, 0x80, 0x0\nR2P PR, R18, 0x2\nPLOP3.LUT P4, PT, P1, P3, PT, 0x80, 0x0\n\
         SEL R20, R10, R11, P4",
        "LOP3.LUT P4, RZ, R10, R30, RZ, 0xc0, !PT\nSEL R20, R10, R11, P4",
        "R2UR UR4, R30\nMOV R20, UR4",
        "PRMT R20, R10, 0x5410, R30",
        "PRMT R20, R10, R11, R30",
        // The half that moves down is asked for.
        "PRMT R20, R30, 0x7610, R20\nLOP3.LUT R20, R20, 0x3, RZ, 0xc0, !PT",
        "PRMT R20, R10, 0x5410, R20\nLOP3.LUT R20, R20, 0x3, RZ, 0xc0, !PT",
        "PRMT R20, R10, 0x7610, R31\nLOP3.LUT R20, R20, 0x3, RZ, 0xc0, !PT",
    ] {
        let fault = Code::new(text, &given).attempt(&mut Memory::default(), [20], Order::Forward);
        let report = fault.expect_err(text).report;
        assert!(report.contains("was never written"), "{text}: {report}");
    }
    for (text, expected) in [
        ("LOP3.LUT R20, R30, R10, R31, 0xcc, !PT", lanes(|lane| lane as u32)),
        ("LOP3.LUT R20, R30, R10, R31, 0x33, !PT", lanes(|lane| !(lane as u32))),
        ("PRMT R20, R10, 0x3210, R30", lanes(|lane| lane as u32)),
        ("PRMT R20, R30, 0x7654, R10", lanes(|lane| lane as u32)),
        // What lies above stays in the register, a value or not.
        ("PRMT R20, R10, 0x7610, R20\nLOP3.LUT R20, R20, 0x3, RZ, 0xc0, !PT", lanes(|lane| lane as u32 & 3)),
        ("PRMT R20, R10, 0x7632, R20\nLOP3.LUT R20, R20, 0x3, RZ, 0xc0, !PT", lanes(|_| 0)),
        ("SEL R20, R10, R30, PT", lanes(|lane| lane as u32)),
        ("PLOP3.LUT P4, PT, P3, PT, PT, 0xcc, 0x0\nSEL R20, R10, R11, P4", lanes(|lane| lane as u32)),
        ("R2P PR, R18, 0x2\nPLOP3.LUT P4, PT, P1, P3, PT, 0xa8, 0x0\nSEL R20, R10, R11, P4", lanes(|lane| lane as u32)),
        ("ISETP.NE.OR.EX P4, PT, R11, 0x1, PT, P3\nSEL R20, R10, R11, P4", lanes(|lane| lane as u32)),
        ("ISETP.EQ.AND P4, PT, R11, 0x1, P3\nSEL R20, R11, R10, P4", lanes(|lane| lane as u32)),
        ("LOP3.LUT P4, RZ, R10, R30, RZ, 0xc0, PT\nSEL R20, R10, R11, P4", lanes(|lane| lane as u32)),
    ] {
        assert_eq!(Code::new(text, &given).leaves([20])[0], expected, "{text}");
    }
}

/// What the shipped code does not have is refused, rather than read as something near it.
#[test]
fn refused() {
    for text in [
        "IADD3.FTZ R20, R10, R11, R12",
        "IADD3 R20, P0, R10, R11, R12",
        "IADD3.X R20, R10, -R11, R12, P0, !PT",
        "IADD3 R20, R10, |R11|, R12",
        "IADD R20, R10, R11",
        "IMAD.HI R20, R10, R11, R12",
        "IMAD.X R20, R10, R11, R12, P0",
        "IMAD.WIDE R20, P0, R10, R11, R12",
        "IDP.2A.S8.S8 R20, R10, R11, R12",
        "IDP.4A.U8.S8 R20, R10, R11, R12",
        "LEA R20, P0, R10, -R11, 0x2",
        "LEA R20, P4, -R10, R11, 0x2",
        "LEA.SX32 R20, R10, R11, 0x2",
        "SHF.L.U32 R20, R10, R11, R12",
        "SHF.L.U32.HI R20, R10, R11, R12",
        "SHF.R.S64 R20, R10, R11, R12",
        "PRMT.F4E R20, R10, R11, R12",
        "FLO R20, R10",
        "IMNMX R20, R10, R11, P0",
        "VIMNMX R20, P0, PT, R10, R11, PT",
        "IMNMX.U64 PT, PT, R20, R10, R12, PT, PT",
        "FADD.RM R20, R10, R11",
        "FADD.SAT R20, R10, R11",
        "FMUL.RM R20, R10, R11",
        "FFMA.FTZ R20, R10, R11, R12",
        "MUFU.LG2 R20, R10",
        "MUFU.RCP64H R20, R10",
        "DADD.RZ R20, R10, R12",
        "F2I.U32.TRUNC R20, R10",
        "F2I.CEIL.NTZ R20, R10",
        "F2F.BF16.F32 R20, R10",
        "I2F.F16 R20, R10",
        "HADD2 R20, R10, R11",
        "HFMA2 R20, R10, R11, R12, R13",
        "ISETP.GEU.AND P0, PT, R10, R11, PT",
        "ISETP.GE P0, PT, R10, R11, PT",
        "FSETP.GE.EX.AND P0, PT, R10, R11, PT, PT",
        "P2R.B1 R20, PR, R10, 0x1",
        "R2P PR, R10, 0x80",
        "CS2R R20, SR_CLOCKLO",
    ] {
        let given = (10..16).map(|n| (n, lanes(|_| 0))).collect::<Vec<_>>();
        Code::new(text, &given).faults(&mut Memory::default(), 0, &[text.split(' ').next().expect("a name")]);
    }
}
