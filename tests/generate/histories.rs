//! Random histories of the scheduler, a million steps in all: arrivals, cancels, steps of any length, few pages, several
//! answers to one prompt, windows, devices that fail.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use qrun::{
    generate::{Cancel, Event, Finish, GenerateError, Request, RequestId, Scheduler},
    sampler::SamplerParams,
};
use qrun_models::ForwardError;

use super::{
    Random,
    paper::{N_VOCAB, Paper, Size, Wires, answer},
};

/// Steps of all histories together.
const STEPS: usize = 1_000_000;
/// Requests of a history.
const REQUESTS: usize = 40;
/// Steps in which the oldest request may have no row: others have to end first.
const PATIENCE: usize = 600;

/// A request on its way.
struct Asked {
    request: Request,
    want: Vec<u32>,
    got: Vec<u32>,
    /// Its caller has left, or may have been among those whose device failed.
    gone: bool,
    /// Younger ones whose prompts were done before it had a row; `None` once it has.
    passed: Option<usize>,
    prompt_done: bool,
}

struct History {
    scheduler: Scheduler,
    wires: Arc<Mutex<Wires>>,
    size: Size,
    step_ms: f64,
    /// Whether steps take what they always take: then they keep to their time.
    steady: bool,
    random: Random,
    alive: BTreeMap<RequestId, Asked>,
    /// Requests that were handed in, and those that have ended.
    count: [usize; 2],
    /// Steps since the oldest one had a row.
    stood: usize,
    spare: bool,
}

/// What came to pass in all histories.
#[derive(Default)]
struct Seen([AtomicUsize; 4]);

const NAMES: [&str; 4] = ["steps", "preempted", "recovered", "hits"];

impl Seen {
    fn add(&self, what: &str, n: usize) {
        let at = NAMES.iter().position(|name| *name == what).expect("a name");
        self.0[at].fetch_add(n, Relaxed);
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.below(7);
        let windows: [&[Option<usize>]; 5] =
            [&[None], &[None], &[None, Some(70)], &[Some(100)], &[Some(20), None, Some(130)]];
        let steady = random.below(2) == 0;
        let n_ctx = 400;
        let size = Size {
            n_ctx,
            n_seq: 1 + random.below(6),
            n_ubatch: [32, 64, 100, 256][random.below(4)],
            pages: [7, 8, 10, 16, 40][random.below(5)],
            windows: windows[random.below(5)].to_vec(),
            us: [10_000, 500 + random.below(4000) as u64, if steady { 0 } else { 900 }],
        };
        let wires = Arc::new(Mutex::new(Wires::default()));
        let mut scheduler = Scheduler::of_tokens(Box::new(Paper::new(&size, wires.clone())));
        let step_ms = [5.0, 30.0, 60.0, 200.0, 1000.0][random.below(5)];
        scheduler.set_step_ms(step_ms);
        scheduler.set_ubatch(size.n_ubatch);
        scheduler.set_clock(Paper::clock(&wires));
        let spare = random.below(4) > 0;
        if spare {
            let (size, wires) = (size.clone(), wires.clone());
            scheduler.set_recover(Box::new(move |_| Some(Box::new(Paper::new(&size, wires.clone())))));
        }
        let (alive, count) = (BTreeMap::new(), [0; 2]);
        Self { scheduler, wires, size, step_ms, steady, random, alive, count, stood: 0, spare }
    }

    /// Hands in a request, sometimes several of one prompt.
    fn submit(&mut self) {
        let (n, family, parts) = (1 + self.random.below(300), self.random.below(3), self.random.below(500));
        let other = self.random.below(5);
        let token = |i: usize| ((if i < parts { family } else { 3 + other } * 5 + i * i / 3) % N_VOCAB) as u32;
        let n = if self.random.below(3) == 0 { 1 + n / 10 } else { n };
        let prompt: Vec<u32> = (0..n).map(token).collect();
        let twins = if self.random.below(5) == 0 { 2 + self.random.below(3) } else { 1 };
        for _ in 0..twins {
            let max_tokens = self.random.below(40);
            let want = if max_tokens > 0 { answer(&self.size.windows, &prompt, max_tokens) } else { Vec::new() };
            let fresh = self.random.below(12) == 0;
            let salt = (self.random.below(6) == 0).then(|| "another's".into());
            let (prompt, max_tokens) = (prompt.clone(), Some(max_tokens));
            let request = Request { prompt, max_tokens, fresh, salt, mark: parts.min(n), ..Request::default() };
            let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
            let id = self.scheduler.submit(request.clone(), params).expect("a good request");
            let asked = Asked { request, want, got: Vec::new(), gone: false, passed: Some(0), prompt_done: false };
            self.alive.insert(id, asked);
            self.count[0] += 1;
        }
    }

