//! What lanes, warps and blocks do together when all goes well: shuffles, votes, barriers, atomics, fences, copies,
//! special registers.

use crate::isa::harness::{Job, Memory, ORDERS, Random, UNTOUCHED, module, outcome, words};

/// Opcodes that are tested here rather than by a table, in the shapes of coverage.rs.
pub static SHAPES: &[&str] = &[
    "prefetch.global.L2 [l]",
    "shfl.sync.bfly.b32 r|p,r,r,r,r",
    "shfl.sync.idx.b32 r|p,r,r,r,r",
    "vote.sync.ballot.b32 r,p,r",
    "bar.sync #",
    "bar.red.or.pred p,#,p",
    "bar.warp.sync #",
    "membar.gl",
    "membar.sys",
    "atom.global.add.u32 r,[l],r",
    "atom.global.add.u32 r,[l],#",
    "atom.global.add.u64 l,[l],l",
    "atom.global.max.u64 l,[l],l",
    "atom.shared.add.u32 r,[l],#",
    "atom.shared.add.u64 l,[l],l",
    "cp.async.cg.shared.global [r],[l],#,r",
    "cp.async.commit_group",
    "cp.async.wait_group #",
    "mov.u32 r,%tid.x",
    "mov.u32 r,%ntid.x",
    "mov.u32 r,%ctaid.x",
    "mov.u32 r,%ctaid.y",
    "mov.u32 r,%ctaid.z",
    "mov.u32 r,%nctaid.x",
    "mov.u32 r,%nctaid.y",
    "mov.b64 l,P",
    "mov.u64 l,S",
    "bra L",
    "bra.uni L",
    "ret",
];

const LANES: usize = 32;

fn random(n: usize) -> Vec<u32> {
    let mut random = Random(n as u64);
    (0..n).map(|_| random.next() as u32).collect()
}

/// %r10: the thread's word of the input; %rd1: its word of the output.
const LOAD: &str =
    "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd0, %rd0, %rd2; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r10, [%rd0]; ";

/// Where a shuffle takes its value from, and whether that lies inside of the lane's segment.
fn source(bfly: bool, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (clamp, segments) = (c & 31, c >> 8 & 31);
    let most = lane & segments | clamp & !segments;
    let from = if bfly { lane ^ (b & 31) } else { lane & segments | b & 31 & !segments };
    if from <= most { (from, true) } else { (lane, false) }
}

#[test]
fn shuffles_take_the_value_of_another_lane() {
    let input = random(LANES);
    // The whole warp; segments of 16, of 8 and of 2.
    for c in [31, 0x101F, 0x181F, 0x1E1F] {
        for b in [0, 1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 63] {
            for bfly in [true, false] {
                let how = if bfly { "bfly" } else { "idx" };
                let body = format!(
                    "{LOAD}mov.u32 %r1, {b}; mov.u32 %r2, {c}; mov.u32 %r3, -1; \
                     shfl.sync.{how}.b32 %r11|%p1, %r10, %r1, %r2, %r3; st.global.u32 [%rd1], %r11; \
                     selp.u32 %r12, 1, 0, %p1; st.global.u32 [%rd1+128], %r12; "
                );
                let found = outcome(32, "", &body, &input, 2 * LANES);
                for lane in 0..LANES {
                    let (from, inside) = source(bfly, lane as u32, b, c);
                    let expected = (input[from as usize], u32::from(inside));
                    assert_eq!((found[lane], found[LANES + lane]), expected, "{how} b {b} c {c:#x} lane {lane}");
                }
            }
        }
    }
}

#[test]
fn each_lane_may_name_another_source() {
    let input = random(LANES);
    let body = format!(
        "{LOAD}mad.lo.s32 %r1, %r0, 7, 3; mov.u32 %r2, 31; mov.u32 %r3, -1; \
         shfl.sync.idx.b32 %r11|%p1, %r10, %r1, %r2, %r3; st.global.u32 [%rd1], %r11; "
    );
    let expected: Vec<u32> = (0..LANES).map(|lane| input[(7 * lane + 3) % 32]).collect();
    assert_eq!(outcome(32, "", &body, &input, LANES), expected);
}

