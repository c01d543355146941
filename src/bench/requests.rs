//! Requests one after another, as somebody at a notebook makes them, and the metrics of llcuda over them.

use std::{ops::ControlFlow, time::Instant};

use serde_json::{Value, json};

use super::{
    Column, CostModel, Limits, extended, list, mean, number, numbers, percentile, quotient, record, statistics::rate,
    table, text,
};
use crate::{
    engine::Engine,
    generate::{Event, GenerateError, Reply, Request, Session},
    sampler::SamplerParams,
};

/// A speed and its limit in a report.
pub const DECODE: [&str; 2] = ["decode_tps", "decode_limit_tps"];

/// A request of the notebook.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// What the user says.
    pub prompt: &'static str,
    /// Most tokens of the answer.
    pub limit: usize,
    /// Of the sampler, as the next two are.
    pub temperature: f32,
    /// The likeliest with this probability together.
    pub top_p: f32,
    /// The likeliest so many.
    pub top_k: i32,
    /// What ends the answer, or "".
    pub stop: &'static str,
}

const fn ask(prompt: &'static str, limit: usize, temperature: f32, top_p: f32) -> Ask {
    Ask { prompt, limit, temperature, top_p, top_k: 40, stop: "" }
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
    Ask { top_k: 50, stop: "\n\n", ..ask("Write a haiku about artificial intelligence.", 100, 0.9, 0.95) },
    ask("What is the capital of France?", 30, 0.7, 0.9),
];

/// A request that was answered, in milliseconds from asking.
pub struct Answered {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// To the first token.
    pub ttft_ms: f64,
    /// To the end.
    pub latency_ms: f64,
    /// The answer.
    pub reply: Reply,
}

impl Ask {
    /// Answers the prompt, which is `tokens` in the model's own form.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run(&self, session: &mut Session, tokens: Vec<u32>, seed: u64) -> Result<Answered, GenerateError> {
        let Self { temperature, top_p, top_k, .. } = *self;
        *session.params_mut() = SamplerParams { temperature, top_p, top_k, seed, ..SamplerParams::default() };
        let stops = Some(self.stop.to_owned()).filter(|stop| !stop.is_empty()).into_iter().collect();
        let prompt_tokens = tokens.len();
        let request = Request { prompt: tokens, max_tokens: Some(self.limit), stops, ..Request::default() };
        let (started, mut first) = (Instant::now(), None);
        let reply = session.generate(&request, &mut |event| {
            if let Event::Token { .. } = event {
                first.get_or_insert_with(|| started.elapsed());
            }
            ControlFlow::Continue(())
        })?;
        let latency_ms = started.elapsed().as_secs_f64() * 1e3;
        Ok(Answered { prompt_tokens, ttft_ms: first.map_or(latency_ms, |t| t.as_secs_f64() * 1e3), latency_ms, reply })
    }
}

/// A report on requests: a row for each, llcuda's metrics dict over all, and the speed of decoding beside its limit.
pub fn report(engine: &Engine, answered: &[Answered], before: Limits) -> Value {
    let limits = before.best(Limits::measure(engine));
    let (cost, mut bytes, mut steps, mut decode_ms) = (CostModel(engine), 0.0, 0, 0.0);
    for Answered { prompt_tokens, reply, .. } in answered {
        let positions = *prompt_tokens..prompt_tokens + reply.timings.predicted_runs();
        steps += positions.len();
        bytes += positions.len() as f64 * cost.step_bytes(positions);
        decode_ms += reply.timings.predicted_ms;
    }
    let rows = answered.iter().map(|a| {
        let n = a.reply.tokens.len();
        json!({
            "prompt_tokens": a.prompt_tokens, "tokens": n, "finish": a.reply.finish.name(), "ttft_ms": a.ttft_ms,
            "latency_ms": a.latency_ms, "tokens_per_sec": rate(n, a.latency_ms / 1e3),
            "decode_tps": a.reply.timings.predicted_per_second(),
        })
    });
    let more = json!({
        "limits": limits,
        "template": engine.template().ok().flatten().map(|template| template.name()),
        "requests": rows.collect::<Vec<_>>(),
        "metrics": metrics(answered),
        "decode_tps": rate(steps, decode_ms / 1e3),
        "decode_limit_tps": rate(steps, bytes / (limits.read_gb_per_s * 1e9)),
    });
    extended(record::head("requests", engine), more)
}

/// llcuda's metrics dict.
fn metrics(answered: &[Answered]) -> Value {
    let latencies: Vec<f64> = answered.iter().map(|a| a.latency_ms).collect();
    let (tokens, seconds) = (answered.iter().map(|a| a.reply.tokens.len()).sum(), latencies.iter().sum::<f64>() / 1e3);
    let edge = |pick: fn(f64, f64) -> f64| latencies.iter().copied().reduce(pick).unwrap_or(0.0);
    json!({
        "latency": {
            "mean_ms": mean(&latencies), "p50_ms": percentile(&latencies, 50.0), "p95_ms": percentile(&latencies, 95.0),
            "p99_ms": percentile(&latencies, 99.0), "min_ms": edge(f64::min), "max_ms": edge(f64::max),
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
    let shown = |field: &str| number(&report["metrics"]["latency"], field).unwrap_or(0.0);
    format!(
        "{}\n{}\nLatency: mean {:.1} ms, P50 {:.1}, P95 {:.1}; all {:.1} tok/s, decoding {:.1} ({:.0} % of the limit)\n",
        record::describe(report, &how),
        table(&columns, list(&report["requests"])),
        shown("mean_ms"),
        shown("p50_ms"),
        shown("p95_ms"),
        number(&report["metrics"]["throughput"], "tokens_per_sec").unwrap_or(0.0),
        number(report, DECODE[0]).unwrap_or(0.0),
        100.0 * quotient(report, DECODE).unwrap_or(0.0),
    )
}

/// One line that can be pasted into an issue.
pub fn line(report: &Value) -> String {
    let all = number(&report["metrics"]["throughput"], "tokens_per_sec").unwrap_or(0.0);
    let decode = number(report, DECODE[0]).unwrap_or(0.0);
    format!("{}: requests one by one {all:.1} tok/s, decoding {decode:.1}", record::line(report))
}
