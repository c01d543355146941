//! Requests one after another, as somebody at a notebook makes them, and the metrics of llcuda over them.

use serde_json::{Value, json};

use super::{
    Column, CostModel, Limits, Trial, cell, extended, list, mean, numbers, percentile, rate, record, table, text,
};
use crate::{
    engine::Engine,
    generate::{GenerateError, Request, Session},
    sampler::SamplerParams,
};

/// A request of the notebook.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// What the user says.
    pub prompt: &'static str,
    /// Most tokens of the answer.
    pub limit: usize,
    temperature: f32,
    top_p: f32,
    top_k: i32,
    /// What ends the answer.
    stops: &'static [&'static str],
}

const fn ask(prompt: &'static str, limit: usize, temperature: f32, top_p: f32) -> Ask {
    Ask { prompt, limit, temperature, top_p, top_k: 40, stops: &[] }
}

/// The requests of llcuda's notebook with Gemma 3 1B, in its order.
pub const NOTEBOOK: [Ask; 8] = [
    ask("Explain quantum computing in simple terms that a beginner can understand.", 200, 0.7, 0.9),
    ask(
        "Write a Python function to calculate the fibonacci sequence using dynamic programming.\nInclude docstring and \
         example usage.",
        300,
        0.3,
        0.95,
    ),
    ask("What is machine learning in one sentence?", 80, 0.7, 0.9),
    ask("Explain neural networks briefly.", 80, 0.7, 0.9),
    ask("What is the difference between AI and ML?", 80, 0.7, 0.9),
    ask("Define deep learning concisely.", 80, 0.7, 0.9),
    Ask { top_k: 50, stops: &["\n\n"], ..ask("Write a haiku about artificial intelligence.", 100, 0.9, 0.95) },
    ask("What is the capital of France?", 30, 0.7, 0.9),
];

impl Ask {
    /// Answers the prompt in the model's own form.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run(&self, session: &mut Session, prompt: Vec<u32>, seed: u64) -> Result<Trial, GenerateError> {
        let Self { limit, temperature, top_p, top_k, stops, .. } = *self;
        *session.params_mut() = SamplerParams { temperature, top_p, top_k, seed, ..SamplerParams::default() };
        let stops = stops.iter().map(|stop| stop.to_string()).collect();
        let request = Request { prompt, max_tokens: Some(limit), stops, ..Request::default() };
        Trial::of(session, &request, &mut |_| ())
    }
}

/// A report on requests: a row for each, llcuda's metrics dict over all, and the speed of decoding beside its limit.
pub fn report(engine: &Engine, answered: &[Trial], before: Limits) -> Value {
    let limits = before.best(Limits::measure(engine));
    let (cost, mut bytes, mut steps, mut decode_ms) = (CostModel(engine), 0.0, 0, 0.0);
    for Trial { n_prompt, reply, .. } in answered {
        let positions = *n_prompt..n_prompt + reply.timings.predicted_runs();
        steps += positions.len();
        bytes += positions.len() as f64 * cost.step_bytes(positions);
        decode_ms += reply.timings.predicted_ms;
    }
    let rows = answered.iter().map(|a| {
        json!({
            "prompt_tokens": a.n_prompt, "tokens": a.reply.tokens.len(), "finish": a.reply.finish.name(),
            "ttft_ms": a.ttft_ms, "latency_ms": a.wall_ms, "tokens_per_sec": a.end_to_end_per_second(),
            "decode_tps": a.reply.timings.predicted_per_second(),
        })
    });
    let more = json!({
        "template": engine.template().ok().flatten().map(|template| template.name()),
        "requests": rows.collect::<Vec<_>>(),
        "metrics": metrics(answered),
        "decode_tps": rate(steps, decode_ms / 1e3),
        "decode_limit_tps": rate(steps, bytes / (limits.read_gb_per_s * 1e9)),
    });
    extended(record::head("requests", engine, &limits), more)
}

/// llcuda's metrics dict.
fn metrics(answered: &[Trial]) -> Value {
    let latencies: Vec<f64> = answered.iter().map(|a| a.wall_ms).collect();
    let (tokens, seconds) = (answered.iter().map(|a| a.reply.tokens.len()).sum(), latencies.iter().sum::<f64>() / 1e3);
    let [min, p50, p95, p99, max] = [0.0, 50.0, 95.0, 99.0, 100.0].map(|p| percentile(&latencies, p));
    json!({
        "latency": {
            "mean_ms": mean(&latencies), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "min_ms": min, "max_ms": max,
            "sample_count": latencies.len(),
        },
        "throughput": {
            "total_tokens": tokens, "total_requests": answered.len(), "tokens_per_sec": rate(tokens, seconds),
            "requests_per_sec": rate(answered.len(), seconds),
        },
    })
}

/// What it depends on, a row for each request, and the metrics.
pub fn markdown(report: &Value) -> String {
    let columns = [
        numbers("prompt", "prompt_tokens", 0),
        numbers("tokens", "tokens", 0),
        Column::left("finish", 0, |row: &Value| text(row, "finish").to_owned()),
        numbers("TTFT ms", "ttft_ms", 1),
        numbers("latency ms", "latency_ms", 1),
        numbers("tok/s", "tokens_per_sec", 1),
        numbers("decode tok/s", "decode_tps", 1),
    ];
    let how = format!("{} requests of a notebook one after another", list(&report["requests"]).len());
    let [mean, p50, p95] = ["mean_ms", "p50_ms", "p95_ms"].map(|field| cell(&report["metrics"]["latency"], field, 1));
    let [decode, share] = ["decode_tps", "decode_tps/decode_limit_tps"].map(|field| cell(report, field, 1));
    format!(
        "{}\n{}\nLatency: mean {mean} ms, P50 {p50}, P95 {p95}; all {} tok/s, decoding {decode} ({share} of the limit)\n",
        record::describe(report, &how),
        table(&columns, list(&report["requests"])),
        cell(&report["metrics"]["throughput"], "tokens_per_sec", 1),
    )
}

/// The speeds in one line.
pub fn speeds(report: &Value) -> String {
    let all = cell(&report["metrics"]["throughput"], "tokens_per_sec", 1);
    format!("requests one by one {all} tok/s, decoding {}", cell(report, "decode_tps", 1))
}
