//! Hidden states of texts, as embeddings are made of: those of the CPU, and the same alone and among others.

use qrun_models::{Forward, ForwardError, Gives, GpuDecoder, Options};

use super::{Device, assert_near, distance, in_k_quants, named, options, sm};
use crate::tiny::{ENCODERS, Mix, Tiny, decoder, entries, logits, prompt};

/// With attention, windows, factors on logits, experts and states.
fn models() -> impl Iterator<Item = Tiny> {
    named(&["qwen3", "gemma3", "granite", "qwen3moe", "nemotron_h"]).map(in_k_quants)
}

/// Those that see texts whole.
fn encoders() -> impl Iterator<Item = Tiny> {
    ENCODERS.into_iter().map(in_k_quants)
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
    for (i, tiny) in models().chain(encoders()).enumerate() {
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
    for (i, tiny) in models().chain(encoders()).enumerate() {
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
                if model.config.is_bidirectional() {
                    continue;
                }
                let (front, last) = text.split_at(text.len() - 1);
                let mut cut = if front.is_empty() { vec![] } else { device.logits(front, 0, seq) };
                cut.extend(device.logits(last, front.len(), seq));
                assert_eq!(own, cut, "{} {mix:?}, {} tokens, the last one apart", tiny.arch, text.len());
            }
        }
    }
}

#[test]
fn a_text_that_is_seen_whole_is_never_cut() {
    for tiny in encoders() {
        let (model, texts) = (tiny.model(), [150, 256, 100, 1].map(|n| prompt(&format!("{n}"), n, tiny.n_vocab)));
        let mut device = Device::new(&model, &hidden(), sm(80));
        let launches = |device: &Device| device.machine().map(|machine| machine.counters().launches["embed"]);
        let alone: Vec<_> = texts.iter().map(|text| (device.logits(text, 0, 0), device.rewind(0, 0)).0).collect();
        let before = launches(&device);
        let all: Vec<_> = texts.iter().zip(0..).flat_map(|(text, seq)| entries(text, 0, seq)).collect();
        assert_eq!(device.forward(&all).unwrap(), alone.concat(), "{}", tiny.arch);
        // The first of them, the second, and both of the others: 256 rows have room.
        let per_step = 1 + u64::from(model.config.arch.input.is_placed());
        assert_eq!(launches(&device), before.map(|n| n + 3 * per_step), "{}", tiny.arch);
        let more = device.forward(&entries(&texts[3], 1, 3)).map(<[f32]>::len);
        assert_eq!(more, Err(ForwardError::Whole { seq: 3, held: 1 }));
    }
}

#[test]
fn what_sees_texts_whole_is_refused_by_name_where_it_has_no_kernels() {
    let refused = |tiny: Tiny, gives| GpuDecoder::supports(&tiny.model(), &Options { gives, ..options() });
    for tiny in encoders() {
        assert_eq!(refused(tiny, Gives::Hidden), Ok(()), "{}", tiny.arch);
    }
    let reason = refused(ENCODERS[0], Gives::Logits).expect_err("logits of a BERT");
    assert!(reason.contains("logits after a norm of sums"), "{reason}");
}

/// A BERT has a row of weights for each position.
#[test]
fn positions_beyond_those_of_the_file_are_refused() {
    let tiny = in_k_quants(Tiny { n_ctx: 40, ..ENCODERS[0] });
    let (model, text) = (tiny.model(), prompt("long", 41, tiny.n_vocab));
    let mut device = Device::new(&model, &hidden(), sm(80));
    assert_eq!(device.n_ctx(), 40);
    assert_eq!(device.forward(&entries(&text[..40], 0, 0)).map(<[f32]>::len), Ok(40 * tiny.n_embd));
    device.rewind(0, 0);
    let refused = device.forward(&entries(&text, 0, 0)).map(<[f32]>::len);
    assert_eq!(refused, Err(ForwardError::ContextFull { pos: 40, n_ctx: 40 }));
}
