//! Ways to run the same tokens that must give the same.

use std::io::Cursor;

use qrun_models::{CpuDecoder, Entry, Forward, ForwardError, Model, Options, Output};

use super::{Device, assert_near, caches, fast_bound, kept, models, options, sm};
use crate::tiny::{Tiny, entries, prompt};

/// Longer than the windows of 64 and 70, and more than two pages.
const PROMPT: usize = 150;
/// Decode against prefill, one sequence against a batch, where some weights are dense: sums in another order, and roundings
/// to int8 that tip over for it. One such rounding moves a vector of 256 elements by 1e-3 of its length.
const DENSE: f64 = 1.5e-2;

#[track_caller]
fn assert_same(a: &[f32], b: &[f32], what: std::fmt::Arguments) {
    assert!(a.len() == b.len() && a.iter().all(|x| x.is_finite()), "{what}");
    let differ: Vec<_> = (0..a.len()).filter(|&i| a[i].to_bits() != b[i].to_bits()).collect();
    let some = &differ[..differ.len().min(5)];
    assert!(differ.is_empty(), "{what}: {} of {} logits differ, {some:?} …", differ.len(), a.len());
}

fn all_quantized(model: &Model) -> bool {
    model.weights.formats().all(|ty| ty.format().block > 1)
}

/// The same bits where all weights are quantized.
#[track_caller]
fn assert_alike(model: &Model, a: &[f32], b: &[f32], what: std::fmt::Arguments) {
    if all_quantized(model) {
        assert_same(a, b, what);
    } else {
        assert_near(a, b, DENSE, what);
    }
}

fn in_chunks(device: &mut Device, tokens: &[u32], chunk: usize) -> Vec<f32> {
    let parts = tokens.chunks(chunk).enumerate();
    parts.flat_map(|(i, part)| device.logits(part, i * chunk, 0)).collect()
}

#[test]
fn chunks_of_a_prompt_give_the_same_bits() {
    for tiny in models() {
        let model = tiny.model();
        let tokens = prompt("chunks", PROMPT, tiny.n_vocab);
        let whole = Device::new(&model, &options(), sm(80)).logits(&tokens, 0, 0);
        for (chunk, n_ubatch) in [(33, 512), (64, 512), (PROMPT, 33)] {
            let mut device = Device::new(&model, &Options { n_ubatch, ..options() }, sm(80));
            let parts = in_chunks(&mut device, &tokens, chunk);
            assert_same(&whole, &parts, format_args!("{}, {chunk} at a time, ubatch {n_ubatch}", tiny.arch));
        }
    }
}

/// Tokens that go one by one: where a sequence begins, and where pages and windows end.
fn is_single(pos: usize) -> bool {
    matches!(pos, 0..6 | 58..78 | 124..132)
}

#[test]
fn token_by_token_is_the_prompt_and_repeats_its_bits() {
    let ends = |&pos: &usize| pos == PROMPT || is_single(pos) || pos > 0 && is_single(pos - 1);
    let parts: Vec<usize> = (0..=PROMPT).filter(ends).collect();
    for tiny in models() {
        let model = tiny.model();
        let tokens = prompt("decode", PROMPT, tiny.n_vocab);
        let whole = Device::new(&model, &options(), sm(75)).logits(&tokens, 0, 0);
        let single = || {
            let mut device = Device::new(&model, &options(), sm(75));
            let each = parts.windows(2).map(|part| device.logits(&tokens[part[0]..part[1]], part[0], 0));
            each.collect::<Vec<_>>().concat()
        };
        let first = single();
        assert_alike(&model, &first, &whole, format_args!("{}", tiny.arch));
        if !all_quantized(&model) {
            assert_same(&first, &single(), format_args!("{} twice", tiny.arch));
        }
    }
}

