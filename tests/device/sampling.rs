//! Tokens that the device samples are those that the host would sample from its logits.

use qrun::sampler::{Sampler, SamplerParams};
use qrun_models::{Entry, Forward, ForwardError, Options, Output, Row};

use super::{Device, greedy, models, options, request, sm};
use crate::tiny::{Tiny, entries, prompt};

pub fn params() -> Vec<SamplerParams> {
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
pub fn prompt_of(tokens: &[u32], start: usize, seq: u32, output: Output) -> Vec<Entry> {
    let mut batch = entries(tokens, start, seq);
    let last = batch.len() - 1;
    batch.iter_mut().enumerate().for_each(|(i, e)| e.output = if i == last { output } else { Output::None });
    batch
}

/// The tokens after a batch: sampled by the device, or by these samplers from its logits.
pub fn tokens_of(device: &mut Device, batch: &[Entry], samplers: &mut [Sampler], on_device: bool) -> Vec<u32> {
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
    // 1 to 4 rows go through other kernels than 5 to 32.
    for ((tiny, n_seq), capability) in
        models().zip([1, 3, 6, 16, 4, 2, 5, 3, 20]).zip([75, 80, 80, 75, 80, 75, 80, 75, 80])
    {
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
                let next = |(s, &token): (usize, &u32)| Entry {
                    token,
                    pos: device.len(s as u32),
                    seq: s as u32,
                    output,
                    drafted: false,
                };
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
    let one = |token, pos, output| [Entry { token, pos, seq: 0, output, drafted: false }];
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
