//! Ways to run the same tokens that must give the same bits.

use qrun_models::{Entry, Forward, ForwardError, Gives, Options, Output, memory::Plan};
use qrun_quant::cpu::Isa;

use super::{all_models, assert_same, models, options, runs, runs_without_states};
use crate::tiny::{Mix, TINY, Tiny, decoder, entries, logits, prompt};

/// Longer than the windows of 64 and 70, and more than two pages.
const PROMPT: usize = 150;

#[test]
fn any_chunking_gives_the_same_bits() {
    for (tiny, options) in all_models().flat_map(|tiny| options().map(|o| (tiny, o))) {
        let model = tiny.model();
        let tokens = prompt("chunks", PROMPT, tiny.n_vocab);
        let whole = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        for (chunk, n_ubatch) in [(1, 512), (7, 512), (64, 512), (65, 16), (PROMPT, 1), (PROMPT, 33)] {
            let mut d = decoder(&model, Options { n_ubatch, ..options.clone() });
            let parts = tokens.chunks(chunk).enumerate().flat_map(|(i, part)| logits(&mut d, part, i * chunk, 0));
            let parts: Vec<f32> = parts.collect();
            let what = format_args!("{} {:?}, {chunk} at a time, ubatch {n_ubatch}", tiny.arch, options.arithmetic);
            assert_same(&whole, &parts, what);
        }
    }
}

/// Attention works on pieces of 512 positions, in parallel where there is one token and in order where
/// there are many.
#[test]
fn long_contexts_give_the_same_bits() {
    let narrow = Tiny { n_embd: 32, n_ff: 32, n_vocab: 29, ..TINY };
    for tiny in [narrow, Tiny { arch: "gemma2", tied: true, window: 600, ..narrow }] {
        let model = tiny.model();
        let tokens = prompt("long", 1300, tiny.n_vocab);
        for options in options() {
            let options = Options { n_ctx: 1300, ..options };
            let whole = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
            for (chunk, threads) in [(1, 1), (5, 5), (511, 3)] {
                let mut d = decoder(&model, Options { threads, ..options.clone() });
                // Up to where the windows and the third piece begin, then in chunks.
                let mut parts = logits(&mut d, &tokens[..1000], 0, 0);
                for (i, part) in tokens[1000..].chunks(chunk).enumerate() {
                    parts.extend(logits(&mut d, part, 1000 + i * chunk, 0));
                }
                let what = format_args!("{} {:?}, {chunk} at a time", tiny.arch, options.arithmetic);
                assert_same(&whole, &parts, what);
            }
        }
    }
}

#[test]
fn only_marked_logits_come_back() {
    for (tiny, options) in runs() {
        let model = tiny.model();
        let tokens = prompt("marks", 100, tiny.n_vocab);
        let all = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        let mut batch = entries(&tokens, 0, 0);
        let marked = [0, 31, 32, 99];
        batch.iter_mut().enumerate().for_each(|(i, e)| e.output = Output::logits_if(marked.contains(&i)));
        // The marks fall into several chunks, and some chunks have none.
        let mut d = decoder(&model, Options { n_ubatch: 16, ..options.clone() });
        let some = d.forward(&batch).unwrap();
        let want: Vec<f32> = marked.iter().flat_map(|i| all[i * tiny.n_vocab..][..tiny.n_vocab].to_vec()).collect();
        assert_same(some, &want, format_args!("{} {:?}", tiny.arch, options.arithmetic));
        assert_eq!(d.forward(&[]).unwrap(), [0.0; 0]);
    }
}

