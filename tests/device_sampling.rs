//! Sampling on the device: the kernels against the CPU sampler, token for token.

use qrun::sampler::{Sampler, SamplerError, SamplerParams, philox4x32, weight};
use qrun_cuda::{
    Arena, Pinned, Ptr, Result, Stream,
    ops::sample::{SampleRows, SampleShape, SampleStart, SampleState, SampleSteps},
};
use qrun_emulator::{Config, Machine, Order};

use crate::{card, sampler::mix};

mod guesses;
mod masks;
mod sequences;

/// What a row's logits look like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Many values around 0.
    Bell,
    /// A few far above the others.
    Peaks,
    /// Nine values, both zeros among them.
    Ties,
    /// One value.
    Flat,
    /// Half of the tokens excluded.
    Holes,
    /// All magnitudes of f32.
    Wild,
}

const SHAPES: [Shape; 6] = [Shape::Bell, Shape::Peaks, Shape::Ties, Shape::Flat, Shape::Holes, Shape::Wild];

impl Shape {
    fn logit(self, seed: u64, i: usize) -> f32 {
        let z = mix(seed, i as u64);
        let sum: i64 = (0..4).map(|k| (z >> (16 * k) & 0xFFFF) as i64).sum();
        let bell = (sum - 2 * 0xFFFF) as f32 / 16384.0;
        match self {
            Self::Bell => bell,
            Self::Peaks => bell + if z.is_multiple_of(37) { 9.0 } else { -3.0 },
            Self::Ties => [0.0, -0.0, 1.0, 1.5, -2.0, -2.5, 0.25, -8.0, 3.0][(z % 9) as usize],
            Self::Flat => -1.25,
            Self::Holes if z & 1 == 1 && i > 0 => f32::NEG_INFINITY,
            Self::Holes => bell * 3.0,
            Self::Wild => {
                let magnitude = ((z >> 32) % 240) as f32 - 120.0;
                (magnitude + bell / 8.0).exp2() * if z & 1 == 1 { 1.0 } else { -1.0 }
            }
        }
    }
}

/// Choices of `list`, the `which`-th of them by a seed.
fn pick<T: Clone>(list: &[T], seed: u64, which: u64) -> T {
    list[(mix(seed ^ 0xABCD, which) % list.len() as u64) as usize].clone()
}

/// Parameters of case `c` for a vocabulary of `n`.
fn params(c: u64, n: usize) -> SamplerParams {
    let all = n as i32;
    let off = (1.0, 64, 0.0, 0.0);
    let (repeat_penalty, repeat_last_n, frequency_penalty, presence_penalty) =
        pick(&[off, off, (1.3, 64, 0.0, 0.0), (0.7, -1, 0.1, 0.25), (1.1, 3, -0.3, 0.5), (1.0, 1, 0.7, 0.0)], c, 0);
    let token = |i| (mix(c, i) % n as u64) as u32;
    let bias = vec![(token(1), 2.5), (token(2), f32::NEG_INFINITY), (token(1), -0.75), (token(3), 0.1)];
    SamplerParams {
        seed: mix(c, 7),
        temperature: pick(&[0.0, 0.8, 0.8, 1.0, 0.05, 3.5, 1e-30], c, 2),
        top_k: pick(&[0, 0, 1, 2, 40, 40, all, all + 5, i32::MAX, all / 2 + 1, 1500], c, 3),
        top_p: pick(&[1.0, 1.0, 0.95, 0.95, 0.5, 0.999_99, 1e-6, 0.0], c, 4),
        min_p: pick(&[0.0, 0.0, 0.05, 0.5, 1.0, 1e-9], c, 5),
        top_n_sigma: -1.0,
        typical_p: 1.0,
        repeat_penalty,
        repeat_last_n,
        frequency_penalty,
        presence_penalty,
        logit_bias: if mix(c, 8).is_multiple_of(4) && n > 8 { bias } else { Vec::new() },
    }
}

/// A device with the sampling state of some sequences, and as many rows.
struct Rig {
    stream: Stream,
    state: SampleState,
    rows: SampleRows,
    n_vocab: usize,
    /// Steps of each sequence so far.
    steps: Vec<u32>,
    logits: Pinned<f32>,
    words: Pinned<i32>,
    arena: Arena,
}