/// A prompt that is cut anywhere, goes on token by token from there, or comes back from a file: one arithmetic.
#[test]
fn where_a_prompt_ends_and_decoding_begins_is_not_in_the_bits() {
    let mut seen = 0;
    for (tiny, sm_of) in models().filter(|tiny| all_quantized(&tiny.model())).zip([75, 80, 75, 80, 75, 80]) {
        let (model, n) = (tiny.model(), 80);
        let tokens = prompt("cuts", n, tiny.n_vocab);
        let mut device = Device::new(&model, &options(), sm(sm_of));
        let whole = device.logits(&tokens, 0, 0);
        for cut in [1, 9, 33, 63, 64, 65, 77] {
            device.rewind(0, 0);
            let begin = device.logits(&tokens[..cut], 0, 0);
            let (middle, end) = (cut..(cut + 3).min(n), (cut + 3).min(n)..n);
            let one: Vec<f32> = middle.flat_map(|pos| device.logits(&tokens[pos..=pos], pos, 0)).collect();
            let rest = device.logits(&tokens[end.clone()], end.start, 0);
            assert_same(&[begin, one, rest].concat(), &whole, format_args!("{} cut at {cut}", tiny.arch));
        }
        seen += 1;
    }
    assert!(seen >= 3, "{seen} models of quantized weights alone");
}

#[test]
fn sequences_in_a_batch_are_single_runs() {
    for (tiny, n_seq) in models().zip([2, 3, 4, 6, 16, 3, 5, 18, 20]) {
        let model = tiny.model();
        let o = Options { n_seq, ..options() };
        let sequences: Vec<_> = (0..n_seq).map(|s| prompt(&format!("sequence {s}"), 62 + s, tiny.n_vocab)).collect();
        let mut device = Device::new(&model, &o, sm(80));
        let mut together = vec![Vec::new(); n_seq];
        for (s, tokens) in sequences.iter().enumerate() {
            together[s] = device.logits(&tokens[..60], 0, s as u32);
        }
        for pos in 60.. {
            let turn = sequences.iter().enumerate().filter_map(|(s, t)| Some((s, *t.get(pos)?)));
            let batch: Vec<_> = turn
                .map(|(s, token)| Entry {
                    token,
                    pos: pos as u32,
                    seq: s as u32,
                    output: Output::Logits,
                    drafted: false,
                })
                .collect();
            if batch.is_empty() {
                break;
            }
            let out = device.forward(&batch).unwrap();
            for (e, row) in batch.iter().zip(out.chunks_exact(tiny.n_vocab)) {
                together[e.seq as usize].extend_from_slice(row);
            }
        }
        for s in [0, n_seq / 2, n_seq - 1] {
            let (tokens, mut alone) = (&sequences[s], Device::new(&model, &options(), sm(80)));
            let mut want = alone.logits(&tokens[..60], 0, 0);
            tokens[60..].iter().enumerate().for_each(|(i, t)| want.extend(alone.logits(&[*t], 60 + i, 0)));
            assert_alike(&model, &together[s], &want, format_args!("{} sequence {s} of {n_seq}", tiny.arch));
        }
    }
}

#[test]
fn going_back_and_on_changes_nothing() {
    for tiny in caches() {
        let model = tiny.model();
        let tokens = prompt("back", PROMPT, tiny.n_vocab);
        let mut device = Device::new(&model, &options(), sm(80));
        let want = device.logits(&tokens, 0, 0);
        let back = device.rewind(0, 140) as usize;
        assert_eq!(back, kept(&tiny, PROMPT, 140)[0]);
        let again = device.logits(&tokens[back..], back, 0);
        assert_alike(&model, &again, &want[back * tiny.n_vocab..], format_args!("{}", tiny.arch));
        // Sliding layers hold the window and a chunk: with small chunks they let go of the beginning.
        let mut short = Device::new(&model, &Options { n_ubatch: 16, ..options() }, sm(80));
        short.logits(&tokens, 0, 0);
        let from = short.rewind(0, 10) as usize;
        assert!(kept(&tiny, PROMPT, 10).contains(&from), "{}: {from}", tiny.arch);
        let parts = short.logits(&tokens[from..], from, 0);
        assert_alike(&model, &parts, &want[from * tiny.n_vocab..], format_args!("{} from {from}", tiny.arch));
    }
}

