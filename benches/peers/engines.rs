//! The engines that take turns, and what a turn of each is.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use qrun::{
    bench::{Job, Trial, machine, peers::QRUN},
    engine::{DevicePreference, Engine, EngineOptions},
    generate::Session,
    sampler::SamplerParams,
};
use qrun_models::Options;
use qrun_quant::Gguf;
use serde_json::{Value, json};

use super::{Args, turns};

/// Other engines, behind Python scripts (see `turn.py`): their names on the command line, in the records and in the table,
/// script and flag, and the types of weights that they are compared at (nothing: all).
pub const PEERS: [(&str, &[&str], &[&str]); 6] = [
    ("llama-cpp", &["run_llama_cpp.py"], &[]),
    ("transformers", &["run_transformers.py"], &["BF16"]),
    ("transformers-compile", &["run_transformers.py", "--compile"], &["BF16"]),
    ("ctranslate2", &["run_ctranslate2.py"], &["Q8_0", "BF16"]),
    ("vllm", &["run_vllm.py"], &["BF16"]),
    ("eole", &["run_eole.py"], &["BF16"]),
];

/// Whether a peer has something to compare with at this type of weights.
pub fn takes(name: &str, ty: &str) -> bool {
    PEERS.iter().any(|(peer, _, types)| *peer == name && (types.is_empty() || types.contains(&ty)))
}

/// Why a peer cannot be run here, if so.
pub fn skipped(name: &str, args: &Args) -> Result<Option<String>> {
    let mut check = script(name, args)?;
    let answer = turns::run(check.arg("--check"), Duration::from_secs(args.limit));
    Ok(answer.map_or_else(|error| Some(format!("{error:#}")), |answer| answer["skipped"].as_str().map(str::to_owned)))
}

fn script(name: &str, args: &Args) -> Result<Command> {
    let (_, words, _) = PEERS.iter().find(|(peer, ..)| *peer == name).with_context(|| format!("peer {name}"))?;
    let mut command = Command::new(std::env::var_os("QRUN_PEER_PYTHON").unwrap_or_else(|| "python3".into()));
    command.arg(Path::new("benches/peers").join(words[0])).args(&words[1..]).args(["--device", &args.device]);
    Ok(command)
}

/// One turn of an engine on a file; qrun's is this program once more. One that did other work than was asked for has failed.
pub fn turn_of(name: &str, args: &Args, file: &Path) -> Result<Value> {
    let [prefill, decode, threads] = [args.prefill, args.decode, args.threads].map(|n| n.to_string());
    let mut command;
    if name == QRUN {
        command = Command::new(std::env::current_exe()?);
        command.arg("--turn").arg(file).args(["--device", &args.device, "--prefill", &prefill, "--decode", &decode]);
        command.args(["--threads", &threads]);
    } else {
        command = script(name, args)?;
        command.arg(file).args([prefill, decode, threads]);
    }
    let turn = turns::run(&mut command, Duration::from_secs(args.limit)).with_context(|| name.to_owned())?;
    for (key, expected) in [("prefill_tokens", args.prefill), ("decode_tokens", args.decode)] {
        ensure!(turn[key] == expected, "{key}: expected {expected}, found {}", turn[key]);
    }
    let speeds = ["prefill", "decode"].map(|key| turn[key].as_f64());
    ensure!(speeds.iter().all(|s| s.is_some_and(|s| s.is_finite() && s > 0.0)), "speeds: found {speeds:?}");
    Ok(turn)
}

/// qrun's own turn: tokens per second of a prompt, and of greedy steps after it.
pub fn own_turn(args: &Args, file: &Path) -> Result<Value> {
    let n_ctx = args.prefill + args.decode + 1;
    let options = Options { n_ctx, threads: args.threads, ..Options::default() };
    let device: DevicePreference = args.device.parse().map_err(anyhow::Error::msg)?;
    let precision = match device {
        DevicePreference::Cuda(_) => "KV f16",
        _ => "activations int8 (prompts 16-bit fixed point, steps f32 where weights are floats), KV f16",
    };
    let engine = Arc::new(Engine::open(Gguf::open(file)?, EngineOptions { options, template: None, device })?);
    let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    let mut session = Session::open(engine, params.clone(), Box::new(|_| ()))?;
    // Everything touched once before the clock starts, as the peers do.
    let first = Job { prompt: vec![0], depth: 0, n_gen: 1, params };
    Trial::run(&mut session, &first, &mut |_| ())?;
    // The same tokens as turn.py has. The first one that is generated comes out of the prompt.
    let prompt = (0..args.prefill).map(|pos| 100 + (pos * 7919 % 900) as u32).collect();
    let trial = Trial::run(&mut session, &Job { prompt, n_gen: args.decode + 1, ..first }, &mut |_| ())?;
    Ok(json!({
        "prefill": trial.prompt_per_second(), "decode": trial.decode_per_second(),
        "prefill_tokens": args.prefill, "decode_tokens": trial.step_ms.len(),
        "weights": "the same file", "precision": format!("weights as in the file, {precision}"),
        "peak_mib": machine::peak_memory().map(|bytes| bytes >> 20), "bytes_per_token": session.bytes_per_token(),
        "versions": { "qrun": env!("CARGO_PKG_VERSION") },
    }))
}
