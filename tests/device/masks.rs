//! Sequences with masks: sampled on the device as the host would, beside others that run ahead; and what that costs.

use qrun::sampler::{Sampler, SamplerParams};
use qrun_emulator::{Config, Counters};
use qrun_models::{Entry, Forward, Model, Options, Output, Row, SamplingRequest};

use super::{
    Device, has_states, models, options, request,
    sampling::{params, prompt_of},
    sm,
};
use crate::tiny::{Rng, Tiny, prompt};

/// Who samples sequences with masks; the device samples the others.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Device,
    Host,
}

/// Sequences with masks, and without.
#[derive(Clone, Copy)]
struct Company {
    masked: usize,
    free: usize,
}

impl Company {
    fn n_seq(self) -> usize {
        self.masked + self.free
    }

    /// Not the first ones alone.
    fn is_masked(self, seq: usize) -> bool {
        (seq * 7) % self.n_seq() < self.masked
    }
}

/// A mask that depends on all tokens so far: half of the vocabulary, or two tokens, one of which a bias may exclude.
fn mask(tokens: &[u32], n_vocab: usize) -> Vec<u32> {
    let mut rng = Rng::new(&format!("{tokens:?}"));
    let chosen = rng.below(n_vocab);
    let mut words: Vec<u32> = (0..n_vocab.div_ceil(32)).map(|_| rng.next() as u32).collect();
    if rng.below(3) == 0 {
        words.fill(0);
    }
    [chosen, (chosen + 1) % n_vocab].into_iter().for_each(|token| words[token / 32] |= 1 << (token % 32));
    words
}

/// `steps` tokens of each sequence, and what the machine did in each step of decoding.
fn run(
    model: &Model,
    tiny: Tiny,
    (company, config): (Company, Config),
    steps: usize,
    by: By,
) -> (Vec<Vec<u32>>, Vec<Counters>) {
    let n = tiny.n_vocab;
    let mut device = Device::new(model, &Options { n_seq: company.n_seq(), ..options() }, config);
    let (output, by_host) = (Output::Token, |seq: usize| by == By::Host && company.is_masked(seq));
    let (mut samplers, mut texts, mut batch) = (Vec::new(), Vec::new(), Vec::new());
    for seq in 0..company.n_seq() {
        let tokens = prompt(&format!("masks {seq}"), 3 + 2 * seq, n);
        let params = SamplerParams { seed: seq as u64, ..params().swap_remove(seq % 5) };
        let mut sampler = Sampler::new(params.clone(), n).expect("good parameters");
        sampler.reset(&tokens);
        samplers.push(sampler);
        if !by_host(seq) {
            let masked = company.is_masked(seq);
            let request = SamplingRequest { masked, ..request(&params, &tokens) };
            assert!(device.set_sampling(seq as u32, &request).expect("a device"));
            assert_eq!(device.wants_mask(seq as u32), masked);
        }
        batch.extend(prompt_of(&tokens, 0, seq as u32, output));
        texts.push(tokens);
    }
    let mut counted = Vec::new();
    for step in 0..steps {
        for seq in (0..company.n_seq()).filter(|&seq| company.is_masked(seq)) {
            let words = mask(&texts[seq], n);
            match by {
                By::Device => device.set_mask(seq as u32, &words),
                By::Host => samplers[seq].restrict(Some(&words)),
            }
        }
        if let Some(machine) = device.machine() {
            machine.reset_counters();
        }
        let rows = device.step(&batch[..].into()).unwrap_or_else(|e| panic!("step {step}: {e}"));
        let wanted = batch.iter().filter(|e| e.output == output).zip(rows.iter());
        let chosen: Vec<(usize, u32)> = wanted
            .map(|(e, row)| {
                let seq = e.seq as usize;
                let token = match row {
                    Row::Token(sampled) if !by_host(seq) => Sampler::outcome(&sampled).expect("a token"),
                    Row::Logits(logits) if by_host(seq) => samplers[seq].sample(logits).expect("a token"),
                    other => panic!("step {step}, sequence {seq}: {other:?}"),
                };
                (seq, token)
            })
            .collect();
        assert_eq!(chosen.len(), company.n_seq());
        // The first step is that of the prompts.
        counted.extend(device.machine().map(|machine| machine.counters()).filter(|_| step > 0));
        batch.clear();
        for (seq, token) in chosen {
            samplers[seq].accept(token);
            texts[seq].push(token);
            batch.push(Entry { token, pos: device.len(seq as u32), seq: seq as u32, output, drafted: false });
        }
    }
    (texts, counted)
}

