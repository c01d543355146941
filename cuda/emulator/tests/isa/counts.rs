//! Counters of small kernels, counted by hand; and how fast the machine is.

use qrun_emulator::isa::{At, Class, Counts, Module};

use crate::isa::{
    coverage::shipped,
    harness::{Job, Memory, module, words},
    products::product_of_1152_rows,
    sass::shipped::cubins,
};

/// One access by a warp: lane i at %rd9, i · stride bytes behind an address that is a multiple of 256, or at %rd8
/// (%r8), the same in shared memory, all of which is written before. %p1: the lower half of the lanes.
struct Access {
    what: &'static str,
    class: Class,
    /// Lanes; sectors, ideal ones; lines; bytes; passes, ideal ones.
    expected: [u64; 7],
    stride: usize,
    access: &'static str,
}

const fn row(what: &'static str, class: Class, expected: [u64; 7], stride: usize, access: &'static str) -> Access {
    Access { what, class, expected, stride, access }
}

#[rustfmt::skip]
static ACCESSES: &[Access] = &[
    row("4 bytes per lane, one after the other", Class::LoadGlobal, [32, 4, 4, 1, 128, 0, 0], 4,
        "ld.global.u32 %r9, [%rd9]; "),
    row("the same, 4 bytes further on", Class::LoadGlobal, [32, 5, 4, 2, 128, 0, 0], 4, "ld.global.u32 %r9, [%rd9+4]; "),
    row("the same, 32 bytes further on", Class::LoadGlobal, [32, 4, 4, 2, 128, 0, 0], 4, "ld.global.u32 %r9, [%rd9+32]; "),
    row("one place for all lanes", Class::LoadGlobal, [32, 1, 1, 1, 128, 0, 0], 0, "ld.global.u32 %r9, [%rd9]; "),
    row("a line per lane", Class::LoadGlobal, [32, 32, 4, 32, 128, 0, 0], 128, "ld.global.u32 %r9, [%rd9]; "),
    row("every other 2 bytes", Class::LoadGlobal, [32, 4, 2, 1, 64, 0, 0], 4, "ld.global.nc.u16 %rs9, [%rd9+2]; "),
    row("every other byte", Class::LoadGlobal, [32, 2, 1, 1, 32, 0, 0], 2, "ld.global.nc.u8 %r9, [%rd9]; "),
    row("2 bytes out of blocks of 34", Class::LoadGlobal, [32, 32, 2, 9, 64, 0, 0], 34, "ld.global.nc.u16 %rs9, [%rd9]; "),
    row("8 bytes per lane", Class::LoadGlobal, [32, 8, 8, 2, 256, 0, 0], 8, "ld.global.v2.f32 {%f1, %f2}, [%rd9]; "),
    row("16 bytes per lane", Class::LoadGlobal, [32, 16, 16, 4, 512, 0, 0], 16,
        "ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd9]; "),
    row("16 bytes out of 32", Class::LoadGlobal, [32, 32, 16, 8, 512, 0, 0], 32,
        "ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd9]; "),
    row("half of the lanes", Class::LoadGlobal, [16, 2, 2, 1, 64, 0, 0], 4, "@%p1 ld.global.u32 %r9, [%rd9]; "),
    row("stores", Class::StoreGlobal, [32, 4, 4, 1, 128, 0, 0], 4, "st.global.u32 [%rd9], %r0; "),
    row("stores of bytes", Class::StoreGlobal, [32, 1, 1, 1, 32, 0, 0], 1, "st.global.u8 [%rd9], %r0; "),
    row("stores of half of the lanes", Class::StoreGlobal, [16, 16, 4, 16, 128, 0, 0], 128,
        "@%p1 st.global.u64 [%rd9], %rd0; "),
    row("an atomic on one place", Class::Atomic, [32, 1, 1, 1, 128, 0, 0], 0, "atom.global.add.u32 %r9, [%rd9], 1; "),
    row("a word per lane", Class::LoadShared, [32, 0, 0, 0, 128, 1, 1], 4, "ld.shared.u32 %r9, [%rd8]; "),
    row("a word for all lanes", Class::LoadShared, [32, 0, 0, 0, 128, 1, 1], 0, "ld.shared.u32 %r9, [%rd8]; "),
    row("every other word", Class::LoadShared, [32, 0, 0, 0, 128, 2, 1], 8, "ld.shared.u32 %r9, [%rd8]; "),
    row("every 32nd word", Class::LoadShared, [32, 0, 0, 0, 128, 32, 1], 128, "ld.shared.u32 %r9, [%rd8]; "),
    row("every 33rd word", Class::LoadShared, [32, 0, 0, 0, 128, 1, 1], 132, "ld.shared.u32 %r9, [%rd8]; "),
    row("every 32nd word, half of the lanes", Class::LoadShared, [16, 0, 0, 0, 64, 16, 1], 128,
        "@%p1 ld.shared.f32 %f1, [%rd8]; "),
    row("8 bytes per lane, in halves of a warp", Class::LoadShared, [32, 0, 0, 0, 256, 2, 2], 8,
        "ld.shared.u64 %rd9, [%rd8]; "),
    row("8 bytes out of 16", Class::LoadShared, [32, 0, 0, 0, 256, 4, 2], 16, "ld.shared.v2.f32 {%f1, %f2}, [%rd8]; "),
    row("16 bytes per lane, in quarters", Class::LoadShared, [32, 0, 0, 0, 512, 4, 4], 16,
        "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%rd8]; "),
    row("16 bytes out of 128", Class::LoadShared, [32, 0, 0, 0, 512, 32, 4], 128,
        "ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [%rd8]; "),
    row("16 bytes out of 144", Class::LoadShared, [32, 0, 0, 0, 512, 4, 4], 144,
        "ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [%rd8]; "),
    row("stores of 2 bytes", Class::StoreShared, [32, 0, 0, 0, 64, 1, 1], 2, "st.shared.u16 [%rd8], %rs1; "),
    row("stores to every 16th word", Class::StoreShared, [32, 0, 0, 0, 128, 16, 1], 64, "st.shared.u32 [%rd8], %r0; "),
    row("four matrices, rows one after the other", Class::LoadMatrix, [32, 0, 0, 0, 512, 4, 4], 16,
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r9,%r10,%r11,%r12}, [%r8]; "),
    row("four matrices, a row per 128 bytes", Class::LoadMatrix, [32, 0, 0, 0, 512, 32, 4], 128,
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r9,%r10,%r11,%r12}, [%r8]; "),
    row("a copy of 16 bytes per lane", Class::Copy, [32, 16, 16, 4, 512, 4, 4], 16,
        "cp.async.cg.shared.global [%r8], [%rd9], 16, %r7; "),
    row("a sector per lane on its way to L2", Class::Prefetch, [32, 32, 32, 8, 1024, 0, 0], 32, "prefetch.global.L2 [%rd9]; "),
    row("a copy of nothing for half of the lanes", Class::Copy, [32, 8, 8, 2, 256, 4, 4], 16,
        "cp.async.cg.shared.global [%r8], [%rd9], 16, %r6; "),
];

