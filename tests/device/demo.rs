//! The trained demo model on the device: what random weights would hide.

use qrun::{
    embedded,
    text::tokenizer::{Encode, Tokenizer},
};
use qrun_models::{CpuDecoder, Forward, Model, Options};
use qrun_quant::{Bytes, Gguf};

use super::{Device, assert_near, sm};
use crate::tiny::entries;

/// Inside the test program, which also runs where there is no checkout.
const BF16: &[u8] = include_bytes!("../../models/demo/qrun-demo-BF16.gguf");
const TEXT: &str = include_str!("../../models/demo/corpus-sample.txt");

/// Tokens of the sample text that are looked at, and how many of them are decoded one by one.
const TOKENS: usize = 240;
const SINGLE: usize = 40;

fn best(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a vocabulary")
}

/// Share of positions with the same best token as the exact CPU, and the logits' distance within `bound`.
fn agreement(gguf: &Gguf, bound: f64, capability: u32) -> f64 {
    let tokenizer = Tokenizer::from_gguf(gguf).expect("a tokenizer");
    let mut tokens = tokenizer.encode(TEXT, Encode { add_special: true, parse_special: true }).expect("tokens");
    tokens.truncate(TOKENS);
    let model = Model::load(gguf).expect("a model");
    let options = Options { n_ctx: TOKENS, ..Options::default() };
    let mut cpu = CpuDecoder::new(model.clone(), Options { n_ctx: TOKENS, ..Options::exact() }).expect("threads");
    let want = cpu.forward(&entries(&tokens, 0, 0)).expect("logits").to_vec();
    let mut device = Device::new(&model, &options, sm(capability));
    let mut found = device.logits(&tokens[..TOKENS - SINGLE], 0, 0);
    for pos in TOKENS - SINGLE..TOKENS {
        found.extend(device.logits(&tokens[pos..=pos], pos, 0));
    }
    assert_near(&found, &want, bound, format_args!("{}", gguf.path().display()));
    let n = model.config.n_vocab;
    let same = found.chunks_exact(n).zip(want.chunks_exact(n)).filter(|(a, b)| best(a) == best(b)).count();
    same as f64 / TOKENS as f64
}

#[test]
fn its_best_tokens_are_those_of_the_exact_cpu() {
    let q4_k_m = Gguf::from_bytes("the embedded model", Bytes::new(embedded::model().expect("a model"))).unwrap();
    let bf16 = Gguf::from_bytes("qrun-demo-BF16.gguf", Bytes::new(BF16.to_vec())).unwrap();
    for (gguf, bound, capability) in [(&q4_k_m, 2e-2, 75), (&bf16, 4e-3, 80)] {
        let share = agreement(gguf, bound, capability);
        println!(
            "{} on sm_{capability}: same best token at {:.2} % of {TOKENS} positions",
            gguf.path().display(),
            100.0 * share
        );
        assert!(share >= 0.99, "{}: {share}", gguf.path().display());
    }
}
