//! `qrun serve` and llama-server on the same machine, the same file, the same threads, in turns.
//!
//! `cargo bench --bench serve -- --llama-server FILE` makes the model with `qrun synth`, lets both servers take turns at
//! each load (`serve/loads.rs`), and writes `benches/runs/DATE-serve.json`; without that flag qrun alone is measured.
//! `-- --readme FILE` puts the table of a recorded run into README.md.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A bench prints.

#[path = "serve/client.rs"]
mod client;
#[path = "serve/inside.rs"]
mod inside;
#[path = "serve/loads.rs"]
mod loads;
mod readme;
#[path = "peers/rounds.rs"]
mod rounds;
#[path = "serve/servers.rs"]
mod servers;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use qrun::{
    bench::{
        machine,
        peers::QRUN,
        record,
        serve::{INSIDE, LLAMA_SERVER, markdown},
    },
    tools::{quantize::FileType, synth},
};
use qrun_quant::cpu::physical_cores;
use serde_json::{Map, Value, json};

/// Compares `qrun serve` with llama-server.
#[derive(Parser)]
struct Args {
    /// The program of llama.cpp; without it qrun is alone.
    #[arg(long, value_name = "FILE")]
    llama_server: Option<PathBuf>,
    /// qrun's own program.
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_qrun"))]
    qrun: PathBuf,
    /// A name that `qrun synth` knows.
    #[arg(long, default_value = "llama-3.2-1b")]
    model: String,
    /// Type of its weights.
    #[arg(long = "type", default_value = "Q4_K_M")]
    ty: FileType,
    /// Which loads.
    #[arg(long, value_delimiter = ',', default_value = "decode,gap,prefix,overload,idle,bytes")]
    loads: Vec<String>,
    /// Requests at once of the load `decode`.
    #[arg(long, value_delimiter = ',', default_value = "1,4,8,16,32")]
    requests: Vec<usize>,
    /// Tokens of each answer of the loads `decode` and `bytes`.
    #[arg(long, default_value_t = 128)]
    tokens: usize,
    /// Turns of each server at each load.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of the load `overload`.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Connections of the load `idle`.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Threads of each server; the physical cores by default.
    #[arg(long, default_value_t = physical_cores())]
    threads: usize,
    /// Seconds that a server may take to start.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,
    /// Where the model is made and kept.
    #[arg(long, default_value = "target/peers")]
    dir: PathBuf,
    /// Where the result is written; `benches/runs/DATE-serve.json` by default.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Shows what the servers say.
    #[arg(long)]
    verbose: bool,
    /// Prints the README's table of a recorded run and ends.
    #[arg(long)]
    table: Option<PathBuf>,
    /// Puts the table of a recorded run into README.md and ends.
    #[arg(long)]
    readme: Option<PathBuf>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(file) = &args.table {
        print!("{}", recorded(file)?);
    } else if let Some(file) = &args.readme {
        readme::put("serve", &recorded(file)?)?;
    } else {
        measure(&args)?;
    }
    Ok(())
}

/// The table of a recorded run.
fn recorded(file: &Path) -> Result<String> {
    let json = std::fs::read(file).with_context(|| file.display().to_string())?;
    let run: Value = serde_json::from_slice(&json).with_context(|| file.display().to_string())?;
    Ok(markdown(&run))
}

fn measure(args: &Args) -> Result<()> {
    qrun::server::open_files();
    std::fs::create_dir_all(&args.dir)?;
    let file = args.dir.join(format!("{}-{}.gguf", args.model, args.ty));
    if !file.exists() {
        eprintln!("making {}", file.display());
        synth::synth(&args.model, args.ty, 42, &file, &mut |_, _| ())?;
    }
    let mut loads = Map::new();
    for load in &args.loads {
        let rows = match load.as_str() {
            "decode" => {
                let row = |&n: &usize| {
                    let turn = |name: &str| match name {
                        INSIDE => inside::decode(args, &file, n),
                        name => loads::decode(name, args, &file, n),
                    };
                    let mut row = take_turns(args, &format!("decode {n}"), &[QRUN, INSIDE, LLAMA_SERVER], turn);
                    row["requests"] = n.into();
                    row
                };
                args.requests.iter().map(row).collect()
            }
            "gap" => vec![take_turns(args, load, &[QRUN, LLAMA_SERVER], |name| loads::gap(name, args, &file))],
            "prefix" => vec![take_turns(args, load, &[QRUN, LLAMA_SERVER], |name| loads::prefix(name, args, &file))],
            // Its queue has no end, so there is nothing to be refused.
            "overload" => vec![take_turns(args, load, &[QRUN], |name| loads::overload(name, args, &file))],
            // It closes them.
            "idle" => vec![take_turns(args, load, &[QRUN], |name| loads::idle(name, args, &file))],
            "bytes" => vec![take_turns(args, load, &[QRUN], |_| inside::bytes(args, &file))],
            other => anyhow::bail!("load {other}: expected decode, gap, prefix, overload, idle or bytes"),
        };
        loads.insert(load.clone(), Value::Array(rows));
    }
    let run = json!({
        "machine": {
            "cpu": machine::cpu(), "threads": args.threads, "os": std::env::consts::OS, "date": machine::now("%F"),
            "commit": machine::commit(), "qrun": env!("CARGO_PKG_VERSION"),
        },
        "model": args.model, "type": args.ty.name(), "tokens": args.tokens, "loads": loads,
    });
    let default = PathBuf::from(format!("benches/runs/{}-serve.json", machine::now("%F")));
    let file = args.save.clone().unwrap_or(default);
    std::fs::write(&file, record::json(&run))?;
    print!("{}", markdown(&run));
    eprintln!("written: {}", file.display());
    let failed = run.to_string().contains("\"failed\"");
    ensure!(!failed, "a turn failed: see {}", file.display());
    Ok(())
}

/// The servers take turns at one load.
fn take_turns(args: &Args, load: &str, names: &[&str], turn: impl Fn(&str) -> Result<Value>) -> Value {
    let here = |name: &&&str| **name != LLAMA_SERVER || args.llama_server.is_some();
    let names: Vec<&str> = names.iter().filter(here).copied().collect();
    // A server that is measured from inside of this process stays.
    let rounds = if load == "bytes" { 1 } else { args.rounds };
    let (servers, order) = rounds::rounds(load, &names, rounds, |_, name| turn(name));
    json!({ "order": order, "servers": servers })
}
