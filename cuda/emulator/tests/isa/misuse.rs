//! Kernels that are wrong: each is found, with words that help.

use crate::isa::harness::{Job, Memory, ORDERS, module, outcome, words};
use qrun_emulator::isa::Module;

/// A block of threads that does something wrong. %rd0: 1024 readable bytes; %rd1: 1024 bytes to write to; %r0: the
/// thread.
struct Wrong {
    what: &'static str,
    threads: u32,
    body: &'static str,
    code: i32,
    /// What the report says beside the kernel.
    says: &'static [&'static str],
}

const ILLEGAL: i32 = 700;
const MISALIGNED: i32 = 716;
const FAILED: i32 = 719;

const fn row(what: &'static str, threads: u32, body: &'static str, code: i32, says: &'static [&'static str]) -> Wrong {
    Wrong { what, threads, body, code, says }
}

#[rustfmt::skip]
const WRONG: &[Wrong] = &[
    row("a loop that never ends", 32, "$again: setp.lt.s32 %p1, %r0, 32; @%p1 bra $again; ", FAILED, &["bra", "does not end"]),
    // Collectives with lanes missing.
    row("mma under a lane condition", 32,
        "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; setp.gt.u32 %p1, %r0, 15; @%p1 bra $end; \
         mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2}; $end: ",
        FAILED, &["mma.sync", "lane", "16"]),
    row("mma after some lanes have left", 32,
        "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; setp.eq.s32 %p1, %r0, 7; @%p1 bra $end; \
         mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2}; $end: ",
        FAILED, &["mma.sync", "lane", "7"]),
    row("guarded mma", 32,
        "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; setp.ne.s32 %p1, %r0, 7; \
         @%p1 mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2}; ",
        FAILED, &["mma.sync", "lane", "7"]),
    row("mma in a last warp that is not full", 40,
        "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; \
         mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2}; ",
        FAILED, &["mma.sync", "lane"]),
    row("ldmatrix under a lane condition", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; setp.eq.s32 %p1, %r0, 31; @%p1 bra $end; \
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5]; $end: ",
        FAILED, &["ldmatrix", "lane", "31"]),
    row("bar.sync under a lane condition", 64,
        "setp.eq.s32 %p1, %r0, 33; @%p1 bra $end; bar.sync 0; $end: ", FAILED, &["bar.sync", "lane", "1"]),
    row("bar.sync that a warp does not reach", 96,
        "setp.lt.s32 %p1, %r0, 32; @%p1 bra $end; bar.sync 0; $end: ", FAILED, &["bar.sync"]),
    row("bar.red that a warp does not reach", 64,
        "setp.lt.s32 %p1, %r0, 32; @%p1 bra $end; bar.red.or.pred %p2, 0, %p1; $end: ", FAILED, &["bar.red"]),
    row("shuffle of all lanes by half of them", 32,
        "mov.u32 %r1, 1; mov.u32 %r2, 31; mov.u32 %r3, -1; setp.gt.u32 %p1, %r0, 15; @%p1 bra $end; \
         shfl.sync.bfly.b32 %r4|%p2, %r0, %r1, %r2, %r3; $end: ", FAILED, &["shfl.sync", "lane"]),
    row("shuffle by lanes that are not in its mask", 32,
        "mov.u32 %r1, 1; mov.u32 %r2, 31; mov.u32 %r3, 65535; shfl.sync.bfly.b32 %r4|%p2, %r0, %r1, %r2, %r3; ",
        FAILED, &["shfl.sync", "lane"]),
    row("shuffle whose lanes have other masks", 32,
        "mov.u32 %r1, 1; mov.u32 %r2, 31; setp.lt.s32 %p1, %r0, 16; selp.b32 %r3, -1, -2, %p1; \
         shfl.sync.bfly.b32 %r4|%p2, %r0, %r1, %r2, %r3; ", FAILED, &["shfl.sync"]),
    row("shuffle from a lane that is not in the mask", 32,
        "mov.u32 %r1, 16; mov.u32 %r2, 31; mov.u32 %r3, 65535; setp.gt.u32 %p1, %r0, 15; @%p1 bra $end; \
         shfl.sync.bfly.b32 %r4|%p2, %r0, %r1, %r2, %r3; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd1, %rd2; \
         st.global.u32 [%rd2], %r4; $end: ", FAILED, &[]),
    row("vote of all lanes by half of them", 32,
        "mov.u32 %r3, -1; setp.gt.u32 %p1, %r0, 15; @%p1 bra $end; vote.sync.ballot.b32 %r4, %p1, %r3; $end: ",
        FAILED, &["vote.sync", "lane"]),
    row("lanes that wait for each other in two places", 32,
        "mov.u32 %r1, 1; mov.u32 %r2, 31; mov.u32 %r3, -1; setp.gt.u32 %p1, %r0, 15; @%p1 bra $other; \
         shfl.sync.bfly.b32 %r4|%p2, %r0, %r1, %r2, %r3; bra.uni $end; $other: bar.warp.sync -1; $end: ",
        FAILED, &["lane"]),
    // What nothing wrote.
    row("a register that nothing wrote", 32,
        "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r40; ",
        FAILED, &["st.global", "%r40"]),
    row("a register that some lanes did not write", 32,
        "setp.lt.s32 %p1, %r0, 9; @%p1 mov.u32 %r5, 4; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd1, %rd2; \
         st.global.u32 [%rd2], %r5; ", FAILED, &["st.global", "%r5", "9"]),
    row("a sum with what nothing wrote", 32,
        "add.s32 %r5, %r0, %r41; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r5; ",
        FAILED, &[]),
    row("an address that nothing wrote", 32, "ld.global.u32 %r5, [%rd40]; ", FAILED, &["%rd40"]),
    row("a branch on a predicate that nothing wrote", 32, "@%p30 bra $end; $end: ", FAILED, &["%p30"]),
    row("an mma of what nothing wrote", 32,
        "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; \
         mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r3}, {%r42}, {%r1,%r2}; ",
        FAILED, &["mma.sync", "%r42"]),
    row("a comparison with what nothing wrote", 32,
        "setp.lt.s32 %p1, %r0, %r41; @%p1 bra $end; $end: ", FAILED, &[]),
    row("a choice by a predicate that nothing wrote", 32,
        "selp.b32 %r5, %r0, 7, %p30; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u32 [%rd2], %r5; ", FAILED, &[]),
    row("a choice of what nothing wrote", 32,
        "setp.lt.s32 %p1, %r0, 4; selp.b32 %r5, %r41, %r0, %p1; mul.wide.u32 %rd2, %r0, 8; \
         add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r5; ", FAILED, &["0-3"]),
    row("a choice of 64 bits that nothing wrote", 32,
        "setp.lt.s32 %p1, %r0, 4; selp.b64 %rd5, %rd0, %rd41, %p1; mul.wide.u32 %rd2, %r0, 8; \
         add.s64 %rd2, %rd1, %rd2; st.global.u64 [%rd2], %rd5; ", FAILED, &["4-31"]),
    row("a copy of what nothing wrote", 32,
        "mov.b32 %f5, %r41; mov.f32 %f6, %f5; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.f32 [%rd2], %f6; ", FAILED, &[]),
    row("a pair with a half that nothing wrote", 32,
        "mov.u16 %rs1, 3; mov.b32 %r5, {%rs1, %rs30}; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u32 [%rd2], %r5; ", FAILED, &[]),
    row("a prefetch outside of memory", 32,
        "mov.u64 %rd5, 1099511627776; add.s64 %rd5, %rd0, %rd5; prefetch.global.L2 [%rd5]; ", ILLEGAL, &["prefetch"]),
    row("64 bits with a half that nothing wrote", 32,
        "mov.b64 %rd5, {%r0, %r41}; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u64 [%rd2], %rd5; ", FAILED, &[]),
    row("a fused product with what nothing wrote", 32,
        "mov.f32 %f1, 0f3F800000; fma.rn.f32 %f5, %f1, %f30, %f1; mul.wide.u32 %rd2, %r0, 8; \
         add.s64 %rd2, %rd1, %rd2; st.global.f32 [%rd2], %f5; ", FAILED, &[]),
    row("a product of 64 bits with what nothing wrote", 32,
        "mul.lo.s64 %rd5, %rd0, %rd41; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u64 [%rd2], %rd5; ", FAILED, &[]),
    row("a wide product of what nothing wrote", 32,
        "mul.wide.s32 %rd5, %r0, %r41; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u64 [%rd2], %rd5; ", FAILED, &[]),
    row("a shift by what nothing wrote", 32,
        "shl.b64 %rd5, %rd0, %r41; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u64 [%rd2], %rd5; ", FAILED, &[]),
    row("a conversion of what nothing wrote", 32,
        "cvt.rn.f32.f64 %f5, %fd30; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.f32 [%rd2], %f5; ", FAILED, &[]),
    row("bits inserted into what nothing wrote", 32,
        "bfi.b32 %r5, %r0, %r41, 0, 8; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u32 [%rd2], %r5; ", FAILED, &[]),
    row("a dot product on top of what nothing wrote", 32,
        "dp4a.s32.s32 %r5, %r0, %r0, %r41; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; \
         st.global.u32 [%rd2], %r5; ", FAILED, &[]),
    row("logic with a predicate that nothing wrote", 32,
        "setp.lt.s32 %p1, %r0, 4; xor.pred %p2, %p1, %p30; @%p2 bra $end; $end: ", FAILED, &[]),
    row("a shuffle of what nothing wrote", 32,
        "mov.u32 %r1, 1; mov.u32 %r2, 31; mov.u32 %r3, -1; shfl.sync.bfly.b32 %r5|%p1, %r41, %r1, %r2, %r3; \
         mul.wide.u32 %rd2, %r0, 8; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r5; ", FAILED, &[]),
    row("a shuffle of what the other lane did not write", 32,
        "mov.u32 %r1, 1; mov.u32 %r2, 31; mov.u32 %r3, -1; setp.ne.s32 %p2, %r0, 6; @%p2 mov.u32 %r6, 5; \
         shfl.sync.bfly.b32 %r5|%p1, %r6, %r1, %r2, %r3; mul.wide.u32 %rd2, %r0, 8; \
         add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r5; ", FAILED, &["7"]),
    row("a vote on what nothing wrote", 32,
        "mov.u32 %r3, -1; vote.sync.ballot.b32 %r5, %p30, %r3; mul.wide.u32 %rd2, %r0, 8; \
         add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r5; ", FAILED, &[]),
    row("bar.red on what nothing wrote", 32,
        "bar.red.or.pred %p1, 0, %p30; ", FAILED, &[]),
    row("an atomic by what nothing wrote", 32,
        "atom.global.add.u32 %r5, [%rd1], %r41; ", FAILED, &["atom"]),
    row("a copy of a size that nothing wrote", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; cp.async.cg.shared.global [%r5], [%rd0], 16, %r41; ",
        FAILED, &["cp.async"]),
    row("shared memory that holds what nothing wrote", 32,
        "st.shared.u32 [tile], %r41; ", FAILED, &[]),
    row("shared bytes that nothing wrote", 32,
        "ld.shared.u32 %r5, [tile+64]; st.global.u32 [%rd1], %r5; ", FAILED, &["shared"]),
    row("one shared byte of four that nothing wrote", 32,
        "mov.u16 %rs1, 7; setp.ne.s32 %p1, %r0, 0; @%p1 bra $wait; st.shared.u16 [tile], %rs1; $wait: bar.sync 0; \
         ld.shared.u32 %r5, [tile]; st.global.u32 [%rd1], %r5; ", FAILED, &["shared"]),
    row("a matrix in shared memory that nothing wrote", 32,
        "mul.wide.u32 %rd4, %r0, 16; mov.u64 %rd5, tile; add.s64 %rd5, %rd5, %rd4; cvt.u32.u64 %r5, %rd5; \
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1,%r2}, [%r5]; mul.wide.u32 %rd2, %r0, 4; \
         add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r1; ", FAILED, &["shared"]),
    row("an atomic on shared bytes that nothing wrote", 32,
        "mov.u64 %rd5, tile; atom.shared.add.u32 %r5, [%rd5], 1; st.global.u32 [%rd1], %r5; ", FAILED, &["shared"]),
    // Asynchronous copies.
    row("a copy that is read before its wait", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; \
         cp.async.commit_group; ld.shared.u32 %r7, [%rd5]; st.global.u32 [%rd1], %r7; ", FAILED, &["ld.shared"]),
    row("a copy whose group may still be under way", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; \
         cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 %r7, [%rd5]; st.global.u32 [%rd1], %r7; ",
        FAILED, &["ld.shared"]),
    row("a copy that is in no group", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; \
         cp.async.wait_group 0; ld.shared.u32 %r7, [%rd5]; st.global.u32 [%rd1], %r7; ", FAILED, &["ld.shared"]),
    row("a copy of another thread before its wait", 64,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; setp.ne.s32 %p1, %r0, 0; @%p1 bra $wait; \
         cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; cp.async.commit_group; $wait: bar.sync 0; \
         ld.shared.u32 %r7, [%rd5]; st.global.u32 [%rd1], %r7; ", FAILED, &["ld.shared"]),
    row("a copy over bytes that were written before", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; st.shared.u32 [%rd5], %r6; bar.sync 0; \
         setp.ne.s32 %p1, %r0, 0; @%p1 bra $all; cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; \
         cp.async.commit_group; $all: bar.warp.sync -1; ld.shared.u32 %r7, [%rd5]; st.global.u32 [%rd1], %r7; ",
        FAILED, &[]),
    row("a copy that only other threads wait for", 64,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; setp.ne.s32 %p1, %r0, 0; @%p1 bra $wait; \
         cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; cp.async.commit_group; bra.uni $all; \
         $wait: cp.async.commit_group; cp.async.wait_group 0; $all: bar.sync 0; ld.shared.u32 %r7, [%rd5]; \
         st.global.u32 [%rd1], %r7; ", FAILED, &[]),
    row("ldmatrix of a copy before its wait", 32,
        "mul.wide.u32 %rd4, %r0, 16; mov.u64 %rd5, tile; add.s64 %rd5, %rd5, %rd4; cvt.u32.u64 %r5, %rd5; \
         mov.u32 %r6, 16; cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; cp.async.commit_group; bar.warp.sync -1; \
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1,%r2}, [%r5]; st.global.u32 [%rd1], %r1; ",
        FAILED, &["ldmatrix"]),
    row("a copy from an address that is not a multiple of 16", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; add.s64 %rd0, %rd0, 8; \
         cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; ", MISALIGNED, &["cp.async"]),
    row("a copy to an address that is not a multiple of 16", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; add.s32 %r5, %r5, 8; mov.u32 %r6, 16; \
         cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; ", MISALIGNED, &["cp.async"]),
    row("a copy from behind the end", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; mov.u32 %r6, 16; add.s64 %rd0, %rd0, 1024; \
         cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; ", ILLEGAL, &["cp.async"]),
    // Bounds and alignment.
    row("a load behind the end", 32,
        "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd0, %rd2; ld.global.u32 %r5, [%rd2+904]; ",
        ILLEGAL, &["ld.global.u32", "30"]),
    row("a load half behind the end", 32, "ld.global.u64 %rd5, [%rd0+1020]; ", MISALIGNED, &["ld.global.u64"]),
    row("a vector half behind the end", 32, "ld.global.v2.u32 {%r5, %r6}, [%rd1+-8]; ", ILLEGAL, &["ld.global.v2.u32"]),
    row("a store before the beginning", 32, "st.global.u8 [%rd1+-1], %r0; ", ILLEGAL, &["st.global.u8"]),
    row("a store behind the end", 32, "st.global.u8 [%rd1+1024], %r0; ", ILLEGAL, &["st.global.u8"]),
    row("an atomic behind the end", 32, "atom.global.add.u32 %r5, [%rd1+1024], 1; ", ILLEGAL, &["atom.global"]),
    row("a null pointer", 32, "mov.u64 %rd5, 0; ld.global.u32 %r5, [%rd5]; ", ILLEGAL, &["ld.global.u32"]),
    row("a load that is not aligned", 32, "ld.global.u32 %r5, [%rd0+2]; ", MISALIGNED, &["ld.global.u32"]),
    row("a vector that is aligned to its elements only", 32,
        "ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd0+8]; ", MISALIGNED, &["ld.global.v4.u32"]),
    row("a 2-byte load at an odd address", 32, "ld.global.nc.u16 %rs5, [%rd0+1]; ", MISALIGNED, &["ld.global.nc.u16"]),
    row("an atomic that is not aligned", 32, "mov.u64 %rd6, 1; atom.global.add.u64 %rd5, [%rd1+4], %rd6; ",
        MISALIGNED, &["atom"]),
    row("shared memory behind its end", 32, "st.shared.u32 [tile+512], %r0; ", ILLEGAL, &["st.shared.u32"]),
    row("shared memory before its beginning", 32,
        "mov.u64 %rd5, tile; st.shared.u32 [%rd5+-4], %r0; ", ILLEGAL, &["st.shared.u32"]),
    row("shared memory that is not aligned", 32, "st.shared.u32 [tile+2], %r0; ", MISALIGNED, &["st.shared.u32"]),
    row("a row of a matrix that is not aligned", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; add.s32 %r5, %r5, 8; \
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5]; ", MISALIGNED, &["ldmatrix"]),
    row("a row of a matrix behind the end", 32,
        "mov.u64 %rd5, tile; cvt.u32.u64 %r5, %rd5; add.s32 %r5, %r5, 512; \
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5]; ", ILLEGAL, &["ldmatrix"]),
    // Read-only loads.
    row("a read-only load of what the launch has stored", 32,
        "st.global.u32 [%rd1], %r0; ld.global.nc.u32 %r5, [%rd1]; ", FAILED, &[".nc"]),
    row("a store to what the launch has loaded as read-only", 32,
        "ld.global.nc.u16 %rs5, [%rd1+2]; st.global.u32 [%rd1], %r0; ", FAILED, &[".nc"]),
    row("a read-only load beside an atomic", 32,
        "atom.global.add.u32 %r5, [%rd1], 1; ld.global.nc.u8 %r6, [%rd1+3]; ", FAILED, &[".nc"]),
];

const TILE: &str = ".shared .align 16 .b8 tile[512];";

#[test]
fn what_is_wrong_is_found() {
    let mut missed = vec![];
    for row in WRONG {
        let text = module(row.threads, 2, TILE, row.body);
        for order in ORDERS {
            let mut memory = Memory::default();
            let (from, to) = (memory.put(&[0u32; 256]), memory.put(&[0u32; 256]));
            let params = words(&[from, to]);
            match (Job { order, ..Job::new(&text, row.threads, &params) }).run(&memory) {
                Ok(_) => missed.push(format!("{} ({order:?}): nothing is found", row.what)),
                Err(fault) => {
                    let silent = row.says.iter().filter(|s| !fault.report.contains(**s)).collect::<Vec<_>>();
                    // Kernel, and a line of the text.
                    let named = fault.report.contains('k') && fault.report.contains("line ");
                    if fault.code != row.code || !silent.is_empty() || !named {
                        let Wrong { what, code, .. } = row;
                        missed.push(format!(
                            "{what}: expected {code} and {silent:?}, found {}: {}",
                            fault.code, fault.report
                        ));
                    }
                }
            }
        }
    }
    assert!(missed.is_empty(), "{} of {} are missed:\n{}", missed.len(), WRONG.len(), missed.join("\n"));
}

/// What nothing wrote may be copied, and left aside by a choice: compilers do both.
#[test]
fn what_nothing_wrote_may_be_left_aside() {
    let body = "mov.u32 %r5, %r41; setp.lt.s32 %p1, %r0, 64; selp.b32 %r6, %r0, %r5, %p1; or.pred %p2, %p1, %p30; \
                selp.u32 %r7, 1, 0, %p2; add.s32 %r6, %r6, %r7; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd1, %rd2; \
                st.global.u32 [%rd1], %r6; ";
    assert_eq!(outcome(32, "", body, &[0u32; 4], 32), (1..33).collect::<Vec<_>>());
}

/// Nothing is read where a copy has no bytes: its address may be anything.
#[test]
fn a_copy_of_nothing_reads_nothing() {
    let body = "mov.u64 %rd5, tile; mul.wide.u32 %rd2, %r0, 16; add.s64 %rd5, %rd5, %rd2; cvt.u32.u64 %r5, %rd5; \
                mov.u32 %r6, 0; add.s64 %rd0, %rd0, 4096; cp.async.cg.shared.global [%r5], [%rd0], 16, %r6; \
                cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r7, [%rd5+12]; \
                mul.wide.u32 %rd2, %r0, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r7; ";
    assert_eq!(outcome(32, TILE, body, &[1u32; 256], 32), [0; 32]);
}

/// A block that is larger than the kernel's bound, or wants more shared memory than there is.
#[test]
fn launches_that_no_gpu_takes() {
    let text = module(64, 1, TILE, "");
    let memory = Memory::default();
    let params = words(&[0]);
    let job = Job::new(&text, 96, &params);
    let report = job.fault(&memory).report;
    assert!(report.contains("64") && report.contains("96"), "{report}");
    let job = Job { dynamic: 64 << 10, ..Job::new(&text, 64, &params) };
    let report = job.fault(&memory).report;
    assert!(report.contains("shared"), "{report}");
}

#[test]
fn text_that_the_machine_does_not_know_is_refused_by_line() {
    let unknown = [
        ("add.sat.s32 %r1, %r0, %r0", "add.sat.s32"),
        ("fma.rp.f32 %f1, %f1, %f1, %f1", "fma.rp.f32"),
        ("shf.l.clamp.b32 %r1, %r0, %r0, %r0", "shf.l.clamp.b32"),
        ("prmt.b32.f4e %r1, %r0, %r0, %r0", "prmt.b32.f4e"),
        ("mul.f32.ftz %f1, %f1, %f1", "mul.f32.ftz"),
        ("add.ftz.f32 %f1, %f1, %f1", "add.ftz.f32"),
        ("cvt.rna.tf32.f32 %r1, %f1", "cvt.rna.tf32.f32"),
        ("wgmma.fence.sync.aligned", "wgmma.fence.sync.aligned"),
        (
            "mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, {%r3}, {%f1,%f2,%f3,%f4}",
            "mma.sync",
        ),
        ("mov.u32 %r1, %clock", "%clock"),
        ("mov.u32 %r1, %r900", "%r900"),
        ("add.s32 %r1, %r0", "add.s32"),
        ("add.s32 %r1, %r0, %r0, %r0", "add.s32"),
        ("bra $nowhere", "$nowhere"),
        ("ld.shared.u32 %r1, [nothing]", "nothing"),
    ];
    let mut wrong = vec![];
    for (instruction, name) in unknown {
        let text = module(32, 1, "", &format!("mov.u32 %r1, 0; {instruction}; "));
        let line = 1 + text.lines().position(|l| l.starts_with(instruction)).expect("it is in the text");
        match Module::parse(&text) {
            Ok(_) => wrong.push(format!("{instruction}: taken")),
            Err(e) if e.line != line || !e.what.contains(name) => {
                wrong.push(format!("{instruction}: line {line}: {e}"))
            }
            Err(_) => (),
        }
    }
    for text in ["", "\0", ".version 8.0", ".version 8.0\n.target sm_80\n.visible .entry k(", "{", "}", "\u{fffd};;;"] {
        // Nothing, or an error; never a panic.
        let _ = Module::parse(text).map(|m| m.kernels().count());
    }
    // Cut anywhere.
    let whole = module(32, 2, TILE, WRONG[0].body);
    for end in 0..whole.len() {
        let _ = Module::parse(&whole[..end]).map(|m| m.kernels().count());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
