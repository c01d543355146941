//! Steps with guesses against steps without: what is accepted is there to the bit, and what is not was never there.

use qrun::sampler::{Sampler, SamplerParams};
use qrun_cuda::ops::sample::Status;
use qrun_emulator::{Config, Order};
use qrun_models::{Entry, Forward, ForwardError, Options, Output, Row};

use super::{Device, caches, greedy, models, options, request, sm};
use crate::tiny::{Tiny, entries, prompt};

/// Sequences, and guesses of each in a step: one below the most that fit.
const N_SEQ: usize = 3;
const N_DRAFT: usize = 4;

fn drafting() -> Options {
    Options { n_seq: N_SEQ, n_draft: N_DRAFT, ..options() }
}

/// A token and guesses behind it.
fn guessed(tokens: &[u32], start: usize, seq: u32, output: Output) -> Vec<Entry> {
    let mut batch = entries(tokens, start, seq);
    batch.iter_mut().enumerate().for_each(|(i, e)| (e.output, e.drafted) = (output, i > 0));
    batch
}

/// The logits of each sequence behind its prompt, a token of each at a time.
fn one_by_one(device: &mut Device, texts: &[Vec<u32>], prompts: &[usize], n: usize) -> Vec<Vec<f32>> {
    let mut out: Vec<Vec<f32>> = texts.iter().map(|_| Vec::new()).collect();
    for (s, (text, &len)) in texts.iter().zip(prompts).enumerate() {
        device.logits(&text[..len], 0, s as u32);
    }
    for i in 0..n {
        let one = |(s, text): (usize, &Vec<u32>)| {
            guessed(&text[prompts[s] + i..][..1], prompts[s] + i, s as u32, Output::Logits)
        };
        let batch: Vec<Entry> = texts.iter().enumerate().flat_map(one).collect();
        let logits = device.forward(&batch).unwrap_or_else(|e| panic!("{e}"));
        let width = logits.len() / texts.len();
        out.iter_mut().zip(logits.chunks_exact(width)).for_each(|(out, row)| out.extend_from_slice(row));
    }
    out
}

/// The same with guesses, of which in step `i` sequence `s` has `right(i, s)` first ones right.
fn in_guesses(
    device: &mut Device,
    texts: &[Vec<u32>],
    prompts: &[usize],
    n: usize,
    right: impl Fn(usize, usize) -> usize,
) -> Vec<Vec<f32>> {
    let mut out: Vec<Vec<f32>> = texts.iter().map(|_| Vec::new()).collect();
    for (s, (text, &len)) in texts.iter().zip(prompts).enumerate() {
        device.logits(&text[..len], 0, s as u32);
    }
    let mut at = prompts.to_vec();
    for step in 0.. {
        let (mut batch, mut accepts) = (Vec::new(), Vec::new());
        for (s, text) in texts.iter().enumerate() {
            let end = prompts[s] + n;
            // Sequences guess differently many, some nothing.
            let most = (N_DRAFT - (step + s) % 3).min(end.saturating_sub(at[s] + 1));
            if at[s] >= end {
                continue;
            }
            let good = right(step, s).min(most);
            let mut tokens = text[at[s]..=at[s] + most].to_vec();
            if good < most {
                tokens[good + 1] ^= 1;
            }
            batch.extend(guessed(&tokens, at[s], s as u32, Output::Logits));
            accepts.push((s, most + 1, good));
        }
        if batch.is_empty() {
            return out;
        }
        let rows = device.step(&batch[..].into()).unwrap_or_else(|e| panic!("{e}"));
        let logits: Vec<&[f32]> = rows.iter().map(|row| if let Row::Logits(l) = row { l } else { &[] }).collect();
        let mut first = 0;
        for &(s, n, good) in &accepts {
            logits[first..=first + good].iter().for_each(|row| out[s].extend_from_slice(row));
            first += n;
        }
        for (s, _, good) in accepts {
            assert_eq!(device.len(s as u32) as usize, at[s] + 1, "guesses do not join by themselves");
            device.accept(s as u32, good);
            at[s] += 1 + good;
            assert_eq!(device.len(s as u32) as usize, at[s]);
        }
    }
    out
}

fn texts(tiny: &Tiny) -> Vec<Vec<u32>> {
    (0..N_SEQ).map(|s| prompt(&format!("guesses {s}"), 150, tiny.n_vocab - 1)).collect()
}

/// Before, around and behind the end of a page.
const PROMPTS: [usize; N_SEQ] = [5, 58, 121];