    fn any(&mut self) -> Option<RequestId> {
        let n = self.alive.len().max(1);
        let nth = self.random.below(n);
        self.alive.keys().nth(nth).copied()
    }

    /// What may happen between two steps, or in the middle of the next one.
    fn happen(&mut self) {
        if self.count[0] < REQUESTS && (self.scheduler.is_idle() || self.random.below(6) == 0) {
            self.submit();
        }
        let what = self.random.below(600);
        let victim = if what < 6 { self.any() } else { None };
        let mut wires = self.wires.lock().expect("one thread");
        if let Some(asked) = victim.and_then(|id| self.alive.get_mut(&id)) {
            asked.gone = true;
            let cancel: Cancel = asked.request.cancel.clone();
            match what % 3 {
                0 => self.scheduler.cancel(victim.expect("a victim")),
                1 => cancel.cancel(),
                _ => wires.cancels = Some(cancel),
            }
        }
        wires.fails = what == 10;
        wires.slower = if !self.steady && what.is_multiple_of(29) { 20 } else { 1 };
        if wires.fails && !self.spare {
            self.alive.values_mut().for_each(|asked| asked.gone = true);
        }
    }

    /// One step, and all that has to hold of it.
    fn step(&mut self) {
        self.happen();
        self.wires.lock().expect("one thread").rows = None;
        let before = self.scheduler.reader().sequences();
        let (alive, mut chosen) = (&mut self.alive, Vec::new());
        let done = self.scheduler.step(&mut |id, event| {
            if let Event::Token { id: token, .. } = event {
                alive.get_mut(&id).expect("who is answered is alive").got.push(token);
                chosen.push(id);
            }
            ControlFlow::Continue(())
        });
        let after = self.scheduler.reader().sequences();
        let wires = self.wires.lock().expect("one thread");
        assert!(wires.counted || wires.rows.is_none(), "pages are held as often as they are used");
        let (rows, lens) = (wires.rows.clone().unwrap_or_default(), wires.lens.clone());
        drop(wires);
        assert_eq!(done.prompt + done.decode, rows.iter().sum::<usize>());
        for (seq, (was, is)) in before.iter().zip(&after).enumerate().filter(|_| !rows.is_empty()) {
            if let (Some(was), Some(is)) = (was, is)
                && was.id == is.id
                && was.n_decoded > 0
                && lens[seq] + 1 == was.n_prompt + was.n_decoded
            {
                assert_eq!((rows[seq], is.n_decoded), (1, was.n_decoded + 1), "who decodes goes on in every step");
            }
        }
        self.check_rows(&rows, done.prompt, done.decode);
        self.check_order(&rows, &lens, &after, &chosen);
    }

    fn check_rows(&self, rows: &[usize], prompt: usize, decode: usize) {
        if decode == 0 {
            return assert!(prompt <= self.size.n_ubatch);
        }
        assert!(prompt + decode <= self.size.n_ubatch.max(decode + 16), "{rows:?}");
        let [step, row, _] = self.size.us;
        // What was put back and decodes at once costs the decoder more than the scheduler knows: 16 rows at most.
        let ms = (step + row * prompt.saturating_sub(16) as u64) as f64 / 1e3;
        assert!(!self.steady || prompt <= 16 || ms <= self.step_ms, "{prompt} rows take {ms} ms of {}", self.step_ms);
        let partial = |n: &&usize| **n > 1;
        assert!(rows.iter().filter(partial).count() <= 2, "two prompts at most: {rows:?}");
    }

