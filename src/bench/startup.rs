//! The start of a run as its user lives it: from the shell's `exec` to the first token, step by step.
//!
//! The program starts itself with an ordinary command line. The child says what its own steps took; what is missing to
//! the parent's clock is the system's work before the child's first line.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use serde_json::{Value, json};

use super::{Column, fixed, list, machine, number, percentile, record, table, text};

/// About 16 tokens in most vocabularies. A text, so that the model's file is not touched before the clock starts.
const PROMPT: &str = "The quick brown fox jumps over the lazy dog. The quick brown fox jumps";

/// What the row of all steps together is called.
const TOTAL: &str = "**total to the first token**";

/// Why a start was not measured: the exit code of the program that was started, where it failed, and what is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{1}")]
pub struct StartupError(pub Option<i32>, pub String);

impl From<std::io::Error> for StartupError {
    fn from(error: std::io::Error) -> Self {
        Self(None, format!("starting qrun: {error}"))
    }
}

/// Starts `program` on a model once and waits for its end: the time line (from `exec` to `first token`, in milliseconds),
/// the time until the first token by the parent's clock, the step after it (on a GPU it records the graph that later steps
/// repeat), what the child held at its end, where it ran, and the tokens of its prompt.
///
/// # Errors
/// It cannot be started, fails, or makes no token.
pub fn run(program: &Path, model: &Path, flags: &[String]) -> Result<Value, StartupError> {
    let mut command = Command::new(program);
    command.arg(model).args(["-no-cnv", "-p", PROMPT, "-n", "2", "--temp", "0", "--ignore-eos", "--json"]).args(flags);
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut start, mut end, mut total_ms) = (Value::Null, Value::Null, None);
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let elapsed = started.elapsed().as_secs_f64() * 1e3;
        let event: Value = serde_json::from_str(&line?).unwrap_or_default();
        match text(&event, "type") {
            "start" => start = event,
            "token" => total_ms = total_ms.or(Some(elapsed)),
            "end" => end = event,
            _ => {}
        }
    }
    let ended = child.wait_with_output()?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(StartupError(ended.status.code(), said.trim().trim_start_matches("error: ").into()));
    }
    let missing = || StartupError(None, "expected a token among the events of the program that was started".into());
    let total_ms = total_ms.ok_or_else(missing)?;
    let mut timeline = list(&end["timeline"]).to_vec();
    // The child's last step ends after its line is written: by then the parent may have read it.
    let before = total_ms - timeline.iter().filter_map(|step| number(step, "ms")).sum::<f64>();
    timeline.insert(0, json!({ "step": "exec", "ms": before.max(0.0) }));
    Ok(json!({
        "timeline": timeline, "total_ms": total_ms, "next_step_ms": end["timings"]["predicted_ms"],
        "memory": end["memory"], "device": start["device"], "n_prompt": start["tokens_prompt"],
    }))
}

/// A first start, whatever lay in the page cache, and those after it.
pub fn report(model: &Path, file_bytes: u64, threads: usize, first: Value, runs: Vec<Value>) -> Value {
    let mut machine = machine::facts(threads, None);
    machine["device"] = if is_gpu(&first) { "cuda" } else { "cpu" }.into();
    json!({ "model": model, "file_bytes": file_bytes, "machine": machine, "first": first, "runs": runs })
}

fn is_gpu(run: &Value) -> bool {
    text(run, "device").starts_with("GPU")
}

/// The time line in Markdown.
pub fn markdown(report: &Value) -> String {
    let (first, runs) = (&report["first"], list(&report["runs"]));
    let last = runs.last().unwrap_or(first);
    let m = &report["machine"];
    let mb = |bytes: &Value| bytes.as_f64().map_or("unknown".into(), |bytes| format!("{:.0} MB", bytes / 1e6));
    let waited = |run: &Value| run["memory"]["major_faults"].as_u64().map_or("unknown".into(), |n| n.to_string());
    let (model, device, cpu, n) = (text(report, "model"), text(first, "device"), text(m, "cpu"), &first["n_prompt"]);
    let [file, peak, files] = [&report["file_bytes"], &last["memory"]["peak"], &last["memory"]["files"]].map(mb);
    let [waited, again] = [first, last].map(waited);
    let head = format!(
        "- **{model}** on {device} ({cpu}), prompt of {n} tokens, greedy; file {file}, peak memory {peak}, of it mapped files \
         at the end {files}; waits for the disk: first run {waited}, last run {again}; {}\n\n",
        record::made(m)
    );
    let then = if is_gpu(first) { "then: graph (first recorded step)" } else { "then: first step" };
    // A step that was not taken took no time.
    let ms = |run: &Value, name: &str| match name {
        TOTAL => number(run, "total_ms").unwrap_or(0.0),
        _ if name == then => number(run, "next_step_ms").unwrap_or(0.0),
        _ => list(&run["timeline"]).iter().filter(|s| text(s, "step") == name).filter_map(|s| number(s, "ms")).sum(),
    };
    let of_runs = |name: &str, p: f64| percentile(&runs.iter().map(|run| ms(run, name)).collect::<Vec<_>>(), p);
    let shown = |p: f64| move |name: &str| fixed(Some(of_runs(name, p)), 1);
    let columns = [
        Column::left("Step (ms)", 0, |name: &str| name.to_owned()),
        Column::right("first run", 0, |name: &str| fixed(Some(ms(first, name)), 1)),
        Column::right(format!("median of {}", runs.len()), 0, shown(50.0)),
        Column::right("min", 0, shown(0.0)),
        Column::right("max", 0, shown(100.0)),
        Column::right("share", 0, |name: &str| match of_runs(TOTAL, 50.0) {
            all if name == then || all <= 0.0 => String::new(),
            all => format!("{:.1} %", 100.0 * of_runs(name, 50.0) / all),
        }),
    ];
    let steps = list(&first["timeline"]).iter().map(|step| text(step, "step"));
    head + &table(&columns, steps.chain([TOTAL, then]))
}
