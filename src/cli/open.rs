//! From flags to a loaded session: file, device, memory, sampler; each with its exit code.

use std::{path::Path, sync::Arc, time::Instant};

use crate::{
    embedded,
    engine::plan::human_bytes,
    engine::{Backend, BackendError, Engine, EngineOptions, LoadCause, LoadError, Timeline},
    error::{Kind, Kinded},
    generate::{GenerateError, SaveError, Session},
    sampler::{SamplerError, SamplerParams},
    text::template::TemplateError,
    text::tokenizer::TokenizeError,
};
use indicatif::ProgressBar;
use qrun_models::{EventHandler, ForwardError, LayerPlan, LoadEvent, Options, layer::KvSource};
use qrun_quant::{Bytes, Gguf, cpu::Arithmetic};

use super::{
    args::{Args, Sampling},
    exit::{Code, Exit},
    input, named, progress,
    terminal::{Terminal, say},
    values,
};

/// A session, and how long it took to get there.
pub struct Opened {
    pub session: Session,
    /// From the start of the program to the first prompt, in milliseconds.
    pub load_ms: f64,
    /// The same in steps.
    pub timeline: Timeline,
}

/// Opens the model that the flags name.
pub fn open(args: &Args, terminal: &Terminal, mut timeline: Timeline) -> Result<Opened, Exit> {
    let started = Instant::now();
    timeline.lap("command line");
    let gguf = model_file(args, terminal)?;
    timeline.took("open, map", gguf.mapping());
    timeline.lap("parse");
    let (engine, params) = of_file(gguf, args, terminal, |_, _| ())?;
    timeline.append(engine.timeline());
    timeline.lap("sampler");
    let bar = progress::loading(terminal);
    let mut session = Session::open(engine, params, on_event(&bar, terminal))?;
    if let Some(drafter) = args.speculation.drafter() {
        session.scheduler().set_drafter(drafter);
    }
    bar.finish_and_clear();
    timeline.lap(loading(session.engine()));
    Ok(Opened { session, load_ms: started.elapsed().as_secs_f64() * 1e3, timeline })
}

/// The model that the flags name, without its weights, and how its tokens are chosen; `change` sees the file and has the
/// last word on how it runs.
pub fn engine(
    args: &Args,
    terminal: &Terminal,
    change: impl FnOnce(&Gguf, &mut Options),
) -> Result<(Arc<Engine>, SamplerParams), Exit> {
    of_file(model_file(args, terminal)?, args, terminal, change)
}

fn of_file(
    gguf: Gguf,
    args: &Args,
    terminal: &Terminal,
    change: impl FnOnce(&Gguf, &mut Options),
) -> Result<(Arc<Engine>, SamplerParams), Exit> {
    let mut options = options(args)?;
    change(&gguf, &mut options);
    let engine = EngineOptions { options, template: template(args)?, device: args.machine.preference() };
    let engine = Arc::new(Engine::open(gguf, engine)?);
    let params = sampler(&args.sampling, &engine, terminal)?;
    say_plan(&engine, args, terminal);
    Ok((engine, params))
}

/// What most of the time to a decoder goes into.
fn loading(engine: &Engine) -> &'static str {
    match engine.backend() {
        Backend::Gpu { .. } => "upload",
        Backend::Cpu { .. } => "repack",
    }
}

/// Shows how loading goes, and says that a GPU is given up: above the bar while loading, later on a line of its own.
fn on_event(bar: &ProgressBar, terminal: &Terminal) -> EventHandler {
    let (bar, terminal) = (bar.clone(), *terminal);
    Box::new(move |event| match event {
        LoadEvent::Loading { done, total } => {
            bar.set_length(total);
            bar.set_position(done);
        }
        LoadEvent::FellBack(text) if bar.is_finished() => terminal.print_above_prompt(text),
        LoadEvent::FellBack(text) => bar.suspend(|| terminal.warn(text)),
    })
}

/// Says on stderr that a GPU is given up, for jobs that show nothing else meanwhile.
pub fn say_if_fell_back() -> EventHandler {
    Box::new(|event| {
        if let LoadEvent::FellBack(text) = event {
            say(text);
        }
    })
}

