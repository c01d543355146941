//! Measurements that others have published, to be repeated with one flag: what they ran, and their figures with card and
//! precision, to stand beside what was measured here.

use serde_json::{Value, json};

use super::{Column, fixed, list, number, percent, quotient, suite, table, text};
use crate::tools::quantize::FileType;

/// A speed and its limit, in a row of a batch and in a report on requests.
const DECODE: [&str; 2] = ["decode_tps", "decode_limit_tps"];

/// A published measurement.
#[derive(Debug)]
pub struct Recipe {
    /// As the flag has it.
    pub name: &'static str,
    /// Who published it, and when it was measured.
    pub source: &'static str,
    /// What it ran on.
    pub card: &'static str,
    /// What that card's memory gives at most by its maker's data, in 10⁹ bytes per second.
    pub card_gb_per_s: f64,
    /// Of weights and arithmetic.
    pub precision: &'static str,
    /// What a speed counts, theirs and ours.
    pub counts: &'static str,
    /// Models by the names of [`crate::tools::synth`], and their type.
    pub models: (&'static [&'static str], FileType),
    /// The published figures.
    pub figures: &'static [Figure],
}

/// A published speed.
#[derive(Debug)]
pub struct Figure {
    /// One of the recipe's models.
    pub model: &'static str,
    /// The row of the report that measures the same: a configuration's name, `batch N`, or `requests`.
    pub row: &'static str,
    /// The engine.
    pub engine: &'static str,
    /// Tokens per second.
    pub tps: f64,
    /// 10⁹ bytes that a token reads there; 0 where a token of a batch shares them.
    pub gb_per_token: f64,
}

const fn figure(model: &'static str, row: &'static str, engine: &'static str, tps: f64, gb_per_token: f64) -> Figure {
    Figure { model, row, engine, tps, gb_per_token }
}

const GEMMA: &str = "gemma-3-1b";
const LLAMA: &str = "llama-3.2-1b";
const QWEN: &str = "qwen3-1.7b";

/// Names of all recipes.
pub const NAMES: [&str; 3] = ["llcuda", "infer", "eole"];

