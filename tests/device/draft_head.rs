//! The draft head on a device against that on the CPU, and what it leaves alone.

use std::sync::{Arc, Mutex};

use qrun_emulator::{Config, Order};
use qrun_models::{DraftRequest, Entry, Forward, GpuDecoder, Model, Options};
use qrun_quant::{Bytes, Gguf};

use super::{Device, assert_near, distance, fast_bound, in_k_quants, options, sm};
use crate::tiny::{Mix, TINY, Tiny, decoder, entries, prompt};

const QWEN35: Tiny = Tiny { arch: "qwen35", n_rot: 16, n_layer: 4, draft_head: true, ..TINY };
const QWEN35MOE: Tiny = Tiny { arch: "qwen35moe", experts: [12, 3, 64, 96], ..QWEN35 };

/// Quantized ones, with experts, and dense weights.
fn tinies() -> [Tiny; 3] {
    [in_k_quants(QWEN35), in_k_quants(QWEN35MOE), Tiny { mix: Mix::F32, ..QWEN35 }]
}

fn with_head(tiny: &Tiny) -> Model {
    Model::load_with_draft_head(&Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap()).unwrap()
}

fn drafting() -> Options {
    Options { n_seq: 3, n_draft: 4, draft_head: true, ..options() }
}

/// Feeds a sequence tokens in chunks.
fn feed(d: &mut dyn Forward, tokens: &[u32], seq: u32, chunk: usize) {
    for (i, part) in tokens.chunks(chunk).enumerate() {
        d.forward(&entries(part, i * chunk, seq)).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A token, and guesses behind it.
fn guesses(tokens: &[u32], start: usize, seq: u32) -> Vec<Entry> {
    let mut batch = entries(tokens, start, seq);
    batch.iter_mut().enumerate().for_each(|(i, e)| e.drafted = i > 0);
    batch
}

type Heard = Arc<Mutex<Vec<Vec<f32>>>>;

/// Guesses, and the logits that they are of.
fn drafts(d: &mut dyn Forward, wanted: &[DraftRequest]) -> (Vec<Vec<u32>>, Vec<Vec<f32>>) {
    let heard = Heard::default();
    let hear = heard.clone();
    let tap = move |_, name, values: &[f32]| {
        if name == "draft_output" {
            hear.lock().unwrap().push(values.to_vec());
        }
    };
    assert!(d.set_tap(Some(Box::new(tap))));
    let guesses = d.draft(wanted, 0.0);
    assert!(d.set_tap(None));
    let logits = std::mem::take(&mut *heard.lock().unwrap());
    (guesses, logits)
}

/// Whether the CPU's guesses are so sure that rounding does not change them.
fn is_sure(logits: &[f32]) -> bool {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let spread = logits.iter().map(|x| x * x).sum::<f32>().sqrt() / (logits.len() as f32).sqrt();
    sorted[0] - sorted[1] > 0.2 * spread
}

/// Among the ten likeliest.
fn probability_of_the_likeliest(logits: &[f32]) -> f64 {
    let mut sorted: Vec<f64> = logits.iter().map(|&x| f64::from(x)).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    1.0 / sorted.iter().take(10).map(|x| (x - sorted[0]).exp()).sum::<f64>()
}

#[test]
fn guesses_are_those_of_the_cpu() {
    for (i, tiny) in tinies().into_iter().enumerate() {
        let model = with_head(&tiny);
        let options = drafting();
        assert_eq!(GpuDecoder::supports(&model, &options), Ok(()));
        let mut cpu = decoder(&model, options.clone());
        let mut device = Device::new(&model, &options, sm([75, 80][i % 2]));
        let texts: Vec<_> = (0..3).map(|s| prompt(&format!("draft {s}"), 140, tiny.n_vocab)).collect();
        let mut lens = [5, 63, 130];
        for d in [&mut cpu as &mut dyn Forward, &mut *device] {
            for (s, text) in texts.iter().enumerate() {
                // As a whole, in parts, and over the ends of blocks.
                feed(d, &text[..lens[s]], s as u32, [200, 9, 64][s]);
            }
        }
        let (mut compared, mut seen, mut apart) = (0, 0, 0);
        for round in 0..3 {
            let request = |s: usize| DraftRequest { seq: s as u32, token: texts[s][lens[s]], most: 4 };
            for s in 0..3 {
                let (want, want_logits) = drafts(&mut cpu, &[request(s)]);
                let (found, found_logits) = drafts(&mut *device, &[request(s)]);
                assert_eq!((found[0].len(), found_logits.len()), (4, 4));
                // As far as both have guessed the same.
                for (turn, (found_logits, want_logits)) in found_logits.iter().zip(&want_logits).enumerate() {
                    if found[0][..turn] != want[0][..turn] {
                        break;
                    }
                    let what = format!("{}, round {round}, sequence {s}, guess {turn}", tiny.arch);
                    // Two roundings apart, and one more for each hidden state of the head that it was made of.
                    let bound = if tiny.mix == Mix::F32 { 4e-3 } else { fast_bound(&tiny) };
                    let bound = bound * (2.0 + turn as f64).sqrt();
                    seen += 1;
                    if tiny.experts[0] > 0 && distance(found_logits, want_logits) > bound {
                        // Rounding takes another expert now and then, and all is different behind it.
                        apart += 1;
                        break;
                    }
                    assert_near(found_logits, want_logits, bound, format_args!("{what}"));
                    if is_sure(want_logits) {
                        assert_eq!(found[0][turn], want[0][turn], "{what}");
                        compared += 1;
                    }
                }
            }
            // Then a step with guesses, some of which are right, and none in the last.
            let accepts = [[2, 0, 4], [1, 3, 0], [0, 0, 0]][round];
            for s in 0..3 {
                let batch = guesses(&texts[s][lens[s]..][..=accepts[s].max(1)], lens[s], s as u32);
                for d in [&mut cpu as &mut dyn Forward, &mut *device] {
                    d.forward(&batch).unwrap_or_else(|e| panic!("{e}"));
                    d.accept(s as u32, accepts[s]);
                }
                lens[s] = (lens[s] + 1 + accepts[s]).min(134);
                assert_eq!(device.len(s as u32), cpu.len(s as u32));
                for d in [&mut cpu as &mut dyn Forward, &mut *device] {
                    // Where the text would end, from the beginning.
                    if d.len(s as u32) as usize != lens[s] {
                        d.rewind(s as u32, 0);
                        feed(d, &texts[s][..lens[s]], s as u32, 64);
                    }
                }
            }
        }
        assert!(compared > 9 && apart * 4 < seen, "{}: {compared} of {seen} guesses, {apart} apart", tiny.arch);
    }
}

#[test]
fn a_draft_changes_nothing_and_is_the_same_each_time() {
    for (i, tiny) in tinies().into_iter().enumerate() {
        let model = with_head(&tiny);
        let (options, order) = (drafting(), [Order::Forward, Order::Random(5), Order::Reverse][i]);
        let mut device = Device::new(&model, &options, Config { sm: [75, 90, 80][i], order, ..Config::checked() });
        let text = prompt("same", 80, tiny.n_vocab);
        let request = |seq, n: usize, most| DraftRequest { seq, token: text[n], most };
        feed(&mut *device, &text[..62], 0, 200);
        // Listened to, then launched, recorded and replayed.
        let (want, logits) = drafts(&mut *device, &[request(0, 62, 4)]);
        for _ in 0..3 {
            assert_eq!(device.draft(&[request(0, 62, 4)], 0.0), want, "{}", tiny.arch);
        }
        assert_eq!(device.draft(&[request(0, 62, 2)], 0.0)[0], want[0][..2], "fewer are the first of them");
        let sure: Vec<f64> = logits.iter().map(|logits| probability_of_the_likeliest(logits)).collect();
        for least in [1e-9, 0.5 * (sure[0] + sure[1]), sure[2] * 0.999, sure[3] * 1.001] {
            let n = sure.iter().take_while(|p| **p >= least).count();
            let found = device.draft(&[request(0, 62, 4)], least as f32);
            assert_eq!(found[0], want[0][..n], "{}: {sure:?}, at least {least}", tiny.arch);
        }
        assert_eq!(device.len(0), 62);
        // Beside others, of which some want fewer, and one nothing that fits.
        feed(&mut *device, &text[..9], 1, 4);
        feed(&mut *device, &text[..70], 2, 33);
        let alone = [1, 2].map(|seq| device.draft(&[request(seq, [9, 70][seq as usize - 1], 4)], 0.0).remove(0));
        let all = device.draft(&[request(1, 9, 1), request(0, 62, 4), request(2, 70, 3)], 0.0);
        assert_eq!(all, [alone[0][..1].to_vec(), want[0].clone(), alone[1][..3].to_vec()], "{}", tiny.arch);
        let too_many = device.draft(&[request(1, 9, 5), request(2, 70, 3)], 0.0);
        assert_eq!(too_many, [vec![], alone[1][..3].to_vec()]);
        // What follows is what would have followed.
        let found = device.forward(&entries(&text[62..64], 62, 0)).unwrap().to_vec();
        drop(device);
        let without = Options { draft_head: false, n_draft: 0, ..options };
        let mut plain = Device::new(&model, &without, sm([75, 90, 80][i]));
        feed(&mut *plain, &text[..62], 0, 200);
        let want = plain.forward(&entries(&text[62..64], 62, 0)).unwrap();
        let same = found.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same && found.len() == want.len(), "{}", tiny.arch);
    }
}

#[test]
fn a_draft_does_not_depend_on_how_the_text_came() {
    for tiny in [in_k_quants(QWEN35), in_k_quants(QWEN35MOE)] {
        let (model, text) = (with_head(&tiny), prompt("ways", 140, tiny.n_vocab));
        let mut device = Device::new(&model, &drafting(), sm(80));
        for n in [1, 64, 130] {
            let request = [DraftRequest { seq: 0, token: text[n], most: 4 }];
            let mut all = Vec::new();
            for chunk in [200, 63, 5] {
                device.rewind(0, 0);
                feed(&mut *device, &text[..n], 0, chunk);
                all.push((format!("{chunk} at a time"), drafts(&mut *device, &request)));
            }
            // Half of them as guesses, some of which are wrong.
            device.rewind(0, 0);
            feed(&mut *device, &text[..n.div_ceil(2)], 0, 200);
            for step in 0.. {
                let at = device.len(0) as usize;
                let good = [2, 0, 3, 1][step % 4].min((n - at).saturating_sub(1));
                if at == n {
                    break;
                }
                let mut tokens = text[at..=at + good + 1].to_vec();
                tokens[good + 1] ^= 1;
                device.forward(&guesses(&tokens, at, 0)).unwrap_or_else(|e| panic!("{e}"));
                device.accept(0, good);
            }
            all.push(("in guesses".into(), drafts(&mut *device, &request)));
            for (how, (tokens, logits)) in &all[1..] {
                let what = format!("{}, {n} tokens, {how}", tiny.arch);
                assert_eq!(tokens, &all[0].1.0, "{what}");
                let pairs = logits.iter().flatten().zip(all[0].1.1.iter().flatten());
                assert_eq!(pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count(), 0, "{what}");
            }
        }
    }
}

#[test]
fn a_draft_costs_what_the_plan_says_and_waits_for_nothing_in_between() {
    let tiny = in_k_quants(QWEN35);
    let (model, text) = (with_head(&tiny), prompt("cost", 80, tiny.n_vocab));
    let mut device = Device::new(&model, &drafting(), sm(80));
    assert_eq!(device.memory_plan(), GpuDecoder::plan(&model, &drafting()));
    assert_eq!(device.arena().1, device.memory_plan().total());
    feed(&mut *device, &text[..70], 0, 200);
    let request = [DraftRequest { seq: 0, token: text[70], most: 4 }];
    (0..3).for_each(|_| drop(device.draft(&request, 0.0)));
    let step = |device: &mut Device, at: usize| {
        device.forward(&guesses(&text[at..at + 4], at, 0)).unwrap_or_else(|e| panic!("{e}"));
        device.accept(0, 1);
    };
    (0..3).for_each(|i| step(&mut device, 70 + 2 * i));
    let launches = |device: &Device| -> u64 {
        let counters = device.machine().expect("looked at").counters();
        assert_eq!((counters.syncs, counters.allocations), (0, 0));
        counters.launches.values().sum()
    };
    let Some(machine) = device.machine() else { return crate::skip("only the emulator counts calls") };
    machine.reset_counters();
    device.draft(&request, 0.0);
    // Embedding, hidden state before it, norms of both, projection; the block; norm, head, sampler.
    assert_eq!(launches(&device), 4 * (4 + 5 + 3));
    device.machine().expect("looked at").reset_counters();
    step(&mut device, 76);
    let launched = device.machine().expect("looked at").counters().launches.clone();
    let of = |name: &str| launched.get(name).copied().unwrap_or(0);
    // Three recurrent layers, and once more for the guess that was right; queries, keys and values of the fourth layer, and keys and
    // values of the head.
    assert_eq!([of("delta_net"), of("join_hidden"), of("rope_kv")], [6, 2, 2], "{launched:?}");
}

#[test]
fn a_file_has_what_the_head_goes_on_from() {
    let tiny = in_k_quants(QWEN35);
    let (model, text) = (with_head(&tiny), prompt("file", 80, tiny.n_vocab));
    let request = |seq| [DraftRequest { seq, token: text[70], most: 4 }];
    let mut device = Device::new(&model, &drafting(), sm(80));
    feed(&mut *device, &text[..70], 0, 200);
    let want = device.draft(&request(0), 0.0);
    let mut file = Vec::new();
    device.save(0, &mut file).expect("bytes");
    device.load(1, &mut &file[..]).expect("the same");
    assert_eq!(device.draft(&request(1), 0.0), want);
    // What others begin alike with.
    device.release(0, &text[..70]);
    assert_eq!(device.attach(2, &text[..70]), 70);
    assert_eq!(device.draft(&request(2), 0.0), want);
    // The CPU takes it too.
    let mut cpu = decoder(&model, drafting());
    cpu.load(0, &mut &file[..]).expect("the same form");
    let (found, logits) = drafts(&mut cpu, &request(0));
    for (turn, logits) in logits.iter().enumerate() {
        if !is_sure(logits) {
            break;
        }
        assert_eq!(found[0][turn], want[0][turn], "guess {turn}");
    }
    // Of another model than one without a head.
    let plain = tiny.model();
    let without = Options { draft_head: false, ..drafting() };
    let mut other = decoder(&plain, without);
    assert!(other.load(0, &mut &file[..]).is_err());
}
