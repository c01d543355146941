//! Divergence: lanes part at branches and meet again, guarded instructions leave lanes alone.

use crate::isa::harness::{Job, Memory, ORDERS, Random, UNTOUCHED, module, outcome, words};

/// %r10: the thread's word of the input; %rd1: its word of the output; %r2, %r3: the operands of a shuffle of all
/// lanes.
const LOAD: &str = "mul.wide.u32 %rd2, %r0, 4; add.s64 %rd0, %rd0, %rd2; add.s64 %rd1, %rd1, %rd2; \
    ld.global.u32 %r10, [%rd0]; mov.u32 %r2, 31; mov.u32 %r3, -1; ";
/// Only warps whose lanes have all met get through, and exchange %r11 with the neighbour.
const MEET: &str = "mov.u32 %r1, 1; shfl.sync.bfly.b32 %r12|%p9, %r11, %r1, %r2, %r3; st.global.u32 [%rd1], %r12; ";

fn run(threads: u32, body: &str, input: &[u32]) -> Vec<u32> {
    outcome(threads, "", &format!("{LOAD}{body}{MEET}"), input, threads as usize)
}

#[test]
fn both_sides_of_a_branch_meet_again() {
    let input: Vec<u32> = (0..64).map(|i| i * i).collect();
    let body = "setp.lt.s32 %p1, %r0, 11; @%p1 bra $small; add.s32 %r11, %r10, 100; bra.uni $join; \
                $small: add.s32 %r11, %r10, 7; $join: ";
    let side = |t: u32| if t < 11 { t * t + 7 } else { t * t + 100 };
    assert_eq!(run(64, body, &input), (0..64).map(|t| side(t ^ 1)).collect::<Vec<_>>());
}

#[test]
fn lanes_that_loop_longer_are_waited_for() {
    // Lane t adds its word t % 13 times; the first ones not at all.
    let input: Vec<u32> = (0..64).map(|i| i + 1000).collect();
    let body = "mov.u32 %r20, 13; rem.u32 %r21, %r0, %r20; mov.u32 %r11, 5; $loop: setp.eq.s32 %p1, %r21, 0; \
                @%p1 bra $out; add.s32 %r11, %r11, %r10; add.s32 %r21, %r21, -1; bra.uni $loop; $out: ";
    let sum = |t: u32| 5 + (t % 13) * (t + 1000);
    assert_eq!(run(64, body, &input), (0..64).map(|t| sum(t ^ 1)).collect::<Vec<_>>());
}

#[test]
fn loops_in_loops_with_their_own_counts() {
    let input: Vec<u32> = (0..32).collect();
    let body = "mov.u32 %r11, 0; shr.u32 %r20, %r0, 3; add.s32 %r20, %r20, 1; $outer: and.b32 %r21, %r0, 3; \
                add.s32 %r21, %r21, 1; $inner: add.s32 %r11, %r11, %r20; add.s32 %r21, %r21, -1; \
                setp.gt.s32 %p1, %r21, 0; @%p1 bra $inner; add.s32 %r11, %r11, 1000; add.s32 %r20, %r20, -1; \
                setp.ne.s32 %p2, %r20, 0; @%p2 bra $outer; ";
    let count = |t: u32| {
        let (mut sum, mut outer) = (0, t / 8 + 1);
        while outer > 0 {
            sum += (t % 4 + 1) * outer + 1000;
            outer -= 1;
        }
        sum
    };
    assert_eq!(run(32, body, &input), (0..32).map(|t| count(t ^ 1)).collect::<Vec<_>>());
}

#[test]
fn a_guard_leaves_other_lanes_alone() {
    // The guarded load would be outside of all memory for other lanes, and the guarded store in the first lane's word.
    let input: Vec<u32> = (0..32).map(|i| 3 * i).collect();
    let body = "setp.gt.u32 %p1, %r0, 20; mov.u32 %r11, 1; mov.u64 %rd5, 8; selp.b64 %rd6, %rd0, %rd5, %p1; \
                @%p1 ld.global.u32 %r11, [%rd6]; @!%p1 add.s32 %r11, %r11, %r0; ";
    let value = |t: u32| if t > 20 { 3 * t } else { 1 + t };
    assert_eq!(run(32, body, &input), (0..32).map(|t| value(t ^ 1)).collect::<Vec<_>>());
}

#[test]
fn lanes_may_leave_early() {
    // Odd lanes leave; the even ones exchange under their mask.
    let body = format!(
        "{LOAD}and.b32 %r4, %r0, 1; setp.eq.s32 %p1, %r4, 1; @%p1 bra $end; mov.u32 %r3, 1431655765; mov.u32 %r1, 2; \
         shfl.sync.bfly.b32 %r12|%p2, %r10, %r1, %r2, %r3; st.global.u32 [%rd1], %r12; $end: "
    );
    let input: Vec<u32> = (0..64).map(|i| i + 9).collect();
    let expected = (0..64).map(|t| if t % 2 == 1 { UNTOUCHED } else { (t ^ 2) + 9 });
    assert_eq!(outcome(64, "", &body, &input, 64), expected.collect::<Vec<_>>());
}

