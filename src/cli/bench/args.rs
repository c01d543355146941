//! The flags of `qrun bench`, by mode.

use std::path::PathBuf;

use crate::{
    bench::rows::{Setting, Test},
    bench::table::FORMATS,
    engine::DevicePreference,
};
use clap::{Args, builder::BoolishValueParser};
use qrun_models::KvType;

use super::{
    model::Model,
    numbers::{Numbers, all, list, numbers},
};
use crate::cli::exit::Exit;

/// The largest number of a flag: more tokens than that no memory holds.
const LARGEST: i64 = i32::MAX as i64;
/// The most combinations of one command line.
const MOST: usize = 10_000;

/// How fast a model is here, beside what the machine could do at most.
///
/// Without a mode: llama-bench's rows (pp512, tg128), with its flags and formats. --suite or --prompt-tokens: the
/// configurations of the public generation log. --prompts: whole answers to the prompts of a file, in batches. --startup:
/// the time line of a run. --recipe: a published measurement, repeated.
///
/// llama-bench's rows take lists (512,1024) and ranges (1-4, 1-9+2, 256-4096*2) wherever a number stands, and a flag that
/// is given again adds to its list; every combination is run.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(flatten)]
    pub model: Model,
    #[command(flatten)]
    pub machine: Machine,
    #[command(flatten)]
    pub rows: Rows,
    #[command(flatten)]
    pub suite: Option<Suite>,
    #[command(flatten)]
    pub shared: Shared,
    /// Repeat a published measurement, its figures beside ours: llcuda (a notebook on a T4), infer (BF16 on an RTX 5080), eole
    /// (four prompts, batches, on an RTX 5090); with --synthetic on random weights in the shapes of its models
    #[arg(long, value_name = "NAME", value_parser = crate::bench::recipe::NAMES, hide_possible_values = true)]
    #[arg(help_heading = "Published measurements", conflicts_with_all = [
        "rows_mode", "prompts_mode", "startup", "plot_mode", "suite", "prompt_tokens", "prompt", "temperature", "tables",
    ])]
    pub recipe: Option<String>,
    #[command(flatten)]
    pub prompts: Prompts,
    /// The time line of a run, from the start of the process to the first token
    #[arg(long, help_heading = "The start")]
    pub startup: bool,
    #[command(flatten)]
    pub plot: Plot,
    #[command(flatten)]
    pub outputs: Outputs,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=LARGEST as usize).contains(n));
    number.ok_or_else(|| format!("expected 1 to {LARGEST}"))
}

/// Where and how it runs; llama-bench's rows take lists, 4,8 or 1-16*2.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model and machine")]
pub struct Machine {
    /// auto (the GPU if the model runs there), cuda or cpu
    #[arg(long, value_name = "WHERE", value_delimiter = ',')]
    device: Vec<DevicePreference>,
    /// 0: the CPU; any other number of layers: the GPU, as --device says (-ngl)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = list(-1, LARGEST))]
    n_gpu_layers: Vec<Numbers>,
    /// CPU threads [physical cores]
    #[arg(short, long, value_name = "N", value_parser = list(1, 1024))]
    threads: Vec<Numbers>,
    /// Tokens of a prompt that are handed over together [2048]: at most so many go through the layers together
    #[arg(short, long, value_name = "N", value_parser = list(1, LARGEST))]
    batch_size: Vec<Numbers>,
    /// Tokens that go through the layers together in a prompt [512] (-ub)
    #[arg(long, value_name = "N", value_parser = list(1, LARGEST))]
    ubatch_size: Vec<Numbers>,
    /// Type of cached keys: f32, f16 or q8_0 [f16] (-ctk)
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    cache_type_k: Vec<KvType>,
    /// Type of cached values (-ctv)
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    cache_type_v: Vec<KvType>,
    /// Repack weights at load: 1 (as without the flag) or 0
    #[arg(long, value_name = "0|1", value_delimiter = ',', value_parser = BoolishValueParser::new())]
    #[arg(hide_possible_values = true)]
    repack: Vec<bool>,
    /// Do not repack weights at load
    #[arg(long, conflicts_with = "repack")]
    no_repack: bool,
}

/// A flag that was given: the field of a row that shows it, its name, how many values it has, and what sets one of them.
type Axis = (&'static str, &'static str, usize, Box<dyn Fn(&mut Setting, usize)>);

