//! What is in between: the same names, shapes and, within the bound of the logits, values as on the CPU.

use std::{
    f64::consts::SQRT_2,
    sync::{Arc, Mutex},
};

use qrun_models::{Entry, Forward, Gives, Options, Output};

use super::{Device, assert_near, distance, in_k_quants, int8_bound, models, named, options, sm};
use crate::tiny::{ENCODERS, Mix, Tiny, decoder, entries, prompt};

type Results = Vec<(Option<usize>, &'static str, Vec<f32>)>;

/// What `run` has a decoder hand on.
fn heard(d: &mut dyn Forward, run: impl FnOnce(&mut dyn Forward)) -> Results {
    let results = Arc::new(Mutex::new(Results::new()));
    let hear = results.clone();
    let tap = move |il, name, values: &[f32]| hear.lock().unwrap().push((il, name, values.to_vec()));
    assert!(d.set_tap(Some(Box::new(tap))));
    run(d);
    assert!(d.set_tap(None));
    Arc::into_inner(results).expect("nobody listens any more").into_inner().unwrap()
}

/// All results of a prompt in whose last three rows an output is wanted, and of a token after it.
fn listened(d: &mut dyn Forward, tokens: &[u32]) -> Results {
    let last = tokens.len() - 1;
    let mut batch = entries(&tokens[..last], 0, 0);
    batch.iter_mut().for_each(|e| e.output = Output::logits_if(e.pos as usize + 3 >= last));
    let next = Entry { token: tokens[last], pos: last as u32, seq: 0, output: Output::Logits, drafted: false };
    heard(d, |d| {
        d.forward(&batch).unwrap();
        d.forward(&[next]).unwrap();
    })
}

/// With a text and the front of it, both seen whole.
#[test]
fn taps_hear_texts_that_are_seen_whole() {
    for (i, tiny) in ENCODERS.into_iter().map(in_k_quants).enumerate() {
        for (mix, bound) in [(Mix::Q4_K_M, int8_bound(&tiny)), (Mix::F32, 4e-3)] {
            let tiny = Tiny { mix, ..tiny };
            let (model, tokens) = (tiny.model(), prompt("taps", 80, tiny.n_vocab));
            let options = Options { gives: Gives::Hidden, ..options() };
            let mut batch = [entries(&tokens, 0, 0), entries(&tokens[..9], 0, 1)].concat();
            // Few hidden states, of which a tap hears at once.
            batch.iter_mut().for_each(|e| e.output = Output::logits_if(e.pos == 8));
            let listened = |d: &mut dyn Forward| heard(d, |d| assert_eq!(d.forward(&batch).unwrap().len(), 2 * 256));
            let want = listened(&mut decoder(&model, options.clone()));
            let found = listened(&mut *Device::new(&model, &options, sm([75, 80][i % 2])));
            let names = |results: &Results| results.iter().map(|(il, name, _)| (*il, *name)).collect::<Vec<_>>();
            assert_eq!(names(&found), names(&want), "{}", tiny.arch);
            for ((il, name, values), (_, _, want)) in found.iter().zip(&want) {
                let bound = if matches!(*name, "ffn_act" | "ffn_out") { bound * SQRT_2 } else { bound };
                assert_near(values, want, bound, format_args!("{} {mix:?} {name} of layer {il:?}", tiny.arch));
            }
        }
    }
}

#[test]
fn taps_hear_what_they_hear_on_the_cpu() {
    // Those with factors on what taps hear, with gates of attention, experts that see less than the stream, and queries of a rank.
    let more = named(&["granite", "muse-glimmer", "gemma4", "nemotron_h_moe", "deepseek2"])
        .filter(|t| t.n_embd_per_layer == 0 && (t.arch != "deepseek2" || t.experts[0] > 0))
        .map(in_k_quants);
    // The CPU's int8 noise is the device's where both round alike, and another one where they do not.
    let apart = if qrun_emulator::SILICON { SQRT_2 } else { 1.0 };
    for (i, tiny) in models().chain(more).enumerate() {
        let quantized = int8_bound(&tiny) * apart;
        // Experts and matrices of heads are quantized.
        let other = if tiny.experts[0] > 0 || tiny.latent[0] > 0 { (Mix::Q8_0, quantized) } else { (Mix::F32, 4e-3) };
        for (mix, bound) in [(Mix::Q4_K_M, quantized), other] {
            let tiny = Tiny { mix, ..tiny };
            let (model, tokens) = (tiny.model(), prompt("taps", 80, tiny.n_vocab));
            let want = listened(&mut decoder(&model, options()), &tokens);
            let mut device = Device::new(&model, &options(), sm([75, 80][i % 2]));
            let untapped = device.logits(&tokens, 0, 0);
            device.rewind(0, 0);
            let found = listened(&mut *device, &tokens);
            // Logits of the router, and what a feed-forward beside the experts gates.
            let two = tiny.experts[3] > 0 || tiny.arch == "gemma4";
            let experts = |il| if tiny.has_experts(il) { 1 + usize::from(two) } else { 0 };
            let per_layer = usize::from(tiny.n_embd_per_layer > 0);
            // Keys are values, too, or there are none of the layer's own.
            let one = usize::from(tiny.latent[0] > 0);
            let without_kv = |il| if il + tiny.n_shared_kv >= tiny.n_layer { 2 } else { one };
            let back = |il| if tiny.attends(il) { 6 - without_kv(il) } else { 2 };
            let of_parts =
                |il| 1 + if tiny.looks_back(il) { back(il) } else { 0 } + if tiny.feeds_forward(il) { 3 } else { 0 };
            let of_layer = |il| experts(il) + per_layer + of_parts(il);
            assert_eq!(found.len(), 2 * (3 + per_layer + (0..tiny.n_layer).map(of_layer).sum::<usize>()));
            for ((il, name, values), (want_il, want_name, want)) in found.iter().zip(&want) {
                assert_eq!((il, name, values.len()), (want_il, want_name, want.len()), "{}", tiny.arch);
                // A product of two results has the errors of both.
                let bound = if matches!(*name, "ffn_act" | "ffn_out") { bound * SQRT_2 } else { bound };
                let what = format!("{} {mix:?} {name} of layer {il:?}", tiny.arch);
                if *name == "ffn_act" && tiny.experts[0] > 0 {
                    // By choice: few are other ones.
                    let width = tiny.experts[2];
                    let pairs = values.chunks(width).zip(want.chunks(width));
                    let others = pairs.filter(|(a, b)| distance(a, b) > bound).count();
                    assert!(20 * others * width <= values.len(), "{what}: {others} choices are others");
                    continue;
                }
                assert_near(values, want, bound, format_args!("{what}"));
            }
            assert_eq!(found.len(), want.len());
            // Listening changes nothing.
            device.rewind(0, 0);
            assert_eq!(device.logits(&tokens, 0, 0), untapped);
        }
    }
}
