//! Tokens that the device samples are those that the host would sample from its logits; steps that run ahead change
//! nothing, whoever joins, leaves, waits or is cancelled.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use qrun::sampler::{Sampler, SamplerParams};
use qrun_emulator::{Config, Order, Streams};
use qrun_models::{Batch, Entry, Forward, ForwardError, Model, Options, Output, Row};

use super::{Device, greedy, models, options, request, sm};
use crate::tiny::{Rng, Tiny, entries, prompt};

fn params() -> Vec<SamplerParams> {
    let base = SamplerParams { seed: 7, ..SamplerParams::default() };
    vec![
        SamplerParams { temperature: 0.0, ..base.clone() },
        base.clone(),
        SamplerParams { temperature: 2.5, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 8, ..base.clone() },
        SamplerParams { repeat_penalty: 1.3, frequency_penalty: 0.2, repeat_last_n: 8, seed: 9, ..base.clone() },
        SamplerParams { presence_penalty: 0.7, repeat_last_n: -1, logit_bias: vec![(9, f32::NEG_INFINITY)], ..base },
    ]
}

/// A prompt whose last row wants this.
fn prompt_of(tokens: &[u32], start: usize, seq: u32, output: Output) -> Vec<Entry> {
    let mut batch = entries(tokens, start, seq);
    let last = batch.len() - 1;
    batch.iter_mut().enumerate().for_each(|(i, e)| e.output = if i == last { output } else { Output::None });
    batch
}

/// The tokens after a batch: sampled by the device, or by these samplers from its logits.
fn tokens_of(device: &mut Device, batch: &[Entry], samplers: &mut [Sampler], on_device: bool) -> Vec<u32> {
    let rows = device.step(&batch.into()).unwrap_or_else(|e| panic!("{e}"));
    let wanted = batch.iter().filter(|e| e.output != Output::None);
    let token = |(e, row): (&Entry, Row)| {
        let sampler = &mut samplers[e.seq as usize];
        let token = match row {
            Row::Token(sampled) if on_device => Sampler::outcome(&sampled).unwrap(),
            Row::Logits(logits) if !on_device => sampler.sample(logits).unwrap(),
            other => panic!("sequence {}: {other:?}", e.seq),
        };
        sampler.accept(token);
        token
    };
    wanted.zip(rows.iter()).map(token).collect()
}

#[test]
fn rows_of_many_sequences_are_sampled_as_the_host_does() {
    // 1 to 4 rows go through other kernels than 5 to 16.
    for ((tiny, n_seq), capability) in models().zip([1, 3, 6, 16, 4]).zip([75, 80, 80, 75, 80]) {
        let model = tiny.model();
        let o = Options { n_seq, ..options() };
        let prompts: Vec<_> = (0..n_seq).map(|s| prompt(&format!("many {s}"), 5 + 3 * s, tiny.n_vocab)).collect();
        let run = |on_device: bool| {
            let mut device = Device::new(&model, &o, sm(capability));
            let output = if on_device { Output::Token } else { Output::Logits };
            let (mut samplers, mut batch) = (Vec::new(), Vec::new());
            for (s, tokens) in prompts.iter().enumerate() {
                let params = params().swap_remove((s + n_seq) % 5);
                samplers.push(Sampler::new(params.clone(), tiny.n_vocab).unwrap());
                samplers[s].reset(tokens);
                if on_device {
                    assert!(device.set_sampling(s as u32, &request(&params, tokens)).unwrap());
                }
                batch.extend(prompt_of(tokens, 0, s as u32, output));
            }
            let mut out = Vec::new();
            for _ in 0..25 {
                let tokens = tokens_of(&mut device, &batch, &mut samplers, on_device);
                let next =
                    |(s, &token): (usize, &u32)| Entry { token, pos: device.len(s as u32), seq: s as u32, output };
                batch = tokens.iter().enumerate().map(next).collect();
                out.extend(tokens);
            }
            out
        };
        assert_eq!(run(true), run(false), "{} of {n_seq} sequences", tiny.arch);
    }
}

