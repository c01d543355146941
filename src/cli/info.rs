//! `qrun info FILE`: what is in a file, and what it takes to run it.

use std::{collections::BTreeMap, fmt::Write};

use crate::{
    engine::plan::{self, human_bytes},
    engine::{Backend, DevicePreference},
    tools::quantize::FileType,
};
use qrun_models::{Config, GpuDecoder, LayerPlan, Model, Options, memory};
use qrun_quant::{Gguf, gguf::Value};
use serde_json::{Map, json};

use super::{args::Speculation, exit::Exit, stdout::print, values::ModelFile};

/// What is in a file: metadata, tensor types by bytes, memory need per context size.
#[derive(Debug, clap::Args)]
pub struct Info {
    #[command(flatten)]
    file: ModelFile,
    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// The tensors of one format.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    tensors: usize,
    parameters: u64,
    bytes: u64,
}

impl Info {
    /// Prints what is in the file. Why it would not run here is part of that.
    ///
    /// # Errors
    /// Exit code 3: the file is missing or damaged. 6: it was not fetched. 1: stdout fails.
    pub fn run(self) -> Result<(), Exit> {
        let gguf = self.file.open()?;
        let model = match gguf.tensors() {
            // A vocabulary: there is nothing to run.
            [] => Err("no tensors: a vocabulary".to_owned()),
            _ => Model::load(&gguf).map_err(|e| e.to_string()),
        };
        let text = if self.json { as_json(&gguf, model.as_ref()) } else { as_tables(&gguf, model.as_ref()) };
        print(&text)
    }
}

fn shares(gguf: &Gguf) -> Vec<(&'static str, Share)> {
    let mut by_name: BTreeMap<&'static str, Share> = BTreeMap::new();
    for tensor in gguf.tensors() {
        let share = by_name.entry(tensor.ty.name()).or_default();
        share.tensors += 1;
        share.parameters += tensor.len() as u64;
        share.bytes += tensor.data.len() as u64;
    }
    let mut shares: Vec<_> = by_name.into_iter().collect();
    shares.sort_by_key(|s| std::cmp::Reverse(s.1.bytes));
    shares
}

fn total(shares: &[(&str, Share)]) -> Share {
    shares.iter().fold(Share::default(), |sum, (_, s)| Share {
        tensors: sum.tensors + s.tensors,
        parameters: sum.parameters + s.parameters,
        bytes: sum.bytes + s.bytes,
    })
}

/// Memory need of one sequence, for each context size of the listing.
type Needs = Vec<(usize, memory::Plan)>;

/// Where the model runs when nothing is said, and what it needs there and on the CPU.
struct Run {
    /// The device, the context that fits, or why there is none.
    place: String,
    cpu: Needs,
    /// The GPU's name and the needs on it.
    gpu: Option<(String, Needs)>,
}

impl Run {
    fn new(model: &Model) -> Self {
        let needs = |need: &dyn Fn(usize) -> memory::Plan| -> Needs {
            plan::context_sizes(&model.config).into_iter().map(|n| (n, need(n))).collect()
        };
        let mut run =
            Run { place: String::new(), cpu: needs(&|n_ctx| memory::Plan::new(model, &options(n_ctx))), gpu: None };
        let (place, plan) = match Backend::choose(model, &options(0), DevicePreference::Auto) {
            Ok(chosen) => chosen,
            Err(error) => {
                run.place = format!("nothing here: {error}");
                return run;
            }
        };
        run.place = place.name();
        match &place {
            Backend::Cpu { reason: Some(reason) } => run.place += &format!(" ({reason})"),
            Backend::Cpu { reason: None } => {}
            Backend::Gpu { .. } => {
                run.gpu = Some((place.name(), needs(&|n_ctx| GpuDecoder::plan(model, &options(n_ctx)))));
            }
        }
        let available = plan.available.map_or(String::new(), |a| format!(" of {} available", human_bytes(a)));
        let bytes = human_bytes(plan.bytes.total());
        run.place += &format!(", with a context of {} tokens: {bytes}{available}", plan.n_ctx);
        run
    }
}

