//! Pages that sequences leave behind and share: taking them over gives the bits that computing them gives.

use std::sync::atomic::{AtomicUsize, Ordering};

use qrun_models::{Batch, CpuDecoder, Forward, ForwardError, Options};

use super::{assert_same, options, runs, runs_without_states};
use crate::tiny::{TINY, Tiny, decoder, entries, logits, prompt};

/// Longer than every window, and more than two pages.
const LONG: usize = 200;

#[test]
fn an_attached_prefix_gives_the_bits_of_a_computed_one() {
    for (tiny, options) in runs_without_states() {
        let tokens = prompt("attached", LONG, tiny.n_vocab);
        let model = tiny.model();
        let want = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        for left in [1, 63, 64, 100, 150, 192] {
            let mut d = decoder(&model, options.clone());
            logits(&mut d, &tokens[..left], 0, 0);
            d.release(0, &tokens[..left]);
            assert_eq!(d.len(0), 0);
            for seq in [1, 2] {
                // All of it and no more, as a part of its last page and behind it.
                let n = d.attach(seq, &tokens) as usize;
                // The last page went to the sequence that took it over, whose window may have moved on.
                let gone = seq == 2 && tiny.window > 0 && n < left;
                assert!(n == left || gone, "{}: {n} of {left}", tiny.arch);
                logits(&mut d, &tokens[n..left], n, seq);
                let rest = logits(&mut d, &tokens[left..], left, seq);
                let what = format_args!("{} {:?} after {left}", tiny.arch, options.arithmetic);
                assert_same(&want[left * tiny.n_vocab..], &rest, what);
                d.release(seq, &tokens[..left]);
            }
        }
    }
}

#[test]
fn what_parts_inside_a_page_shares_what_comes_before() {
    for (tiny, options) in runs_without_states() {
        let model = tiny.model();
        let tokens = prompt("first", 110, tiny.n_vocab);
        // Room for all that is left behind.
        let mut d = decoder(&model, Options { n_kv: 4096, n_seq: 20, ..options.clone() });
        logits(&mut d, &tokens, 0, 0);
        d.release(0, &tokens);
        for parts in [109, 100, 65, 64, 30, 1] {
            let other = [&tokens[..parts], &prompt("other", LONG - parts, tiny.n_vocab)].concat();
            let mut fresh = decoder(&model, options.clone());
            let want = logits(&mut fresh, &other, 0, 0);
            let n = d.attach(1, &other) as usize;
            assert!(n >= parts, "{}: {n} of {parts}", tiny.arch);
            let rest = logits(&mut d, &other[n..], n, 1);
            assert_same(&want[n * tiny.n_vocab..], &rest, format_args!("{} parts at {parts}", tiny.arch));
            d.release(1, &other);
        }
        // What others copied from is as it was.
        assert_eq!(d.attach(1, &tokens), 110, "{}", tiny.arch);
    }
}

#[test]
fn sequences_of_one_prompt_share_its_pages_and_part() {
    for (tiny, options) in runs() {
        let model = tiny.model();
        let start = prompt("shared", 130, tiny.n_vocab);
        let whole = |seq: u32| [&start[..], &prompt(&format!("end {seq}"), 50, tiny.n_vocab)].concat();
        let mut d = decoder(&model, options.clone());
        logits(&mut d, &start, 0, 0);
        d.share(0, &start);
        let alone = d.kv_bytes();
        let taken: Vec<usize> = (1..4).map(|seq| d.attach(seq, &start) as usize).collect();
        assert_eq!(taken, [128; 3], "{}", tiny.arch);
        assert_eq!(d.kv_bytes(), alone, "{}: whole pages are not doubled", tiny.arch);
        let mut outs = vec![Vec::new(); 4];
        for (seq, &n) in (1..4).zip(&taken) {
            logits(&mut d, &start[n..], n, seq);
        }
        // Together, a few tokens of each at a time.
        let ends: Vec<Vec<u32>> = (0..4).map(whole).collect();
        for at in (130..180).step_by(5) {
            let batch: Vec<_> = (0..4).flat_map(|s| entries(&ends[s as usize][at..at + 5], at, s)).collect();
            let rows = d.forward(&batch).unwrap();
            for (e, row) in batch.iter().zip(rows.chunks_exact(tiny.n_vocab)) {
                outs[e.seq as usize].extend_from_slice(row);
            }
        }
        for (end, out) in ends.iter().zip(&outs) {
            let want = logits(&mut decoder(&model, options.clone()), end, 0, 0);
            assert_same(&want[130 * tiny.n_vocab..], out, format_args!("{} {:?}", tiny.arch, options.arithmetic));
        }
    }
}

