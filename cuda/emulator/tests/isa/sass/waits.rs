//! Control words of machine code: what has to wait for what.

use crate::isa::harness::{Memory, ORDERS};
use crate::isa::sass::harness::{CHOOSE, Code, Lanes, addresses, lanes};

/// `None`: nothing is wrong; else what is said.
const WAITS: &[(&str, Option<&str>)] = &[
    // A result.
    ("LDG.E R10, [R4] ; write 0\nSTS [R250], R10 ; wait 0x1", None),
    (
        "LDG.E R10, [R4] ; write 0\nSTS [R250], R10 ; wait 0x2",
        Some("reads R10, which an earlier instruction has not delivered: it does not wait for barrier 0"),
    ),
    ("LDG.E R10, [R4] ; write 3\nNOP ; wait 0x8\nSTS [R250], R10", None),
    (
        "LDG.E R10, [R4] ; write 0\nS2R R10, SR_TID.X ; write 1",
        Some("writes R10, which an earlier instruction has not delivered"),
    ),
    ("LDG.E R10, [R4] ; write 0\nLDG.E R11, [R4] ; write 1\nSTS [R250], R11 ; wait 0x2", None),
    // All words of it.
    ("LDG.E.128 R16, [R4] ; write 0\nSTS [R250], R19", Some("reads R19")),
    ("LDG.E.64 R16, [R4] ; write 0\nSTS [R250], R18", None),
    ("STS.128 [R250.X4], R12 ; read 1\nLDSM.16.M88.4 R16, [R250.X4] ; write 0\nSTS [R250], R19", Some("reads R19")),
    ("LDC.64 R16, c[0x0][0x160] ; write 0\nSTS [R250], R17", Some("reads R17")),
    ("S2R R16, SR_TID.X ; write 5\nSTS [R250], R16", Some("barrier 5")),
    ("SHFL.BFLY P1, R16, R12, 0x1, 0x1f ; write 2\nSTS [R250], R16", Some("reads R16")),
    ("SHFL.BFLY P1, R16, R12, 0x1, 0x1f ; write 2\n@P1 STS [R250], R12", Some("reads P1")),
    ("LDCU.64 UR4, c[0x0][0x160] ; write 2\nLDG.E.U8 R10, [R250.U32+UR4]", Some("reads UR4")),
    ("LDCU.64 UR4, c[0x0][0x160] ; write 2\nLDG.E R10, desc[UR4][R4.64]", Some("reads UR4")),
    ("S2UR UR4, SR_CTAID.X ; write 2\nLDC R16, c[0x0][UR4+0x160]", Some("reads UR4")),
    ("HMMA.1688.F32 R16, R12, R12, R12 ; write 2\nSTS [R250], R19", Some("reads R19")),
    ("LDG.E R15, [R4] ; write 2\nHMMA.16816.F32 R16, R12, R20, R20", Some("reads R15")),
    ("LDG.E R15, [R4] ; write 2\nHMMA.1688.F32 R16, R12, R20, R20", None),
    ("LDG.E R21, [R4] ; write 2\nHMMA.16816.F32 R16, R12, R20, R24", Some("reads R21")),
    ("LDG.E R23, [R4] ; write 2\nHMMA.1688.F32 R16, R12, R14, R20", Some("reads R23")),
    ("LDG.E R23, [R4] ; write 2\nIMMA.8816.S8.S8 R16, R12.ROW, R14.COL, R20", None),
    ("LDG.E R15, [R4] ; write 2\nATOMS.CAST.SPIN.64 P0, [RZ], R12, R14", Some("reads R15")),
    ("LDG.E R13, [R4] ; write 2\nATOMS.CAST.SPIN.64 P0, [RZ], R12, R14", Some("reads R13")),
    ("LDG.E R13, [R4] ; write 2\nRED.E.ADD.64.STRONG.GPU [R4], R12", Some("reads R13")),
    ("ATOMG.E.ADD.STRONG.GPU PT, R16, [R4], R12 ; write 4\nSTS [R250], R16", Some("barrier 4")),
    ("LDG.E.64 R6, [R4] ; write 0\nLDG.E R10, [R6]", Some("reads R6")),
    ("LDG.E R10, [R4] ; write 0\nLDS R12, [R10+UR4]", Some("reads R10")),
    // Sources, which a later instruction is to replace.
    (
        "STS [R250], R12 ; read 0\nVOTE.ANY R12, PT, PT",
        Some("writes R12, which an earlier instruction has not read yet"),
    ),
    ("STS [R250], R12 ; read 0\nVOTE.ANY R12, PT, PT ; wait 0x1", None),
    ("STG.E.128 [R4], R12 ; read 0\nVOTE.ANY R15, PT, PT", Some("writes R15")),
    ("STG.E.128 [R4], R12 ; read 0\nVOTE.ANY R5, PT, PT", Some("writes R5")),
    ("STG.E.64 [R4], R12 ; read 0\nVOTE.ANY R14, PT, PT", None),
    ("STS [R250.X4], R12 ; read 0\nVOTE.ANY R250, PT, PT", Some("writes R250")),
    ("HMMA.16816.F32 R24, R12, R20, R20 ; read 0 write 1\nVOTE.ANY R15, PT, PT", Some("writes R15")),
    // Predicates and uniform registers are read when the instruction is issued.
    ("LDG.E R12, desc[UR4][R4.64] ; read 0 write 1\nULDC.64 UR4, c[0x0][0x160]", None),
    ("@P0 STS [R250], R12 ; read 0\nVOTE.ANY RZ, P0, PT", None),
    // The same pipe reads first.
    ("STG.E [R4], R12 ; read 0\nLDG.E R12, [R4] ; write 1", None),
    ("STS [R250], R12 ; read 0\nLDS R12, [R250]", None),
    ("HMMA.1688.F32 R24, R12, R16, R20 ; read 0 write 1\nHMMA.1688.F32 R12, R20, R20, R20 ; write 2", None),
    ("STG.E [R4], R12 ; read 0\nHMMA.1688.F32 R12, R20, R20, R20 ; write 2", Some("writes R12")),
    // Other lanes.
    ("@P0 LDG.E R10, [R4] ; write 0\n@!P0 LDG.E R10, [R4] ; write 0", None),
    ("@P0 LDG.E R10, [R4] ; write 0\n@P0 LDG.E R10, [R4] ; write 0", Some("writes R10")),
    ("@P0 LDG.E R10, [R4] ; write 0\n@!P0 STS [R250], R12", None),
];

#[test]
fn what_has_to_wait() {
    let given: Vec<(usize, Lanes)> =
        (6..30).map(|i| (i, [0; 32])).chain([(9, lanes(|lane| lane as u32 % 2))]).collect();
    for (text, wrong) in WAITS {
        let mut memory = Memory::default();
        let base = memory.put(&[0_u32; 4]);
        let given = [&given[..], &addresses(4, |_| base)].concat();
        let text = format!("ULDC.64 UR4, c[0x0][0x160]\nSTS.128 [RZ], RZ\n{CHOOSE}{text}");
        // The harness reads its own registers behind it.
        let text = format!("{text}\nEXIT");
        let found = Code::new(&text, &given).attempt(&mut memory, [], ORDERS[0]).map_err(|fault| fault.report);
        match wrong {
            None => assert!(found.is_ok(), "{found:?}\n{text}"),
            Some(says) => {
                let report = found.err().unwrap_or_else(|| panic!("nothing was found: {says}\n{text}"));
                assert!(report.contains(says), "{says}: {report}\n{text}");
            }
        }
    }
}