    /// Nobody is passed too often, and the oldest goes on.
    fn check_order(
        &mut self,
        rows: &[usize],
        lens: &[usize],
        after: &[Option<qrun::generate::RequestState>],
        chosen: &[RequestId],
    ) {
        // Who has ended in this step has chosen a token in it.
        let mut went: Vec<RequestId> = chosen.to_vec();
        for (seq, state) in after.iter().enumerate() {
            went.extend(state.as_ref().filter(|_| rows.get(seq).is_some_and(|n| *n > 0)).map(|state| state.id));
        }
        let mut ended = Vec::new();
        while let Some(finished) = self.scheduler.finished() {
            went.push(finished.id);
            ended.push(finished);
        }
        for id in &went {
            self.alive.get_mut(id).expect("who runs is alive").passed = None;
        }
        let done = ended.iter().filter(|f| f.result.as_ref().is_ok_and(|r| r.finish != Finish::Interrupted));
        for id in chosen.iter().copied().chain(done.map(|f| f.id)) {
            let asked = self.alive.get_mut(&id).expect("alive");
            let first = !std::mem::replace(&mut asked.prompt_done, true);
            for older in self.alive.range_mut(..id).filter_map(|(_, older)| older.passed.as_mut().filter(|_| first)) {
                *older += 1;
                assert!(*older <= 4, "passed four times at most");
            }
        }
        let oldest = self.alive.keys().next().copied();
        self.stood = if rows.is_empty() || oldest.is_some_and(|id| went.contains(&id)) { 0 } else { self.stood + 1 };
        assert!(self.stood < PATIENCE, "the oldest stands still: {lens:?}");
        ended.into_iter().for_each(|finished| self.check_end(finished.id, finished.result));
    }

    fn check_end(&mut self, id: RequestId, result: Result<qrun::generate::Reply, GenerateError>) {
        let asked = self.alive.remove(&id).expect("each ends once");
        self.count[1] += 1;
        match result {
            Ok(reply) => {
                assert_eq!(reply.tokens, asked.got, "what was told is what it ends with");
                if reply.finish == Finish::Interrupted {
                    assert!(asked.gone && asked.want.starts_with(&reply.tokens));
                } else {
                    assert_eq!((&reply.finish, &reply.tokens), (&Finish::Limit, &asked.want), "as it is alone");
                }
            }
            Err(GenerateError::Forward(ForwardError::Device(_))) => assert!(asked.gone && !self.spare),
            Err(other) => panic!("{other}"),
        }
    }

    fn run(mut self, seen: &Seen) {
        let mut steps = 0;
        while self.count[0] < REQUESTS || !self.scheduler.is_idle() {
            self.step();
            steps += 1;
            assert!(steps < 100_000, "{} of {} have ended", self.count[1], self.count[0]);
        }
        self.check_order(&[], &[], &[], &[]);
        assert_eq!(self.count[0], self.count[1], "nothing is lost");
        self.scheduler.forget(&[]);
        let (pages, stats) = (self.scheduler.forward().pages(), self.scheduler.stats());
        assert_eq!(pages.free, pages.total, "all pages can be had");
        seen.add("steps", steps);
        seen.add("preempted", stats.preempted as usize);
        seen.add("recovered", stats.recovered as usize);
        seen.add("hits", stats.prefix_hits as usize);
    }
}

#[test]
fn a_million_steps_of_random_histories() {
    let (seen, seeds) = (Seen::default(), AtomicUsize::new(1));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while seen.0[0].load(Relaxed) < STEPS {
                    let seed = seeds.fetch_add(1, Relaxed) as u64;
                    let history = History::new(seed);
                    let what = format!("seed {seed}: {:?}, {} ms", history.size, history.step_ms);
                    let run = std::panic::AssertUnwindSafe(|| history.run(&seen));
                    std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("{what}"));
                }
            });
        }
    });
    let seen: Vec<String> = NAMES.iter().zip(&seen.0).map(|(name, n)| format!("{name} {}", n.load(Relaxed))).collect();
    println!("{} histories: {}", seeds.load(Relaxed) - 1, seen.join(", "));
}
