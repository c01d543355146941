//! Pages are taken as needed, shared, copied before they are written, and refused when there are none left.

use std::sync::atomic::{AtomicUsize, Ordering};

use qrun_models::{Batch, Forward, ForwardError, Options};

use super::{Device, caches, has_states, kept, options, sm};
use crate::tiny::{Tiny, entries, prompt};

#[track_caller]
fn assert_same(a: &[f32], b: &[f32], what: &str) {
    assert!(a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits()), "{what}");
}

#[test]
fn where_no_page_is_left_nothing_changes() {
    for tiny in caches() {
        let model = tiny.model();
        let o = Options { n_kv: 256, n_ubatch: 64, ..options() };
        let (mut device, mut other) = (Device::new(&model, &o, sm(80)), Device::new(&model, &o, sm(80)));
        let tokens = prompt("pages", 200, tiny.n_vocab);
        assert_eq!(device.kv_bytes(), 0);
        device.logits(&tokens[..100], 0, 0);
        other.logits(&tokens[..100], 0, 0);
        let (before, bytes) = (device.pages(), device.kv_bytes());
        assert_eq!((before.free, before.total), (2, 4), "{}", tiny.arch);
        // Three of its four chunks would fit.
        let refused = device.forward(&entries(&tokens, 0, 1)).map(<[f32]>::len);
        assert!(matches!(refused, Err(ForwardError::Pages { needed: 1, free: 0 })), "{}: {refused:?}", tiny.arch);
        assert_eq!((device.len(0), device.len(1), device.pages(), device.kv_bytes()), (100, 0, before, bytes));
        assert_same(&device.logits(&tokens[100..], 100, 0), &other.logits(&tokens[100..], 100, 0), tiny.arch);
        assert!(device.forward(&entries(&tokens[..1], 0, 1)).is_err());
        device.release(0, &[]);
        assert_eq!(device.pages().free, 4);
        assert!(device.forward(&entries(&tokens, 0, 1)).is_ok());
    }
}

#[test]
fn a_prompt_that_was_computed_before_gives_the_same_bits() {
    for (i, tiny) in caches().enumerate() {
        let model = tiny.model();
        let (tokens, n) = (prompt("again", 150, tiny.n_vocab), tiny.n_vocab);
        let mut device = Device::new(&model, &options(), sm([75, 80][i % 2]));
        let want = device.logits(&tokens, 0, 0);
        device.release(0, &tokens);
        // The whole, to the token; another ending; and in between both write behind what they share.
        let held = |pos| kept(&Tiny { window: 0, ..tiny }, 150, pos)[0];
        let (late, middle, early) = (held(149), held(140), held(130));
        assert_eq!(device.attach(1, &tokens[..149]) as usize, late, "{}", tiny.arch);
        let other: Vec<u32> = tokens[..140].iter().copied().chain(prompt("ending", 30, n)).collect();
        assert_eq!(device.attach(2, &other[..169]) as usize, middle, "{}", tiny.arch);
        let fork = device.logits(&other[middle..], middle, 2);
        let found = device.logits(&tokens[late..], late, 1);
        assert_same(&found, &want[late * n..], tiny.arch);
        let mut alone = Device::new(&model, &options(), sm([75, 80][i % 2]));
        assert_same(&fork, &alone.logits(&other, 0, 0)[middle * n..], tiny.arch);
        // What was shared is as it was.
        assert_eq!(device.attach(3, &tokens[..130]) as usize, early, "{}", tiny.arch);
        assert_same(&device.logits(&tokens[early..], early, 3), &want[early * n..], tiny.arch);
        device.forget(&[]);
        assert_eq!(device.attach(0, &tokens), 0, "{}", tiny.arch);
    }
}

/// A step of several launches that ends in the middle: a prompt that goes on inside of a block, while another sequence decodes.
#[test]
fn a_step_that_is_taken_back_leaves_everything_as_it_was() {
    for (i, tiny) in caches().enumerate() {
        let (model, capability) = (tiny.model(), [75, 80][i % 2]);
        let tokens = prompt("back", 180, tiny.n_vocab);
        let o = Options { n_ubatch: 16, ..options() };
        let (mut device, mut other) =
            (Device::new(&model, &o, sm(capability)), Device::new(&model, &o, sm(capability)));
        for device in [&mut device, &mut other] {
            device.logits(&tokens[..100], 0, 0);
            device.logits(&tokens[..70], 0, 1);
        }
        for asked in [2, 4] {
            let batch = [entries(&tokens[100..], 100, 0), entries(&tokens[70..71], 70, 1)].concat();
            let calls = AtomicUsize::new(0);
            let cancelled = || calls.fetch_add(1, Ordering::Relaxed) >= asked;
            let found = device.step(&Batch { entries: &batch, cancelled: &cancelled }).map(drop);
            assert!(matches!(found, Err(ForwardError::Cancelled)), "{}: {found:?}", tiny.arch);
            assert_eq!((device.len(0), device.len(1)), (100, 70), "{}", tiny.arch);
        }
        for (from, seq) in [(100, 0), (70, 1)] {
            let rest = device.logits(&tokens[from..], from, seq);
            assert_same(&rest, &other.logits(&tokens[from..], from, seq), tiny.arch);
        }
    }
}

/// Of blocks that a chunk passes no state is kept; where it ends another sequence goes on.
#[test]
fn long_chunks_take_few_pages_and_leave_their_last_states() {
    for tiny in caches().filter(has_states) {
        let (model, n) = (tiny.model(), tiny.n_vocab);
        let tokens = prompt("long", 460, n);
        let o = Options { n_ctx: 512, n_seq: 2, ..options() };
        let mut device = Device::new(&model, &o, sm(80));
        let want = device.logits(&tokens, 0, 0);
        let mut short = Device::new(&model, &Options { n_ubatch: 48, ..o.clone() }, sm(80));
        assert_same(&short.logits(&tokens, 0, 0), &want, tiny.arch);
        device.rewind(0, 0);
        device.logits(&tokens[..390], 0, 0);
        device.release(0, &tokens[..390]);
        for (len, held) in [(300, 0), (389, 384), (450, 390)] {
            assert_eq!(device.attach(1, &tokens[..len]), held, "{}: {len} tokens", tiny.arch);
        }
        assert_same(&device.logits(&tokens[390..], 390, 1), &want[390 * n..], tiny.arch);
    }
}
