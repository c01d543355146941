//! `cargo run --release --bin gpu-counts`: what qrun asks of a GPU, counted with none, as one JSON object; `--help` says
//! what else it counts.
//!
//! The real decoder runs on the emulated driver. In the models' exact shapes nothing is computed, only counted; what a
//! step reads is measured by executing one of their layers under the emulator's checks.

mod code;
mod keys;
mod limits;
mod models;
mod tables;
mod times;
mod weights;

use std::{
    env, fs,
    io::{Write, stdout},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use code::{Selection, Step};
use keys::Counting;
use qrun_cuda::image;
use qrun_emulator::Code;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The models that are counted.
const MODELS: [&str; 3] = ["gemma-3-1b", "llama-3.2-1b", "qwen3-1.7b"];
/// Those of recurrent layers, of experts and of latent attention, whose launches are.
const LAUNCHES: [&str; 5] =
    ["qwen3.5-9b", "qwen3-30b-a3b", "granite-4.0-h-micro", "nemotron-3-nano-30b-a3b", "glm-4.7-flash"];

fn counts(predict: bool) -> Result<Value> {
    // `kernels check` holds it to the archive; here only that it is this archive's.
    let record: Value = serde_json::from_str(include_str!("../../../cuda/sass.json")).context("cuda/sass.json")?;
    let archive: String = Sha256::digest(image::ARCHIVE).iter().map(|b| format!("{b:02x}")).collect();
    ensure!(record["sha256"] == archive, "cuda/sass.json is of another archive: run `kernels build`");
    let of_each = |names: &[&str], count: fn(&str) -> Result<Value>| -> Result<Map<String, Value>> {
        names.iter().map(|name| Ok(((*name).to_owned(), count(name)?))).collect()
    };
    // The rest is counted in other processes meanwhile.
    let counting = Counting::start(predict)?;
    let (syncs, allocations) = models::waits_and_allocations()?;
    let mut counts = json!({
        "launches_per_token": of_each(&[&MODELS[..], &LAUNCHES[..]].concat(), models::launches_per_token)?,
        "bytes_read_over_weights_and_kv": of_each(&MODELS, models::bytes_read)?,
        "host_syncs_per_token": syncs,
        "allocations_after_load": allocations,
        "spill_bytes": record["spill_bytes"],
        "sass_instructions_per_weight": by_sm(&record["instructions_per_weight"]),
        "binary_bytes": binary_bytes()?,
    });
    counts.as_object_mut().context("an object")?.extend(counting.finish()?);
    counts["past_goals"] = limits::past(&counts).goals.into();
    Ok(counts)
}

/// `{format: {sm: count}}` as `{sm: {format: count}}`.
fn by_sm(by_format: &Value) -> Value {
    let mut by_sm = json!({});
    for (format, row) in by_format.as_object().into_iter().flatten() {
        for (sm, count) in row.as_object().into_iter().flatten() {
            by_sm[format!("sm_{sm}")][format] = count.clone();
        }
    }
    by_sm
}

/// Size of the release's qrun binary, made now where cargo started us; none where there is none.
fn binary_bytes() -> Result<Option<u64>> {
    let exe = env::current_exe()?;
    let target = exe.parent().and_then(Path::parent).context("a folder of cargo's")?;
    if let Some(cargo) = env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--package", "qrun", "--bin", "qrun"]);
        let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
        ensure!(status.success(), "building qrun: {status}");
    }
    Ok(fs::metadata(target.join("release/qrun")).ok().map(|m| m.len()))
}

/// What qrun asks of a GPU, counted with none, as one JSON object.
#[derive(Parser)]
#[command(name = "gpu-counts")]
struct Args {
    /// Fail where a count is past its limit; no times are predicted, which have none.
    #[arg(long, conflicts_with_all = ["code", "tables", "library"])]
    check: bool,
    /// Execute one step in the shipped code, PTX or machine code (which nvdisasm takes apart), and count it by kernel.
    /// Of machine code, predict also how long each kernel takes on the cards of that SM: no card has confirmed it.
    #[arg(long, value_name = "CODE", value_parser = ["ptx", "sass"], conflicts_with_all = ["tables", "library"])]
    code: Option<String>,
    /// With --code: this model alone, not all.
    #[arg(requires = "code", value_parser = MODELS)]
    model: Option<String>,
    /// With --code sass: of which SM; 75 where none is given.
    #[arg(long, requires = "code")]
    sm: Option<u32>,
    /// With --code: a prompt of so many tokens, not a token of decoding.
    #[arg(long, value_name = "TOKENS", requires = "code", value_parser = clap::value_parser!(u32).range(1..=1024))]
    prompt: Option<u32>,
    /// With --code: a token of each of so many sequences.
    #[arg(long, value_name = "N", requires = "code", conflicts_with = "prompt", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    sequences: u32,
    /// With --code: behind so many tokens of a sequence in the KV cache.
    #[arg(long, value_name = "TOKENS", requires = "code", conflicts_with = "prompt", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=32768))]
    depth: u32,
    /// With --code: one sequence and 8, behind 1, 2048 and 8192 tokens, each as a whole and not by kernel.
    #[arg(long, requires = "code", conflicts_with_all = ["prompt", "sequences", "depth"])]
    decodes: bool,
    /// Print the tables of the page benches/predictions.md from the newest records in benches/runs.
    #[arg(long, conflicts_with = "library")]
    tables: bool,
    /// Count what the image that `QRUN_KERNELS` names executes: a process of its own for each.
    #[arg(long, hide = true, conflicts_with_all = ["code", "tables", "library"])]
    keys: bool,
    /// Print the folder of the emulated driver, for scripts that start a program on it.
    #[arg(long)]
    library: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut out = stdout();
    if args.library {
        return Ok(writeln!(out, "{}", qrun_emulator::library().display())?);
    }
    if args.tables {
        return Ok(write!(out, "{}", tables::markdown()?)?);
    }
    if let Some(code) = args.code {
        let code = if code == "sass" { Code::Sass } else { Code::Ptx };
        let decode = Step::Decode { sequences: args.sequences, depth: args.depth };
        let step = args.prompt.map_or(decode, Step::Prompt);
        let counts = code::counts(&Selection::new(code, args.model, args.sm, (!args.decodes).then_some(step))?)?;
        return Ok(writeln!(out, "{counts:#}")?);
    }
    if args.keys {
        return Ok(writeln!(out, "{}", keys::count(!args.check)?)?);
    }
    let counts = counts(!args.check)?;
    writeln!(out, "{counts:#}")?;
    let wrong = limits::past(&counts).limits;
    ensure!(!args.check || wrong.is_empty(), "past their limits:\n  {}", wrong.join("\n  "));
    Ok(())
}