/// Bytes of the shared array that accesses work on, and of the global one.
const BYTES: usize = 5120;
const TILE: &str = ".shared .align 128 .b8 tile[5120];";

/// Runs one warp; what it counted.
fn counted(text: &str, grid: u32, threads: u32) -> Counts {
    let mut memory = Memory::default();
    let params = words(&[memory.put(&[0u32; BYTES / 4]), memory.put(&[0u32; BYTES / 4])]);
    let job = Job { grid: [grid, 1, 1], ..Job::new(text, threads, &params) };
    job.run(&memory).unwrap_or_else(|e| panic!("{}\n{text}", e.report))
}

/// What the instructions that contain these words did.
fn at(text: &str, counts: &Counts, words: &str) -> At {
    let module = Module::parse(text).expect("it was run");
    let kernel = module.kernel("k").expect("its kernel");
    let mut sum = At::default();
    let counted = counts.kernel("k");
    kernel.listing().zip(&counted.at).filter(|((_, line), _)| line.contains(words)).for_each(|(_, at)| sum.add(at));
    sum
}

#[test]
fn accesses_cost_what_a_hand_counts() {
    let mut wrong = vec![];
    for row in ACCESSES {
        let Access { stride, access, .. } = row;
        let mut body =
            String::from("setp.lt.s32 %p1, %r0, 16; mov.u16 %rs1, 7; mov.u32 %r7, 16; selp.b32 %r6, 16, 0, %p1; ");
        // All bytes of the array, by 4-byte stores that are not those in question.
        body += "mov.u64 %rd4, tile; mul.wide.u32 %rd5, %r0, 4; add.s64 %rd5, %rd4, %rd5; mov.u32 %r20, 0; \
                 mov.f32 %f9, 0f00000000; $fill: st.shared.f32 [%rd5], %f9; add.s64 %rd5, %rd5, 128; \
                 add.s32 %r20, %r20, 1; setp.lt.s32 %p2, %r20, 40; @%p2 bra $fill; bar.sync 0; ";
        body += &format!(
            "mul.wide.u32 %rd6, %r0, {stride}; add.s64 %rd9, %rd0, %rd6; add.s64 %rd8, %rd4, %rd6; \
             cvt.u32.u64 %r8, %rd8; {access}"
        );
        let text = module(32, 2, TILE, &body);
        let counts = counted(&text, 1, 32);
        let mut found = counts.kernel("k").sum(&[row.class]);
        if row.class == Class::StoreShared {
            let fill = at(&text, &counts, "[%rd5], %f9");
            found = At { executed: found.executed - fill.executed, lanes: found.lanes - fill.lanes, ..found };
            found = At { bytes: found.bytes - fill.bytes, passes: found.passes - fill.passes, ..found };
            found.ideal_passes -= fill.ideal_passes;
        }
        let [lanes, sectors, ideal_sectors, lines, bytes, passes, ideal_passes] = row.expected;
        let ideal = At { ideal_sectors, ideal_passes, ..At::default() };
        let expected = At { executed: 1, lanes, sectors, lines, bytes, passes, ..ideal };
        if found != expected {
            wrong.push(format!("{}: expected {expected:?}, found {found:?}", row.what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_instruction_is_counted_once_per_warp() {
    // 2 parameters, the thread, 3 more and `ret`: 7 of 3 warps in 5 blocks.
    let text = module(96, 2, "", "add.s32 %r1, %r0, 1; bar.sync 0; membar.gl; ");
    let counts = counted(&text, 5, 96);
    assert_eq!(counts.warp_instructions(), 7 * 15);
    let kernel = counts.kernel("k");
    assert_eq!((kernel.launches, kernel.blocks), (1, 5));
    let lanes = |class| kernel.sum(&[class]).lanes;
    assert_eq!((lanes(Class::Integer), lanes(Class::LoadParam), lanes(Class::Barrier)), (480, 960, 960));
    let mut twice = counts.clone();
    twice.add(&counts);
    assert_eq!(twice.warp_instructions(), 2 * counts.warp_instructions());
    assert_eq!(twice.kernel("k").launches, 2);
}

#[test]
fn divergent_branches_are_counted_where_lanes_part() {
    let body = "setp.lt.s32 %p1, %r0, 11; @%p1 bra $small; add.s32 %r11, %r0, 100; bra.uni $join; \
                $small: sub.s32 %r11, %r0, %r0; $join: setp.lt.s32 %p2, %r0, 64; @%p2 bra $on; $on: \
                and.b32 %r12, %r0, 3; $loop: setp.eq.s32 %p3, %r12, 0; @%p3 bra $out; xor.b32 %r12, %r12, 0; \
                add.s32 %r12, %r12, -1; bra.uni $loop; $out: not.b32 %r13, %r12; ";
    let text = module(64, 2, "", body);
    let counts = counted(&text, 1, 64);
    let seen = |words: &str| {
        let at = at(&text, &counts, words);
        [at.executed, at.lanes, at.divergent]
    };
    // Of two warps the first parts at 11.
    assert_eq!(seen("bra $small"), [2, 64, 1]);
    assert_eq!(seen("add.s32 %r11"), [2, 53, 0]);
    assert_eq!(seen("sub.s32"), [1, 11, 0]);
    assert_eq!(seen("bra $on"), [2, 64, 0]);
    // 0 to 3 rounds: a quarter of the lanes leaves each time, the last ones together.
    assert_eq!(seen("bra $out"), [8, 2 * (32 + 24 + 16 + 8), 6]);
    assert_eq!(seen("xor.b32"), [6, 2 * (24 + 16 + 8), 0]);
    // All have met again.
    assert_eq!(seen("not.b32"), [2, 64, 0]);
}

#[test]
fn products_that_mma_sums_up_are_counted() {
    // Of 8 rows, 8 columns and 16 along k, and of 16, 8 and 32, by two warps.
    let body = "mov.u32 %r10, 0; mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r20,%r21}, {%r10}, {%r10}, {%r10,%r10}; \
                mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r20,%r21,%r22,%r23}, {%r10,%r10,%r10,%r10}, \
                {%r10,%r10}, {%r10,%r10,%r10,%r10}; ";
    let text = module(64, 2, "", body);
    let counts = counted(&text, 1, 64);
    let all = counts.kernel("k").sum(&[Class::Matrix]);
    assert_eq!((all.executed, all.macs), (4, 2 * (1024 + 4096)));
}

#[test]
fn sectors_of_a_launch_are_counted_once() {
    // Three warps of two blocks read the same 128 bytes; each warp writes 64 bytes that begin and end in its neighbours'
    // sectors.
    let body = "and.b32 %r1, %r0, 31; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r9, [%rd3]; \
                ld.global.nc.u32 %r9, [%rd3]; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r3, %r2, 96, %r0; mul.wide.u32 %rd4, %r3, 2; \
                add.s64 %rd5, %rd1, %rd4; mov.u16 %rs1, 3; st.global.u16 [%rd5+16], %rs1; ";
    let text = module(96, 2, "", body);
    let counts = counted(&text, 2, 96);
    let kernel = counts.kernel("k");
    assert_eq!(kernel.sum(&[Class::LoadGlobal]).sectors, 2 * 6 * 4);
    assert_eq!(kernel.sectors_read, 4);
    // 384 bytes from 16 on: 13 sectors; each warp's 64 bytes lie in 3.
    assert_eq!(kernel.sum(&[Class::StoreGlobal]).sectors, 6 * 3);
    assert_eq!(kernel.sectors_written, 13);
}

#[test]
fn only_the_first_and_last_blocks_may_run() {
    let body =
        "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ";
    let text = module(32, 2, "", body);
    for (ends, expected) in
        [(0, [0, 1, 2, 3, 4, 5]), (1, [0, 9, 9, 9, 9, 5]), (2, [0, 1, 9, 9, 4, 5]), (3, [0, 1, 2, 3, 4, 5])]
    {
        let mut memory = Memory::default();
        let out = memory.put(&[9u32; 6]);
        let params = words(&[out, out]);
        let job = Job { grid: [6, 1, 1], ends, ..Job::new(&text, 32, &params) };
        let counts = job.run(&memory).unwrap_or_else(|e| panic!("{}", e.report));
        assert_eq!(memory.get::<u32>(out), expected, "{ends}");
        assert_eq!(counts.kernel("k").blocks, expected.iter().filter(|b| **b != 9).count() as u64);
    }
}

/// Prints warp instructions per second, the most of five launches. The goal is 10 M per core, of a kernel without tensor cores.
#[test]
#[ignore = "measures: to be run alone, with --nocapture"]
#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn speed() {
    let told = |module: &Module, kernel: &str, what: &str| {
        let launches = (0..5).map(|_| product_of_1152_rows(module, kernel));
        let (counts, time) = launches.min_by_key(|(_, time)| *time).expect("five");
        let (n, seconds) = (counts.warp_instructions(), time.as_secs_f64());
        println!("{kernel} of {what}: {n} warp instructions in {time:.2?}: {:.1} M/s", n as f64 / seconds / 1e6);
    };
    let texts = shipped();
    for (of, kernel) in [("gemv", "gemv_f16"), ("product", "product_1_q5_0"), ("product", "product_1_q8_0")] {
        told(&Module::parse(&texts[of]).expect("it is shipped"), kernel, "the PTX");
    }
    for (sm, of, kernel) in [
        (75, "gemv", "gemv_f16"),
        (75, "product", "product_1_q5_0"),
        (75, "product", "product_1_q8_0"),
        (90, "product", "product_1_q8_0"),
        (120, "product", "product_1_q5_0"),
    ] {
        let module = cubins(sm)[of].parsed();
        told(&module, kernel, &format!("sm_{sm}"));
    }
}
