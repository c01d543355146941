//! Time of traces that were made by hand, where it is known what it has to be.

use qrun_emulator::isa::{
    Control,
    cost::{Block, CARDS, Card, Estimate, Issue, Resource, Trace, Work, bytes_in_flight, estimate, resident, waves},
};

use crate::isa::harness::Random;

/// No barrier.
const NONE: u8 = 7;

/// A line of code: text, stall count, barrier of the result, wait mask.
type Line = (&'static str, u8, u8, u8);

fn card(name: &str) -> &'static Card {
    CARDS.iter().find(|card| card.name.starts_with(name)).expect("a card of the table")
}

fn issues(sm: u32, code: &[Line]) -> Vec<Issue> {
    let control = |&(_, stall, write, wait): &Line| Control { stall, yields: 0, write, read: NONE, wait };
    code.iter().map(|line| Issue::new(sm, line.0, control(line))).collect()
}

/// What warps execute and touch: (instruction, address, bytes).
type Warps = Vec<Vec<(usize, u64, u64)>>;

fn trace(blocks: &[Warps]) -> Vec<Block> {
    let mut trace = Trace::new(blocks.len());
    for block in blocks {
        trace.begin(block.len());
        for (warp, steps) in block.iter().enumerate() {
            for &(pc, address, bytes) in steps {
                if bytes > 0 {
                    trace.touch(address, bytes);
                }
                trace.step(warp, pc, 0);
            }
        }
    }
    trace.blocks
}

fn work<'a>(issues: &'a [Issue], trace: &'a [Block], blocks: u64) -> Work<'a> {
    let threads = 32 * trace[0].warps.len() as u32;
    Work { issues, trace, average: 1.0, blocks, threads, registers: 32, shared: 0, distinct: None, hot: &|_| false }
}

/// Estimate of one block of these warps, with times in clocks.
fn clocks(card: &Card, code: &[Line], warps: Warps) -> [f64; 3] {
    let (issues, trace) = (issues(card.sm, code), trace(&[warps]));
    let found = estimate(&work(&issues, &trace, 1), card).expect("a trace");
    [found.floor.us * card.ghz[0], found.low.us * card.ghz[0], found.high.us * card.ghz[1]].map(|us| us * 1e3)
}

/// What one warp that executes the whole code so often takes.
fn repeated(card: &Card, code: &[Line], times: usize) -> f64 {
    let steps = (0..times).flat_map(|_| (0..code.len()).map(|pc| (pc, 0, 0))).collect();
    clocks(card, code, vec![steps])[1]
}

#[track_caller]
fn close(found: f64, expected: f64, part: f64) {
    assert!((found - expected).abs() <= part * expected, "{found}, expected {expected}");
}

#[test]
fn dependent_loads_take_their_latency_each() {
    let card = card("A100");
    // Each waits for the one before, and touches a sector of its own.
    let code = [("LDG.E R2, [R2.64]", 1, 0, 1)];
    let loads = |n: u64, step: u64| vec![(0..n).map(|i| (0, 4096 + step * i, 4)).collect::<Vec<_>>()];
    let cold = card.l2_clocks[0] + card.dram_ns[0] * card.ghz[0];
    let [floor, low, high] = clocks(card, &code, loads(100, 4096));
    close(low, 99.0 * cold, 0.03);
    assert!(high > low && floor <= low);
    // The same sector again and again: but for the first time, L1.
    close(clocks(card, &code, loads(1000, 0))[1], 999.0 * card.l1_clocks + cold, 0.05);
    // Nobody waits: they overlap.
    let free = [("LDG.E R2, [R4.64]", 1, 0, 0), ("MOV R3, R2", 1, NONE, 1)];
    let mut steps = loads(100, 4096);
    steps[0].push((1, 0, 0));
    let together = clocks(card, &free, steps)[1];
    assert!(together < 2.0 * cold, "{together}");
}