#[test]
fn sampling_ends_with_the_context() {
    let tiny = models().next().unwrap();
    let mut device = Device::new(&tiny.model(), &options(), sm(80));
    let tokens = prompt("full", 254, tiny.n_vocab);
    assert!(device.set_sampling(0, &request(&greedy(), &tokens)).unwrap());
    let batch = prompt_of(&tokens, 0, 0, Output::Token);
    let Some(Row::Token(first)) = device.step(&batch[..].into()).unwrap().iter().next() else { panic!("a token") };
    let token = device.next(first.token(), 254).unwrap().token();
    let token = device.next(token, 255).unwrap().token();
    assert!(matches!(device.next(token, 256), Err(ForwardError::ContextFull { .. })), "256 positions are 256");
}

#[test]
fn a_sequence_that_is_fed_something_else_is_the_hosts_again() {
    let tiny = models().next().unwrap();
    let model = tiny.model();
    let tokens = prompt("else", 20, tiny.n_vocab);
    let mut device = Device::new(&model, &options(), sm(80));
    let begin = |device: &mut Device| {
        device.rewind(0, 0);
        assert!(device.set_sampling(0, &request(&greedy(), &tokens)).unwrap());
        let batch = prompt_of(&tokens, 0, 0, Output::Token);
        let Some(Row::Token(first)) = device.step(&batch[..].into()).unwrap().iter().next() else { panic!("a token") };
        device.next(first.token(), 20).unwrap().token()
    };
    let token = begin(&mut device);
    let other = (token + 1) % tiny.n_vocab as u32;
    let one = |token, pos, output| [Entry { token, pos, seq: 0, output }];
    // Another token, logits instead of a token, nothing at all, more than one.
    let cases: [Vec<Entry>; 4] = [
        one(other, 21, Output::Token).to_vec(),
        one(token, 21, Output::Logits).to_vec(),
        one(token, 21, Output::None).to_vec(),
        [one(token, 21, Output::None), one(other, 22, Output::Token)].concat(),
    ];
    for case in cases {
        assert_eq!(begin(&mut device), token);
        let logits = device.step(&case[..].into()).unwrap().logits().to_vec();
        let outputs = case.iter().filter(|e| e.output != Output::None).count();
        assert_eq!(logits.len(), outputs * tiny.n_vocab, "{case:?}");
        // As on a device that never ran ahead.
        let mut alone = Device::new(&model, &options(), sm(80));
        let first = tokens_of(&mut alone, &prompt_of(&tokens, 0, 0, Output::Logits), &mut [host(&tokens, tiny)], false);
        alone.step(&one(first[0], 20, Output::Logits)[..].into()).unwrap();
        let plain = |e: &Entry| Entry { output: Output::logits_if(e.output != Output::None), ..*e };
        let case: Vec<Entry> = case.iter().map(plain).collect();
        assert_eq!(logits, alone.forward(&case).unwrap(), "{case:?}");
        let next = one(other, device.len(0), Output::Token);
        assert!(matches!(device.step(&next[..].into()).unwrap().iter().next(), Some(Row::Logits(_))), "{case:?}");
    }
}

fn host(history: &[u32], tiny: Tiny) -> Sampler {
    let mut sampler = Sampler::new(greedy(), tiny.n_vocab).unwrap();
    sampler.reset(history);
    sampler
}

/// A request and its answer when it is alone, sampled on the host.
struct Asked {
    prompt: Vec<u32>,
    params: SamplerParams,
    answer: Vec<u32>,
}

