//! qrun and its peers on the same machine, the same shapes, the same threads, in turns.
//!
//! `cargo bench --bench peers` makes each model with `qrun synth`, then lets qrun and every peer that this machine
//! has take turns (`peers/engines.rs` lists them; `QRUN_PEER_PYTHON` names the Python that has their packages), and
//! writes `benches/runs/DATE-peers.json`. `-- --llama-cpp` compares with llama.cpp alone; `-- --readme FILE` puts
//! the table of a recorded run into README.md.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A bench prints.

#[path = "peers/engines.rs"]
mod engines;
mod readme;
#[path = "peers/rounds.rs"]
mod rounds;
#[path = "peers/turns.rs"]
mod turns;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use engines::PEERS;
use qrun::{
    bench::{
        child, machine,
        peers::{QRUN, markdown, verdicts},
        record,
    },
    tools::{quantize::FileType, synth},
};
use qrun_quant::{
    Bytes,
    cpu::{limits, physical_cores},
};
use serde_json::{Map, Value, json};

/// Compares qrun with its peers.
#[derive(Parser)]
struct Args {
    /// Peers, by name; all by default.
    #[arg(long, value_delimiter = ',', value_parser = PEERS.map(|peer| peer.0))]
    #[arg(default_values = PEERS.map(|peer| peer.0))]
    peers: Vec<String>,
    /// Short for --peers llama-cpp.
    #[arg(long, conflicts_with = "peers")]
    llama_cpp: bool,
    /// Names that `qrun synth` knows.
    #[arg(long, value_delimiter = ',', default_value = "gemma-3-1b,llama-3.2-1b,qwen3-1.7b")]
    models: Vec<String>,
    /// Types of weights.
    #[arg(long, value_delimiter = ',', default_value = "Q4_K_M,Q8_0,BF16")]
    types: Vec<FileType>,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 512)]
    prefill: usize,
    /// Tokens after it.
    #[arg(long, default_value_t = 32)]
    decode: usize,
    /// Turns of each engine.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds that a turn may take, loading included; one that is not done then is stopped and has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Threads of each engine; the physical cores by default.
    #[arg(long, default_value_t = physical_cores())]
    threads: usize,
    /// Threads that compute something else meanwhile and never pause, as a busy neighbour does.
    #[arg(long, default_value_t = 0)]
    neighbours: usize,
    /// Where every engine computes.
    #[arg(long, value_parser = ["cpu", "cuda"], default_value = "cpu")]
    device: String,
    /// Where the models are made and kept.
    #[arg(long, default_value = "target/peers")]
    dir: PathBuf,
    /// Where the result is written; `benches/runs/DATE-peers.json` by default (with neighbours `…-neighbours.json`).
    #[arg(long)]
    save: Option<PathBuf>,
    /// Prints the README's table of a recorded run and ends.
    #[arg(long)]
    table: Option<PathBuf>,
    /// Puts the table of a recorded run, and beside it those of other machines, into README.md and ends.
    #[arg(long, num_args = 1..)]
    readme: Vec<PathBuf>,
    /// One turn of qrun on a file: how this program starts itself.
    #[arg(long, hide = true)]
    turn: Option<PathBuf>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(file) = &args.table {
        print!("{}", recorded(std::slice::from_ref(file))?);
    } else if !args.readme.is_empty() {
        readme::put("peers", &recorded(&args.readme)?)?;
    } else if let Some(file) = &args.turn {
        println!("{}", engines::own_turn(&args, file)?);
    } else {
        compare_all(&args)?;
    }
    Ok(())
}

/// The table of recorded runs.
fn recorded(files: &[PathBuf]) -> Result<String> {
    let read = |file: &PathBuf| record::read(&std::fs::read(file)?).map_err(anyhow::Error::msg);
    let runs = files.iter().map(|file| read(file).with_context(|| file.display().to_string()));
    Ok(markdown(&runs.collect::<Result<Vec<_>>>()?))
}

fn compare_all(args: &Args) -> Result<()> {
    // A turn is a process group of its own, which the terminal does not stop.
    ctrlc::set_handler(|| {
        child::stop_running();
        std::process::exit(130);
    })?;
    let names = if args.llama_cpp { vec!["llama-cpp".to_owned()] } else { args.peers.clone() };
    let mut skipped = Map::new();
    for name in &names {
        if let Some(why) = engines::skipped(name, args)? {
            eprintln!("{name}: skipped: {why}");
            skipped.insert(name.clone(), why.into());
        }
    }
    std::fs::create_dir_all(&args.dir)?;
    let mut rows = Vec::new();
    for model in &args.models {
        for &ty in &args.types {
            let peers = names.iter().filter(|name| !skipped.contains_key(*name) && engines::takes(name, ty.name()));
            let names: Vec<&str> = [QRUN].into_iter().chain(peers.map(String::as_str)).collect();
            rows.push(compare(args, (model, ty), &names)?);
        }
    }
    let run = json!({
        "machine": {
            "cpu": machine::cpu(), "threads": args.threads, "os": std::env::consts::OS, "date": machine::now("%F"),
            "commit": machine::commit(), "qrun": env!("CARGO_PKG_VERSION"),
        },
        "device": args.device, "prefill": args.prefill, "decode": args.decode, "neighbours": args.neighbours,
        "limit_s": args.limit, "skipped": skipped, "rows": rows,
    });
    let kind = if args.neighbours == 0 { "peers" } else { "neighbours" };
    let default = PathBuf::from(format!("benches/runs/{}-{kind}.json", machine::now("%F")));
    let file = args.save.clone().unwrap_or(default);
    std::fs::write(&file, record::json(&run))?;
    print!("{}", markdown(std::slice::from_ref(&run)));
    verdicts(&run).iter().for_each(|line| println!("{line}"));
    eprintln!("written: {}", file.display());
    let failed = rows.iter().filter(|row| row["engines"][QRUN]["failed"].is_string()).count();
    ensure!(failed == 0, "{QRUN} failed on {failed} of {} models: see {}", rows.len(), file.display());
    Ok(())
}

/// One model: the engines take turns on its file.
fn compare(args: &Args, (model, ty): (&str, FileType), names: &[&str]) -> Result<Value> {
    let file = args.dir.join(format!("{model}-{ty}.gguf"));
    if !file.exists() {
        eprintln!("making {}", file.display());
        synth::synth(model, ty, 42, &file, &mut |_, _| ())?;
    }
    // What a GPU reads at most is not measured here.
    let on_cpu = args.device == "cpu";
    let bandwidth = on_cpu.then(|| limits::read_bandwidth(args.threads));
    let of_file = on_cpu.then(|| Bytes::map(&file).map(|bytes| limits::read_bandwidth_of(&bytes, args.threads)));
    let (what, turn) = (format!("{model} {ty}"), |_, name: &str| engines::turn_of(name, args, &file));
    let (engines, order) = beside(args.neighbours, || rounds::rounds(&what, names, args.rounds, turn));
    Ok(json!({
        "model": model, "type": ty.name(), "bytes_per_token": engines[QRUN]["turns"][0]["bytes_per_token"],
        "read_gb_per_s": bandwidth, "file_read_bandwidth_gb_s": of_file.transpose()?,
        "order": order, "engines": engines,
    }))
}

/// Does this beside so many threads that never pause.
fn beside<T>(neighbours: usize, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..neighbours {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::black_box(0);
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}
