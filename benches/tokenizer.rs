//! Start-up and speed of the tokenizers on the vocabularies of `../shared/vocab` (or `$QRUN_SHARED`):
//! `cargo bench --bench tokenizer [-- TEXT_FILE]`. One core, averages.
#![allow(clippy::print_stdout)] // A bench is a program: its report goes to stdout.

use std::{path::PathBuf, time::Instant};

use qrun::text::tokenizer::{Encode, Tokenizer};
use qrun_quant::Gguf;

fn main() {
    let text =
        std::env::args().skip(1).find(|a| !a.starts_with("--")).map(|file| std::fs::read_to_string(file).unwrap());
    let text = text.unwrap_or_else(|| generated(3_000_000));
    let shared = std::env::var_os("QRUN_SHARED").map_or("../shared".into(), PathBuf::from);
    let runs: Vec<(&str, String)> = vec![
        ("text", text),
        ("spaces", " ".repeat(1_000_000)),
        ("letters", "a".repeat(1_000_000)),
        ("line ends", "\n".repeat(1_000_000)),
        ("equals", "=".repeat(1_000_000)),
    ];
    for name in ["llama-spm", "gemma-spm", "llama-bpe", "qwen2"] {
        let path = shared.join("vocab").join(format!("{name}.gguf"));
        if !path.exists() {
            println!("{name}: skipped, {} is missing", path.display());
            continue;
        }
        let file = Gguf::open(&path).unwrap();
        let build = average(20, || Tokenizer::from_gguf(&file).unwrap().n_vocab());
        let tokenizer = Tokenizer::from_gguf(&file).unwrap();
        println!("{name}: {} tokens ready in {:.1} ms", tokenizer.n_vocab(), build * 1e3);
        for (what, text) in &runs {
            let mut n = 0;
            let seconds = average(3, || n = tokenizer.encode(text, Encode::PLAIN).unwrap().len());
            let megabytes = text.len() as f64 / 1e6;
            println!("  {what:9}  {:7.1} MB/s  ({megabytes:.1} MB, {n} tokens)", megabytes / seconds);
        }
    }
}

/// Seconds per turn, on average: counted time advances in steps that are longer than a short turn.
fn average<T>(turns: usize, mut f: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    let before = seconds(start);
    for _ in 0..turns {
        std::hint::black_box(f());
    }
    (seconds(start) - before) / turns as f64
}

/// Seconds that this thread has run, where the system counts them (other processes do not matter
/// then), and else seconds on the clock.
fn seconds(start: Instant) -> f64 {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = counted.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}

/// Sentences of words whose frequencies fall as in a language (the n-th word is as common as 1/n).
fn generated(bytes: usize) -> String {
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let syllables = [
        "the", "in", "er", "a", "to", "re", "con", "ti", "on", "ly", "s", "ing", "be", "ma", "ne", "ou", "é", "д",
        "стро",
    ];
    let mut word = || (0..1 + random(4)).map(|_| syllables[random(syllables.len())]).collect::<String>();
    let words: Vec<String> = (0..30_000).map(|_| word()).collect();
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        let rank = ((words.len() as f64).powf(random(1 << 20) as f64 / (1 << 20) as f64)) as usize;
        text += &words[rank.min(words.len() - 1)];
        text += match random(40) {
            0 => ".\n",
            1 => ".\n\n",
            2..4 => ", ",
            4 => " (",
            5 => "), ",
            6 => " 1984 ",
            _ => " ",
        };
    }
    text
}