impl Asked {
    fn new(model: &Model, tiny: Tiny, rng: &mut Rng, config: &Config) -> Self {
        let n = 2 + (rng.next() % 70) as usize;
        let prompt = prompt(&format!("asked {}", rng.next()), n, tiny.n_vocab);
        let params = SamplerParams { seed: rng.next(), ..params().swap_remove((rng.next() % 5) as usize) };
        let mut device = Device::new(model, &options(), config.clone());
        let mut samplers = [Sampler::new(params.clone(), tiny.n_vocab).unwrap()];
        samplers[0].reset(&prompt);
        let (mut batch, mut answer) = (prompt_of(&prompt, 0, 0, Output::Logits), Vec::new());
        for pos in n..n + 2 + (rng.next() % 12) as usize {
            answer.extend(tokens_of(&mut device, &batch, &mut samplers, false));
            let token = answer[answer.len() - 1];
            batch = vec![Entry { token, pos: pos as u32, seq: 0, output: Output::Logits }];
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

/// Random arrivals, leaves, waits, cuts of prompts and cancelled steps.
fn random_steps(tiny: Tiny, config: &Config, seed: &str) {
    let model = tiny.model();
    let mut rng = Rng::new(seed);
    let mut waiting: Vec<Asked> = (0..9).map(|_| Asked::new(&model, tiny, &mut rng, config)).collect();
    let mut device = Device::new(&model, &Options { n_ubatch: 24, ..options() }, config.clone());
    let mut running: [Option<Asked>; 4] = [None, None, None, None];
    while !waiting.is_empty() || running.iter().any(Option::is_some) {
        let mut batch = Vec::new();
        for seq in 0..4 {
            let place = &mut running[seq as usize];
            if place.is_none()
                && rng.next() % 3 > 0
                && let Some(asked) = waiting.pop()
            {
                device.rewind(seq, 0);
                assert!(device.set_sampling(seq, &request(&asked.params, &asked.prompt)).unwrap());
                *place = Some(asked);
            }
            let Some(asked) = place else { continue };
            if rng.next() % 40 == 0 {
                *place = None;
                continue;
            }
            // Some wait although they could go on.
            if rng.next() % 5 == 0 {
                continue;
            }
            let (fed, len, n) = (asked.fed(), device.len(seq) as usize, asked.prompt.len());
            let end = if len < n { n.min(len + 1 + (rng.next() % 40) as usize) } else { len + 1 };
            let output = |e: &Entry| if asked.after(e.pos).is_some() { Output::Token } else { Output::None };
            batch.extend(entries(&fed[len..end], len, seq).iter().map(|e| Entry { output: output(e), ..*e }));
        }
        let lens = [0, 1, 2, 3].map(|seq| device.len(seq));
        // Never, or from the n-th time on that it is asked.
        let asks = AtomicUsize::new(if rng.next() % 6 == 0 { (rng.next() % 5) as usize } else { usize::MAX });
        let cancelled = || asks.fetch_sub(1, Relaxed) == 0;
        match device.step(&Batch { entries: &batch, cancelled: &cancelled }) {
            Err(ForwardError::Cancelled) => assert_eq!([0, 1, 2, 3].map(|seq| device.len(seq)), lens),
            Err(error) => panic!("{error}"),
            Ok(rows) => {
                let wanted = batch.iter().filter(|e| e.output != Output::None);
                for (e, row) in wanted.zip(rows.iter()) {
                    let asked = running[e.seq as usize].as_ref().unwrap();
                    let Row::Token(sampled) = row else { panic!("{}: logits of {e:?}", tiny.arch) };
                    assert_eq!(Sampler::outcome(&sampled).ok(), asked.after(e.pos), "{} {seed}: {e:?}", tiny.arch);
                }
                for e in &batch {
                    let place = &mut running[e.seq as usize];
                    if place.as_ref().is_some_and(|asked| e.pos as usize + 1 == asked.fed().len()) {
                        *place = None;
                    }
                }
            }
        }
    }
}

#[test]
fn each_text_is_what_it_is_alone_whoever_joins_leaves_or_waits() {
    for (i, tiny) in models().enumerate() {
        let streams = if i % 2 == 0 { Streams::Delayed } else { Streams::Immediate };
        let order = if i % 4 == 0 { Order::Reverse } else { Order::Forward };
        let config = Config { sm: [75, 80][i % 2], streams, order, ..Config::default() };
        for round in 0..3 {
            random_steps(tiny, &config, &format!("steps {round}"));
        }
    }
}
