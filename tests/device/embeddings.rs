//! Hidden states of texts, as embeddings are made of: those of the CPU, and the same alone and among others.

use qrun_models::{Forward, Gives, Options};

use super::{Device, assert_near, distance, in_k_quants, named, options, sm};
use crate::tiny::{Mix, Tiny, decoder, entries, logits, prompt};

/// With attention, windows, factors on logits, experts and states.
fn models() -> impl Iterator<Item = Tiny> {
    named(&["qwen3", "gemma3", "granite", "qwen3moe", "nemotron_h"]).map(in_k_quants)
}

/// Of one token, of a few, and of more than go through the layers together.
fn texts(tiny: &Tiny) -> Vec<Vec<u32>> {
    [1, 70, 3, 129].iter().map(|&n| prompt(&format!("text of {n}"), n, tiny.n_vocab)).collect()
}

fn hidden() -> Options {
    Options { gives: Gives::Hidden, n_ubatch: 64, ..options() }
}

#[test]
fn hidden_states_are_those_of_the_exact_cpu() {
    for (i, tiny) in models().enumerate() {
        // Experts are quantized.
        for mix in if tiny.experts[0] > 0 { vec![Mix::Q4_K_M] } else { vec![Mix::Q4_K_M, Mix::F32] } {
            let tiny = Tiny { mix, ..tiny };
            let model = tiny.model();
            let on_cpu = |options: Options| decoder(&model, Options { gives: Gives::Hidden, n_seq: 4, ..options });
            let (mut exact, mut fast) = (on_cpu(Options::exact()), on_cpu(options()));
            let mut device = Device::new(&model, &hidden(), sm([75, 80][i % 2]));
            for (seq, text) in (0..).zip(texts(&tiny)) {
                let [want, fast] = [&mut exact, &mut fast].map(|cpu| logits(cpu, &text, 0, seq));
                let found = device.logits(&text, 0, seq);
                assert_eq!(found.len(), text.len() * tiny.n_embd);
                let what = format!("{} {mix:?}, {} tokens", tiny.arch, text.len());
                if mix == Mix::F32 {
                    assert_near(&found, &want, 4e-3, format_args!("{what}"));
                }
                let near = 1.1 * distance(&fast, &want) + 1e-4;
                assert_near(&found, &want, near, format_args!("{what}, as near as the CPU's fast arithmetic is"));
            }
        }
    }
}

#[test]
fn hidden_states_are_the_same_alone_and_among_others() {
    for (i, tiny) in models().enumerate() {
        let mixes = if tiny.experts[0] > 0 { vec![Mix::Q4_K_M] } else { vec![Mix::Q4_K_M, Mix::BF16] };
        for mix in mixes {
            let tiny = Tiny { mix, ..tiny };
            let (model, texts) = (tiny.model(), texts(&tiny));
            let mut device = Device::new(&model, &hidden(), sm([80, 75][i % 2]));
            let all: Vec<_> = texts.iter().zip(0..).flat_map(|(text, seq)| entries(text, 0, seq)).collect();
            let together = device.forward(&all).unwrap().to_vec();
            let mut of_text = together.as_slice();
            for (text, seq) in texts.iter().zip(0..) {
                let own;
                (own, of_text) = of_text.split_at(text.len() * tiny.n_embd);
                device.rewind(seq, 0);
                let alone = device.logits(text, 0, seq);
                assert_eq!(own, alone, "{} {mix:?}, {} tokens", tiny.arch, text.len());
                // Cut where steps of decoding would follow.
                device.rewind(seq, 0);
                let (front, last) = text.split_at(text.len() - 1);
                let mut cut = if front.is_empty() { vec![] } else { device.logits(front, 0, seq) };
                cut.extend(device.logits(last, front.len(), seq));
                assert_eq!(own, cut, "{} {mix:?}, {} tokens, the last one apart", tiny.arch, text.len());
            }
        }
    }
}
