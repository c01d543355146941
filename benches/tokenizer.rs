//! Start-up and speed of the tokenizers on the vocabularies of `../shared/vocab` (or `$QRUN_SHARED`):
//! `cargo bench --bench tokenizer [-- TEXT_FILE]`; without a file a sample of the demo model's corpus. One core, averages.
#![allow(clippy::print_stdout)] // A bench is a program: its report goes to stdout.

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use qrun::text::tokenizer::{Encode, Tokenizer};
use qrun_quant::Gguf;

fn main() -> Result<()> {
    let file = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let sample = std::fs::read_to_string(file.as_deref().unwrap_or("models/demo/corpus-sample.txt"))?;
    // A short text again and again, so that its time can be told.
    let text = sample.repeat(3_000_000_usize.div_ceil(sample.len().max(1)));
    let million = |text: &str| text.repeat(1_000_000);
    let odd = [("spaces", " "), ("letters", "a"), ("line ends", "\n"), ("equals", "=")];
    let runs: Vec<_> = [("text", text)].into_iter().chain(odd.map(|(what, text)| (what, million(text)))).collect();
    let shared = std::env::var_os("QRUN_SHARED").map_or("../shared".into(), PathBuf::from);
    for name in ["llama-spm", "gemma-spm", "llama-bpe", "qwen2"] {
        let path = shared.join("vocab").join(format!("{name}.gguf"));
        if !path.exists() {
            println!("{name}: skipped, {} is missing", path.display());
            continue;
        }
        let file = Gguf::open(&path)?;
        let tokenizer = Tokenizer::from_gguf(&file)?;
        let build = average(20, || Tokenizer::from_gguf(&file).map(|tokenizer| tokenizer.n_vocab()));
        println!("{name}: {} tokens ready in {:.1} ms", tokenizer.n_vocab(), build * 1e3);
        for (what, text) in &runs {
            let n = tokenizer.encode(text, Encode::PLAIN)?.len();
            let seconds = average(3, || tokenizer.encode(text, Encode::PLAIN));
            let megabytes = text.len() as f64 / 1e6;
            println!("  {what:9}  {:7.1} MB/s  ({megabytes:.1} MB, {n} tokens)", megabytes / seconds);
        }
    }
    Ok(())
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