#[test]
fn a_rewound_sequence_does_not_write_into_what_it_shared() {
    for (tiny, options) in runs_without_states() {
        // A window that still holds what the rewound position sees.
        let tiny = Tiny { window: if tiny.window > 0 { 200 } else { 0 }, ..tiny };
        let model = tiny.model();
        let tokens = prompt("rewound", 128, tiny.n_vocab);
        let mut d = decoder(&model, options.clone());
        logits(&mut d, &tokens, 0, 0);
        d.share(0, &tokens);
        assert_eq!(d.rewind(0, 120), 120);
        let other = [&tokens[..120], &prompt("another end", 30, tiny.n_vocab)].concat();
        let want = logits(&mut decoder(&model, options.clone()), &other, 0, 0);
        let rest = logits(&mut d, &other[120..], 120, 0);
        assert_same(&want[120 * tiny.n_vocab..], &rest, format_args!("{} goes on", tiny.arch));
        let n = d.attach(1, &tokens) as usize;
        let want = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        assert_eq!(n, 128, "{}", tiny.arch);
        let next = prompt("the next", 20, tiny.n_vocab);
        let mut fresh = decoder(&model, options);
        logits(&mut fresh, &tokens, 0, 0);
        let rest = logits(&mut d, &tokens[n..], n, 1);
        assert_same(&want[n * tiny.n_vocab..], &rest, format_args!("{} what was shared", tiny.arch));
        let (want, out) = (logits(&mut fresh, &next, 128, 0), logits(&mut d, &next, 128, 1));
        assert_same(&want, &out, format_args!("{} behind what was shared", tiny.arch));
    }
}

#[test]
fn without_pages_nothing_changes() {
    for (tiny, options) in runs() {
        let o = Options { n_ctx: 192, n_kv: 192, ..options };
        let model = tiny.model();
        let tokens = prompt("pages", 192, tiny.n_vocab);
        let want = logits(&mut decoder(&model, o.clone()), &tokens, 0, 0);
        let mut d = decoder(&model, o);
        logits(&mut d, &tokens[..100], 0, 0);
        logits(&mut d, &tokens[..64], 0, 1);
        assert_eq!((d.pages().free, d.pages().total), (0, 3));
        let held = d.kv_bytes();
        let more = [entries(&tokens[100..140], 100, 0), entries(&tokens[64..65], 64, 1)].concat();
        let pages = d.forward(&more).map(<[f32]>::len);
        assert_eq!(pages, Err(ForwardError::Pages { needed: 2, free: 0 }), "{}", tiny.arch);
        assert_eq!((d.len(0), d.len(1), d.kv_bytes()), (100, 64, held));
        let page = logits(&mut d, &tokens[100..128], 100, 0);
        assert_same(&want[100 * tiny.n_vocab..128 * tiny.n_vocab], &page, format_args!("{}", tiny.arch));
        // What the prefix cache alone holds is given up, and one sequence has room for the whole context.
        d.release(1, &tokens[..64]);
        let rest = logits(&mut d, &tokens[128..], 128, 0);
        assert_same(&want[128 * tiny.n_vocab..], &rest, format_args!("{} to its end", tiny.arch));
        assert_eq!(d.attach(1, &tokens), 0, "{}", tiny.arch);
    }
}

/// Runs a batch, cancelled when it is asked for the time number `asked`; whether that came to pass.
fn cancelled(d: &mut CpuDecoder, tokens: &[u32], start: usize, asked: usize) -> bool {
    let count = AtomicUsize::new(0);
    let cancelled = || count.fetch_add(1, Ordering::Relaxed) == asked;
    let entries = entries(tokens, start, 0);
    let result = d.step(&Batch { entries: &entries, cancelled: &cancelled }).map(|rows| rows.len());
    assert!(result == Ok(tokens.len()) || result == Err(ForwardError::Cancelled), "{result:?}");
    result.is_err()
}