#[test]
fn half_a_warp_shuffles_and_votes_under_its_own_mask() {
    let input = random(LANES);
    // Even lanes and odd lanes come here one after another; each half exchanges with itself.
    let body = format!(
        "{LOAD}and.b32 %r4, %r0, 1; setp.eq.s32 %p2, %r4, 1; mov.u32 %r1, 2; mov.u32 %r2, 31; \
         setp.lt.s32 %p3, %r10, 0; @%p2 bra $odd; mov.u32 %r3, 0x55555555; \
         shfl.sync.bfly.b32 %r11|%p1, %r10, %r1, %r2, %r3; vote.sync.ballot.b32 %r12, %p3, %r3; bra.uni $join; \
         $odd: mov.u32 %r3, 0xAAAAAAAA; shfl.sync.bfly.b32 %r11|%p1, %r10, %r1, %r2, %r3; \
         vote.sync.ballot.b32 %r12, %p3, %r3; $join: st.global.u32 [%rd1], %r11; st.global.u32 [%rd1+128], %r12; "
    )
    .replace("0x55555555", "1431655765")
    .replace("0xAAAAAAAA", "-1431655766");
    let found = outcome(32, "", &body, &input, 2 * LANES);
    let negative = (0..LANES).fold(0_u32, |mask, lane| mask | (input[lane] >> 31) << lane);
    for lane in 0..LANES {
        assert_eq!(found[lane], input[lane ^ 2], "lane {lane}");
        assert_eq!(found[LANES + lane], negative & (0x5555_5555 << (lane % 2)), "lane {lane}");
    }
}

#[test]
fn votes_gather_a_bit_of_each_lane() {
    let input: Vec<u32> = random(64);
    let body = format!(
        "{LOAD}setp.lt.s32 %p1, %r10, 0; mov.u32 %r3, -1; vote.sync.ballot.b32 %r11, %p1, %r3; \
         st.global.u32 [%rd1], %r11; "
    );
    let found = outcome(64, "", &body, &input, 64);
    for thread in 0..64 {
        let warp = &input[thread / 32 * 32..][..32];
        let expected = warp.iter().enumerate().fold(0, |mask, (lane, v)| mask | (v >> 31) << lane);
        assert_eq!(found[thread], expected, "thread {thread}");
    }
}

#[test]
fn a_barrier_orders_shared_memory_of_a_block() {
    let input = random(128);
    // Each thread reads what its mirror wrote; then again with the array the other way round.
    let body = format!(
        "{LOAD}mov.u64 %rd4, tile; add.s64 %rd5, %rd4, %rd2; sub.s64 %rd6, %rd4, %rd2; st.shared.u32 [%rd5], %r10; \
         bar.sync 0; ld.shared.u32 %r11, [%rd6+508]; bar.sync 0; add.s32 %r11, %r11, 1; st.shared.u32 [%rd5], %r11; \
         bar.sync 0; ld.shared.u32 %r12, [%rd6+508]; st.global.u32 [%rd1], %r12; st.global.u32 [%rd1+512], %r11; "
    );
    let found = outcome(128, ".shared .align 16 .b8 tile[512];", &body, &input, 256);
    for thread in 0..128 {
        assert_eq!(found[thread], input[thread].wrapping_add(1), "thread {thread}");
        assert_eq!(found[128 + thread], input[127 - thread].wrapping_add(1), "thread {thread}");
    }
}

#[test]
fn bar_red_tells_all_threads_whether_any_said_so() {
    for who in [0, 31, 32, 77, 127, 1000] {
        let body = format!(
            "{LOAD}setp.eq.s32 %p1, %r0, {who}; {{ .reg .pred %p1; .reg .pred %p2; setp.eq.s32 %p1, %r0, {who}; \
             bar.red.or.pred %p2, 0, %p1; selp.u32 %r11, 1, 0, %p2; }} selp.u32 %r12, 1, 0, %p1; \
             st.global.u32 [%rd1], %r11; st.global.u32 [%rd1+512], %r12; "
        );
        let found = outcome(128, "", &body, &[0u32; 128], 256);
        assert_eq!(found[..128], [u32::from(who < 128); 128], "{who}");
        for thread in 0..128 {
            // The register of the same name outside of the braces is another one.
            assert_eq!(found[128 + thread], u32::from(thread == who), "thread {thread}, {who}");
        }
    }
}

#[test]
fn warps_exchange_through_shared_memory_with_warp_barriers() {
    let input = random(64);
    let body = format!(
        "{LOAD}mov.u64 %rd4, tile; add.s64 %rd5, %rd4, %rd2; st.shared.u32 [%rd5], %r10; bar.warp.sync -1; \
         xor.b32 %r1, %r0, 31; mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd4, %rd6; ld.shared.u32 %r11, [%rd7]; \
         st.global.u32 [%rd1], %r11; "
    );
    let found = outcome(64, ".shared .align 16 .b8 tile[256];", &body, &input, 64);
    assert_eq!(found, (0..64).map(|thread| input[thread ^ 31]).collect::<Vec<_>>());
}

