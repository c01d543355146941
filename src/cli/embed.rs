//! `qrun embed MODEL`: texts to vectors, with the flags and forms of llama-embedding.

mod forms;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    embed::{EmbedError, Embedder, Normalize, Pooling},
    engine::{Backend, DevicePreference, EngineOptions},
    text::tokenizer::Encode,
};
use qrun_models::{KvType, Options};

use super::{
    exit::Exit,
    input, open, progress,
    terminal::say,
    values::{self, ModelFile},
};
use forms::Form;

/// Texts to vectors; the texts come from -p, -f or stdin, one in each line.
#[derive(Debug, clap::Args)]
pub struct Embed {
    #[command(flatten)]
    file: ModelFile,
    /// The texts; \n begins another one
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "text_file")]
    prompt: Option<String>,
    /// A file with the texts; - is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    text_file: Option<PathBuf>,
    /// Take \n \t \" … in -p and --embd-separator as they are typed
    #[arg(long)]
    no_escape: bool,
    /// What stands between two texts [a line feed]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    embd_separator: Option<String>,
    /// From the tokens of a text to one vector: mean, cls (the first), last, or none (a vector of each token) [what the
    /// model says]
    #[arg(long, value_name = "HOW", value_parser = pooling)]
    pooling: Option<Pooling>,
    /// What vectors are divided by: 2 their length, N > 0 the N-norm, 0 so that they fit 16-bit integers, -1 nothing
    #[arg(long, value_name = "N", default_value = "2", value_parser = normalize, allow_hyphen_values = true)]
    embd_normalize: Normalize,
    /// json, json+ (with similarities), array, raw (a line for each), or "" for people
    #[arg(long, value_name = "FORM", default_value = "", value_parser = Form::read)]
    embd_output_format: Form,
    /// Longest text in tokens [what the model was trained for, as far as memory holds it]
    #[arg(short = 'c', long, value_name = "N", default_value_t = 0)]
    ctx_size: usize,
    /// Tokens of short texts that go through the layers together
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = values::at_least_one)]
    ubatch_size: usize,
    /// auto (the GPU if the model runs there), cuda, cuda1 …, cpu
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    device: DevicePreference,
    /// Exact f32 arithmetic
    #[arg(long)]
    exact: bool,
    /// Compute from the mapped file, which processes share
    #[arg(long)]
    no_repack: bool,
    /// Type of cached keys
    #[arg(long, value_name = "TYPE")]
    cache_type_k: Option<KvType>,
    /// Type of cached values
    #[arg(long, value_name = "TYPE")]
    cache_type_v: Option<KvType>,
    /// Threads [physical cores]
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,
}

impl Embed {
    /// Prints the vectors of the texts.
    ///
    /// # Errors
    /// Exit code 2: the texts or the flags. 3 to 6: the model file, memory, the device, or a model that was not
    /// fetched; 3 also for vectors that are not finite. 1: stdout fails.
    pub fn run(self) -> Result<(), Exit> {
        let gguf = self.file.open()?;
        let texts = self.texts()?;
        let options = EngineOptions { options: self.options(), template: None, device: self.device };
        let engine = Arc::new(Embedder::engine(gguf, options)?);
        if let Backend::Cpu { reason: Some(reason) } = engine.backend()
            && !reason.is_ordinary()
        {
            say(&format!("device: CPU ({reason})"));
        }
        if io::stderr().is_terminal() {
            say(&open::plan_line(&engine));
        }
        let tokenizer = engine.tokenizer();
        let tokens = texts.iter().enumerate().map(|(text, of)| {
            tokenizer.encode(of, Encode::default()).map_err(|error| EmbedError::Tokens { text, error })
        });
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        let mut embedder = Embedder::new(engine.clone(), self.pooling, open::say_if_fell_back())?;
        let bar = progress::tokens("embedding");
        bar.set_length(tokens.iter().map(|tokens| tokens.len() as u64).sum());
        let vectors = embedder.embed_tokens(&tokens, &mut |done| bar.set_position(done as u64));
        bar.finish_and_clear();
        let mut vectors: Vec<f32> = vectors?.concat();
        let width = embedder.width();
        vectors.chunks_exact_mut(width).for_each(|vector| self.embd_normalize.apply(vector));
        let shown = forms::Shown { vectors: &vectors, width, texts: &texts, normalize: self.embd_normalize };
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.embd_output_format.write(&shown, embedder.pooling(), &mut out)?;
        Ok(out.flush()?)
    }

    /// The texts, as the separator tells them apart.
    fn texts(&self) -> Result<Vec<String>, Exit> {
        let typed = |text: &str| if self.no_escape { text.to_owned() } else { input::unescape(text) };
        let all = match (&self.prompt, &self.text_file) {
            (Some(text), _) => typed(text),
            (None, Some(file)) if file.as_os_str() != "-" => {
                input::trim_one_newline(input::file_text("-f", file, input::LONGEST_TEXT)?)
            }
            _ => input::trim_one_newline(input::bounded("stdin", io::stdin().lock(), input::LONGEST_TEXT)?),
        };
        match self.embd_separator.as_deref().map_or("\n".to_owned(), typed) {
            separator if separator.is_empty() => Ok(vec![all]),
            separator => Ok(all.split(&separator).map(str::to_owned).collect()),
        }
    }

    fn options(&self) -> Options {
        let base = if self.exact { Options::exact() } else { Options::default() };
        Options {
            n_ctx: self.ctx_size,
            n_ubatch: self.ubatch_size,
            threads: values::threads(self.threads),
            type_k: self.cache_type_k.unwrap_or(base.type_k),
            type_v: self.cache_type_v.unwrap_or(base.type_v),
            repack: base.repack && !self.no_repack,
            ..base
        }
    }
}

impl From<EmbedError> for Exit {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::Load(error) => error.into(),
            other => Exit::of(&other),
        }
    }
}

fn pooling(name: &str) -> Result<Pooling, String> {
    match Pooling::from_name(name) {
        Some(Pooling::Rank) => {
            Err("scores of a reranker are not implemented; expected none, mean, cls or last".to_owned())
        }
        pooling => pooling.ok_or_else(|| "expected none, mean, cls or last".to_owned()),
    }
}

/// llama.cpp's numbers.
fn normalize(number: &str) -> Result<Normalize, String> {
    match number.parse() {
        Ok(-1) => Ok(Normalize::None),
        Ok(0) => Ok(Normalize::Int16),
        Ok(p @ 1..=1024i64) => Ok(Normalize::Norm(p as u16)),
        _ => Err("expected a whole number from -1 to 1024".to_owned()),
    }
}