#[track_caller]
fn assert_same(a: &[Vec<f32>], b: &[Vec<f32>], what: &str) {
    for (s, (a, b)) in a.iter().zip(b).enumerate() {
        assert!(a.len() == b.len() && a.iter().all(|x| x.is_finite()), "{what}, sequence {s}");
        let differ = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        assert_eq!(differ, 0, "{what}, sequence {s}: of {} logits", a.len());
    }
}

#[test]
fn accepted_guesses_are_tokens_that_came_one_by_one() {
    for (i, tiny) in models().enumerate() {
        let model = tiny.model();
        let texts = texts(&tiny);
        let mut device = Device::new(&model, &drafting(), sm([75, 80][i % 2]));
        let want = one_by_one(&mut device, &texts, &PROMPTS, 12);
        let (how, right) = [("some", [1, 3, 2]), ("all", [N_DRAFT; 3]), ("none", [0; 3])][i % 3];
        (0..N_SEQ).for_each(|s| assert_eq!(device.rewind(s as u32, 0), 0));
        let found = in_guesses(&mut device, &texts, &PROMPTS, 12, |step, s| right[(step + s) % 3]);
        assert_same(&found, &want, &format!("{}, {how} right", tiny.arch));
    }
}

#[test]
fn a_checked_device_finds_nothing_in_guesses() {
    if crate::card::is_real() {
        return crate::skip("only the emulator checks");
    }
    for (i, tiny) in caches().enumerate() {
        let model = tiny.model();
        let texts = texts(&tiny);
        let (sm_of, order) = ([75, 90][i % 2], [Order::Forward, Order::Reverse, Order::Random(3)][i % 3]);
        let mut device = Device::new(&model, &drafting(), Config { sm: sm_of, order, ..Config::checked() });
        let found = in_guesses(&mut device, &texts, &PROMPTS, 7, |step, s| [2, 0, 4][(step + s) % 3]);
        drop(device);
        let mut plain = Device::new(&model, &Options { n_draft: 0, ..drafting() }, sm(sm_of));
        assert_same(&found, &one_by_one(&mut plain, &texts, &PROMPTS, 7), tiny.arch);
    }
}

/// What follows guesses that nobody accepted, or that something else came in between of, is as if they had not been.
#[test]
fn guesses_are_gone_where_something_else_comes_first() {
    for tiny in caches() {
        let model = tiny.model();
        let text = &texts(&tiny)[0];
        let mut device = Device::new(&model, &drafting(), sm(80));
        let want = one_by_one(&mut device, std::slice::from_ref(text), &[60], 12);
        let width = tiny.n_vocab;
        for case in 0..5 {
            device.rewind(0, 0);
            device.logits(&text[..60], 0, 0);
            let first = guessed(&text[60..64], 60, 0, Output::Logits);
            device.step(&first[..].into()).unwrap_or_else(|e| panic!("{e}"));
            match case {
                0 => device.accept(0, 0),
                // A step without an answer to the last one.
                1 => {}
                2 => {
                    device.accept(0, 1);
                    device.accept(0, 3);
                }
                3 => {
                    assert!([0, 61].contains(&device.fork(0, 1, 61)));
                    device.accept(0, 3);
                }
                _ => {
                    let mut file = Vec::new();
                    device.save(0, &mut file).expect("bytes");
                    device.rewind(0, 0);
                    device.load(0, &mut &file[..]).expect("the same");
                    device.accept(0, 3);
                }
            }
            let len = 61 + usize::from(case == 2);
            assert_eq!(device.len(0) as usize, len, "{}, case {case}", tiny.arch);
            let mut found = Vec::new();
            for pos in len..72 {
                let one = guessed(&text[pos..=pos], pos, 0, Output::Logits);
                found.extend_from_slice(device.forward(&one).unwrap_or_else(|e| panic!("{e}")));
            }
            let want = vec![want[0][(len - 60) * width..].to_vec()];
            assert_same(&[found], &want, &format!("{}, case {case}", tiny.arch));
        }
    }
}

#[test]
fn more_guesses_than_fit_are_refused() {
    let tiny = models().next().expect("a model");
    let mut device = Device::new(&tiny.model(), &Options { n_draft: 63, ..drafting() }, sm(80));
    // Three sequences in 32 rows.
    assert_eq!(device.n_draft(), 9);
    let text = &texts(&tiny)[0];
    device.logits(&text[..5], 0, 0);
    let batch = guessed(&text[5..16], 5, 0, Output::Logits);
    let error = device.step(&batch[..].into()).expect_err("ten guesses");
    assert_eq!(error, ForwardError::Drafted { seq: 0, found: 10, most: 9 });
    assert_eq!(device.len(0), 5);
    assert!(device.step(&batch[..10].into()).is_ok());
}

