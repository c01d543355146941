//! What answering the prompts took, as data and as a table.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Answers, PromptSet};
use crate::{
    bench::{
        info::RunInfo,
        limits::{CostModel, Limits},
        statistics::rate,
    },
    engine::Engine,
    generate::Finish,
};

/// The answers of some batch sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptsReport {
    /// What was measured, and where; its suite is `prompts`.
    #[serde(flatten)]
    pub info: RunInfo,
    /// The chat template that the prompts were put through; `None`: they were taken as they are.
    pub template: Option<String>,
    /// The prompts.
    pub prompts: Vec<String>,
    /// Tokens of each, in the model's own form.
    pub prompt_tokens: Vec<usize>,
    /// Most tokens of an answer.
    pub max_new_tokens: usize,
    /// Whether answers go on after their end.
    pub ignore_eos: bool,
    /// One entry per batch size.
    pub batches: Vec<Batch>,
}

/// What one batch size gave. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Answers at once, at most.
    pub batch: usize,
    /// From the file's name to a decoder that is ready.
    pub load_s: f64,
    /// The prompts, the choice of each first token included.
    pub prefill_s: f64,
    /// All other tokens.
    pub decode_s: f64,
    /// All answers, from the first prompt to the last token.
    pub generate_s: f64,
    /// Everything: loading, the template, the answers.
    pub wall_s: f64,
    /// Steps of decoding.
    pub steps: usize,
    /// Generated tokens of each prompt, the one that ends an answer included.
    pub tokens: Vec<usize>,
    /// Why each answer ended: `eos`, `limit` or `context`.
    pub finish: Vec<String>,
    /// Their sum.
    pub total_tokens: usize,
    /// All tokens over `generate_s`, as engines that time their generate call count.
    pub generate_tps: f64,
    /// All tokens over `wall_s`, as one who waits for the program counts.
    pub wall_tps: f64,
    /// Tokens of the steps over `decode_s`.
    pub decode_tps: f64,
    /// Bytes that the steps read: weights once per step, and the cache of each answer.
    pub decode_bytes: f64,
    /// Those bytes per second, 10⁹; 0 without a step.
    pub decode_gb_per_s: f64,
    /// Tokens per second if nothing but reading took time; 0 without a step.
    pub decode_limit_tps: f64,
    /// The answers.
    pub texts: Vec<String>,
    /// Whether they are those of the first batch size.
    pub same_texts: bool,
}

/// Wall-clock times of a batch size, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    /// Loading.
    pub load_s: f64,
    /// All answers.
    pub generate_s: f64,
    /// Everything.
    pub wall_s: f64,
}

impl PromptsReport {
    /// A report without batches yet.
    pub fn new(info: RunInfo, engine: &Engine, prompts: Vec<String>, work: &PromptSet) -> Self {
        let template = engine.template().ok().flatten().map(|template| template.name().to_owned());
        Self {
            info,
            template,
            prompts,
            prompt_tokens: work.prompts.iter().map(Vec::len).collect(),
            max_new_tokens: work.limit,
            ignore_eos: work.ignore_eos,
            batches: Vec::new(),
        }
    }