impl Rig {
    /// On an emulated machine no buffer overruns into the next one unseen.
    fn new(machine: Option<&Machine>, n_vocab: usize, n_rows: usize) -> Result<Self> {
        let gpu = card::gpu();
        let stream = Stream::new(&gpu)?;
        let shape = SampleShape { sequences: n_rows, vocab: n_vocab, history: 256, biases: 8 };
        let (arena, (rows, buffers)) = Arena::new(&gpu, |layout| {
            let rows = SampleRows {
                logits: layout.take("logits", n_rows * n_vocab),
                token: layout.take("token", n_rows),
                pos: layout.take("pos", n_rows),
                seq: layout.take("seq", n_rows),
                drawn: Ptr::NULL,
                rows: n_rows as u32,
            };
            let _rows_with_masks: Ptr<i32> = layout.take("masked", n_rows);
            (rows, shape.take(layout))
        })?;
        if let Some(machine) = machine {
            let parts = arena.parts().iter().filter(|part| part.bytes > 0);
            parts.for_each(|part| machine.fence(arena.address() + part.offset, part.bytes, &part.name));
        }
        // SAFETY: the arena has the buffers of this shape and lives as long as the state.
        let state = unsafe { SampleState::new(&stream, shape, buffers)? };
        let logits = Pinned::new(&gpu, n_rows * n_vocab)?;
        let words = Pinned::new(&gpu, n_rows)?;
        let mut rig = Self { stream, state, rows, n_vocab, steps: vec![0; n_rows], logits, words, arena };
        rig.put(rig.rows.token, &vec![-7; n_rows])?;
        rig.put(rig.rows.pos, &vec![100; n_rows])?;
        rig.put(rig.rows.seq, &(0..n_rows as i32).collect::<Vec<_>>())?;
        Ok(rig)
    }

    fn put(&mut self, to: Ptr<i32>, values: &[i32]) -> Result<()> {
        self.words.as_mut_slice().copy_from_slice(values);
        // SAFETY: `to` is a part of the rig's arena with a word for each row, and there are as many values.
        unsafe { self.stream.copy_in(to, &self.words, values.len())? };
        self.stream.synchronize()
    }

    fn get(&mut self, from: Ptr<i32>) -> Result<Vec<i32>> {
        // SAFETY: `from` is a part of the rig's arena with a word for each row.
        unsafe { self.stream.copy_out(&mut self.words, from, self.rows.rows as usize)? };
        self.stream.synchronize()?;
        Ok(self.words.to_vec())
    }

    fn start(&mut self, sequence: usize, params: &SamplerParams, history: &[u32]) -> Result<Sampler> {
        let sampling = params.on_device(history.len() as u64).expect("no typical sampling");
        let start = SampleStart { sampling, biases: &params.logit_bias, history };
        // SAFETY: what the state points to lies in the rig's arena.
        unsafe { self.state.restart(&self.stream, sequence, &start)? };
        let mut sampler = Sampler::new(params.clone(), self.n_vocab).expect("good parameters");
        sampler.reset(history);
        Ok(sampler)
    }

    /// The logits of all rows, on their way.
    fn put_logits(&mut self, logit: impl Fn(usize, usize) -> f32) -> Result<()> {
        let n = self.n_vocab;
        for (i, value) in self.logits.as_mut_slice().iter_mut().enumerate() {
            *value = logit(i / n, i % n);
        }
        // SAFETY: the rig's arena has as many logits.
        unsafe { self.stream.copy_in(self.rows.logits, &self.logits, self.logits.len()) }
    }

    /// Launches a step of all rows.
    fn sample(&self, steps: SampleSteps) -> Result<()> {
        // SAFETY: what the state and the rows point to lies in the rig's arena, in these shapes.
        unsafe { self.state.sample(&self.stream, &self.rows, steps) }
    }

