//! `qrun perplexity FILE -f TEXT`: how well a model predicts a text, and how far it is from another one.

use std::{
    io::{IsTerminal, stderr, stdin},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    engine::{DevicePreference, Engine, EngineOptions},
    generate::Scheduler,
    text::tokenizer::Encode,
    tools::quality::{self, Chunks, Comparison, Estimate, QualityError},
};
use qrun_models::{KvType, Options};
use qrun_quant::{Gguf, cpu::Arithmetic};
use serde_json::{Value, json};

use super::{
    exit::{Code, Exit},
    input, named, open, progress,
    stdout::print,
    terminal::say,
    values::{self, ModelFile},
};

/// How well a model predicts a text, measured as llama.cpp measures it.
#[derive(Debug, clap::Args)]
pub struct Perplexity {
    #[command(flatten)]
    file: ModelFile,
    /// The text; - is stdin
    #[arg(short = 'f', long = "file", value_name = "TEXT")]
    text: PathBuf,
    /// Tokens per chunk; the second half of each is scored
    #[arg(short = 'c', long, value_name = "N", default_value_t = 512)]
    ctx_size: usize,
    /// The first N chunks only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    chunks: Option<u64>,
    /// Compare with this model, which counts as the truth: KL divergence, same best token, ΔPPL
    #[arg(long, value_name = "FILE")]
    kl_base: Option<PathBuf>,
    /// auto (the GPU if the model runs there), cuda, cuda1 … or cpu
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    device: DevicePreference,
    /// Where the model of --kl-base runs
    #[arg(long, value_name = "WHERE", default_value = "auto", requires = "kl_base")]
    kl_base_device: DevicePreference,
    /// Exact f32 arithmetic, which is the CPU's
    #[arg(long)]
    exact: bool,
    /// Exact f32 arithmetic for the model of --kl-base
    #[arg(long, requires = "kl_base")]
    kl_base_exact: bool,
    /// Type of cached keys
    #[arg(long, value_name = "TYPE")]
    cache_type_k: Option<KvType>,
    /// Type of cached values
    #[arg(long, value_name = "TYPE")]
    cache_type_v: Option<KvType>,
    /// Threads [physical cores]
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,
    /// Take special tokens that are written out as what they are, not as plain text
    #[arg(long)]
    parse_special: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What was measured.
enum Measured {
    Alone(quality::Perplexity),
    Beside(Comparison),
}

impl Perplexity {
    /// Measures, and prints the result.
    ///
    /// # Errors
    /// Exit code 2: the text, the flags, or two models that split the text differently. 3 to 6: the model file, memory,
    /// the device, or a model that was not fetched; 3 also for logits that are not finite. 1: a step or stdout fails.
    pub fn run(self) -> Result<(), Exit> {
        let text = self.text()?;
        let mut options = self.options(self.exact);
        options.type_k = self.cache_type_k.unwrap_or(options.type_k);
        options.type_v = self.cache_type_v.unwrap_or(options.type_v);
        let engine = self.engine(self.file.open()?, options, self.device)?;
        let chunks = self.chunks(&engine, &text)?;
        let mut model = decoder(&engine)?;
        let mut runs = vec![how(&engine)];
        let bar = progress::tokens("scoring");
        let mut watch = |done: usize, total: usize| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        };
        let measured = match &self.kl_base {
            None => quality::perplexity(&mut model, &chunks, &mut watch).map(Measured::Alone),
            Some(path) => {
                let base = self.engine(
                    Gguf::open(&named::file(path, false)?)?,
                    self.options(self.kl_base_exact),
                    self.kl_base_device,
                )?;
                runs.push(how(&base));
                if self.chunks(&base, &text)? != chunks {
                    let (base, model) = (path.display(), engine.gguf().path().display());
                    return Err(Exit::usage(format!(
                        "--kl-base {base}: splits the text into other tokens than {model}"
                    )));
                }
                quality::compare(&mut model, &mut decoder(&base)?, &chunks, &mut watch).map(Measured::Beside)
            }
        };
        bar.finish_and_clear();
        let measured = measured.map_err(refused)?;
        let text = match self.json {
            true => as_json(&measured, &chunks, &runs).to_string() + "\n",
            false => as_line(&measured, &chunks, &runs),
        };
        print(&text)
    }

    fn text(&self) -> Result<String, Exit> {
        let text = match self.text.as_os_str() == "-" {
            true => input::bounded("stdin", stdin().lock(), input::LONGEST_TEXT)?,
            false => input::file_text("-f", &self.text, input::LONGEST_TEXT)?,
        };
        Ok(input::trim_one_newline(text))
    }

    /// As every model here runs; the cache types are the model's own.
    fn options(&self, exact: bool) -> Options {
        let base = if exact { Options::exact() } else { Options::default() };
        Options { n_ctx: self.ctx_size, threads: values::threads(self.threads), ..base }
    }