/// One case per line: what is done, on what, from which start, by how much (of thread t), and the result of one step.
struct Atomic {
    op: &'static str,
    wide: bool,
    by: fn(u64) -> u64,
    step: fn(u64, u64) -> u64,
}

const ATOMICS: &[Atomic] = &[
    Atomic { op: "atom.global.add.u32", wide: false, by: |t| t * 0x0300_0001, step: |a, b| (a + b) & 0xFFFF_FFFF },
    Atomic { op: "atom.shared.add.u32", wide: false, by: |_| 3, step: |a, b| (a + b) & 0xFFFF_FFFF },
    Atomic { op: "atom.global.add.u64", wide: true, by: |t| t << 30 | 1, step: u64::wrapping_add },
    Atomic { op: "atom.shared.add.u64", wide: true, by: |t| t << 60 | t, step: u64::wrapping_add },
    Atomic { op: "atom.global.max.u64", wide: true, by: |t| (t * 37 % 64) << 58, step: u64::max },
];

/// All threads of two blocks on one place: the last value is that of all steps, and the old values are those of some
/// order.
#[test]
fn atomics_are_steps_in_some_order() {
    const START: u64 = 0x7000_0000;
    for atomic in ATOMICS {
        let (class, size) = if atomic.wide { ("rd", 8) } else { ("r", 4) };
        let shared = atomic.op.contains("shared");
        // Numbers in the place of a register where the shipped code has them.
        let by = if shared && !atomic.wide { "3".to_string() } else { format!("%{class}40") };
        let place = if shared { "mov.u64 %rd20, tile; " } else { "mov.u64 %rd20, %rd1; " };
        let own = if atomic.wide { "ld.global.u64 %rd40, [%rd3]" } else { "ld.global.u32 %r40, [%rd3]" };
        let (store, load) = (format!("st.shared.u{}", 8 * size), format!("ld.shared.u{}", 8 * size));
        let start = match shared {
            true => format!(
                "setp.ne.s32 %p1, %r0, 0; mov.u{0} %{class}41, {START}; @%p1 bra $begun; \
                 {store} [%rd20], %{class}41; $begun: bar.sync 0; ",
                8 * size
            ),
            false => String::new(),
        };
        let end = match shared {
            true => format!("bar.sync 0; {load} %{class}43, [%rd20]; st.global.u{} [%rd1], %{class}43; ", 8 * size),
            false => String::new(),
        };
        let body = format!(
            "mul.wide.u32 %rd2, %r0, 8; add.s64 %rd3, %rd0, %rd2; add.s64 %rd4, %rd1, %rd2; {place}{own}; {start}\
             {} %{class}42, [%rd20], {by}; st.global.u{} [%rd4+8], %{class}42; {end}",
            atomic.op,
            8 * size
        );
        let text = module(64, 2, ".shared .align 16 .b8 tile[16];", &body);
        let given: Vec<u64> = (0..64).map(atomic.by).collect();
        for order in ORDERS {
            let mut memory = Memory::default();
            let mut out = vec![0u64; 65];
            out[0] = START;
            let (from, to) = (memory.put(&given), memory.put(&out));
            let params = words(&[from, to]);
            let done = Job { order, ..Job::new(&text, 64, &params) }.run(&memory);
            done.unwrap_or_else(|e| panic!("{}: {}\n{text}", atomic.op, e.report));
            let found = memory.get::<u64>(to);
            let last = given.iter().fold(START, |value, &by| (atomic.step)(value, by));
            assert_eq!(found[0], last, "{}, {order:?}", atomic.op);
            // Follow the steps: from each value the one thread that saw it (with `max`, any that did).
            let mut left: Vec<usize> = (0..64).collect();
            let mut value = START;
            while !left.is_empty() {
                let is_next = |&t: &usize| found[1 + t] == value;
                let stays = |&t: &usize| found[1 + t] == value && (atomic.step)(value, given[t]) == value;
                let next = left.iter().position(stays).or_else(|| left.iter().position(is_next));
                let next = next.unwrap_or_else(|| panic!("{}: nobody saw {value:#x} in {found:x?}", atomic.op));
                value = (atomic.step)(value, given[left.swap_remove(next)]);
            }
        }
    }
}