    /// The step's answer of a sequence, as its sampler gives it.
    fn drawn(&mut self, sequence: usize) -> std::result::Result<u32, SamplerError> {
        self.steps[sequence] += 1;
        let drawn = self.state.drawn(sequence, self.steps[sequence]).expect("the step is done");
        assert!(self.state.drawn(sequence, self.steps[sequence] + 1).is_none(), "a step too many");
        Sampler::outcome(&drawn)
    }

    /// `steps` draws of sequence 0 beside those of the CPU.
    fn compare(&mut self, place: &str, params: &SamplerParams, shape: Shape, steps: u64) -> Result<()> {
        let seed = mix(params.seed, 99);
        let history: Vec<u32> = (0..seed % 90).map(|i| (mix(seed, i % 40) % self.n_vocab as u64) as u32).collect();
        let mut sampler = self.start(0, params, &history)?;
        for step in 0..steps {
            let position = self.get(self.rows.pos)?[0];
            self.put_logits(|_, i| shape.logit(seed + step, i))?;
            self.sample(SampleSteps::All)?;
            self.stream.synchronize()?;
            let n = self.n_vocab;
            let expected = sampler.sample(&self.logits[..n]);
            let place = format!("{place}: {n} tokens, {shape:?}, step {step}, {params:?}");
            let drawn = self.drawn(0);
            // An error's value may be a NaN, which equals nothing.
            assert_eq!(format!("{drawn:?}"), format!("{expected:?}"), "{place}");
            let Ok(token) = expected else {
                assert_eq!(self.get(self.rows.pos)?[0], position, "{place}: no token, no step");
                return Ok(());
            };
            assert_eq!(self.get(self.rows.token)?[0], token as i32, "{place}");
            assert_eq!(self.get(self.rows.pos)?[0], position + 1, "{place}");
            sampler.accept(token);
        }
        Ok(())
    }
}

/// Runs on emulated machines, or once on the card.
fn on(machines: impl IntoIterator<Item = Config>, run: impl Fn(&str, Option<&Machine>) -> Result<()>) {
    if card::is_real() {
        return run("GPU", None).expect("the driver");
    }
    for config in machines {
        let name = format!("sm {}, {:?}", config.sm, config.order);
        let machine = card::machine(config);
        let entered = machine.enter();
        if let Err(error) = run(&name, Some(&machine)) {
            panic!("{name}: {error}\n{}", machine.report().unwrap_or_default());
        }
        drop(entered);
        assert_eq!(machine.report(), None, "{name}");
    }
}

/// Both builds in each order.
fn checked() -> impl Iterator<Item = Config> {
    let machine = |sm, order| Config { sm, order, ..Config::checked() };
    let orders = [Order::Forward, Order::Reverse, Order::Random(5)];
    card::builds().into_iter().flat_map(move |sm| orders.map(|order| machine(sm, order)))
}

#[test]
fn small_vocabularies_draw_what_the_cpu_draws() {
    on(checked(), |name, machine| {
        for (n, cases) in [(1, 10), (2, 20), (31, 90), (257, 90), (1000, 60)] {
            let mut rig = Rig::new(machine, n, 1)?;
            for c in 0..cases {
                rig.compare(name, &params(c + 1000 * n as u64, n), pick(&SHAPES, c, 9), 2)?;
            }
        }
        Ok(())
    });
}

#[test]
fn large_vocabularies_draw_what_the_cpu_draws() {
    on([Config::default()], |name, machine| {
        for (n, cases) in [(4096, 60), (32_000, 60), (262_144, 8), (262_208, 8)] {
            let mut rig = Rig::new(machine, n, 1)?;
            for c in 0..cases {
                rig.compare(name, &params(c + 7 * n as u64, n), pick(&SHAPES, c, 9), 2)?;
            }
        }
        Ok(())
    });
}

#[test]
fn chains_keep_their_state_on_the_device() {
    on(checked().take(2), |name, machine| {
        let mut rig = Rig::new(machine, 300, 1)?;
        for c in 0..6 {
            let mut p = params(c, 300);
            (p.repeat_penalty, p.frequency_penalty, p.presence_penalty) = (1.2, 0.2, 0.1);
            p.repeat_last_n = [5, 64, -1][c as usize % 3];
            p.temperature = [0.0, 0.9][c as usize % 2];
            rig.compare(name, &p, Shape::Peaks, 20)?;
        }
        Ok(())
    });
}

