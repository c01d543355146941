//! The parsed command line of `qrun [MODEL] [flags]`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use qrun::session::DevicePreference;
use qrun_models::KvType;

use super::{
    exit::Exit,
    flags::{self, Check, Flag, Takes},
    output::Output,
    values,
};

/// Everything that flags can say. `None` means: not said.
#[derive(Debug)]
pub struct Args {
    pub model: Option<PathBuf>,
    pub input: Input,
    pub chat: Chat,
    pub sampling: Sampling,
    pub machine: Machine,
    pub output: Output,
}

/// Where the prompt comes from.
#[derive(Debug)]
pub struct Input {
    pub prompt: Option<String>,
    pub file: Option<PathBuf>,
    pub binary_file: Option<PathBuf>,
    pub system: Option<String>,
    pub system_file: Option<PathBuf>,
    pub escape: bool,
}

/// How turns are framed.
#[derive(Debug)]
pub struct Chat {
    /// `Some(true)` forces a chat, `Some(false)` raw text.
    pub conversation: Option<bool>,
    pub single_turn: bool,
    pub multiline: bool,
    /// The oldest turns make room where the context is full.
    pub drop_oldest: bool,
    pub template: Option<String>,
    pub template_file: Option<PathBuf>,
    pub template_kwargs: Option<String>,
    pub reasoning: Option<bool>,
}

/// How the next token is chosen.
#[derive(Debug)]
pub struct Sampling {
    pub n_predict: i64,
    pub seed: Option<u32>,
    pub temp: Option<f32>,
    pub top_k: Option<i64>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub typical: Option<f32>,
    pub repeat_penalty: Option<f32>,
    pub repeat_last_n: Option<i64>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub logit_bias: Vec<(u32, f32)>,
    pub stops: Vec<String>,
    pub ignore_eos: bool,
    /// The samplers to apply; `None`: all.
    pub samplers: Option<Vec<&'static str>>,
}

/// Where and how the model runs.
#[derive(Debug)]
pub struct Machine {
    /// 0: not said.
    pub n_ctx: usize,
    pub device: DevicePreference,
    /// `-ngl` asked for layers on a GPU.
    pub gpu_asked: bool,
    pub threads: Option<usize>,
    pub n_ubatch: usize,
    pub exact: bool,
    /// `None`: what the arithmetic suggests.
    pub type_k: Option<KvType>,
    pub type_v: Option<KvType>,
    pub swa_full: bool,
    pub repack: bool,
}

/// The clap command of the main job; its arguments are the rows of the table.
pub fn command() -> Command {
    let model = Arg::new("MODEL").value_parser(value_parser!(PathBuf)).num_args(0..);
    supported_arguments(Command::new("qrun").no_binary_name(true).arg(model))
        .disable_help_flag(true)
        .disable_version_flag(true)
}

fn supported_arguments(command: Command) -> Command {
    flags::supported().fold(command, |command, flag| command.arg(argument(flag)))
}

/// One row as clap sees it.
fn argument(flag: &'static Flag) -> Arg {
    let repeatable = matches!(flag.id(), "reverse-prompt" | "logit-bias");
    let action = if repeatable { ArgAction::Append } else { ArgAction::Set };
    let arg = Arg::new(flag.id()).long(flag.id()).action(action).require_equals(true).help(flag.help);
    let arg = if repeatable { arg } else { arg.overrides_with(flag.id()) };
    let words = |words| move |s: &str| Check::word(words, s);
    match flag.takes {
        Takes::Nothing => arg.value_name("on|off").value_parser(words(&["on", "off"])),
        Takes::Maybe(list) => arg.value_name("WORD").value_parser(words(list)),
        Takes::Two(name) | Takes::One(name, Check::Text) => arg.value_name(name),
        Takes::One(name, Check::File) => arg.value_name(name).value_parser(value_parser!(PathBuf)),
        Takes::One(name, Check::Device) => arg.value_name(name).value_parser(values::device),
        Takes::One(name, Check::CacheType) => arg.value_name(name).value_parser(values::cache_type),
        Takes::One(name, Check::Bias) => arg.value_name(name).value_parser(values::logit_bias),
        Takes::One(name, Check::Samplers) => arg.value_name(name).value_parser(values::samplers),
        Takes::One(name, Check::Whole(a, b)) => {
            arg.value_name(name).value_parser(move |s: &str| Check::whole((a, b), s))
        }
        Takes::One(name, Check::Real(a, b)) => arg.value_name(name).value_parser(move |s: &str| Check::real((a, b), s)),
        Takes::One(name, Check::WholeOr(a, b, list)) => arg.value_name(name).value_parser(move |s: &str| {
            let word = Check::word(list, s);
            let number = Check::whole((a, b), s).map(|n| n.to_string());
            word.or_else(|w| number.map_err(|n| format!("{n}, or {}", w.trim_start_matches("expected "))))
        }),
    }
}