#[test]
fn masked_rows_are_sampled_as_the_host_does_and_their_logits_stay() {
    let companies =
        [(1, 0), (2, 2), (1, 4), (5, 0), (17, 3), (4, 13), (3, 1)].map(|(masked, free)| Company { masked, free });
    for (i, (tiny, company)) in models().zip(companies.into_iter().cycle()).enumerate() {
        let (model, config) = (tiny.model(), sm([75, 80][i % 2]));
        let (texts, counted) = run(&model, tiny, (company, config.clone()), 9, By::Device);
        let (want, _) = run(&model, tiny, (company, config), 9, By::Host);
        assert_eq!(texts, want, "{}: {} masked, {} free", tiny.arch, company.masked, company.free);
        // With recurrent layers and with embeddings for each layer no step runs ahead.
        let runs_ahead = !has_states(&tiny) && tiny.n_embd_per_layer == 0;
        for (step, counters) in counted.iter().enumerate() {
            let what = format!("{}: {} masked, {} free, step {step}", tiny.arch, company.masked, company.free);
            assert_eq!((counters.bytes_out, counters.allocations), (0, 0), "{what}");
            let rows = if runs_ahead { company.masked } else { company.n_seq() };
            // Sixteen rows are sampled at a time; those that run ahead all at once, in a step that begins in this one.
            let (turns, ahead) = (rows.div_ceil(16), usize::from(runs_ahead && company.free > 0));
            let launches = |kernel: &str| counters.launches.get(kernel).copied().unwrap_or(0);
            assert_eq!(launches("sample_scan"), (turns + ahead) as u64, "{what}");
            let with_masks = 1..=turns as u64;
            assert!(with_masks.contains(&launches("sample_mask")), "{what}: {} masks", launches("sample_mask"));
            // What the rows are; of each turn which have an output, and the masks; embeddings for each layer.
            let calls = |name: &str| counters.driver_calls.get(name).copied().unwrap_or(0);
            let most = (1 + 2 * turns + usize::from(tiny.n_embd_per_layer > 0)) as u64;
            assert!(calls("cuMemcpyHtoDAsync") <= most, "{what}: {} copies", calls("cuMemcpyHtoDAsync"));
            if runs_ahead {
                // Only copies in are waited for, those of the step before.
                assert_eq!(calls("cuStreamSynchronize"), 0, "{what}");
                assert!(counters.syncs <= most, "{what}: {} waits", counters.syncs);
            }
        }
    }
}

#[test]
fn a_sequence_whose_mask_does_not_come_is_the_hosts() {
    let tiny = models().next().expect("a model");
    let (model, tokens) = (tiny.model(), prompt("no mask", 12, tiny.n_vocab));
    let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    for missing in 0..3 {
        let mut device = Device::new(&model, &options(), sm(80));
        let masked = SamplingRequest { masked: true, ..request(&params, &tokens) };
        assert!(device.set_sampling(0, &masked).expect("a device"));
        let mut batch = prompt_of(&tokens, 0, 0, Output::Token);
        for step in 0..5 {
            assert_eq!(device.wants_mask(0), step <= missing);
            if step != missing {
                // Once it is the host's a mask changes nothing.
                device.set_mask(0, &[1 << 9]);
            }
            let rows = device.step(&batch[..].into()).unwrap_or_else(|e| panic!("{e}"));
            let token = match rows.iter().next() {
                Some(Row::Token(sampled)) if step < missing => {
                    assert_eq!(sampled.token(), 9);
                    sampled.token()
                }
                Some(Row::Logits(logits)) if step >= missing => {
                    assert!(logits.iter().all(|logit| logit.is_finite()), "as the model has them");
                    9
                }
                other => panic!("step {step} of {missing}: {other:?}"),
            };
            batch = vec![Entry { token, pos: device.len(0), seq: 0, output: Output::Token, drafted: false }];
        }
        // Another request takes masks again, or none.
        device.rewind(0, 0);
        assert!(device.set_sampling(0, &request(&params, &tokens)).expect("a device"));
        assert!(!device.wants_mask(0));
        let batch = prompt_of(&tokens, 0, 0, Output::Token);
        let first = device.step(&batch[..].into()).unwrap_or_else(|e| panic!("{e}")).iter().next();
        assert!(matches!(first, Some(Row::Token(_))), "{first:?}");
    }
}

#[test]
fn a_mask_that_allows_nothing_is_an_error_and_the_sequence_the_hosts() {
    let tiny = models().next().expect("a model");
    let (model, tokens) = (tiny.model(), prompt("nothing", 12, tiny.n_vocab));
    let mut device = Device::new(&model, &options(), sm(80));
    let params = SamplerParams::default();
    let masked = SamplingRequest { masked: true, ..request(&params, &tokens) };
    assert!(device.set_sampling(0, &masked).expect("a device"));
    device.set_mask(0, &[0]);
    let batch = prompt_of(&tokens, 0, 0, Output::Token);
    let first = device.step(&batch[..].into()).unwrap_or_else(|e| panic!("{e}")).iter().next();
    let Some(Row::Token(sampled)) = first else { panic!("{first:?}") };
    assert_eq!(Sampler::outcome(&sampled), Err(qrun::sampler::SamplerError::NoToken));
    assert!(!device.wants_mask(0));
    let next = Entry { token: 5, pos: device.len(0), seq: 0, output: Output::Token, drafted: false };
    let row = device.step(&[next][..].into()).unwrap_or_else(|e| panic!("{e}")).iter().next();
    assert!(matches!(row, Some(Row::Logits(_))), "{row:?}");
}
