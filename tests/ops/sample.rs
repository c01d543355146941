//! Sampling, by itself: the best token, logits after bias and penalties, the ring, what a step costs. That the tokens are
//! the CPU sampler's is tested where that one is (tests/device_sampling.rs).

use qrun_cuda::{
    Arena, Gpu, Ptr, Stream,
    ops::sample::{SampleRows, SampleShape, SampleStart, SampleState, SampleSteps, Sampling, Status},
};
use qrun_emulator::Config;

use crate::{
    card,
    harness::{Buffer, Device, Random, everywhere},
};

const GREEDY: Sampling = Sampling { seed: 1, ..Sampling::GREEDY };

/// The state of one sequence, and its row.
struct Row {
    state: SampleState,
    rows: SampleRows,
    logits: Buffer<f32>,
    _rest: (Buffer<i32>, Arena),
}

impl Row {
    fn new(d: &Device, logits: &[f32], start: &SampleStart) -> Self {
        let shape = SampleShape { sequences: 1, vocab: logits.len(), history: 16, biases: 8 };
        let (arena, buffers) = Arena::new(&d.gpu, |layout| shape.take(layout)).expect("device memory");
        // SAFETY: the arena has the buffers of this shape and lives as long as the state.
        let mut state = unsafe { SampleState::new(&d.stream, shape, buffers) }.expect("a state");
        // SAFETY: as above.
        unsafe { state.restart(&d.stream, 0, start) }.unwrap_or_else(|e| panic!("{e}"));
        let logits = d.buffer(logits);
        let words = d.buffer(&[-1, 7, 0]);
        let [token, pos, seq] = [0, 1, 2].map(|i| words.ptr.add(i));
        let rows = SampleRows { logits: logits.ptr, token, pos, seq, drawn: Ptr::NULL, rows: 1 };
        Self { state, rows, logits, _rest: (words, arena) }
    }