#[test]
fn ties_beyond_the_candidates_end_at_the_right_token() {
    // More tokens of one logit than are listed: the last block goes through all of them, digit by digit.
    on([Config::checked()], |name, machine| {
        let mut rig = Rig::new(machine, 5000, 1)?;
        for (k, p) in [(3000, 1.0), (17, 0.5), (0, 0.6), (4000, 0.9), (4999, 0.999), (1024, 0.3)] {
            let params = SamplerParams { top_k: k, top_p: p, min_p: 0.0, seed: k as u64, ..SamplerParams::default() };
            // After each of them one with few candidates: what is behind the list must be as it was.
            for shape in [Shape::Flat, Shape::Bell, Shape::Ties, Shape::Peaks] {
                rig.compare(name, &params, shape, 2)?;
            }
        }
        Ok(())
    });
}

#[test]
fn a_captured_step_is_replayed() {
    on([Config::checked()], |name, machine| {
        let mut rig = Rig::new(machine, 1000, 1)?;
        for (params, steps) in [
            (params(3, 1000), SampleSteps::All),
            (SamplerParams { temperature: 0.0, ..params(4, 1000) }, SampleSteps::Greedy),
        ] {
            let mut sampler = rig.start(0, &params, &[1, 2, 3])?;
            assert_eq!(rig.state.is_greedy(0), params.temperature <= 0.0);
            let graph = rig.stream.capture(|_| rig.sample(steps))?;
            for step in 0..5 {
                rig.put_logits(|_, i| Shape::Bell.logit(step, i))?;
                graph.launch(&rig.stream)?;
                rig.stream.synchronize()?;
                let token = sampler.sample(&rig.logits).expect("a token");
                assert_eq!(rig.drawn(0), Ok(token), "{name}: step {step}");
                sampler.accept(token);
            }
        }
        Ok(())
    });
}

#[test]
fn weights_are_the_cpus_to_the_last_bit() {
    const N: usize = 9000;
    const CHUNK: usize = 512;
    on([Config::default(), Config { sm: 75, ..Config::checked() }], |name, machine| {
        let mut rig = Rig::new(machine, N, 1)?;
        let totals = rig.arena.part::<u64>("sample.totals").expect("totals of the chunks");
        let mut found = Pinned::new(rig.stream.gpu(), N.div_ceil(CHUNK))?;
        for temperature in [1.0, 0.7, 3.1] {
            let off = SamplerParams { top_k: 0, top_p: 1.0, min_p: 0.0, temperature, ..SamplerParams::default() };
            rig.start(0, &off, &[])?;
            // From the best token down to those that weigh nothing, each chunk with some of all.
            rig.put_logits(|_, i| (i * 7919 % N) as f32 * (-30.0 * temperature / N as f32))?;
            rig.sample(SampleSteps::All)?;
            // SAFETY: a part of the rig's arena with a total for each chunk of its sequence.
            unsafe { rig.stream.copy_out(&mut found, totals, N.div_ceil(CHUNK))? };
            rig.stream.synchronize()?;
            let expected: Vec<u64> =
                rig.logits.chunks(CHUNK).map(|c| c.iter().map(|l| weight(l / temperature)).sum()).collect();
            assert_eq!(found[..], expected, "{name}: temperature {temperature}");
        }
        Ok(())
    });
}

/// Logits below 0 whose weights sum up to exactly this.
fn logits_of_weight(mut total: u64) -> Vec<f32> {
    let mut logits = Vec::new();
    while total > 0 {
        // -27.7 weighs 1; halving finds one that weighs no more than is left, and nearly that.
        let (mut good, mut bad) = (-27.7f32, 0.0f32);
        for _ in 0..40 {
            let middle = good + (bad - good) / 2.0;
            if weight(middle) <= total { good = middle } else { bad = middle }
        }
        logits.push(good);
        total -= weight(good);
    }
    logits
}