/// What guessing with the model's draft head takes besides on a CPU, `[n_ctx, weights, KV cache, activations]`; `None`: it has
/// none that runs.
fn draft_head(gguf: &Gguf, model: &Model) -> Option<[u64; 4]> {
    let with = Model::load_with_draft_head(gguf).ok()?;
    let n_ctx = *plan::context_sizes(&model.config).first()?;
    let without = options(n_ctx);
    let n_draft = Speculation::default().n_max;
    let more = memory::Plan::new(&with, &Options { n_draft, draft_head: true, ..without.clone() });
    let plan = memory::Plan::new(model, &without);
    let parts = |p: memory::Plan| [p.weights, p.kv, p.activations];
    let [weights, kv, work]: [u64; 3] = std::array::from_fn(|i| parts(more)[i] - parts(plan)[i]);
    Some([n_ctx as u64, weights, kv, work])
}

/// As the command line runs it.
fn options(n_ctx: usize) -> Options {
    Options { n_ctx, repack_as_needed: true, ..Options::default() }
}

fn file_type(gguf: &Gguf) -> Option<&'static str> {
    let number = gguf.get("general.file_type")?.as_u64()?;
    FileType::from_number(number.try_into().ok()?).map(FileType::name)
}

fn as_tables(gguf: &Gguf, model: Result<&Model, &String>) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line(format!(
        "file        {} (GGUF v{}, {})",
        gguf.path().display(),
        gguf.version(),
        human_bytes(gguf.file_bytes())
    ));
    if let Some(name) = file_type(gguf) {
        line(format!("type        {name}"));
    }
    let run = model.ok().map(Run::new);
    let shares = shares(gguf);
    let sum = total(&shares);
    line(format!("parameters  {} in {} tensors, {}", sum.parameters, sum.tensors, human_bytes(sum.bytes)));
    match model {
        Ok(model) => {
            describe(&model.config).into_iter().for_each(&mut line);
            if let Some([n_ctx, bytes @ ..]) = draft_head(gguf, model) {
                let [weights, kv, work] = bytes.map(human_bytes);
                line(format!(
                    "draft head  --spec-type draft-mtp guesses with it: {weights} of weights more, {kv} of KV cache and {work} of activations for {n_ctx} tokens"
                ));
            }
            line(format!("per token   {} of weights are read", human_bytes(model.weights.bytes_per_token())));
            line(format!("runs on     {}", run.as_ref().map_or("", |r| &r.place)));
            if let Some((_, p)) = run.as_ref().and_then(|run| run.cpu.first()) {
                let [mapped, private] = [p.mapped, p.weights - p.mapped].map(human_bytes);
                line(format!(
                    "on a CPU    {mapped} of weights stay in the mapped file, {private} are repacked into memory"
                ));
            }
        }
        Err(reason) => line(format!("runs        no: {reason}")),
    }
    if sum.tensors > 0 {
        line("\nformat      tensors     parameters           bytes   share".into());
    }
    for (name, s) in &shares {
        let percent = 100.0 * s.bytes as f64 / sum.bytes.max(1) as f64;
        line(format!("{name:<10} {:8} {:14} {:>15} {percent:6.1} %", s.tensors, s.parameters, human_bytes(s.bytes)));
    }
    if let Some(run) = run {
        let gpu = run.gpu.iter().map(|(name, needs)| (name.as_str(), needs));
        for (name, needs) in gpu.chain([("CPU", &run.cpu)]) {
            line(format!("\non {name}"));
            line("context           weights        KV cache     activations           total".into());
            for (n_ctx, p) in needs {
                let [weights, kv, work, total] = [p.weights, p.kv, p.activations, p.total()].map(human_bytes);
                line(format!("{n_ctx:<9} {weights:>15} {kv:>15} {work:>15} {total:>15}"));
            }
        }
    }
    line("\nmetadata".into());
    for (key, value) in gguf.metadata() {
        line(format!("{key:<40} {}", value.describe()));
    }
    out
}