#[test]
fn intervals_of_pipes() {
    // Card, instruction, stall, warps of a scheduler, clocks per instruction of a warp.
    for (name, text, stall, warps, expected) in [
        ("T4", "FFMA R0, R1, R2, R3", 1, 1, 2.0),
        ("A100", "FFMA R0, R1, R2, R3", 1, 1, 2.0),
        ("RTX 4090", "FFMA R0, R1, R2, R3", 1, 1, 1.0),
        ("RTX 4090", "IMAD R0, R1, R2, R3", 1, 1, 2.0),
        ("T4", "IDP.4A.S8.S8 R0, R1, R2, R3", 1, 2, 4.0),
        ("T4", "I2F R0, R1", 1, 2, 16.0),
        ("RTX 3060", "I2FP.F32.S32 R0, R1", 1, 2, 4.0),
        ("H100", "HMMA.16816.F32 R0, R4, R6, R0", 1, 1, 6.5),
        ("T4", "HMMA.1688.F32 R0, R4, R6, R0", 1, 1, 8.0),
        // The stall count binds one warp; two hide each other's.
        ("T4", "LOP3.LUT R0, R1, R2, R3, 0xc0, !PT", 4, 1, 4.0),
        ("T4", "LOP3.LUT R0, R1, R2, R3, 0xc0, !PT", 4, 2, 4.0),
        ("T4", "LOP3.LUT R0, R1, R2, R3, 0xc0, !PT", 4, 4, 8.0),
    ] {
        let steps = vec![(0, 0, 0); 1000];
        // Warps 0, 4, 8 … are of one scheduler.
        let of = |w: usize| if w.is_multiple_of(4) { steps.clone() } else { vec![] };
        let found = clocks(card(name), &[(text, stall, NONE, 0)], (0..4 * warps).map(of).collect())[1];
        assert!((found / 1000.0 - expected).abs() < 0.05, "{name}, {text}, {warps}: {found}, expected {expected}000");
    }
}

#[test]
fn a_warp_waits_for_what_its_mask_names() {
    let t4 = card("T4");
    let with = |wait| repeated(t4, &[("MUFU.EX2 R0, R1", 1, 2, 0), ("FADD R0, R0, R0", 1, NONE, wait)], 100);
    // Of 15 clocks' latency; else MUFU's interval.
    close(with(1 << 2), 1600.0, 0.02);
    close(with(1 << 3), 800.0, 0.02);
    close(with(0), 800.0, 0.02);
}

#[test]
fn warps_wait_for_each_other_at_barriers() {
    let t4 = card("T4");
    let code = [("FADD R0, R0, R0", 4, NONE, 0), ("BAR.SYNC 0x0", 1, NONE, 0)];
    let long: Vec<_> = (0..100).map(|_| (0, 0, 0)).chain([(1, 0, 0), (0, 0, 0)]).collect();
    let short: Vec<_> = [(1, 0, 0)].into_iter().chain([(0, 0, 0); 100]).collect();
    let found = clocks(t4, &code, vec![long.clone(), short])[1];
    // 100 adds, the barrier, 100 more: they do not overlap.
    close(found, 800.0 + 25.0, 0.03);
    // A warp that has ended is not waited for.
    let found = clocks(t4, &code, vec![long, vec![(0, 0, 0)]])[1];
    close(found, 404.0 + 23.0, 0.03);
}

#[test]
fn copies_arrive_in_groups() {
    let card = card("A100");
    let cold = card.l2_clocks[0] + card.dram_ns[0] * card.ghz[0];
    let time = |groups| {
        let wait = if groups == 0 { "DEPBAR.LE SB0, 0x0" } else { "DEPBAR.LE SB0, 0x1" };
        let code = [("LDGSTS.E.BYPASS.128 [R1], [R2.64]", 1, NONE, 0), ("LDGDEPBAR", 1, NONE, 0), (wait, 1, NONE, 0)];
        // The wait of the last turn has the last copy or not.
        let turn = |i: u64| [(0, 4096 * i, 16), (1, 0, 0), (2, 0, 0)];
        clocks(card, &code, vec![(0..51).flat_map(turn).collect()])[1]
    };
    close(time(0), 51.0 * cold, 0.03);
    close(time(1), 25.5 * cold, 0.05);
}

/// Warps of 512 bytes per load, each byte once.
fn stream(card: &Card, blocks: u64) -> (Estimate, f64) {
    let code = [("LDG.E.128 R4, [R2.64]", 2, 0, 0), ("FADD R4, R4, R5", 4, NONE, 1)];
    let warp = |b: u64, w: u64| {
        let load = move |i: u64| (0, (1 << 20) + ((b * 8 + w) * 16 + i) * 512, 512);
        (0..16).map(load).chain([(1, 0, 0)]).collect::<Vec<_>>()
    };
    let (issues, trace) = (issues(card.sm, &code), trace(&[0, 1].map(|b| (0..8).map(|w| warp(b, w)).collect())));
    let found = estimate(&work(&issues, &trace, blocks), card).expect("a trace");
    (found, (blocks * 8 * 16 * 512) as f64)
}

#[test]
fn a_stream_takes_its_bytes_over_the_bandwidth() {
    for card in &CARDS {
        let (found, bytes) = stream(card, u64::from(card.sms) * 200);
        assert_eq!((found.floor.by, found.low.by, found.high.by), (Resource::Dram, Resource::Dram, Resource::Dram));
        for (us, bandwidth) in
            [(found.floor.us, card.dram[0]), (found.low.us, card.dram[0]), (found.high.us, card.dram[1])]
        {
            close(us, bytes / bandwidth / 1e3, 0.02);
        }
    }
}