impl Machine {
    /// The flags that were given, in llama-bench's order: what is named first here changes last.
    fn axes(&self) -> Vec<Axis> {
        let repack = if self.no_repack { vec![false] } else { self.repack.clone() };
        let mut axes = vec![
            axis("n_gpu_layers", "--n-gpu-layers", numbers(&self.n_gpu_layers), |s, n| s.n_gpu_layers = n),
            axis("devices", "--device", self.device.clone(), |s, device| s.engine_options.device = device),
            axis("repack", "--repack", repack, |s, repack| s.engine_options.options.repack = repack),
            axis("n_batch", "--batch-size", numbers(&self.batch_size), |s, n| s.n_batch = n as usize),
            axis("n_ubatch", "--ubatch-size", numbers(&self.ubatch_size), |s, n| {
                s.engine_options.options.n_ubatch = n as usize
            }),
            axis("type_k", "--cache-type-k", self.cache_type_k.clone(), |s, ty| s.engine_options.options.type_k = ty),
            axis("type_v", "--cache-type-v", self.cache_type_v.clone(), |s, ty| s.engine_options.options.type_v = ty),
            axis("n_threads", "--threads", numbers(&self.threads), |s, n| {
                s.engine_options.options.threads = n as usize
            }),
        ];
        axes.retain(|(_, _, n, _)| *n > 0);
        axes
    }

    /// Every combination, and the fields of a row that flags were given for.
    pub fn settings(&self) -> Result<(Vec<Setting>, Vec<&'static str>), Exit> {
        let axes = self.axes();
        let combinations = axes.iter().fold(1usize, |all, (_, _, n, _)| all.saturating_mul(*n));
        if combinations > MOST {
            return Err(Exit::usage(format!("{combinations} combinations of settings; at most {MOST} are run")));
        }
        let mut settings = vec![Setting::default()];
        for (_, _, n, set) in &axes {
            settings = settings.iter().flat_map(|setting| vec![setting.clone(); *n]).collect();
            settings.iter_mut().enumerate().for_each(|(i, setting)| set(setting, i % n));
        }
        Ok((settings, axes.iter().map(|(field, ..)| *field).collect()))
    }

    /// The only combination.
    pub fn setting(&self) -> Result<Setting, Exit> {
        if let Some((_, flag, n, _)) = self.axes().iter().find(|(_, _, n, _)| *n > 1) {
            return Err(Exit::usage(format!("{flag}: {n} values, but only llama-bench's rows take more than one")));
        }
        Ok(self.settings()?.0.remove(0))
    }
}

fn axis<T: Copy + 'static>(field: &'static str, flag: &'static str, of: Vec<T>, set: fn(&mut Setting, T)) -> Axis {
    (field, flag, of.len(), Box::new(move |setting: &mut Setting, i: usize| set(setting, of[i])))
}

#[derive(Debug, Args)]
#[group(id = "rows_mode", conflicts_with_all = ["prompts_mode", "startup"])]
#[command(next_help_heading = "llama-bench's rows (the default)")]
pub struct Rows {
    /// Tokens of the prompt; 0 leaves it out [512]
    #[arg(short = 'p', long, value_name = "N", value_parser = list(0, LARGEST))]
    n_prompt: Vec<Numbers>,
    /// Steps of decoding; 0 leaves them out [128]
    #[arg(short = 'n', long, value_name = "N", value_parser = list(0, LARGEST))]
    n_gen: Vec<Numbers>,
    /// A prompt and then steps, timed together (-pg)
    #[arg(long, value_name = "PP,TG", value_parser = pair)]
    pg: Vec<(usize, usize)>,
    /// Tokens in the cache before the clock starts [0]
    #[arg(short = 'd', long, value_name = "N", value_parser = list(0, LARGEST))]
    n_depth: Vec<Numbers>,
    /// Timed runs of each test [5]
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub repetitions: Option<usize>,
    /// No untimed run before them
    #[arg(long)]
    pub no_warmup: bool,
    /// Seconds between tests
    #[arg(long, value_name = "S")]
    pub delay: Option<u32>,
    /// md, csv, json, jsonl or none, on stdout [md]
    #[arg(short, long, value_name = "FORMAT", value_parser = FORMATS, hide_possible_values = true)]
    pub output: Option<String>,
    /// The same once more, on stderr [none] (-oe)
    #[arg(long, value_name = "FORMAT", value_parser = FORMATS, hide_possible_values = true)]
    pub output_err: Option<String>,
    /// What can compute here, and nothing else
    #[arg(long)]
    pub list_devices: bool,
}

fn pair(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| text.trim().parse().ok().filter(|n| *n <= LARGEST as usize);
    let parsed = text.split_once(',').and_then(|(pp, tg)| Some((number(pp)?, number(tg)?)));
    parsed.ok_or_else(|| "expected two numbers: 512,128".into())
}

