//! What one block of a launch may read of another's stores.

use crate::isa::harness::{Job, Memory, ORDERS, module, words};

/// Three blocks of 64 threads, each of which has a word of its own at %rd2 of the 192 at %rd1; %p1: all threads of a block
/// but the first; %p3: lanes 16 to 31.
const START: &str = "mov.u32 %r5, %ctaid.x; mad.lo.s32 %r6, %r5, 64, %r0; mul.wide.u32 %rd2, %r6, 4; \
                     add.s64 %rd2, %rd1, %rd2; setp.ne.s32 %p1, %r0, 0; and.b32 %r1, %r0, 31; setp.gt.u32 %p3, %r1, 15; ";
const STORE: &str = "st.global.u32 [%rd2], %r6; ";
const FENCE: &str = "membar.gl; ";
const BARRIER: &str = "bar.sync 0; ";
/// What follows is the first thread's. The ticket is at %rd0.
const TICKET: &str = "@%p1 bra $end; atom.global.add.u32 %r7, [%rd0], 1; ";
/// What follows is the last block's.
const LAST: &str = "setp.ne.s32 %p2, %r7, 2; @%p2 bra $end; ";
/// Sums three words: the 7th of the first block and of the second, the 40th of the third.
const READ: &str = "ld.global.u32 %r8, [%rd1+28]; ld.global.u32 %r9, [%rd1+284]; \
                    add.s32 %r8, %r8, %r9; ld.global.u32 %r9, [%rd1+672]; add.s32 %r8, %r8, %r9; st.global.u32 [%rd0], %r8; ";
const END: &str = "$end: ";
const SUM: u32 = 7 + 71 + 168;

const HIDDEN: &str = "stored and not shown";
const SOONER: &str = "have to come before";

/// What the blocks do, and what is wrong with it.
const CASES: &[(&str, &[&str], Option<&str>)] = &[
    ("as it is to be", &[STORE, FENCE, BARRIER, TICKET, FENCE, LAST, READ], None),
    ("one fence behind a barrier", &[STORE, BARRIER, "@%p1 bra $end; ", FENCE, TICKET, FENCE, LAST, READ], None),
    ("stores between fences", &[STORE, FENCE, STORE, FENCE, BARRIER, TICKET, FENCE, LAST, READ], None),
    ("a fence for the host, too", &[STORE, "membar.sys; ", BARRIER, TICKET, FENCE, LAST, READ], None),
    (
        "two tickets",
        &[STORE, FENCE, BARRIER, "atom.global.add.u32 %r7, [%rd0+4], 1; ", TICKET, FENCE, LAST, READ],
        None,
    ),
    (
        "atomics in place of stores",
        &["atom.global.add.u32 %r7, [%rd2], %r6; ", FENCE, BARRIER, TICKET, FENCE, LAST, READ],
        None,
    ),
    (
        "atomics without a fence",
        &["atom.global.add.u32 %r7, [%rd2], %r6; ", BARRIER, TICKET, FENCE, LAST, READ],
        Some(HIDDEN),
    ),
    ("no fence", &[STORE, BARRIER, TICKET, LAST, READ], Some(HIDDEN)),
    ("no fence before the ticket", &[STORE, BARRIER, TICKET, FENCE, LAST, READ], Some(HIDDEN)),
    ("no fence behind the ticket", &[STORE, FENCE, BARRIER, TICKET, LAST, READ], Some(SOONER)),
    ("a fence before the store", &[FENCE, STORE, BARRIER, TICKET, FENCE, LAST, READ], Some(HIDDEN)),
    ("a store behind the fence", &[STORE, FENCE, STORE, BARRIER, TICKET, FENCE, LAST, READ], Some(HIDDEN)),
    (
        "a fence of one thread before the barrier",
        &[STORE, "@%p1 bra $all; ", FENCE, "$all: ", BARRIER, TICKET, FENCE, LAST, READ],
        Some(HIDDEN),
    ),
    (
        "a fence of half of the lanes",
        &[STORE, "@%p3 bra $all; ", FENCE, "$all: ", BARRIER, TICKET, FENCE, LAST, READ],
        Some(HIDDEN),
    ),
    ("no ticket", &[STORE, FENCE, BARRIER, "mov.u32 %r7, 2; @%p1 bra $end; ", FENCE, LAST, READ], Some(HIDDEN)),
    ("the same bytes twice", &[STORE, "st.global.u32 [%rd1], %r0; "], Some(HIDDEN)),
    (
        "the same bytes twice behind a ticket",
        &[STORE, FENCE, BARRIER, TICKET, LAST, "st.global.u32 [%rd1], %r0; st.global.u32 [%rd1+256], %r0; "],
        Some(SOONER),
    ),
];

#[test]
fn a_block_reads_of_others_what_they_have_shown() {
    let mut wrong = vec![];
    for (name, parts, expected) in CASES {
        let text = module(64, 2, "", &[&[START], *parts, &[END]].concat().concat());
        for order in ORDERS {
            let mut memory = Memory::default();
            let (ticket, to) = (memory.put(&[0u32; 2]), memory.put(&[0u32; 192]));
            let params = words(&[ticket, to]);
            let run = Job { order, grid: [3, 1, 1], ..Job::new(&text, 64, &params) }.run(&memory);
            match (run.map_err(|fault| fault.report), expected) {
                (Ok(_), None) if memory.get::<u32>(ticket)[0] == SUM => (),
                (Err(report), Some(why)) if report.contains(why) && report.contains(".global.u32") => (),
                (found, _) => wrong.push(format!("{name} ({order:?}): expected {expected:?}, found {:?}", found.err())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A launch of one block has nobody to hide from, and two launches are ordered.
#[test]
fn a_block_reads_its_own_stores_and_those_of_the_launch_before() {
    let body = [START, STORE, BARRIER, "ld.global.u32 %r7, [%rd2]; add.s32 %r6, %r6, %r7; ", STORE].concat();
    let (text, mut memory) = (module(64, 2, "", &body), Memory::default());
    let (ticket, to) = (memory.put(&[0u32; 2]), memory.put(&[0u32; 192]));
    let params = words(&[ticket, to]);
    for order in ORDERS {
        let job = Job { order, grid: [3, 1, 1], ..Job::new(&text, 64, &params) };
        job.run(&memory).unwrap_or_else(|fault| panic!("{}", fault.report));
    }
    assert_eq!(memory.get::<u32>(to), (0..192).map(|i| 2 * i).collect::<Vec<u32>>());
}