/// All recipes.
#[rustfmt::skip]
pub const RECIPES: [Recipe; 3] = [
    Recipe {
        name: NAMES[0],
        source: "llcuda v2.1.0, notebook llcuda_v2_1_0_gemma3_1b_unsloth_colab_executed, January 2026",
        card: "Tesla T4", card_gb_per_s: 320.0,
        precision: "Q4_K_M weights, llama.cpp b7735 without CUDA graphs",
        counts: "tokens per second from request to answer, prompt and HTTP (here: no HTTP) included, one request at a time",
        models: (&[GEMMA], FileType::Q4_K_M),
        figures: &[
            figure(GEMMA, "requests", "llama-server", 134.2, 0.800),
        ],
    },
    Recipe {
        name: NAMES[1],
        source: "paladin8/infer, benchmarks/log/GENERATION_LOG.md, 2026-02-21",
        card: "RTX 5080", card_gb_per_s: 960.0,
        precision: "BF16 weights and arithmetic, Triton kernels",
        counts: "decode tokens per second; there sampling is outside of the clock, and Gemma's `short` and `decode` end after 55 tokens",
        models: (&[GEMMA, LLAMA, QWEN], FileType::BF16),
        figures: &[
            figure(GEMMA, "short", "infer", 122.2, 2.00), figure(GEMMA, "medium", "infer", 122.3, 2.00),
            figure(GEMMA, "prefill", "infer", 124.1, 2.00), figure(GEMMA, "decode", "infer", 130.9, 2.00),
            figure(GEMMA, "long", "infer", 116.4, 2.00), figure(GEMMA, "sampled", "infer", 127.7, 2.00),
            figure(GEMMA, "full-pipe", "infer", 127.6, 2.00),
            figure(LLAMA, "short", "infer", 219.0, 2.47), figure(LLAMA, "medium", "infer", 214.8, 2.47),
            figure(LLAMA, "prefill", "infer", 213.4, 2.47), figure(LLAMA, "decode", "infer", 215.1, 2.47),
            figure(LLAMA, "long", "infer", 209.3, 2.47), figure(LLAMA, "sampled", "infer", 216.0, 2.47),
            figure(LLAMA, "full-pipe", "infer", 216.3, 2.47),
            figure(QWEN, "short", "infer", 135.5, 3.44), figure(QWEN, "medium", "infer", 134.9, 3.44),
            figure(QWEN, "prefill", "infer", 132.3, 3.44), figure(QWEN, "decode", "infer", 134.2, 3.44),
            figure(QWEN, "long", "infer", 132.5, 3.44), figure(QWEN, "sampled", "infer", 135.0, 3.44),
            figure(QWEN, "full-pipe", "infer", 136.4, 3.44),
        ],
    },
    Recipe {
        name: NAMES[2],
        source: "eole-nlp/eole, benchmarks/genai/results.md, January 2026",
        card: "RTX 5090 (the repository's other notes name it)", card_gb_per_s: 1792.0,
        precision: "BF16 weights and arithmetic",
        counts: "tokens per second of all four answers; Eole without load, warm-up and prompt, vLLM by its progress bar, the others by the call",
        models: (&[GEMMA], FileType::BF16),
        figures: &[
            figure(GEMMA, "batch 1", "HF Transformers", 31.0, 2.00), figure(GEMMA, "batch 4", "HF Transformers", 80.0, 0.0),
            figure(GEMMA, "batch 1", "CTranslate2", 237.0, 2.00),
            figure(GEMMA, "batch 1", "Eole", 112.0, 2.00), figure(GEMMA, "batch 4", "Eole", 359.0, 0.0),
            figure(GEMMA, "batch 1", "Eole, compiled, CUDA graphs", 380.6, 2.00),
            figure(GEMMA, "batch 4", "Eole, compiled, CUDA graphs", 1015.6, 0.0),
            figure(GEMMA, "batch 4", "vLLM without graphs", 350.0, 0.0), figure(GEMMA, "batch 4", "vLLM", 950.0, 0.0),
        ],
    },
];

/// The prompts of Eole's benchmark.
pub const EOLE: [&str; 4] = [
    "Generate a 200 word text talking about George Orwell.",
    "What is the meaning of life?",
    "Who is Elon Musk?",
    "What is beyond the milky way?",
];

/// The recipe of a name.
pub fn find(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

impl Figure {
    /// The share of the card's memory bandwidth, where a token's bytes are its own.
    fn share(&self, recipe: &Recipe) -> Option<f64> {
        (self.gb_per_token > 0.0).then(|| self.tps * self.gb_per_token / recipe.card_gb_per_s)
    }
    /// Whether a report is of this figure's model, by the names that people and files give to it.
    fn is_of(&self, report: &Value) -> bool {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
        text(report, "model").chars().map(plain).collect::<String>().contains(self.model)
    }
    /// What was measured here: tokens per second, and their share of this machine's limit.
    fn ours(&self, reports: &[Value]) -> Option<(f64, Option<f64>)> {
        let report = reports.iter().find(|report| self.is_of(report))?;
        let named =
            |rows: &'static str, is: &dyn Fn(&Value) -> bool| list(&report[rows]).iter().find(|row| is(row)).cloned();
        if self.row == "requests" {
            let (all, share) = (&report["metrics"]["throughput"], quotient(report, DECODE));
            return Some((number(all, "tokens_per_sec")?, share));
        }
        if let Some(row) = named("configs", &|row| text(row, "config_name") == self.row) {
            return Some((number(&row, suite::DECODE[0])?, quotient(&row, suite::DECODE)));
        }
        let row = named("batches", &|row| format!("batch {}", row["batch"]) == self.row)?;
        Some((number(&row, "generate_tps")?, quotient(&row, DECODE)))
    }
}

impl Recipe {
    /// The figures beside what was measured here; `reports` are those of its models.
    pub fn report(&self, reports: &[Value]) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let ours = figure.ours(reports);
            json!({
                "model": figure.model, "row": figure.row, "engine": figure.engine, "tps": figure.tps,
                "share_of_card": figure.share(self), "qrun_tps": ours.map(|(tps, _)| tps),
                "qrun_share_of_limit": ours.and_then(|(_, share)| share),
            })
        });
        json!({
            "recipe": self.name, "source": self.source, "card": self.card, "card_gb_per_s": self.card_gb_per_s,
            "precision": self.precision, "counts": self.counts, "figures": figures.collect::<Vec<_>>(), "reports": reports,
        })
    }
}