#[test]
fn a_last_warp_that_is_not_full() {
    let body = format!(
        "{LOAD}mov.u64 %rd4, tile; add.s64 %rd5, %rd4, %rd2; st.shared.u32 [%rd5], %r10; bar.sync 0; \
         sub.s64 %rd6, %rd4, %rd2; ld.shared.u32 %r11, [%rd6+188]; st.global.u32 [%rd1], %r11; "
    );
    let input: Vec<u32> = (0..48).map(|i| i + 9).collect();
    let found = outcome(48, ".shared .align 16 .b8 tile[192];", &body, &input, 48);
    assert_eq!(found, (0..48).map(|t| 47 - t + 9).collect::<Vec<_>>());
}

/// A random program of one variable per lane: what it does, and the PTX for it.
struct Program {
    text: String,
    random: Random,
    labels: usize,
    steps: Vec<Step>,
}

enum Step {
    /// x = x · a + b
    Change(u32, u32),
    /// Either side, by a bit of x.
    If(u32, Vec<Step>, Vec<Step>),
    /// The low bits of x say how often.
    Repeat(u32, Vec<Step>),
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut program = Self { text: String::new(), random: Random(seed), labels: 0, steps: vec![] };
        program.steps = program.block(4);
        program
    }

    fn block(&mut self, depth: usize) -> Vec<Step> {
        (0..1 + self.random.below(3)).map(|_| self.step(depth)).collect()
    }

    /// %r11 is x; counters of loops are %r20 + depth.
    fn step(&mut self, depth: usize) -> Step {
        let label = self.labels;
        self.labels += 1;
        let bit = self.random.below(7) as u32;
        match if depth == 0 { 0 } else { self.random.below(3) } {
            0 => {
                let (a, b) = (self.random.next() as u32 | 1, self.random.next() as u32);
                self.text += &format!("mad.lo.s32 %r11, %r11, {}, {}; ", a as i32, b as i32);
                Step::Change(a, b)
            }
            1 => {
                self.text +=
                    &format!("and.b32 %r15, %r11, {}; setp.ne.s32 %p1, %r15, 0; @%p1 bra $then{label}; ", 1 << bit);
                let no = self.block(depth - 1);
                self.text += &format!("bra.uni $join{label}; $then{label}: ");
                let yes = self.block(depth - 1);
                self.text += &format!("$join{label}: ");
                Step::If(bit, yes, no)
            }
            _ => {
                let counter = format!("%r{}", 20 + depth);
                self.text += &format!("shr.u32 {counter}, %r11, {bit}; and.b32 {counter}, {counter}, 3; ");
                self.text += &format!("$loop{label}: setp.eq.s32 %p1, {counter}, 0; @%p1 bra $out{label}; ");
                let body = self.block(depth - 1);
                self.text += &format!("add.s32 {counter}, {counter}, -1; bra.uni $loop{label}; $out{label}: ");
                Step::Repeat(bit, body)
            }
        }
    }
}

fn follow(steps: &[Step], mut x: u32) -> u32 {
    for step in steps {
        x = match step {
            Step::Change(a, b) => x.wrapping_mul(*a).wrapping_add(*b),
            Step::If(bit, yes, no) => follow(if x >> bit & 1 == 1 { yes } else { no }, x),
            Step::Repeat(bit, body) => (0..x >> bit & 3).fold(x, |x, _| follow(body, x)),
        };
    }
    x
}

#[test]
fn random_programs_do_what_each_lane_would_do_alone() {
    let input: Vec<u32> = (0..64_u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
    for seed in 0..60 {
        let program = Program::new(seed);
        let body = format!("mov.u32 %r11, %r10; {}", program.text);
        let expected: Vec<u32> = (0..64).map(|t| follow(&program.steps, input[t ^ 1])).collect();
        assert_eq!(run(64, &body, &input), expected, "program {seed}\n{body}");
    }
}

/// Each block adds its number to a word of its own and to one of all; the last to arrive doubles it, as `last_block`
/// does.
#[test]
fn the_last_block_sees_what_all_wrote() {
    let body = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd0, %rd2; setp.ne.s32 %p1, %r0, 0; \
                mov.u32 %r6, 0; @%p1 bra $arrived; add.s32 %r2, %r1, 100; st.global.u32 [%rd3], %r2; membar.gl; \
                atom.global.add.u32 %r4, [%rd1], 1; setp.eq.s32 %p2, %r4, 9; selp.u32 %r6, 1, 0, %p2; membar.gl; \
                $arrived: setp.ne.u32 %p3, %r6, 0; bar.red.or.pred %p4, 0, %p3; @!%p4 bra $end; @%p1 bra $end; \
                mov.u32 %r7, 0; mov.u32 %r8, 0; $sum: mul.wide.u32 %rd4, %r8, 4; add.s64 %rd5, %rd0, %rd4; \
                ld.global.u32 %r9, [%rd5]; add.s32 %r7, %r7, %r9; add.s32 %r8, %r8, 1; setp.lt.s32 %p5, %r8, 10; \
                @%p5 bra $sum; st.global.u32 [%rd1+4], %r7; $end: ";
    let text = module(64, 2, "", body);
    for order in ORDERS {
        let mut memory = Memory::default();
        let (own, all) = (memory.put(&[0u32; 10]), memory.put(&[0u32; 2]));
        let params = words(&[own, all]);
        let job = Job { grid: [10, 1, 1], order, ..Job::new(&text, 64, &params) };
        job.run(&memory).unwrap_or_else(|e| panic!("{}", e.report));
        assert_eq!(memory.get::<u32>(all), [10, 1045], "{order:?}");
    }
}
