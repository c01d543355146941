//! Each text is what it is alone, whoever else joins, leaves, waits, shares its beginning or takes the last page.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use qrun::sampler::{Sampler, SamplerParams};
use qrun_emulator::{Config, Order, Streams};
use qrun_models::{Batch, Entry, Forward, ForwardError, Model, Options, Output, Row};

use super::{
    Device, caches, has_states, options, request,
    sampling::{params, prompt_of, tokens_of},
};
use crate::tiny::{Rng, Tiny, entries, prompt};

const N_SEQ: usize = 4;

/// A request and its answer when it is alone, sampled on the host.
struct Asked {
    prompt: Vec<u32>,
    params: SamplerParams,
    answer: Vec<u32>,
}

impl Asked {
    fn new(model: &Model, tiny: Tiny, rng: &mut Rng, config: &Config) -> Self {
        // Some begin alike, up to anywhere in their second page.
        let stem = prompt(&format!("stem {}", rng.next() % 2), rng.below(100), tiny.n_vocab);
        let tail = prompt(&format!("asked {}", rng.next()), 2 + rng.below(40), tiny.n_vocab);
        let prompt = [stem, tail].concat();
        let params = SamplerParams { seed: rng.next(), ..params().swap_remove(rng.below(5)) };
        let mut device = Device::new(model, &options(), config.clone());
        let mut samplers = [Sampler::new(params.clone(), tiny.n_vocab).unwrap()];
        samplers[0].reset(&prompt);
        let (mut batch, mut answer) = (prompt_of(&prompt, 0, 0, Output::Logits), Vec::new());
        for pos in prompt.len()..prompt.len() + 2 + rng.below(12) {
            answer.extend(tokens_of(&mut device, &batch, &mut samplers, false));
            let token = answer[answer.len() - 1];
            batch = vec![Entry { token, pos: pos as u32, seq: 0, output: Output::Logits, drafted: false }];
        }
        Self { prompt, params, answer }
    }

    /// The tokens that the model is fed, prompt first.
    fn fed(&self) -> Vec<u32> {
        let (_, fed) = self.answer.split_last().expect("an answer");
        [&self.prompt[..], fed].concat()
    }

    /// What the token at a position is followed by.
    fn after(&self, pos: u32) -> Option<u32> {
        (pos as usize + 1).checked_sub(self.prompt.len()).map(|i| self.answer[i])
    }
}

/// A device and who runs on it.
struct Bench {
    device: Device,
    waiting: Vec<Asked>,
    /// With the number of their admission.
    running: [Option<(usize, Asked)>; N_SEQ],
    admitted: usize,
    reused: usize,
    rng: Rng,
}

impl Bench {
    /// Fills free places, takes some requests away, and chooses who goes on by how much.
    fn batch(&mut self) -> Vec<Entry> {
        let mut batch = Vec::new();
        for seq in 0..N_SEQ {
            if self.running[seq].is_none() && self.rng.below(3) > 0 {
                self.admit(seq);
            }
            if self.rng.below(40) == 0 {
                self.leave(seq);
            }
            // Some wait although they could go on.
            if self.rng.below(5) > 0 {
                batch.extend(self.rows_of(seq));
            }
        }
        batch
    }

    /// Some of a prompt, or the next token.
    fn rows_of(&mut self, seq: usize) -> Vec<Entry> {
        let Some((_, asked)) = &self.running[seq] else { return Vec::new() };
        let (fed, len, n) = (asked.fed(), self.device.len(seq as u32) as usize, asked.prompt.len());
        let end = if len < n { n.min(len + 1 + self.rng.below(60)) } else { len + 1 };
        let output = |e: &Entry| if asked.after(e.pos).is_some() { Output::Token } else { Output::None };
        entries(&fed[len..end], len, seq as u32).iter().map(|e| Entry { output: output(e), ..*e }).collect()
    }

    fn admit(&mut self, seq: usize) {
        if let Some(asked) = self.waiting.pop() {
            let n = asked.prompt.len();
            self.reused += self.device.attach(seq as u32, &asked.prompt[..n - 1]) as usize;
            assert!(self.device.set_sampling(seq as u32, &request(&asked.params, &asked.prompt)).unwrap());
            self.admitted += 1;
            self.running[seq] = Some((self.admitted, asked));
        }
    }