/// A [`Recipe::report`] in Markdown: the figures, on what they were measured, and ours.
pub fn markdown(report: &Value) -> String {
    let of = |field: &'static str| move |row: &Value| text(row, field).to_owned();
    let columns = [
        Column::left("model", 0, of("model")),
        Column::left("row", 0, of("row")),
        Column::left("engine", 0, of("engine")),
        Column::right("tok/s", 0, |row: &Value| fixed(number(row, "tps"), 1)),
        Column::right("of its card's bandwidth", 0, |row: &Value| percent(number(row, "share_of_card"))),
        Column::right("qrun here", 0, |row: &Value| fixed(number(row, "qrun_tps"), 1)),
        Column::right("of the limit here", 0, |row: &Value| percent(number(row, "qrun_share_of_limit"))),
    ];
    let [source, card, precision, counts] = ["source", "card", "precision", "counts"].map(|field| text(report, field));
    let limit = number(report, "card_gb_per_s").unwrap_or(0.0);
    format!(
        "\n### The published figures ({source}), and qrun here\n\n{}\n- theirs: {card}, {limit:.0} GB/s at most; {precision}\n\
         - {counts}\n- qrun here: machine and precision as above. On another card compare shares of the limit, not speeds\n",
        table(&columns, list(&report["figures"]))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bench::prompts, tools::synth};

    #[test]
    fn a_recipe_names_what_can_be_run() {
        for recipe in &RECIPES {
            assert_eq!(find(recipe.name).map(|found| found.source), Some(recipe.source));
            let models = recipe.models.0;
            assert!(models.iter().all(|model| synth::find(model).is_some()), "{models:?}");
            for figure in recipe.figures {
                assert!(models.contains(&figure.model), "{figure:?}");
                assert!(figure.share(recipe).is_none_or(|share| share < 1.0), "{figure:?}");
            }
        }
        let rows: Vec<_> = suite::configs("full", 1024).into_iter().map(|config| config.config_name).collect();
        let infer = find("infer").expect("a recipe");
        assert!(infer.figures.iter().all(|figure| rows.iter().any(|row| row == figure.row)));
        assert_eq!(
            prompts::parse(include_str!("../../benches/prompts/four.txt")),
            Ok(EOLE.map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn figures_stand_beside_the_report_of_their_model() {
        let row = json!({"config_name": "short", "decode_throughput_median_tps": 50.0, "decode_limit_tps": 100.0});
        let reports =
            [json!({"model": "Gemma 3 1b It", "configs": [row]}), json!({"model": "qwen3-1.7b", "configs": []})];
        let report = find("infer").expect("a recipe").report(&reports);
        let found = |model: &str, row: &str| {
            let is = |f: &&Value| f["model"] == model && f["row"] == row;
            list(&report["figures"]).iter().find(is).expect("a figure").clone()
        };
        let short = found(GEMMA, "short");
        assert_eq!([&short["qrun_tps"], &short["qrun_share_of_limit"]], [50.0, 0.5]);
        assert!(found(GEMMA, "medium")["qrun_tps"].is_null() && found(LLAMA, "short")["qrun_tps"].is_null());
        let table = markdown(&report);
        assert!(table.contains("| gemma-3-1b | short | infer | 122.2 | 25 % | 50.0 | 50 % |"), "{table}");
        assert!(table.contains("| llama-3.2-1b | short | infer | 219.0 | 56 % | – | – |"), "{table}");
    }
}