#[test]
fn a_running_total_that_equals_the_random_share_is_not_beyond_it() {
    // Made for the seed: the tokens before the best one (2^40) weigh exactly the share that is drawn of them all.
    let mut cases = (0..).filter_map(|seed| {
        let [low, high, ..] = philox4x32(seed, [0; 4]);
        let random = u128::from(low) | u128::from(high) << 32;
        let u = random as f64 / 2f64.powi(64);
        let near = (2f64.powi(40) * u / (1.0 - u)) as u64;
        let exact = |w: &u64| (random * u128::from(w + (1 << 40))) >> 64 == u128::from(*w);
        let total = (near.saturating_sub(2)..near + 3).find(exact).filter(|_| u < 0.45)?;
        Some((seed, total))
    });
    let (seed, total) = cases.next().expect("one of the seeds");
    let before = logits_of_weight(total);
    // The token behind the best one must not count. The best one is behind the others, and the first of another chunk.
    for excluded in [0, 512 - before.len()] {
        let best = before.len() + excluded;
        let logits = [&before[..], &vec![f32::NEG_INFINITY; excluded], &[0.0, -1.0]].concat();
        draws_the_best(seed, &logits, best as u32);
    }
}

fn draws_the_best(seed: u64, logits: &[f32], best: u32) {
    let params = SamplerParams { seed, temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerParams::default() };
    let params = SamplerParams { logit_bias: vec![(best + 1, f32::NEG_INFINITY)], ..params };
    on([Config::checked()], |name, machine| {
        let mut rig = Rig::new(machine, logits.len(), 1)?;
        let mut sampler = rig.start(0, &params, &[])?;
        rig.put_logits(|_, i| logits[i])?;
        rig.sample(SampleSteps::All)?;
        rig.stream.synchronize()?;
        assert_eq!((sampler.sample(logits), rig.drawn(0)), (Ok(best), Ok(best)), "{name}");
        Ok(())
    });
}

#[test]
fn bad_logits_are_the_samplers_errors() {
    type Logit = fn(usize) -> f32;
    on(checked().take(2), |name, machine| {
        let mut rig = Rig::new(machine, 600, 1)?;
        let bad: [(&str, Logit); 5] = [
            ("NaN", |i| if i == 555 || i == 598 { f32::NAN } else { 0.5 }),
            ("inf", |i| if i == 0 { f32::INFINITY } else { -0.5 }),
            ("both", |i| if i == 7 { f32::INFINITY } else { f32::NAN }),
            ("nothing", |_| f32::NEG_INFINITY),
            ("NaN and nothing", |i| if i == 3 { f32::NAN } else { f32::NEG_INFINITY }),
        ];
        for temperature in [0.0, 1.0] {
            for (what, logit) in bad {
                let params = SamplerParams { temperature, ..SamplerParams::default() };
                let mut sampler = rig.start(0, &params, &[])?;
                // Twice: the first failure leaves nothing behind; and then a good step.
                for _ in 0..2 {
                    rig.put_logits(|_, i| logit(i))?;
                    rig.sample(SampleSteps::All)?;
                    rig.stream.synchronize()?;
                    let expected = sampler.sample(&rig.logits);
                    assert!(expected.is_err());
                    assert_eq!(format!("{:?}", rig.drawn(0)), format!("{expected:?}"), "{name}: {what}");
                }
                rig.put_logits(|_, i| Shape::Bell.logit(1, i))?;
                rig.sample(SampleSteps::All)?;
                rig.stream.synchronize()?;
                assert_eq!(rig.drawn(0), sampler.sample(&rig.logits), "{name}: after {what}");
            }
        }
        Ok(())
    });
}

#[test]
fn what_the_buffers_hold_is_known() {
    let shape = SampleShape { sequences: 1, vocab: 100, history: 64, biases: 2 };
    assert!(shape.holds(0, 0, 2) && shape.holds(64, 10, 0) && shape.holds(-1, 64, 0));
    assert!(!shape.holds(65, 0, 0) && !shape.holds(-1, 65, 0) && !shape.holds(0, 0, 3));
    let none = SampleShape { history: 0, ..shape };
    assert!(none.holds(0, 1000, 0) && !none.holds(-1, 0, 0));
    let typical = SamplerParams { typical_p: 0.9, ..SamplerParams::default() };
    assert_eq!(typical.on_device(0), None);
}