/// What stands for the path of the model inside the program.
const EMBEDDED: &str = "the embedded model";

/// The file, or the embedded model where none is named.
fn model_file(args: &Args, terminal: &Terminal) -> Result<Gguf, Exit> {
    match (named::model(args, terminal)?, embedded::model()) {
        (Some(path), _) => Ok(Gguf::open(&path)?),
        (None, Some(bytes)) => {
            terminal.warn("no model named: the small demo model inside qrun answers; for a real one: qrun MODEL.gguf, or qrun gemma-3-1b-it");
            Ok(Gguf::from_bytes(EMBEDDED, Bytes::new(bytes))?)
        }
        (None, None) => Err(Exit::usage("no model named: qrun MODEL.gguf -p TEXT (qrun --help says more)")),
    }
}

fn options(args: &Args) -> Result<Options, Exit> {
    let m = &args.machine;
    let base = if m.exact { Options::exact() } else { Options::default() };
    Ok(Options {
        n_ctx: m.n_ctx,
        n_ubatch: m.n_ubatch,
        threads: values::threads(m.threads),
        arithmetic: if m.exact { Arithmetic::Exact } else { Arithmetic::Fast },
        type_k: m.type_k.unwrap_or(base.type_k),
        type_v: m.type_v.unwrap_or(base.type_v),
        n_draft: args.speculation.n_draft(),
        draft_head: args.speculation.draft_head(),
        swa_full: m.swa_full,
        repack: m.repack && base.repack,
        // Someone waits for the first token.
        repack_as_needed: true,
        ..base
    })
}

fn template(args: &Args) -> Result<Option<String>, Exit> {
    match (&args.chat.template, &args.chat.template_file) {
        (Some(_), Some(_)) => Err(Exit::usage("two templates: give one of --chat-template and --chat-template-file")),
        (Some(text), None) => Ok(Some(text.clone())),
        (None, Some(file)) => input::file_text("--chat-template-file", file, input::LONGEST_PROMPT).map(Some),
        (None, None) => Ok(None),
    }
}

/// llama.cpp's defaults, then what the file recommends, then the flags.
fn sampler(flags: &Sampling, engine: &Engine, terminal: &Terminal) -> Result<SamplerParams, Exit> {
    let mut params = flags.params.clone();
    for change in params.take_from(engine.gguf(), |key| flags.said.contains(&key))? {
        let text = format!("the model file sets {change}");
        // Who named no model compares its settings with nothing.
        if engine.gguf().path() == Path::new(EMBEDDED) { terminal.debug(&text) } else { terminal.warn(&text) }
    }
    params.seed = flags.seed.unwrap_or_else(random_seed).into();
    if let Some(kept) = &flags.samplers {
        params.keep_samplers(kept);
    }
    if flags.ignore_eos {
        params.forbid(&engine.tokenizer().eog().collect::<Vec<_>>());
    }
    // Its range checks, before the weights are loaded.
    crate::sampler::Sampler::new(params.clone(), engine.model().config.n_vocab)?;
    terminal.debug(&format!("seed: {}", params.seed));
    Ok(params)
}

/// Another number each time, from the randomness that the standard library takes from the system.
pub fn random_seed() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() as u32
}