/// The device goes on by itself as far as guesses are what it samples, with all that its sampler has seen until then.
#[test]
fn the_device_samples_behind_right_guesses() {
    let penalised = SamplerParams { repeat_penalty: 1.3, repeat_last_n: 8, seed: 4, ..SamplerParams::default() };
    for (tiny, params) in caches().flat_map(|tiny| [(tiny, greedy()), (tiny, penalised.clone())]) {
        let model = tiny.model();
        let tokens = prompt("chain", 57, tiny.n_vocab);
        let begin = |device: &mut Device| {
            assert!(device.set_sampling(0, &request(&params, &tokens)).expect("a device"));
            let mut batch = entries(&tokens, 0, 0);
            batch.iter_mut().for_each(|e| e.output = Output::None);
            batch.last_mut().expect("a token").output = Output::Token;
            match device.step(&batch[..].into()).expect("a step").iter().next() {
                Some(Row::Token(sampled)) => sampled.token(),
                other => panic!("{other:?}"),
            }
        };
        let mut plain = Device::new(&model, &Options { n_draft: 0, ..drafting() }, sm(75));
        let mut text = vec![begin(&mut plain)];
        for pos in 57..80 {
            text.push(plain.next(text[text.len() - 1], pos).expect("a token").token());
        }
        drop(plain);
        let mut device = Device::new(&model, &drafting(), sm(75));
        assert_eq!(begin(&mut device), text[0], "{}", tiny.arch);
        let (mut at, mut step) = (0, 0);
        while at + N_DRAFT + 1 < text.len() {
            let good = [4, 0, 2, 1, 3][step % 5];
            let mut fed = text[at..=at + N_DRAFT].to_vec();
            if good < N_DRAFT {
                fed[good + 1] ^= 1;
            }
            let batch = guessed(&fed, 57 + at, 0, Output::Token);
            let rows: Vec<_> = device
                .step(&batch[..].into())
                .expect("a step")
                .iter()
                .map(|row| match row {
                    Row::Token(sampled) => sampled,
                    Row::Logits(_) => panic!("{}: the device samples", tiny.arch),
                })
                .collect();
            for (i, row) in rows.iter().enumerate() {
                let what = format!("{}, step {step}, row {i}, {good} right", tiny.arch);
                match i <= good {
                    true => assert_eq!(Sampler::outcome(row), Ok(text[at + i + 1]), "{what}"),
                    false => assert_eq!(row.status(), Status::NotReached, "{what}"),
                }
            }
            device.accept(0, good);
            (at, step) = (at + 1 + good, step + 1);
        }
        // A step without guesses goes on too.
        let next = device.next(text[at], 57 + at as u32).expect("a token");
        assert_eq!(next.token(), text[at + 1], "{}", tiny.arch);
    }
}

/// The host samples where the device cannot go on from one guess to the next.
#[test]
fn guesses_that_want_something_else_give_logits() {
    let tiny = models().next().expect("a model");
    let mut device = Device::new(&tiny.model(), &drafting(), sm(80));
    let text = &texts(&tiny)[0];
    let none = [false; 4];
    let cases = [
        ([Output::Token; 4], [true; 4]),
        ([Output::Token, Output::Token, Output::Logits, Output::Token], none),
        ([Output::Logits, Output::Token, Output::Token, Output::Token], none),
        ([Output::None, Output::Token, Output::Token, Output::Token], none),
    ];
    for (outputs, sampled) in cases {
        device.rewind(0, 0);
        assert!(device.set_sampling(0, &request(&greedy(), &text[..9])).expect("a device"));
        let mut batch = entries(&text[..12], 0, 0);
        batch.iter_mut().for_each(|e| (e.output, e.drafted) = (Output::None, e.pos > 8));
        batch[8..].iter_mut().zip(outputs).for_each(|(e, output)| e.output = output);
        let rows = device.step(&batch[..].into()).unwrap_or_else(|e| panic!("{e}"));
        let found: Vec<bool> = rows.iter().map(|row| matches!(row, Row::Token(_))).collect();
        let wanted = outputs.iter().filter(|output| **output != Output::None).count();
        assert_eq!(found, sampled[..wanted], "{outputs:?}");
        device.accept(0, 3);
        assert_eq!(device.len(0), 12);
    }
}