fn describe(c: &Config) -> Vec<String> {
    let windows: Vec<usize> = c.layers.iter().filter_map(|l| l.window).collect();
    let sliding = match windows.first() {
        Some(w) => format!(", {} of them see a window of {w} tokens", windows.len()),
        None => String::new(),
    };
    let further = match c.n_nextn {
        0 => String::new(),
        n => format!("; {n} more that predict further tokens"),
    };
    let mut lines = vec![
        format!("model       {} ({}), trained for {} tokens", c.name, c.arch.name, c.n_ctx_train),
        format!("layers      {}{sliding}{further}", c.layers.len()),
        format!(
            "width       {}, feed-forward {}, {} heads of {} ({} for keys and values), vocabulary {}",
            c.n_embd,
            over_layers(c, LayerPlan::n_ff),
            over_layers(c, |l| l.n_head),
            over_layers(c, |l| l.head_dim),
            over_layers(c, |l| l.n_head_kv),
            c.n_vocab
        ),
    ];
    if let Some(e) = c.layers.iter().find_map(LayerPlan::experts) {
        let shared = e.shared.map_or(String::new(), |s| format!(" and one of width {} for all", s.n_ff));
        lines.push(format!("experts     {} of {} for a token, of width {}{shared}", e.n_used, e.n_expert, e.n_ff));
    }
    let states: Vec<usize> = c.layers.iter().map(LayerPlan::state_len).filter(|&n| n > 0).collect();
    if !states.is_empty() {
        let bytes = size_of::<f32>() * states.iter().sum::<usize>();
        let (n, bytes) = (states.len(), human_bytes(bytes as u64));
        lines.push(format!("recurrent   {n} layers have a state in place of a cache, {bytes} for a sequence"));
    }
    lines
}

/// A size of all layers that have it; where they differ, from the smallest to the largest.
fn over_layers(c: &Config, size: impl Fn(&LayerPlan) -> usize) -> String {
    let smallest = c.layers.iter().map(&size).filter(|&n| n > 0).min().unwrap_or(0);
    match c.widest(size) {
        largest if largest == smallest => format!("{largest}"),
        largest => format!("{smallest} to {largest}"),
    }
}

fn as_json(gguf: &Gguf, model: Result<&Model, &String>) -> String {
    let shares = shares(gguf);
    let sum = total(&shares);
    let metadata: Map<String, serde_json::Value> = gguf.metadata().iter().map(|(k, v)| (k.clone(), value(v))).collect();
    let share = |s: &Share| json!({ "tensors": s.tensors, "parameters": s.parameters, "bytes": s.bytes });
    let formats: Map<_, _> = shares.iter().map(|(name, s)| ((*name).to_owned(), share(s))).collect();
    let need = |&(n_ctx, p): &(usize, memory::Plan)| json!({ "n_ctx": n_ctx, "weights": p.weights, "mapped": p.mapped, "kv": p.kv, "kv_window": p.kv_window, "activations": p.activations, "total": p.total() });
    let needs = |needs: &Needs| -> serde_json::Value { needs.iter().map(need).collect() };
    let mut object = json!({
        "file": gguf.path().display().to_string(),
        "version": gguf.version(),
        "file_bytes": gguf.file_bytes(),
        "file_type": file_type(gguf),
        "parameters": sum.parameters,
        "tensors": sum.tensors,
        "tensor_bytes": sum.bytes,
        "formats": formats,
        "metadata": metadata,
    });
    match model {
        Ok(model) => {
            object["arch"] = model.config.arch.name.into();
            if let Some([n_ctx, weights, kv, activations]) = draft_head(gguf, model) {
                object["draft_head"] =
                    json!({ "n_ctx": n_ctx, "weights": weights, "kv": kv, "activations": activations });
            }
            object["bytes_per_token"] = model.weights.bytes_per_token().into();
            let run = Run::new(model);
            object["memory"] = needs(&run.cpu);
            object["runs_on"] = run.place.into();
            if let Some((name, gpu)) = &run.gpu {
                object["gpu"] = json!({ "name": name, "memory": needs(gpu) });
            }
        }
        Err(reason) => object["does_not_run"] = reason.as_str().into(),
    }
    format!("{object}\n")
}

/// A metadata value as JSON; arrays by their length and type, for vocabularies are long.
fn value(v: &Value) -> serde_json::Value {
    match v {
        Value::Str(text) => text.as_str().into(),
        Value::Bool(b) => (*b).into(),
        Value::Array(array) => json!({ "array": format!("{:?}", array.ty), "len": array.len }),
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => {
            serde_json::from_str(&v.describe()).unwrap_or_default()
        }
        Value::F32(_) | Value::F64(_) => v.as_f64().into(),
        _ => v.as_u64().into(),
    }
}