#[test]
fn a_full_context_that_is_rewound_is_as_new() {
    for (i, tiny) in caches().enumerate() {
        let (model, capability) = (tiny.model(), [75, 80][i % 2]);
        let (tokens, others) = (prompt("full", 256, tiny.n_vocab), prompt("others", 256, tiny.n_vocab));
        let mut device = Device::new(&model, &options(), sm(capability));
        device.logits(&tokens[..250], 0, 0);
        (250..256).for_each(|pos| drop(device.logits(&tokens[pos..=pos], pos, 0)));
        let more = device.forward(&entries(&tokens[..1], 256, 0)).map(<[f32]>::len);
        assert!(matches!(more, Err(ForwardError::ContextFull { .. })), "{}: {more:?}", tiny.arch);
        // Layers with a window have let go of the beginning.
        let from = device.rewind(0, 10) as usize;
        assert!(kept(&tiny, 256, 10).contains(&from), "{}: {from}", tiny.arch);
        let rest = device.logits(&others[from..], from, 0);
        let mut new = Device::new(&model, &options(), sm(capability));
        if from > 0 {
            new.logits(&tokens[..from], 0, 0);
        }
        assert_same(&rest, &new.logits(&others[from..], from, 0), format_args!("{} from {from}", tiny.arch));
    }
}

#[test]
fn only_marked_logits_come_back() {
    let tiny: Tiny = models().next().unwrap();
    let mut device = Device::new(&tiny.model(), &options(), sm(80));
    let tokens = prompt("marks", 100, tiny.n_vocab);
    let all = device.logits(&tokens, 0, 0);
    device.rewind(0, 0);
    let mut batch = entries(&tokens, 0, 0);
    // More than are computed at once.
    batch.iter_mut().enumerate().for_each(|(i, e)| e.output = Output::logits_if(i % 3 == 0));
    let some = device.forward(&batch).unwrap().to_vec();
    let want: Vec<f32> = (0..100).step_by(3).flat_map(|i| all[i * 61..(i + 1) * 61].to_vec()).collect();
    assert_same(&some, &want, format_args!("marked"));
    assert_eq!(device.forward(&[]).unwrap(), [0.0; 0]);
}

#[test]
fn a_saved_sequence_goes_on_here_and_on_the_cpu() {
    for tiny in caches() {
        for q8 in [false, true] {
            let kind = if q8 { qrun_models::KvType::Q8_0 } else { qrun_models::KvType::F16 };
            let o = Options { type_k: kind, type_v: kind, ..options() };
            let model = tiny.model();
            let tokens = prompt("saved", PROMPT, tiny.n_vocab);
            let mut device = Device::new(&model, &o, sm(80));
            device.logits(&tokens[..130], 0, 0);
            let mut file = Vec::new();
            device.save(0, &mut file).unwrap();
            let want = device.logits(&tokens[130..], 130, 0);
            let mut other = Device::new(&model, &o, sm(80));
            other.logits(&tokens[20..80], 0, 2);
            other.load(2, &mut Cursor::new(&file)).unwrap();
            assert_eq!(other.len(2), 130);
            let what = format_args!("{} q8_0 {q8}", tiny.arch);
            assert_same(&other.logits(&tokens[130..], 130, 2), &want, what);
            let mut cpu = CpuDecoder::new(model.clone(), o.clone()).unwrap();
            cpu.load(0, &mut Cursor::new(&file)).unwrap();
            assert_near(cpu.forward(&entries(&tokens[130..], 130, 0)).unwrap(), &want, fast_bound(&tiny), what);
            // And back: what the CPU saves, the device loads.
            assert_eq!(cpu.rewind(0, 0), 0);
            cpu.forward(&entries(&tokens[..130], 0, 0)).unwrap();
            let mut file = Vec::new();
            cpu.save(0, &mut file).unwrap();
            device.load(0, &mut Cursor::new(&file)).unwrap();
            assert_near(&device.logits(&tokens[130..], 130, 0), &want, fast_bound(&tiny), what);
            for n in [0, 7, 30, file.len() / 2, file.len() - 1] {
                assert!(device.load(0, &mut Cursor::new(&file[..n])).is_err(), "{what}: cut at {n}");
                assert_eq!(device.len(0), 0, "{what}: the sequence is empty");
            }
        }
    }
}