    /// Adds what a batch size gave.
    pub fn add(&mut self, batch: usize, clock: Clock, answers: &Answers, engine: &Engine) {
        let tokens: Vec<usize> = answers.replies.iter().map(|reply| reply.tokens.len()).collect();
        let texts: Vec<String> = answers.replies.iter().map(|reply| reply.text.clone()).collect();
        let total_tokens: usize = tokens.iter().sum();
        let stepped: usize = tokens.iter().map(|n| n.saturating_sub(1)).sum();
        let decode_bytes = read(&CostModel::new(engine), answers.steps, self.prompt_tokens.iter().zip(&tokens));
        let decode_s = answers.decode_ms / 1e3;
        self.batches.push(Batch {
            batch,
            load_s: clock.load_s,
            prefill_s: answers.prefill_ms / 1e3,
            decode_s,
            generate_s: clock.generate_s,
            wall_s: clock.wall_s,
            steps: answers.steps,
            finish: answers.replies.iter().map(|reply| Finish::name(&reply.finish).to_owned()).collect(),
            total_tokens,
            generate_tps: rate(total_tokens, clock.generate_s),
            wall_tps: rate(total_tokens, clock.wall_s),
            decode_tps: rate(stepped, decode_s),
            decode_bytes,
            decode_gb_per_s: if answers.steps == 0 { 0.0 } else { decode_bytes / decode_s / 1e9 },
            decode_limit_tps: 0.0,
            same_texts: self.batches.first().is_none_or(|first| first.texts == texts),
            tokens,
            texts,
        });
    }

    /// Puts the limits beside the speeds.
    pub fn set_roofline(&mut self, limits: Limits) {
        self.info.limits = limits;
        for batch in &mut self.batches {
            let stepped: usize = batch.tokens.iter().map(|n| n.saturating_sub(1)).sum();
            batch.decode_limit_tps = rate(stepped, batch.decode_bytes / (limits.read_gb_per_s * 1e9));
        }
    }

    /// The report as it is kept: JSON, one field per line.
    pub fn json(&self) -> String {
        // Nothing in it can fail to be written: every key is a string.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What it depends on, a table with one row per batch size, and how to read it.
    pub fn markdown(&self) -> String {
        let prompts = match &self.template {
            Some(name) => format!("{} prompts through the chat template {name}", self.prompts.len()),
            None => format!("{} prompts as raw text", self.prompts.len()),
        };
        let end = if self.ignore_eos { "past their end" } else { "to their end" };
        let how = format!("{prompts}, greedy, at most {} tokens, {end}", self.max_new_tokens);
        let mut out = self.info.describe(&how) + "\n";
        out += "| batch | load s | prefill s | decode s | wall s | tokens | tok/s generating | tok/s of the wall | decode tok/s | GB/s | limit | share | same texts |\n";
        out += "|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|:-:|\n";
        for b in &self.batches {
            let tokens = b.tokens.iter().map(usize::to_string).collect::<Vec<_>>().join(" + ");
            let _ = writeln!(
                out,
                "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {tokens} = {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} |",
                b.batch,
                b.load_s,
                b.prefill_s,
                b.decode_s,
                b.wall_s,
                b.total_tokens,
                b.generate_tps,
                b.wall_tps,
                b.decode_tps,
                b.decode_gb_per_s,
                b.decode_limit_tps,
                share(b),
                if b.same_texts { "yes" } else { "no" },
            );
        }
        out
    }

    /// One line that can be pasted into an issue.
    pub fn line(&self) -> String {
        let each = self.batches.iter().map(|b| {
            format!(
                "batch {} {:.1} ({} of the limit, {:.1} with loading)",
                b.batch,
                b.generate_tps,
                share(b),
                b.wall_tps
            )
        });
        let each = each.collect::<Vec<_>>().join(", ");
        format!("{}: {} answers, tok/s {each}", self.info.line(), self.prompts.len())
    }
}

/// Bytes that the steps read: weights once per step, keys and values of each answer at each of its positions.
fn read<'a>(demand: &CostModel, steps: usize, answers: impl Iterator<Item = (&'a usize, &'a usize)>) -> f64 {
    let weights = demand.weight_bytes() as f64;
    let cache = answers.map(|(&prompt, &n)| {
        let positions = prompt..prompt + n.saturating_sub(1);
        positions.len() as f64 * (demand.step_bytes(positions) - weights)
    });
    steps as f64 * weights + cache.sum::<f64>()
}

fn share(b: &Batch) -> String {
    if b.decode_limit_tps > 0.0 { format!("{:.0} %", 100.0 * b.decode_tps / b.decode_limit_tps) } else { "–".into() }
}
