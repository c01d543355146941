//! qrun and its peers on the same machine, the same files, the same threads, in turns.
//!
//! `cargo bench --bench peers -- --llama-cpp` makes each model with `qrun synth`, then alternates qrun
//! and llama.cpp (through the public package `llama-cpp-python`; `QRUN_PEER_PYTHON` names the Python
//! that has it) and writes `benches/runs/DATE-peers.json`. `-- --table FILE` prints the table of the README.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A bench prints.

#[path = "peers/machine.rs"]
mod machine;
#[path = "peers/table.rs"]
mod table;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use qrun::{quantize::FileType, synth};
use qrun_models::{CpuDecoder, Entry, Forward, Model, Options};
use qrun_quant::Gguf;
use serde_json::{Value, json};

/// Compares qrun with its peers.
#[derive(Parser)]
struct Args {
    /// Compare with llama.cpp.
    #[arg(long)]
    llama_cpp: bool,
    /// Names that `qrun synth` knows.
    #[arg(long, value_delimiter = ',', default_value = "gemma-3-1b,llama-3.2-1b,qwen3-1.7b")]
    models: Vec<String>,
    /// Quantization types.
    #[arg(long, value_delimiter = ',', default_value = "Q4_K_M,Q8_0,BF16")]
    types: Vec<String>,
    /// Tokens of the prefill.
    #[arg(long, default_value_t = 512)]
    prefill: usize,
    /// Tokens of the decode.
    #[arg(long, default_value_t = 32)]
    decode: usize,
    /// Turns of each engine.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Threads of each engine; all cores by default.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Where the models are made and kept.
    #[arg(long, default_value = "target/peers")]
    dir: PathBuf,
    /// Where the result is written; `benches/runs/DATE-peers.json` by default.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Prints the README's table of a recorded run and ends.
    #[arg(long)]
    table: Option<PathBuf>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let mut args = Args::parse();
    if let Some(file) = &args.table {
        let run = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        print!("{}", table::markdown(&run).context("not a run of this bench")?);
        return Ok(());
    }
    if args.threads == 0 {
        args.threads = std::thread::available_parallelism()?.get();
    }
    std::fs::create_dir_all(&args.dir)?;
    let mut rows = Vec::new();
    for name in &args.models {
        for ty in &args.types {
            rows.push(compare(&args, name, ty)?);
        }
    }
    let run = json!({ "machine": machine::facts(args.threads), "prefill": args.prefill, "decode": args.decode, "rows": rows });
    let default = PathBuf::from(format!("benches/runs/{}-peers.json", machine::date()));
    let file = args.save.unwrap_or(default);
    std::fs::write(&file, serde_json::to_string_pretty(&run)? + "\n")?;
    print!("{}", table::markdown(&run).context("rows")?);
    eprintln!("written: {}", file.display());
    Ok(())
}

/// One model: the engines take turns; each figure is the best of its turns, all are recorded.
fn compare(args: &Args, name: &str, ty: &str) -> Result<Value> {
    let file = args.dir.join(format!("{name}-{ty}.gguf"));
    if !file.exists() {
        eprintln!("making {}", file.display());
        let file_type = FileType::from_name(ty).with_context(|| format!("unknown type {ty}"))?;
        synth::synth(name, file_type, 42, &file, &mut |_, _| ())?;
    }
    let bandwidth = machine::read_bandwidth(args.threads);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut bytes_per_token = 0;
    for round in 0..args.rounds {
        let (times, bytes) = qrun(args, &file)?;
        bytes_per_token = bytes;
        eprintln!("{name} {ty} round {round}: qrun {times}");
        ours.push(times);
        if args.llama_cpp {
            let times = llama_cpp(args, &file)?;
            eprintln!("{name} {ty} round {round}: llama.cpp {times}");
            theirs.push(times);
        }
    }
    Ok(json!({
        "model": name, "type": ty, "bytes_per_token": bytes_per_token, "read_gb_per_s": bandwidth,
        "qrun": ours, "llama.cpp": theirs,
    }))
}

/// Tokens per second of prefill and decode, as llama-bench counts them: no tokenizer, no sampling.
fn qrun(args: &Args, file: &Path) -> Result<(Value, u64)> {
    let gguf = Gguf::open(file)?;
    let options = Options { n_ctx: args.prefill + args.decode, threads: args.threads, ..Options::default() };
    let mut decoder = CpuDecoder::new(Model::load(&gguf)?, options)?;
    let token = |i: usize| (i * 7919 + 1000) as u32 % 20000;
    let entry = |pos: usize, last: usize| Entry { token: token(pos), pos: pos as u32, seq: 0, logits: pos == last };
    // Everything touched once before the clock starts, as the peer's warm-up does.
    decoder.forward(&[entry(0, 0)])?;
    decoder.rewind(0, 0);
    let batch: Vec<_> = (0..args.prefill).map(|i| entry(i, args.prefill - 1)).collect();
    let start = Instant::now();
    let logits = decoder.forward(&batch)?;
    ensure!(logits.iter().all(|l| l.is_finite()), "logits are not finite");
    let prefill = args.prefill as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for pos in args.prefill..args.prefill + args.decode {
        decoder.forward(&[entry(pos, pos)])?;
    }
    let decode = args.decode as f64 / start.elapsed().as_secs_f64();
    Ok((json!({ "prefill": prefill, "decode": decode }), decoder.bytes_per_token()))
}

fn llama_cpp(args: &Args, file: &Path) -> Result<Value> {
    let python = std::env::var("QRUN_PEER_PYTHON").unwrap_or_else(|_| "python3".into());
    let numbers = [args.prefill, args.decode, args.threads].map(|n| n.to_string());
    let out = Command::new(python).arg("benches/peers/run_llama.py").arg(file).args(numbers).output()?;
    ensure!(out.status.success(), "run_llama.py: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout)?;
    Ok(serde_json::from_str(text.lines().last().context("run_llama.py printed nothing")?)?)
}