#[test]
fn fences_and_volatile_stores_are_told_to_the_host() {
    let mut memory = Memory::default();
    let out = memory.put(&[0u32; 8]);
    let body = "setp.ne.s32 %p1, %r0, 0; @%p1 bra $done; mov.u32 %r1, 7; st.global.u32 [%rd0+16], %r1; membar.gl; \
                st.volatile.global.v4.u32 [%rd0], {%r1, %r1, %r1, %r1}; membar.sys; \
                st.volatile.global.u32 [%rd0+4], %r0; $done: ";
    let text = module(32, 1, "", body);
    Job::new(&text, 32, &words(&[out])).run(&memory).unwrap_or_else(|e| panic!("{}", e.report));
    assert_eq!(memory.get::<u32>(out), [7, 0, 7, 7, 7, 0, 0, 0]);
    assert_eq!(*memory.published.borrow(), [Some(out), None, Some(out + 4)]);
}

#[test]
fn special_registers_say_where_a_thread_is() {
    let body = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.x; \
                mad.lo.s32 %r5, %r3, 5, %r2; mad.lo.s32 %r5, %r5, 3, %r1; mad.lo.s32 %r5, %r5, 64, %r0; \
                mul.wide.u32 %rd2, %r5, 16; add.s64 %rd3, %rd0, %rd2; st.global.v4.u32 [%rd3], {%r1, %r2, %r3, %r4}; \
                mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4; mov.u32 %r6, %tid.x; mov.u32 %r7, %ntid.x; \
                mul.lo.s32 %r7, %r7, 100; add.s32 %r6, %r6, %r7; \
                mov.u32 %r8, %nctaid.y; mul.lo.s32 %r8, %r8, 1000000; add.s32 %r6, %r6, %r8; st.global.u32 [%rd5], %r6; ";
    let text = module(64, 2, "", body);
    for order in ORDERS {
        let mut memory = Memory::default();
        let n = 3 * 5 * 2 * 64;
        let (places, threads) = (memory.put(&vec![UNTOUCHED; 4 * n]), memory.put(&vec![UNTOUCHED; n]));
        let params = words(&[places, threads]);
        let job = Job { grid: [3, 5, 2], order, ..Job::new(&text, 64, &params) };
        job.run(&memory).unwrap_or_else(|e| panic!("{}", e.report));
        let (places, threads) = (memory.get::<u32>(places), memory.get::<u32>(threads));
        for i in 0..n {
            let block = i / 64;
            let expected = [block % 3, block / 3 % 5, block / 15, 3].map(|v| v as u32);
            assert_eq!(places[4 * i..][..4], expected, "{i}");
            assert_eq!(threads[i] as usize, i % 64 + 64 * 100 + 5 * 1_000_000);
        }
    }
}

/// Two groups of copies, waited for one after the other; zeros where nothing is asked for.
#[test]
fn asynchronous_copies_arrive_with_their_group() {
    let input = random(256);
    let body = "mul.wide.u32 %rd2, %r0, 16; add.s64 %rd3, %rd0, %rd2; add.s64 %rd1, %rd1, %rd2; mov.u64 %rd4, tile; \
                add.s64 %rd5, %rd4, %rd2; cvt.u32.u64 %r1, %rd5; add.s32 %r2, %r1, 512; mov.u32 %r20, 5; \
                rem.u32 %r3, %r0, %r20; setp.eq.s32 %p1, %r3, 0; selp.b32 %r3, 0, 16, %p1; mov.u32 %r4, 16; \
                cp.async.cg.shared.global [%r1], [%rd3], 16, %r4; cp.async.commit_group; add.s64 %rd6, %rd3, 512; \
                cp.async.cg.shared.global [%r2], [%rd6], 16, %r3; cp.async.commit_group; cp.async.wait_group 1; \
                bar.warp.sync -1; sub.s64 %rd7, %rd4, %rd2; ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%rd7+496]; \
                st.global.v4.u32 [%rd1], {%r11, %r12, %r13, %r14}; cp.async.wait_group 0; bar.warp.sync -1; \
                ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%rd7+1008]; \
                st.global.v4.u32 [%rd1+512], {%r11, %r12, %r13, %r14}; ";
    let found = outcome(32, ".shared .align 16 .b8 tile[1024];", body, &input, 256);
    for lane in 0..LANES {
        let from = 31 - lane;
        assert_eq!(found[4 * lane..][..4], input[4 * from..][..4], "first group, lane {lane}");
        let expected: Vec<u32> = (0..4).map(|i| if from % 5 == 0 { 0 } else { input[128 + 4 * from + i] }).collect();
        assert_eq!(found[128 + 4 * lane..][..4], expected, "second group, lane {lane}");
    }
}