impl Args {
    /// Reads the matches. The rows guarantee the types; what two flags together may not say is checked here.
    pub fn new(matches: &ArgMatches) -> Result<Self, Exit> {
        let m = Matches(matches);
        let gpu_layers = m.text("gpu-layers");
        let device = match m.value("device").unwrap_or_default() {
            DevicePreference::Auto if gpu_layers.as_deref() == Some("0") => DevicePreference::Cpu,
            said => said,
        };
        let verbosity = match (m.on("verbose"), m.on("log-disable")) {
            (true, _) => 4,
            (_, true) => 1,
            _ => m.whole("verbosity").unwrap_or(3),
        };
        let forced = m.on("interactive") || m.on("interactive-first");
        Ok(Args {
            model: m.model()?,
            input: Input {
                prompt: m.text("prompt"),
                file: m.path("file"),
                binary_file: m.path("binary-file"),
                system: m.text("system-prompt"),
                system_file: m.path("system-prompt-file"),
                escape: m.switch("escape").unwrap_or(true),
            },
            chat: Chat {
                conversation: m.switch("conversation").or(forced.then_some(true)),
                single_turn: m.on("single-turn"),
                multiline: m.on("multiline-input"),
                drop_oldest: m.on("drop-oldest"),
                template: m.text("chat-template"),
                template_file: m.path("chat-template-file"),
                template_kwargs: m.text("chat-template-kwargs"),
                reasoning: m.switch("reasoning"),
            },
            sampling: Sampling {
                n_predict: m.whole("predict").unwrap_or(-1),
                seed: m.whole("seed").filter(|&s| s >= 0).map(|s| s as u32),
                temp: m.real("temp"),
                top_k: m.whole("top-k"),
                top_p: m.real("top-p"),
                min_p: m.real("min-p"),
                typical: m.real("typical"),
                repeat_penalty: m.real("repeat-penalty"),
                repeat_last_n: m.whole("repeat-last-n"),
                presence_penalty: m.real("presence-penalty"),
                frequency_penalty: m.real("frequency-penalty"),
                logit_bias: m.all("logit-bias"),
                stops: m.all("reverse-prompt"),
                ignore_eos: m.on("ignore-eos"),
                samplers: m.value("samplers"),
            },
            machine: Machine {
                n_ctx: m.whole("ctx-size").unwrap_or(0) as usize,
                device,
                gpu_asked: gpu_layers.is_some_and(|n| !["0", "auto", "-1"].contains(&n.as_str())),
                threads: m.whole("threads").filter(|&t| t > 0).map(|t| t as usize),
                n_ubatch: m.whole("ubatch-size").unwrap_or(512) as usize,
                exact: m.on("exact"),
                type_k: m.value("cache-type-k"),
                type_v: m.value("cache-type-v"),
                swa_full: m.on("swa-full"),
                repack: m.switch("repack").unwrap_or(true),
            },
            output: Output {
                json: m.on("json"),
                verbosity,
                verbose_prompt: m.on("verbose-prompt"),
                display_prompt: m.on("display-prompt"),
                special: m.on("special"),
                perf: m.on("perf"),
                timings: m.switch("show-timings"),
                color: m.switch("color"),
                simple_io: m.on("simple-io"),
                history: m.switch("history").unwrap_or(true),
            },
        })
    }
}

struct Matches<'a>(&'a ArgMatches);

impl Matches<'_> {
    fn model(&self) -> Result<Option<PathBuf>, Exit> {
        let words: Vec<&PathBuf> = self.0.get_many("MODEL").into_iter().flatten().collect();
        match (words.as_slice(), self.path("model")) {
            ([], flag) => Ok(flag),
            // The environment may name a default; the command line wins.
            ([word], None) => Ok(Some((*word).clone())),
            ([word], Some(flag)) if std::env::var_os("LLAMA_ARG_MODEL").is_some_and(|v| v == *flag) => {
                Ok(Some((*word).clone()))
            }
            ([word], Some(flag)) => {
                Err(Exit::usage(format!("two models: {} and --model {}; name one", word.display(), flag.display())))
            }
            ([model, word, ..], _) => Err(Exit::usage(format!(
                "unexpected word {:?}: the model is {}; a prompt goes behind -p",
                word.display().to_string(),
                model.display()
            ))),
        }
    }
    fn text(&self, id: &str) -> Option<String> {
        self.0.get_one::<String>(id).cloned()
    }
    fn path(&self, id: &str) -> Option<PathBuf> {
        self.0.get_one::<PathBuf>(id).cloned()
    }
    fn whole(&self, id: &str) -> Option<i64> {
        self.0.get_one::<i64>(id).copied()
    }
    fn real(&self, id: &str) -> Option<f32> {
        self.0.get_one::<f64>(id).map(|&v| v as f32)
    }
    fn value<T: Clone + Send + Sync + 'static>(&self, id: &str) -> Option<T> {
        self.0.get_one::<T>(id).cloned()
    }
    fn all<T: Clone + Send + Sync + 'static>(&self, id: &str) -> Vec<T> {
        self.0.get_many::<T>(id).into_iter().flatten().cloned().collect()
    }
    fn switch(&self, id: &str) -> Option<bool> {
        self.text(id).and_then(|word| match word.as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })
    }
    fn on(&self, id: &str) -> bool {
        self.switch(id) == Some(true)
    }
}