#[test]
fn bandwidth_is_shared_by_the_sms_that_have_work() {
    // One SM has two blocks where the others have one, and so twice the share.
    let card = card("H100");
    let (even, bytes) = stream(card, 132);
    let (uneven, more) = stream(card, 144);
    let expected = even.low.us + (more - bytes) / card.dram[0] / 1e3;
    close(uneven.low.us, expected, 0.15);
}

#[test]
fn faster_cards_are_faster() {
    let times: Vec<(f64, f64)> = ["T4 at 1.1", "T4", "RTX 3060", "RTX 5080", "A100", "H100", "H200"]
        .map(|name| stream(card(name), 50_000).0)
        .map(|e| (e.low.us, e.high.us))
        .to_vec();
    assert!(times.is_sorted_by(|a, b| a.0 >= b.0 * 0.999 && a.1 >= b.1 * 0.999), "{times:?}");
}

#[test]
fn blocks_that_an_sm_holds() {
    // Card, threads, registers, shared bytes, blocks.
    for (name, threads, registers, shared, expected) in [
        ("T4", 128, 95, 0, 5),
        ("T4", 128, 32, 0, 8),
        ("T4", 32, 16, 0, 16),
        ("T4", 256, 40, 33_000, 1),
        ("A100", 128, 32, 0, 16),
        ("A100", 128, 16, 48 << 10, 3),
        ("RTX 3060", 256, 128, 0, 2),
        ("RTX 4090", 32, 32, 0, 24),
        ("H100", 1024, 64, 0, 1),
        // A block that does not fit would not be launched.
        ("T4", 1024, 255, 0, 1),
    ] {
        let (issues, trace) = (issues(75, &[("NOP", 1, NONE, 0)]), trace(&[vec![vec![(0, 0, 0)]]]));
        let work = Work { threads, registers, shared, ..work(&issues, &trace, 1) };
        assert_eq!(resident(&work, card(name)), expected, "{name} {threads} {registers} {shared}");
    }
}

#[test]
fn the_last_wave_may_be_part_of_one() {
    let (issues, trace) = (issues(75, &[("NOP", 1, NONE, 0)]), trace(&[vec![vec![(0, 0, 0)]]]));
    // 16 blocks of a warp on each of 40 SMs.
    for (blocks, expected) in [(1, 1.0 / 640.0), (640, 1.0), (960, 1.5)] {
        assert_eq!(waves(&work(&issues, &trace, blocks), card("T4")), expected, "{blocks}");
    }
}

#[test]
fn blocks_that_do_less_or_more_than_those_that_were_traced() {
    let (card, issues) = (card("T4"), issues(75, &[("FADD R0, R0, R0", 4, NONE, 0)]));
    let trace = trace(&[vec![vec![(0, 0, 0); 1000]]]);
    let time = |average, blocks| {
        let found = estimate(&Work { average, ..work(&issues, &trace, blocks) }, card).expect("a trace");
        [found.floor.us, found.low.us, found.high.us]
    };
    // 64 warps of each SM, or nine in ten of them find nothing to do.
    let busy = 64 * u64::from(card.sms);
    assert_eq!(time(0.1, 10 * busy), time(1.0, busy));
    // One that has nothing to do takes no longer than all.
    assert_eq!(time(0.01, 40), time(1.0, 1));
    let (one, three) = (time(1.0, busy), time(3.0, busy));
    one.iter().zip(three).for_each(|(one, three)| close(three, 3.0 * one, 0.01));
}