    fn engine(&self, gguf: Gguf, options: Options, device: DevicePreference) -> Result<Arc<Engine>, Exit> {
        // Zero would ask the engine for as much as fits.
        Chunks::new(vec![0; self.ctx_size], self.ctx_size, None).map_err(refused)?;
        let engine = Engine::open(gguf, EngineOptions { options, template: None, device })?;
        let trained = engine.model().config.n_ctx_train;
        if self.ctx_size > trained {
            say(&format!(
                "note: -c {} is more than the {trained} tokens that the model was trained for",
                self.ctx_size
            ));
        }
        if stderr().is_terminal() {
            say(&open::plan_line(&engine));
        }
        Ok(Arc::new(engine))
    }

    /// The text in the model's tokens. An EOS at its end would not be part of it.
    fn chunks(&self, engine: &Engine, text: &str) -> Result<Chunks, Exit> {
        let tokenizer = engine.tokenizer();
        let mut tokens = tokenizer.encode(text, Encode { add_special: true, parse_special: self.parse_special })?;
        if tokenizer.add_eos() && tokens.last().copied() == tokenizer.eos() {
            tokens.pop();
        }
        let most = self.chunks.map_or(usize::MAX, |n| (n as usize).saturating_mul(self.ctx_size));
        tokens.truncate(most);
        let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
        Chunks::new(tokens, self.ctx_size, bos).map_err(refused)
    }
}

/// What a model is computed with and where: the precision beside every number.
struct How {
    device: String,
    arithmetic: &'static str,
    kv: [&'static str; 2],
}

fn how(engine: &Engine) -> How {
    let options = engine.options();
    let arithmetic = match options.arithmetic {
        Arithmetic::Exact => "exact",
        Arithmetic::Fast => "fast",
    };
    How { device: engine.backend().name(), arithmetic, kv: [options.type_k.name(), options.type_v.name()] }
}

impl How {
    fn as_line(&self) -> String {
        format!("{}, {} arithmetic, KV {}/{}", self.device, self.arithmetic, self.kv[0], self.kv[1])
    }
    fn as_json(&self) -> Value {
        json!({ "device": self.device, "arithmetic": self.arithmetic, "kv_types": self.kv })
    }
}

fn decoder(engine: &Arc<Engine>) -> Result<Scheduler, Exit> {
    Ok(Scheduler::open(engine.clone(), open::say_if_fell_back())?)
}

/// Logits that are not numbers are the file's fault, everything else is what was asked for.
fn refused(error: QualityError) -> Exit {
    let code = match error {
        QualityError::NotFinite { .. } => Code::File,
        QualityError::Forward(_) | QualityError::Generate(_) => Code::Failure,
        _ => Code::Usage,
    };
    Exit::new(code, error.to_string())
}

fn as_json(measured: &Measured, chunks: &Chunks, runs: &[How]) -> Value {
    let estimate = |e: Estimate| json!({ "mean": e.mean, "error": e.error });
    let of = |p: &quality::Perplexity| json!({ "ppl": estimate(p.value()), "nll": estimate(p.nll) });
    let mut object = match measured {
        Measured::Alone(model) => of(model),
        Measured::Beside(c) => {
            let mut object = of(&c.model);
            object["base"] = of(&c.base);
            object["delta_ppl"] = estimate(c.delta());
            object["ln_ppl_ratio"] = estimate(c.log_ratio);
            object["kl"] = estimate(c.kl);
            object["kl_max"] = c.kl_max.into();
            object["same_top"] = estimate(c.same_top);
            object
        }
    };
    object["chunks"] = chunks.count().into();
    object["n_ctx"] = chunks.size().into();
    object["scored"] = chunks.scored().into();
    let (model, base) = (runs.first().map(How::as_json), runs.get(1).map(How::as_json));
    if let Some(model) = model {
        object["arithmetic"] = model["arithmetic"].clone();
        object["runs_on"] = model;
    }
    if let Some(base) = base {
        object["base_runs_on"] = base;
    }
    object
}

fn as_line(measured: &Measured, chunks: &Chunks, runs: &[How]) -> String {
    let estimate = |e: Estimate| format!("{:.4} ± {:.4}", e.mean, e.error);
    let result = match measured {
        Measured::Alone(model) => format!("PPL {}", estimate(model.value())),
        Measured::Beside(c) => format!(
            "PPL {}, base {}, ΔPPL {}, KL {:.6} ± {:.6} (at most {:.4}), same best token {:.2} ± {:.2} %",
            estimate(c.model.value()),
            estimate(c.base.value()),
            estimate(c.delta()),
            c.kl.mean,
            c.kl.error,
            c.kl_max,
            100.0 * c.same_top.mean,
            100.0 * c.same_top.error
        ),
    };
    let (scored, count, size) = (chunks.scored(), chunks.count(), chunks.size());
    let runs = runs.iter().map(How::as_line).collect::<Vec<_>>().join("; base ");
    format!("{result}; {scored} tokens in {count} chunks of {size}; {runs}\n")
}