impl Rows {
    /// All tests, in llama-bench's order.
    pub fn tests(&self) -> Result<Vec<Test>, Exit> {
        let (prompts, gens, depths) = (all(&self.n_prompt, 512), all(&self.n_gen, 128), all(&self.n_depth, 0));
        let n = (prompts.len() + gens.len() + self.pg.len()).saturating_mul(depths.len());
        if n > MOST {
            return Err(Exit::usage(format!("--n-depth: {n} tests; at most {MOST} are run")));
        }
        let tests = Test::all(&prompts, &gens, &self.pg, &depths);
        if tests.is_empty() {
            return Err(Exit::usage("nothing to measure: -p, -n and -pg are all 0"));
        }
        Ok(tests)
    }
}

#[derive(Debug, Default, Args)]
#[group(id = "suite_mode", conflicts_with_all = ["rows_mode", "prompts_mode", "startup"])]
#[command(next_help_heading = "The generation log's configurations, or one of one's own")]
pub struct Suite {
    /// Configurations of the log: quick (short, medium), standard (and prefill, decode, sampled) or full (all seven)
    #[arg(long, value_name = "TIER", value_parser = crate::bench::suite::TIERS, hide_possible_values = true)]
    pub suite: Option<String>,
    /// Tokens that `decode` and `long` generate: 1024, or 512 as in the older log
    #[arg(long, value_name = "N", requires = "suite", value_parser = at_least_one)]
    pub decode_tokens: Option<usize>,
    /// One configuration: tokens of the prompt [256]
    #[arg(long, value_name = "N", conflicts_with = "suite", value_parser = at_least_one)]
    pub prompt_tokens: Option<usize>,
    /// One configuration: its text, repeated or cut to --prompt-tokens where that is given
    #[arg(long, value_name = "TEXT", conflicts_with = "suite")]
    pub prompt: Option<String>,
    /// One configuration: temperature; 0 is greedy
    #[arg(long, value_name = "X", conflicts_with = "suite")]
    pub temperature: Option<f64>,
    /// Same seed, same tokens [42]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Untimed runs before each configuration [2]
    #[arg(long, value_name = "N")]
    pub warmup_runs: Option<usize>,
    /// Measure nothing: the tables of these reports, their models beside each other
    #[arg(long, value_name = "REPORT", num_args = 1..)]
    pub tables: Vec<PathBuf>,
}

/// Flags of more than one mode.
#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "The generation log's configurations, or one of one's own")]
pub struct Shared {
    /// One configuration: tokens to generate [256]; --prompts: tokens of an answer at most [2048]
    #[arg(long, value_name = "N", conflicts_with_all = ["suite", "rows_mode", "startup"], value_parser = at_least_one)]
    pub max_new_tokens: Option<usize>,
    /// Timed runs of each configuration, or starts behind the first one [3]
    #[arg(long, value_name = "N", conflicts_with_all = ["rows_mode", "prompts_mode"], value_parser = at_least_one)]
    pub trials: Option<usize>,
}

#[derive(Debug, Default, Args)]
#[group(id = "prompts_mode", conflicts_with = "startup")]
#[command(next_help_heading = "Whole answers")]
pub struct Prompts {
    /// Answer the prompts of this file: a line each, or a JSON array of strings
    #[arg(long, value_name = "FILE")]
    pub prompts: Option<PathBuf>,
    /// How many are answered at once, a list; the model is loaded for each of them [1]
    #[arg(long, value_name = "N", requires = "prompts", value_parser = list(1, LARGEST))]
    pub batch: Vec<Numbers>,
    /// Answers go on after their end, to --max-new-tokens
    #[arg(long, requires = "prompts")]
    pub ignore_eos: bool,
}

#[derive(Debug, Args)]
#[group(id = "plot_mode", conflicts_with_all = ["rows_mode", "prompts_mode", "startup"])]
#[command(next_help_heading = "Pictures of the generation log's configurations")]
pub struct Plot {
    /// Draw the report: shares of the limits, latency over position, speeds beside those of --compare
    #[arg(long, value_name = "FILE.svg|png", value_parser = picture)]
    pub plot: Option<PathBuf>,
    /// A recorded report (or run of the peers) to draw beside it; without a model, draw only these
    #[arg(long, value_name = "REPORT.json", requires = "plot")]
    pub compare: Vec<PathBuf>,
}

fn picture(name: &str) -> Result<PathBuf, String> {
    if !cfg!(feature = "plot") {
        return Err("this qrun was built without the feature plot".into());
    }
    let known = [".svg", ".png"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
    if known { Ok(name.into()) } else { Err("expected a name that ends in .svg or .png".into()) }
}

#[derive(Debug, Args)]
#[group(skip)]
#[command(next_help_heading = "Output")]
pub struct Outputs {
    /// JSON on stdout, in place of tables
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// Keep the report in this folder too; its name says the model, the device and the time
    #[arg(long, value_name = "DIR")]
    pub reports: Option<PathBuf>,
    /// What is done anyway without --reports
    #[arg(long, hide = true, conflicts_with = "reports")]
    pub no_save: bool,
}