#[test]
fn a_cancelled_step_loses_nothing() {
    for (tiny, options) in runs() {
        let model = tiny.model();
        let tokens = prompt("cancelled", LONG, tiny.n_vocab);
        let want = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        for n_ubatch in [512, 33] {
            let mut d = decoder(&model, Options { n_ubatch, ..options.clone() });
            let first = logits(&mut d, &tokens[..30], 0, 0);
            assert_same(&want[..30 * tiny.n_vocab], &first, format_args!("{}", tiny.arch));
            let mut at = 30;
            // Few tokens of a model with recurrent layers go to their end.
            for n in [1, 16, 17, LONG - 64] {
                let (held, mut asked) = (d.kv_bytes(), 0);
                while cancelled(&mut d, &tokens[at..at + n], at, asked) {
                    assert_eq!((d.len(0), d.kv_bytes(), d.rows().len()), (at as u32, held, 0));
                    asked += 13;
                }
                assert!(asked > 2 * tiny.n_layer || n < LONG - 64, "between the layers and within");
                let what = format_args!("{} {:?} in chunks of {n_ubatch}, {n}", tiny.arch, options.arithmetic);
                assert_same(&want[at * tiny.n_vocab..(at + n) * tiny.n_vocab], d.rows().logits(), what);
                at += n;
            }
        }
    }
}

/// Sequences that come and go by turns, in a pool that holds hardly more than two of them.
#[test]
fn a_small_pool_keeps_to_the_bits() {
    let windowed = Tiny { arch: "gemma2", tied: true, window: 100, ..TINY };
    for tiny in [TINY, windowed] {
        for options in options() {
            let o = Options { n_ctx: 256, n_kv: 448, n_seq: 3, n_ubatch: 50, ..options };
            let model = tiny.model();
            let start = prompt("system", 90, tiny.n_vocab);
            let texts: Vec<Vec<u32>> = (0..4)
                .map(|i| [&start[..], &prompt(&format!("text {i}"), 30 + 40 * i, tiny.n_vocab)].concat())
                .collect();
            let alone = |text: &Vec<u32>| logits(&mut decoder(&model, o.clone()), text, 0, 0);
            let want: Vec<Vec<f32>> = texts.iter().map(alone).collect();
            let mut d = decoder(&model, o.clone());
            let (mut reused, mut held) = (0, [None; 3]);
            for turn in 0..60 {
                let (seq, i) = (turn % 3, (turn * 7 + turn / 5) % 4);
                let left = held[seq].replace(i).map_or(&[][..], |i: usize| &texts[i]);
                d.release(seq as u32, left);
                let text = &texts[i];
                let n = d.attach(seq as u32, &text[..text.len() - 1]) as usize;
                reused += n;
                let rest = match d.forward(&entries(&text[n..], n, seq as u32)) {
                    Ok(rest) => rest.to_vec(),
                    Err(error) => {
                        // The others leave theirs behind; then there is room.
                        assert!(matches!(error, ForwardError::Pages { .. }), "{error}");
                        for other in (0..3).filter(|&other| other != seq) {
                            d.release(other as u32, held[other].take().map_or(&[][..], |i: usize| &texts[i]));
                        }
                        logits(&mut d, &text[n..], n, seq as u32)
                    }
                };
                let what = format_args!("{} {:?}, turn {turn}, {n} reused", tiny.arch, o.arithmetic);
                assert_same(&want[i][n * tiny.n_vocab..], &rest, what);
            }
            assert!(reused > 1000, "{}: {reused} tokens", tiny.arch);
        }
    }
}

#[test]
fn forgetting_keeps_a_common_beginning() {
    let [_, options] = options();
    let tokens = prompt("forget", LONG, TINY.n_vocab);
    let mut d = decoder(&TINY.model(), options);
    for end in [LONG, 100] {
        logits(&mut d, &tokens[..end], 0, 0);
        d.release(0, &tokens[..end]);
    }
    d.forget(&tokens[..150]);
    assert_eq!(d.attach(0, &tokens), 128, "whole pages of what is kept, nothing beyond");
    d.release(0, &tokens[..128]);
    d.forget(&[]);
    assert_eq!((d.attach(0, &tokens), d.kv_bytes()), (0, 0));
    assert_eq!(d.pages().free, d.pages().total);
}