#[test]
fn four_sequences_in_a_batch_are_four_single_runs() {
    for (tiny, options) in runs() {
        let model = tiny.model();
        let sequences: Vec<Vec<u32>> =
            (0..4).map(|s| prompt(&format!("sequence {s}"), 80 + 20 * s, tiny.n_vocab)).collect();
        let mut d = decoder(&model, options.clone());
        let mut together = vec![Vec::new(); 4];
        // The first 60 tokens sequence by sequence, the rest in turns, one token of each at a time.
        let mut batch: Vec<Entry> =
            sequences.iter().enumerate().flat_map(|(s, t)| entries(&t[..60], 0, s as u32)).collect();
        for pos in 60..PROMPT {
            let turn = sequences.iter().enumerate().filter_map(|(s, t)| Some((s, *t.get(pos)?)));
            batch.extend(turn.map(|(s, token)| Entry {
                token,
                pos: pos as u32,
                seq: s as u32,
                output: Output::Logits,
                drafted: false,
            }));
        }
        for step in batch.chunks(37) {
            let out = d.forward(step).unwrap();
            for (e, row) in step.iter().zip(out.chunks_exact(tiny.n_vocab)) {
                together[e.seq as usize].extend_from_slice(row);
            }
        }
        for (s, tokens) in sequences.iter().enumerate() {
            let alone = logits(&mut decoder(&model, options.clone()), tokens, 0, 0);
            assert_eq!(d.len(s as u32) as usize, tokens.len());
            assert_same(&together[s], &alone, format_args!("{} {:?}, sequence {s}", tiny.arch, options.arithmetic));
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for (tiny, options) in runs() {
        let model = tiny.model();
        let tokens = prompt("threads", PROMPT, tiny.n_vocab);
        let run = |threads| {
            let mut d = decoder(&model, Options { threads, ..options.clone() });
            let mut out = logits(&mut d, &tokens[..140], 0, 0);
            (140..PROMPT).for_each(|pos| out.extend(logits(&mut d, &tokens[pos..=pos], pos, 0)));
            out
        };
        let one = run(1);
        for threads in [2, 3, 5] {
            let what = format_args!("{} {:?} on {threads} threads", tiny.arch, options.arithmetic);
            assert_same(&one, &run(threads), what);
        }
    }
}

#[test]
fn repacked_weights_give_the_same_bits() {
    for tiny in models() {
        let [_, options] = options();
        let model = tiny.model();
        let tokens = prompt("repack", 90, tiny.n_vocab);
        let run = |repack| logits(&mut decoder(&model, Options { repack, ..options.clone() }), &tokens, 0, 0);
        let want = run(false);
        assert_same(&run(true), &want, format_args!("{}", tiny.arch));
        // In its first chunks, of a prompt and of single tokens: none, some and all of them.
        let as_needed = Options { repack_as_needed: true, n_ubatch: 20, ..options.clone() };
        let mut d = decoder(&model, as_needed);
        let mut parts = logits(&mut d, &tokens[..70], 0, 0);
        (70..90).for_each(|pos| parts.extend(logits(&mut d, &tokens[pos..=pos], pos, 0)));
        assert_same(&parts, &want, format_args!("{} as needed", tiny.arch));
    }
}

#[test]
fn a_plan_tells_what_stays_in_the_mapped_file() {
    let model = Tiny { mix: Mix::Q8_0, ..TINY }.model();
    let plan = |repack, repack_as_needed, gives| {
        let plan = Plan::new(&model, &Options { repack, repack_as_needed, gives, ..Options::default() });
        [plan.mapped, plan.weights - plan.mapped]
    };
    let bytes = model.weights.bytes();
    assert_eq!(plan(false, true, Gives::Logits), [bytes, 0]);
    let [mapped, private] = plan(true, false, Gives::Logits);
    assert!(mapped == 0 && private >= bytes, "{private} of {bytes}");
    // Q8_0 is multiplied in place, and with AVX2 alone no slower.
    let stays = Isa::best() == Isa::Avx2;
    assert_eq!(plan(true, true, Gives::Logits), if stays { [bytes, 0] } else { [mapped, private] });
    // Of an embedding table without a head a few rows are read.
    assert_eq!(plan(true, false, Gives::Hidden)[0], model.weights.token_embd.bytes() as u64);
}

#[test]
fn fused_tensors_are_their_parts() {
    for mix in [Mix::F32, Mix::BF16, Mix::Q8_0] {
        for options in options() {
            let apart = Tiny { mix, biases: true, ..TINY };
            let tokens = prompt("fused", 70, apart.n_vocab);
            let run = |tiny: Tiny| logits(&mut decoder(&tiny.model(), options.clone()), &tokens, 0, 0);
            let want = run(apart);
            for (fused_qkv, fused_gate_up) in [(true, false), (false, true), (true, true)] {
                let what = format_args!("{mix:?}, qkv fused: {fused_qkv}, gate-up fused: {fused_gate_up}");
                assert_same(&want, &run(Tiny { fused_qkv, fused_gate_up, ..apart }), what);
            }
        }
    }
}

#[test]
fn a_rewound_sequence_has_never_gone_further() {
    for (tiny, options) in runs_without_states() {
        let model = tiny.model();
        let tokens = prompt("rewind", PROMPT, tiny.n_vocab);
        let other = prompt("the way not taken", PROMPT, tiny.n_vocab);
        let want = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        let mut d = decoder(&model, options.clone());
        for pos in [PROMPT, 149, 128, 127, 100, 64, 63, 1, 0] {
            assert_eq!(d.rewind(0, 0), 0);
            logits(&mut d, &tokens[..pos], 0, 0);
            logits(&mut d, &other[pos..], pos, 0);
            let kept = d.rewind(0, pos as u32) as usize;
            // Without a window everything is kept; with one, what its pages still reach.
            let reachable = tiny.window == 0 || pos >= PROMPT - 1 || pos == 0;
            assert!(kept == pos || !reachable && kept == 0, "{}: {kept} of {pos} kept", tiny.arch);
            assert_eq!(d.len(0) as usize, kept);
            let rest = logits(&mut d, &tokens[kept..], kept, 0);
            let what = format_args!("{} {:?}, rewound to {pos}, {kept} kept", tiny.arch, options.arithmetic);
            assert_same(&want[kept * tiny.n_vocab..], &rest, what);
        }
        assert_eq!(d.rewind(0, 1000) as usize, PROMPT, "a rewind never goes forward");
    }
}

#[test]
fn a_refused_batch_changes_nothing() {
    for (tiny, options) in runs() {
        let model = tiny.model();
        let tokens = prompt("refused", 80, tiny.n_vocab);
        let want = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        let mut d = decoder(&model, Options { n_ctx: 90, ..options.clone() });
        logits(&mut d, &tokens[..70], 0, 0);
        let held = d.kv_bytes();
        let n_vocab = tiny.n_vocab;
        let entry = |token, pos, seq| Entry { token, pos, seq, output: Output::Logits, drafted: false };
        // Each ends a batch that starts well.
        let refused = [
            (entry(5, 70, 0), ForwardError::Position { seq: 0, expected: 71, found: 70 }),
            (entry(5, 72, 0), ForwardError::Position { seq: 0, expected: 71, found: 72 }),
            (entry(5, 1, 1), ForwardError::Position { seq: 1, expected: 0, found: 1 }),
            (entry(n_vocab as u32, 71, 0), ForwardError::Token { token: n_vocab as u32, n_vocab }),
            (entry(u32::MAX, 71, 0), ForwardError::Token { token: u32::MAX, n_vocab }),
            (entry(5, 71, 4), ForwardError::Sequence { seq: 4, n_seq: 4 }),
            (entry(5, 0, u32::MAX), ForwardError::Sequence { seq: u32::MAX, n_seq: 4 }),
            (entry(5, u32::MAX, 0), ForwardError::ContextFull { pos: u32::MAX, n_ctx: 90 }),
        ];
        for (last, error) in refused {
            let batch = [entry(7, 70, 0), last];
            assert_eq!(d.forward(&batch).map(<[f32]>::len), Err(error));
        }
        let full = d.forward(&entries(&prompt("too long", 21, n_vocab), 70, 0)).map(<[f32]>::len);
        assert_eq!(full, Err(ForwardError::ContextFull { pos: 90, n_ctx: 90 }));
        assert_eq!((d.len(0), d.len(1), d.kv_bytes()), (70, 0, held));
        let rest = logits(&mut d, &tokens[70..], 70, 0);
        assert_same(&want[70 * n_vocab..], &rest, format_args!("{} {:?}", tiny.arch, options.arithmetic));
    }
}