#[test]
fn bytes_are_under_way_until_a_warp_waits_for_them() {
    const LOAD: &str = "LDG.E.128.CONSTANT R0, [R2.64]";
    const COPY: &str = "LDGSTS.E.BYPASS.128 [R2], [R4.64]";
    let end = ("LDGDEPBAR", 1, 0, 0);
    // Code, which of it touches 512 bytes, the most bytes under way.
    let together: [Line; 3] = [(LOAD, 1, 0, 0), (LOAD, 1, 1, 0), ("FFMA R0, R1, R2, R3", 4, NONE, 0b11)];
    let in_turn: [Line; 3] = [(LOAD, 1, 0, 0), (LOAD, 1, 1, 0b01), ("FFMA R0, R1, R2, R3", 4, NONE, 0b10)];
    let wait = ("DEPBAR.LE SB0, 0x1", 1, NONE, 0);
    let copies: [Line; 7] = [(COPY, 1, 0, 0), end, (COPY, 1, 0, 0), end, wait, (COPY, 1, 0, 0), end];
    for (sm, code, expected) in [(75, &together[..], 1024.0), (75, &in_turn, 512.0), (80, &copies, 1024.0)] {
        let card = CARDS.iter().find(|card| card.sm == sm).expect("a card of each SM");
        let loads = |text: &str| text == LOAD || text == COPY;
        let steps =
            code.iter().enumerate().map(|(pc, line)| (pc, 512 * pc as u64, if loads(line.0) { 512 } else { 0 }));
        let (issues, trace) = (issues(sm, code), trace(&[vec![steps.collect()]]));
        let one = work(&issues, &trace, 1);
        assert_eq!(bytes_in_flight(&one, card), expected, "{code:?}");
        // No more blocks than the card holds, and no bytes that are in L2.
        let many = work(&issues, &trace, 1 << 20);
        let held = (resident(&many, card) * u64::from(card.sms)) as f64;
        assert_eq!(bytes_in_flight(&many, card), expected * held, "{code:?}");
        assert_eq!(bytes_in_flight(&Work { hot: &|_| true, ..one }, card), 0.0, "{code:?}");
    }
}

#[test]
fn floor_low_and_high_are_ordered_for_any_trace() {
    const TEXTS: [(&str, u8); 12] = [
        ("FFMA R0, R1, R2, R3", 0),
        ("IMAD.WIDE R0, R1, R2, R4", 0),
        ("LOP3.LUT R0, R1, R2, R3", 0),
        ("MUFU.EX2 R0, R1", 0),
        ("LDG.E R0, [R2.64]", 4),
        ("LDG.E.128.CONSTANT R0, [R2.64]", 16),
        ("STG.E R0, [R2.64]", 4),
        ("LDS R0, [R2]", 0),
        ("SHFL.BFLY PT, R0, R1, 0x1, 0x1f", 0),
        ("BAR.SYNC 0x0", 0),
        ("ATOMG.E.ADD.STRONG.GPU PT, R0, [R2], R3", 4),
        ("HMMA.16816.F32 R0, R4, R6, R0", 0),
    ];
    let mut random = Random(5);
    for round in 0..200 {
        let card = &CARDS[round % CARDS.len()];
        let code: Vec<Line> = (0..30)
            .map(|_| {
                let (text, _) = TEXTS[random.below(TEXTS.len())];
                (text, random.below(16) as u8, [NONE, 0, 1, 5][random.below(4)], random.below(64) as u8)
            })
            .collect();
        let stride = [4, 32, 100, 4096][random.below(4)];
        // All warps take the same path, so that they meet at barriers.
        let path: Vec<usize> = (0..random.below(200)).map(|_| random.below(code.len())).collect();
        let warps = 1 + random.below(8);
        let mut step = |pc: usize| {
            let width = TEXTS.iter().find(|(text, _)| *text == code[pc].0).map_or(0, |(_, width)| *width);
            (pc, 4096 + stride * random.below(1000) as u64, u64::from(width) * 32)
        };
        let mut block = || (0..warps).map(|_| path.iter().map(|pc| step(*pc)).collect()).collect::<Vec<Vec<_>>>();
        let trace = trace(&[block(), block()]);
        let issues = issues(card.sm, &code);
        for blocks in [1, 7, 300, 5000] {
            let Estimate { floor, low, high, .. } = estimate(&work(&issues, &trace, blocks), card).expect("a trace");
            assert!(floor.us > 0.0 && floor.us <= low.us && low.us <= high.us && high.us < 1e9, "{round} {blocks}");
        }
    }
}

#[test]
fn steps_have_the_sectors_that_were_touched() {
    let mut trace = Trace::new(1);
    trace.begin(2);
    assert!(trace.is_on());
    for address in [0, 16, 40, 200, 8] {
        trace.touch(address, 16);
    }
    trace.step(1, 7, 3);
    trace.step(1, 8, 0);
    trace.begin(2);
    assert!(!trace.is_on());
    trace.touch(0, 4);
    trace.step(0, 1, 0);
    let [block] = trace.blocks.as_slice() else { panic!("one block was asked for") };
    let (warp, sectors) = (&block.warps[1], &block.sectors);
    assert_eq!((block.warps[0].len(), sectors.as_slice()), (0, &[0, 1, 6][..]));
    assert_eq!((warp[0].pc, warp[0].sectors, warp[0].lines, warp[0].passes), (7, 3, 2, 3));
    assert_eq!((warp[1].pc, warp[1].sectors, warp[1].lines), (8, 0, 0));
}