    /// Ends a request; what it was fed stays in the prefix cache.
    fn leave(&mut self, seq: usize) -> Option<Asked> {
        let (_, asked) = self.running[seq].take()?;
        let fed = asked.fed();
        let n = fed.len().min(self.device.len(seq as u32) as usize);
        self.device.release(seq as u32, &fed[..n]);
        Some(asked)
    }

    fn lens(&self) -> [u32; N_SEQ] {
        std::array::from_fn(|seq| self.device.len(seq as u32))
    }

    fn step(&mut self, what: &str) {
        let (batch, lens) = (self.batch(), self.lens());
        // Never, or from the n-th time on that it is asked.
        let n = if self.rng.below(6) == 0 { self.rng.below(5) } else { usize::MAX };
        let asks = AtomicUsize::new(n);
        let cancelled = || asks.fetch_sub(1, Relaxed) == 0;
        let rows: Vec<Row> = match self.device.step(&Batch { entries: &batch, cancelled: &cancelled }) {
            Ok(rows) => {
                rows.iter().map(|row| if let Row::Token(t) = row { Row::Token(t) } else { Row::Logits(&[]) }).collect()
            }
            Err(ForwardError::Cancelled) => return assert_eq!(self.lens(), lens, "{what}: cancelled"),
            Err(ForwardError::Pages { .. }) => {
                assert_eq!(self.lens(), lens, "{what}: no pages");
                let youngest = (0..N_SEQ).max_by_key(|&seq| self.running[seq].as_ref().map(|(age, _)| *age)).unwrap();
                let asked = self.leave(youngest).expect("someone runs");
                return self.waiting.insert(0, asked);
            }
            Err(error) => panic!("{what}: {error}"),
        };
        let wanted = batch.iter().filter(|e| e.output != Output::None);
        for (e, row) in wanted.zip(rows) {
            let asked = &self.running[e.seq as usize].as_ref().unwrap().1;
            let Row::Token(sampled) = row else { panic!("{what}: logits of {e:?}") };
            assert_eq!(Sampler::outcome(&sampled).ok(), asked.after(e.pos), "{what}: {e:?}");
        }
        for e in &batch {
            let ends =
                self.running[e.seq as usize].as_ref().map(|(_, asked)| (asked.fed().len(), asked.prompt.clone()));
            match (e.pos as usize + 1, ends) {
                (n, Some((end, _))) if n == end => drop(self.leave(e.seq as usize)),
                (n, Some((_, prompt))) if n == prompt.len() => self.device.share(e.seq, &prompt),
                _ => (),
            }
        }
    }
}

#[test]
fn each_text_is_what_it_is_alone_whoever_else_runs() {
    for (i, tiny) in caches().enumerate() {
        let streams = if i % 2 == 0 { Streams::Delayed } else { Streams::Immediate };
        let order = if i % 4 == 0 { Order::Reverse } else { Order::Forward };
        let config = Config { sm: [75, 80][i % 2], streams, order, ..Config::default() };
        // Pages for all, then for less than two of the longest.
        for n_kv in [0, 256] {
            let (model, mut rng) = (tiny.model(), Rng::new(&format!("steps {n_kv}")));
            let waiting = (0..6).map(|_| Asked::new(&model, tiny, &mut rng, &config)).collect();
            let o = Options { n_ubatch: 24, n_kv, n_seq: N_SEQ, ..options() };
            let device = Device::new(&model, &o, config.clone());
            let running = [None, None, None, None];
            let mut bench = Bench { device, waiting, running, admitted: 0, reused: 0, rng };
            let what = format!("{}, {n_kv} tokens", tiny.arch);
            while !bench.waiting.is_empty() || bench.running.iter().any(Option::is_some) {
                bench.step(&what);
            }
            // Of recurrent layers only whole blocks can be, which few of these prompts share.
            assert!(bench.reused > 0 || has_states(&tiny), "{what}: nothing was reused");
        }
    }
}