/// One line before loading: what it takes.
fn say_plan(engine: &Engine, args: &Args, terminal: &Terminal) {
    let (plan, config) = (engine.plan(), &engine.model().config);
    let trained = config.n_ctx_train;
    if args.machine.n_ctx > trained {
        terminal.warn(&format!(
            "-c {} is more than the {trained} tokens that the model was trained for",
            args.machine.n_ctx
        ));
    }
    if args.machine.n_ctx == 0 && plan.n_ctx < trained {
        terminal.warn(&format!("context of {} tokens: memory does not hold the model's {trained}", plan.n_ctx));
    }
    let (options, latent) = (engine.options(), |l: &LayerPlan| matches!(l.kv, KvSource::Latent(_)));
    if config.layers.iter().all(latent) && args.machine.type_v.is_some_and(|ty| ty != options.type_k) {
        let ty = options.type_k.name();
        terminal.warn(&format!("-ctv has no effect: the model's values are a part of its keys, which are {ty} (-ctk)"));
    }
    if options.n_draft > 0 && engine.n_draft() == 0 {
        let n_seq = options.n_seq;
        terminal.warn(&format!("--spec-type has no effect: a step on a GPU has 32 rows, with no room for guesses of {n_seq} sequences (-np)"));
    }
    match engine.backend() {
        // Layers were to go to a GPU.
        Backend::Cpu { reason } if args.machine.asks_for_gpu() => {
            let reason = reason.as_ref().map_or("--device says so".to_owned(), BackendError::to_string);
            terminal.warn(&format!("-ngl has no effect: the model runs on the CPU ({reason})"));
        }
        // Most computers have no such GPU: nothing is wrong with them.
        Backend::Cpu { reason: Some(reason) } if reason.is_ordinary() => {
            terminal.info(&format!("device: CPU ({reason})"));
        }
        Backend::Cpu { reason: Some(reason) } => terminal.warn(&format!("device: CPU ({reason})")),
        _ => {}
    }
    if terminal.verbose() {
        terminal.debug(&plan_in_bytes(engine));
    } else {
        terminal.info(&plan_line(engine));
    }
}

/// Where a model runs and the memory that it takes there: `CPU, 1.0 GB of 24.7 GB, 32768 tokens`.
pub fn plan_line(engine: &Engine) -> String {
    let plan = engine.plan();
    let available = plan.available.map_or(String::new(), |a| format!(" of {}", human_bytes(a)));
    let bytes = human_bytes(plan.bytes.total());
    format!("{}, {bytes}{available}, {} tokens", engine.backend().name(), plan.n_ctx)
}

/// The same in exact bytes, by purpose.
fn plan_in_bytes(engine: &Engine) -> String {
    let (plan, b) = (engine.plan(), engine.plan().bytes);
    let available = plan.available.map_or(String::new(), |a| format!(" of {a} available"));
    let threads = match engine.backend() {
        Backend::Cpu { .. } => format!(", {} threads", engine.options().threads),
        Backend::Gpu { .. } => String::new(),
    };
    format!(
        "plan: {}: weights {} + {} + activations {} = {} bytes{available}; context {} tokens{threads}; {}",
        engine.backend().name(),
        b.weights,
        b.describe_kv(),
        b.activations,
        b.total(),
        plan.n_ctx,
        engine.gguf().path().display()
    )
}

/// The device that was asked for cannot be had.
fn no_device(kind: Kind, error: &impl std::error::Error) -> Exit {
    Exit::new(kind.into(), format!("--device cuda: {error}; --device cpu computes on the CPU"))
}

impl From<LoadError> for Exit {
    fn from(error: LoadError) -> Self {
        match &*error.source {
            LoadCause::Backend(reason) => no_device(error.kind(), reason),
            LoadCause::Device(reason) => no_device(error.kind(), reason),
            _ => Exit::of(&error),
        }
    }
}

impl From<SamplerError> for Exit {
    fn from(error: SamplerError) -> Self {
        Exit::of(&error)
    }
}

impl From<GenerateError> for Exit {
    fn from(error: GenerateError) -> Self {
        match &error {
            GenerateError::Forward(ForwardError::Device(device)) => no_device(error.kind(), device),
            _ => Exit::of(&error),
        }
    }
}

/// The model's own template failed: its file is at fault, unless it refuses what it was asked.
impl From<TemplateError> for Exit {
    fn from(error: TemplateError) -> Self {
        if error.kind() == Kind::Memory {
            return Exit::of(&error);
        }
        let code = if matches!(error, TemplateError::Refused { .. }) { Code::Usage } else { error.kind().into() };
        Exit::new(code, format!("{error}; -no-cnv uses no template, --chat-template another one"))
    }
}

impl From<TokenizeError> for Exit {
    fn from(error: TokenizeError) -> Self {
        Exit::usage(format!("the prompt: {error}"))
    }
}

impl From<SaveError> for Exit {
    fn from(error: SaveError) -> Self {
        Exit::of(&error)
    }
}
