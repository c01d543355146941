//! Whole answers to some prompts, one after the other or several at once: the recipe of a public benchmark of four
//! engines (four prompts, greedy, at most 2048 tokens, from the start to the end, loading included).

use std::{collections::BTreeMap, ops::ControlFlow, time::Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Column, CostModel, Limits, Tick, cell, extended, list, numbers, rate, record, table};
use crate::{
    engine::Engine,
    generate::{Event, GenerateError, Reply, Request, Scheduler},
    sampler::SamplerParams,
};

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptSet {
    /// The prompts, in tokens.
    pub prompts: Vec<Vec<u32>>,
    /// Most tokens of an answer.
    pub limit: usize,
    /// Go on after a token that ends an answer.
    pub ignore_eos: bool,
}

/// The answers at one batch size, and where the time went, in seconds: loading, the prompts with the choice of each first
/// token, all other tokens, all answers, everything.
#[derive(Debug, Default, Serialize)]
pub struct Batch {
    /// Answers at once.
    pub(crate) batch: usize,
    pub(crate) load_s: f64,
    prefill_s: f64,
    decode_s: f64,
    pub(crate) generate_s: f64,
    pub(crate) wall_s: f64,
    /// Steps of decoding: each reads the weights once, for as many tokens as are in the batch.
    steps: usize,
    /// In the order of the prompts.
    #[serde(skip)]
    replies: Vec<Reply>,
}

/// The prompts of a file: its lines that are not empty, or the strings of a JSON array.
///
/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<Vec<String>, String> {
    let prompts: Vec<String> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(|e| format!("expected a JSON array of strings: {e}"))?
    } else {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    if prompts.is_empty() {
        return Err("expected a prompt on each line, or a JSON array of strings; found none".into());
    }
    Ok(prompts)
}

impl PromptSet {
    /// Tokens of context that the longest answer may fill.
    pub fn n_ctx(&self) -> usize {
        self.prompts.iter().map(Vec::len).max().unwrap_or(0).saturating_add(self.limit)
    }

    /// Answers the prompts greedily, each from its first token, as many at once as the scheduler has sequences. Where an
    /// answer ends, the next prompt takes its place. `tick` hears how many more of the possible tokens are done.
    ///
    /// # Errors
    /// As [`Scheduler::submit`], and what ends a request.
    pub fn run(&self, scheduler: &mut Scheduler, tick: Tick) -> Result<Batch, GenerateError> {
        let (max_tokens, ignore_eos) = (Some(self.limit), self.ignore_eos);
        let submit = |prompt: &Vec<u32>| {
            let request = Request { prompt: prompt.clone(), max_tokens, ignore_eos, fresh: true, ..Request::default() };
            scheduler.submit(request, SamplerParams { temperature: 0.0, ..SamplerParams::default() })
        };
        self.prompts.iter().map(submit).collect::<Result<Vec<_>, _>>()?;
        let (mut replies, mut batch) = (BTreeMap::new(), Batch::default());
        while !scheduler.is_idle() {
            let started = Instant::now();
            let rows = scheduler.step(&mut |_, event| {
                tick(usize::from(matches!(event, Event::Token { .. })));
                ControlFlow::Continue(())
            });
            // A step that a prompt shares with decoding counts as the prompt's.
            let decodes = rows.prompt == 0;
            *(if decodes { &mut batch.decode_s } else { &mut batch.prefill_s }) += started.elapsed().as_secs_f64();
            batch.steps += usize::from(decodes);
            while let Some(finished) = scheduler.finished() {
                let reply = finished.result?;
                tick(self.limit.saturating_sub(reply.tokens.len()));
                replies.insert(finished.id, reply);
            }
        }
        batch.replies = replies.into_values().collect();
        Ok(batch)
    }

    /// A report on the prompts, whose texts are `texts`, and on what each batch size gave; the machine's limits are those
    /// that were measured before, or are measured now.
    pub fn report(&self, engine: &Engine, texts: &[String], before: Limits, batches: &[Batch]) -> Value {
        let limits = before.best(Limits::measure(engine));
        let more = json!({
            "template": engine.template().ok().flatten().map(|template| template.name()),
            "prompts": texts,
            "prompt_tokens": self.prompts.iter().map(Vec::len).collect::<Vec<_>>(),
            "max_new_tokens": self.limit,
            "ignore_eos": self.ignore_eos,
            "batches": batches.iter().map(|batch| self.row(batch, &batches[0], engine, &limits)).collect::<Vec<_>>(),
        });
        extended(record::head("prompts", engine, &limits), more)
    }