    fn step(&self, d: &Device, steps: SampleSteps) {
        // SAFETY: what the state and the row point to lives as long as they do.
        unsafe { self.state.sample(&d.stream, &self.rows, steps) }.unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn the_best_token_is_found_and_ties_go_to_the_lowest() {
    for n in [1, 31, 32, 511, 512, 513, 4097, 9001] {
        let mut random = Random::new(n as u64);
        // Few values: the best one is there more than once.
        let logits: Vec<f32> = (0..n).map(|_| random.below(40) as f32 - 50.0).collect();
        let best = (0..n).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
        let ways = [
            (SampleSteps::Greedy, GREEDY),
            (SampleSteps::All, GREEDY),
            (SampleSteps::All, Sampling { temperature: 2.0, top_k: 1, ..GREEDY }),
            (SampleSteps::All, Sampling { temperature: 2.0, top_p: 0.0, ..GREEDY }),
        ];
        for (steps, sampling) in ways {
            let run = |d: &Device| {
                let row = Row::new(d, &logits, &SampleStart { sampling, biases: &[], history: &[] });
                row.step(d, steps);
                let words = d.read(&row._rest.0);
                let drawn = row.state.drawn(0, 1).expect("a step");
                assert_eq!((drawn.status(), drawn.logit()), (Status::Sampled, logits[best]));
                vec![drawn.token() as f32, words[0] as f32, words[1] as f32]
            };
            everywhere(run, |r| assert_eq!(r, [best as f32, best as f32, 8.0], "{n} tokens, {steps:?}, {sampling:?}"));
        }
    }
}

#[test]
fn bias_and_penalties_change_the_logits_as_written() {
    let mut random = Random::new(3);
    let logits = random.normals(700);
    let biases = [(600, 1.5), (3, -2.0), (600, 0.25), (699, f32::NEG_INFINITY)];
    let history = [600, 3, 3, 50, 3];
    let sampling = Sampling { position: 5, repeat: 1.3, frequency: 0.2, presence: 0.1, window: 4, ..GREEDY };
    let mut expected = logits.clone();
    biases.iter().for_each(|&(token, bias)| expected[token as usize] += bias);
    // The window leaves the first token out.
    for (token, count) in [(3, 3.0), (50, 1.0)] {
        let l = expected[token];
        let repeated = if l > 0.0 { l / 1.3 } else { l * 1.3 };
        expected[token] = repeated - (count * 0.2f32 + 0.1);
    }
    let run = |d: &Device| {
        let row = Row::new(d, &logits, &SampleStart { sampling, biases: &biases, history: &history });
        row.step(d, SampleSteps::Greedy);
        d.read(&row.logits)
    };
    everywhere(run, |r| assert_eq!(r, expected));
}

#[test]
fn the_ring_holds_the_last_steps_in_order() {
    let d = Device::new(Config::default());
    let row = Row::new(
        &d,
        &Random::new(4).normals(50),
        &SampleStart { sampling: Sampling { temperature: 1.0, ..GREEDY }, biases: &[], history: &[] },
    );
    (0..150).for_each(|_| row.step(&d, SampleSteps::All));
    d.stream.synchronize().unwrap();
    let held: Vec<u32> = (0..200).filter(|&n| row.state.drawn(0, n).is_some()).collect();
    assert_eq!(held, (87..=150).collect::<Vec<_>>());
    let tokens: Vec<u32> = held.iter().filter_map(|&n| row.state.drawn(0, n)).map(|d| d.token()).collect();
    assert!(tokens.iter().all(|&t| t < 50) && tokens.iter().any(|&t| t != tokens[0]), "{tokens:?}");
}

#[test]
fn a_polling_host_never_sees_half_a_step() {
    let d = Device::new(Config::checked());
    let Some(machine) = d.machine() else { return crate::skip::skip("only the emulator writes down what is seen") };
    let start = SampleStart { sampling: Sampling { temperature: 1.0, ..GREEDY }, biases: &[], history: &[] };
    let row = Row::new(&d, &Random::new(5).normals(50), &start);
    // Beyond the 64 that the ring holds: places that have held a step before.
    for number in 1..=70 {
        row.step(&d, SampleSteps::All);
        let seen = machine.published();
        let drawn = row.state.drawn(0, number).expect("a step");
        let [_, token, status, value] = [0, drawn.token(), drawn.status() as u32, drawn.logit().to_bits()];
        // All but the number, a fence, the number.
        let expected = [Some([0, token, status, value]), None, Some([number, token, status, value])];
        assert_eq!(seen, expected, "step {number}");
    }
}

#[test]
fn a_step_is_three_launches_and_nothing_else() {
    if card::is_real() {
        return crate::skip::skip("only the emulator counts calls");
    }
    let machine = card::machine(Config::default());
    let _entered = machine.enter();
    let gpu = Gpu::open(0).unwrap();
    let stream = Stream::new(&gpu).unwrap();
    // The size of the largest vocabularies.
    let shape = SampleShape { sequences: 2, vocab: 262_144, history: 64, biases: 0 };
    let (arena, (rows, buffers)) = Arena::new(&gpu, |c| {
        let logits = c.take("logits", shape.vocab);
        let words: Ptr<i32> = c.take("words", 3);
        let rows = SampleRows { logits, token: words, pos: words.add(1), seq: words.add(2), drawn: Ptr::NULL, rows: 1 };
        (rows, shape.take(c))
    })
    .unwrap();
    // SAFETY: the arena has the row and the buffers of this shape, and lives to the end of the test.
    let mut state = unsafe {
        stream.zero(rows.logits, shape.vocab).unwrap();
        stream.zero(rows.token, 3).unwrap();
        SampleState::new(&stream, shape, buffers).unwrap()
    };
    let start = SampleStart { sampling: Sampling { temperature: 1.0, ..GREEDY }, biases: &[], history: &[] };
    // SAFETY: as above.
    unsafe { state.restart(&stream, 0, &start) }.unwrap();
    for (steps, launches) in [(SampleSteps::All, 3), (SampleSteps::Greedy, 1)] {
        machine.reset_counters();
        // SAFETY: as above; the row lies in the same arena.
        unsafe { state.sample(&stream, &rows, steps) }.unwrap();
        let counters = machine.counters();
        assert_eq!(counters.launches.values().sum::<u64>(), launches);
        assert_eq!((counters.syncs, counters.allocations, counters.bytes_in, counters.bytes_out), (0, 0, 0, 0));
    }
    // Counts for the penalties and little else: 1.1 MB per sequence.
    let bytes = arena.parts().iter().filter(|p| p.name.starts_with("sample.")).map(|p| p.bytes).sum::<u64>();
    assert!(bytes < 2 * 1_200_000, "{bytes} bytes");
}
