//! Recurrent layers: their states go where the sequences go, to the bit.

use qrun_models::{Forward, Options};

use super::{assert_same, options, runs};
use crate::tiny::{Tiny, decoder, logits, prompt};

/// More than three blocks of the cache.
const LONG: usize = 200;

/// Models with recurrent layers.
fn recurrent() -> impl Iterator<Item = (Tiny, Options)> {
    runs().filter(|(tiny, _)| (0..tiny.n_layer).any(|il| !tiny.attends(il)))
}

#[test]
fn a_sequence_that_was_left_goes_on_at_its_end() {
    for (tiny, options) in recurrent() {
        let tokens = prompt("left", LONG, tiny.n_vocab);
        let model = tiny.model();
        let want = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        for left in [1, 2, 63, 64, 65, 100, 128, 192] {
            let mut d = decoder(&model, options.clone());
            logits(&mut d, &tokens[..left], 0, 0);
            d.release(0, &tokens[..left]);
            assert_eq!(d.attach(1, &tokens) as usize, left, "{}", tiny.arch);
            let rest = logits(&mut d, &tokens[left..], left, 1);
            assert_same(&want[left * tiny.n_vocab..], &rest, format_args!("{} after {left}", tiny.arch));
            // It has gone on: what is left of it are the ends of blocks, and its own end.
            d.release(1, &tokens);
            assert_eq!(d.attach(2, &tokens) as usize, LONG, "{}", tiny.arch);
        }
    }
}

#[test]
fn what_parts_from_it_goes_on_at_the_end_of_a_block() {
    for (tiny, options) in recurrent() {
        let model = tiny.model();
        let tokens = prompt("first", 150, tiny.n_vocab);
        let mut d = decoder(&model, options.clone());
        // As a scheduler does it: what a prompt computed is shared while it goes on.
        for (i, part) in tokens.chunks(64).enumerate() {
            logits(&mut d, part, 64 * i, 0);
            d.share(0, &tokens[..64 * i + part.len()]);
        }
        for (parts, expected) in [(149, 128), (130, 128), (127, 64), (64, 64), (63, 0), (1, 0)] {
            let other = [&tokens[..parts], &prompt("other", LONG - parts, tiny.n_vocab)].concat();
            let want = logits(&mut decoder(&model, options.clone()), &other, 0, 0);
            let n = d.attach(1, &other) as usize;
            assert_eq!(n, expected, "{} parts at {parts}", tiny.arch);
            let rest = logits(&mut d, &other[n..], n, 1);
            assert_same(&want[n * tiny.n_vocab..], &rest, format_args!("{} parts at {parts}", tiny.arch));
            d.release(1, &[]);
        }
    }
}

#[test]
fn a_rewind_ends_where_there_is_a_state() {
    for (tiny, options) in recurrent() {
        let model = tiny.model();
        let tokens = prompt("rewind", LONG, tiny.n_vocab);
        let other = prompt("the way not taken", LONG, tiny.n_vocab);
        let want = logits(&mut decoder(&model, options.clone()), &tokens, 0, 0);
        let mut d = decoder(&model, options.clone());
        for pos in [LONG, 199, 192, 130, 128, 100, 64, 63, 1, 0] {
            assert_eq!(d.rewind(0, 0), 0);
            logits(&mut d, &tokens[..pos], 0, 0);
            let further = (pos + 40).min(LONG);
            logits(&mut d, &other[pos..further], pos, 0);
            let kept = d.rewind(0, pos as u32) as usize;
            // The end of the last block, if it is not too long ago.
            assert!(kept == pos && (pos % 64 == 0 || pos == LONG) || kept == pos / 64 * 64 || kept == 0);
            assert!(kept > 0 || pos < 64 || further / 64 > pos / 64 + 1, "{}: nothing kept of {pos}", tiny.arch);
            let rest = logits(&mut d, &tokens[kept..], kept, 0);
            assert_same(&want[kept * tiny.n_vocab..], &rest, format_args!("{} at {pos}, {kept} kept", tiny.arch));
        }
    }
}

#[test]
fn a_fork_takes_the_states_along() {
    for (tiny, options) in recurrent() {
        let model = tiny.model();
        let start = prompt("fork", 100, tiny.n_vocab);
        let mut d = decoder(&model, options.clone());
        logits(&mut d, &start, 0, 0);
        assert_eq!(d.fork(0, 1, 99), 0, "there is no state after 99 tokens");
        assert_eq!(d.fork(0, 1, 100), 100);
        assert_eq!(d.fork(0, 2, 64), 64);
        for (seq, from) in [(1, 100), (0, 100), (2, 64)] {
            let whole = [&start[..from], &prompt(&format!("end {seq}"), 60, tiny.n_vocab)].concat();
            let want = logits(&mut decoder(&model, options.clone()), &whole, 0, 0);
            let rest = logits(&mut d, &whole[from..], from, seq);
            assert_same(&want[from * tiny.n_vocab..], &rest, format_args!("{} sequence {seq}", tiny.arch));
        }
    }
}

#[test]
fn a_state_costs_what_the_plan_says() {
    for (tiny, _) in recurrent() {
        let model = tiny.model();
        let [_, o] = options();
        let len: usize = model.config.layers.iter().map(|l| l.state_len()).sum();
        let mut d = decoder(&model, o);
        let before = |d: &qrun_models::CpuDecoder| d.kv_bytes() as usize;
        logits(&mut d, &prompt("one", 1, tiny.n_vocab), 0, 0);
        let cache: usize = model.config.layers.iter().map(|l| 64 * 2 * 2 * l.kv_dim()).sum();
        assert_eq!(before(&d), 4 * len + cache, "{}", tiny.arch);
    }
}