    /// The row of a batch size.
    fn row(&self, batch: &Batch, first: &Batch, engine: &Engine, limits: &Limits) -> Value {
        let texts = |batch: &Batch| batch.replies.iter().map(|reply| reply.text.clone()).collect::<Vec<_>>();
        let tokens: Vec<usize> = batch.replies.iter().map(|reply| reply.tokens.len()).collect();
        let total: usize = tokens.iter().sum();
        let stepped: usize = tokens.iter().map(|n| n.saturating_sub(1)).sum();
        // Weights once per step, keys and values of each answer at each of its positions.
        let (cost, weights) = (CostModel(engine), CostModel(engine).weight_bytes() as f64);
        let cache = self.prompts.iter().map(Vec::len).zip(&tokens).map(|(prompt, n)| {
            let positions = prompt..prompt + n.saturating_sub(1);
            positions.len() as f64 * (cost.step_bytes(positions) - weights)
        });
        let bytes = batch.steps as f64 * weights + cache.sum::<f64>();
        let more = json!({
            "tokens": tokens,
            "finish": batch.replies.iter().map(|reply| reply.finish.name()).collect::<Vec<_>>(),
            "total_tokens": total,
            "generate_tps": rate(total, batch.generate_s), "wall_tps": rate(total, batch.wall_s),
            "decode_tps": rate(stepped, batch.decode_s),
            "decode_bytes": bytes,
            "decode_gb_per_s": if batch.steps == 0 { 0.0 } else { bytes / batch.decode_s / 1e9 },
            "decode_limit_tps": rate(stepped, bytes / (limits.read_gb_per_s * 1e9)),
            "texts": texts(batch), "same_texts": texts(batch) == texts(first),
        });
        extended(json!(batch), more)
    }
}

/// What it depends on, and a table with one row per batch size.
pub fn markdown(report: &Value) -> String {
    let n = list(&report["prompts"]).len();
    let prompts = match &report["template"] {
        Value::String(name) => format!("{n} prompts through the chat template {name}"),
        _ => format!("{n} prompts as raw text"),
    };
    let end = if report["ignore_eos"] == true { "past their end" } else { "to their end" };
    let how = format!("{prompts}, greedy, at most {} tokens, {end}", report["max_new_tokens"]);
    let tokens = |row: &Value| list(&row["tokens"]).iter().map(Value::to_string).collect::<Vec<_>>().join(" + ");
    let columns = [
        Column::right("batch", 0, |row: &Value| row["batch"].to_string()),
        numbers("load s", "load_s", 2),
        numbers("prefill s", "prefill_s", 2),
        numbers("decode s", "decode_s", 2),
        numbers("wall s", "wall_s", 2),
        Column::left("tokens", 0, move |row: &Value| format!("{} = {}", tokens(row), row["total_tokens"])),
        numbers("tok/s generating", "generate_tps", 1),
        numbers("tok/s of the wall", "wall_tps", 1),
        numbers("decode tok/s", "decode_tps", 1),
        numbers("GB/s", "decode_gb_per_s", 1),
        numbers("limit", "decode_limit_tps", 1),
        numbers("share", "decode_tps/decode_limit_tps", 0),
        Column::left("same texts", 0, |row: &Value| if row["same_texts"] == true { "yes".into() } else { "no".into() }),
    ];
    record::describe(report, &how) + "\n" + &table(&columns, list(&report["batches"]))
}

/// The speeds in one line.
pub fn speeds(report: &Value) -> String {
    let each = list(&report["batches"]).iter().map(|row| {
        let fields = ["generate_tps", "decode_tps/decode_limit_tps", "wall_tps"];
        let [generating, share, wall] = fields.map(|field| cell(row, field, 1));
        format!("batch {} {generating} ({share} of the limit, {wall} with loading)", row["batch"])
    });
    format!("{} answers, tok/s {}", list(&report["prompts"]).len(), each.collect::<Vec<_>>().join(", "))
}
