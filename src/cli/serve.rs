//! `qrun serve [MODEL]`: answers over HTTP until a signal ends it.

use std::{
    ffi::OsString,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use crate::{
    engine::{DevicePreference, LoadError, rounds_by_rows},
    generate::{Generator, Scheduler},
    server::{self, Loaded, ServeError, ServerOptions},
};
use qrun_cuda::device;
use qrun_quant::{Gguf, cpu::Arithmetic};

use super::{
    args::{Args, Show},
    exit::{Code, Exit},
    help, input, open, parse, run, shown,
    stdout::print,
    terminal::Terminal,
};

/// Requests at once where nothing is said: as many as share a step well on the CPU, and on a GPU.
const PARALLEL: [usize; 2] = [16, 32];

/// The same on a GPU where tokens are guessed ahead: with three guesses each they are the 32 rows of a step.
const PARALLEL_GUESSING: usize = 8;

/// Runs the server; `words` stand behind `serve`.
///
/// # Errors
/// Exit code 2: a flag, or an address that others reach without a key. 1: an address cannot be listened at. Else why
/// the model was not loaded.
pub fn run(words: &[OsString]) -> Result<(), Exit> {
    let parsed = parse::parse(words, true, |name| std::env::var_os(name), |_, _| Ok(()))?;
    match parsed.args.show {
        Some(Show::Help) => return print(&help::serve()),
        Some(show) => return print(&shown(show)?),
        None => {}
    }
    let mut args = parsed.args;
    let terminal = Terminal::new(&args.output);
    parsed.warnings.iter().for_each(|warning| terminal.warn(warning));
    parsed.details.iter().for_each(|detail| terminal.debug(detail));
    choose_device(&mut args)?;
    let options = options(&args, &terminal)?;
    let failed = Arc::new(Mutex::new(None));
    let keep = {
        let failed = failed.clone();
        move |exit| *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(exit)
    };
    keep_heap_small();
    let (write, lines) = log(terminal);
    let served = server::serve(options, move |opened| load(&args, &terminal, opened).map_err(keep).ok(), write);
    lines.end();
    served.map_err(|error| match error {
        ServeError::Model => {
            let exit = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            exit.unwrap_or_else(|| Exit::new(Code::Failure, "the model was not loaded"))
        }
        ServeError::NoKey { .. } => Exit::usage(error.to_string()),
        error => Exit::new(Code::Failure, error.to_string()),
    })
}

/// Gives memory back that requests have let go of. glibc keeps what lies between two things that stay, and a heap for every
/// few threads: after 50,000 mixed requests 50 MB of 70 were free and still the process's.
fn keep_heap_small() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use nix::libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, malloc_trim, mallopt};
        // SAFETY: takes numbers only; what is allocated already stays as it is.
        unsafe {
            mallopt(M_ARENA_MAX, 2);
            // Set, it no longer grows with what is freed: bodies of a megabyte stay outside of the heap.
            mallopt(M_MMAP_THRESHOLD, 128 << 10);
        }
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(10));
                // SAFETY: safe from any thread, whatever others allocate meanwhile.
                unsafe { malloc_trim(0) };
            }
        });
    }
}

/// Lines that may wait for a stderr that nobody reads; those beyond are left out.
const LINES: usize = 4096;

/// Writes the lines of the log on a thread of its own: a stderr that nobody reads stops nobody.
fn log(terminal: Terminal) -> (server::Log, Lines) {
    let (sender, lines) = sync_channel(LINES);
    let (written, ended) = sync_channel(0);
    let left_out = Arc::new(AtomicUsize::new(0));
    let missing = left_out.clone();
    std::thread::spawn(move || {
        while let Ok(Some(line)) = lines.recv() {
            let line: String = line;
            terminal.warn(&line);
            match missing.swap(0, Relaxed) {
                0 => {}
                n => terminal.warn(&format!("{n} lines of the log were left out: stderr was not read")),
            }
        }
        drop(written);
    });
    let send = sender.clone();
    let log = move |line: &str| {
        if send.try_send(Some(line.to_owned())).is_err() {
            left_out.fetch_add(1, Relaxed);
        }
    };
    (Arc::new(log), Lines { sender, ended })
}

/// The end of the log.
struct Lines {
    sender: SyncSender<Option<String>>,
    ended: Receiver<()>,
}

impl Lines {
    /// Waits until all lines are written, but not for one who does not read them.
    fn end(self) {
        if self.sender.try_send(None).is_ok() {
            // The thread drops its end of the channel.
            let _ = self.ended.recv_timeout(Duration::from_millis(500));
        }
    }
}

/// Leaves `--deterministic` to the CPU: on a GPU few sequences and many are added up in different orders.
fn choose_device(args: &mut Args) -> Result<(), Exit> {
    match args.machine.preference() {
        _ if !args.server.deterministic => {}
        DevicePreference::Cuda(_) => {
            let why =
                "--deterministic: on a GPU the last bits of an answer depend on what runs beside it; --device cpu";
            return Err(Exit::usage(why));
        }
        DevicePreference::Auto | DevicePreference::Cpu => args.machine.device = DevicePreference::Cpu,
    }
    Ok(())
}

/// The flags, with the keys of a file.
fn options(args: &Args, terminal: &Terminal) -> Result<ServerOptions, Exit> {
    let mut options = args.server.options.clone();
    options.verbose = terminal.verbose();
    if let Some(file) = &args.server.api_key_file {
        let text = input::file_text("--api-key-file", file, 1 << 20)?;
        let keys = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Vec<String> = keys.map(str::to_owned).collect();
        if keys.is_empty() {
            return Err(Exit::usage(format!("--api-key-file {}: there is no key in it", file.display())));
        }
        options.api_keys.extend(keys);
    }
    if let Some(folder) = options.slot_save_path.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Exit::usage(format!("--slot-save-path {}: expected a folder that exists", folder.display())));
    }
    if options.hosts.is_empty() {
        return Err(Exit::usage("--host: an address is expected, found none"));
    }
    Ok(options)
}

/// The model on a thread of its own; `opened` is called once all but its weights is read, and they will fit.
fn load(args: &Args, terminal: &Terminal, opened: &dyn Fn()) -> Result<Loaded, Exit> {
    let (engine, params) = open::engine(args, terminal, |gguf, options| {
        // Nobody waits yet.
        options.repack_as_needed = false;
        options.n_seq = args.server.parallel.unwrap_or_else(|| match on_gpu(args) {
            true if options.n_draft > 0 => PARALLEL_GUESSING,
            on_gpu => PARALLEL[usize::from(on_gpu && shares_wide_steps(gguf))],
        });
        // The pool: as many tokens as one context, whoever holds them.
        options.n_kv = options.n_ctx.max(1);
        if let Some(parallel) = args.server.parallel {
            options.n_ctx = options.n_ctx.div_ceil(parallel);
        }
        if args.server.deterministic && rounds_by_rows(gguf) {
            options.arithmetic = Arithmetic::Exact;
        }
    })?;
    let template_kwargs = run::template_variables(args)?;
    opened();
    if args.server.grammar_warm {
        let (engine, terminal) = (engine.clone(), *terminal);
        std::thread::spawn(move || match engine.grammars() {
            Ok(_) => terminal.debug("--grammar-warm: the vocabulary is ready for grammars"),
            Err(error) => terminal.warn(&format!("--grammar-warm: {error}")),
        });
    }
    let (of, step_ms, speculation) = (engine.clone(), args.server.step_ms, args.speculation.clone());
    let scheduler = move || {
        let mut scheduler = Scheduler::open(of.clone(), open::say_if_fell_back())?;
        if let Some(step_ms) = step_ms {
            scheduler.set_step_ms(step_ms);
        }
        if let Some(drafter) = speculation.drafter() {
            scheduler.set_drafter(drafter);
        }
        Ok::<_, LoadError>(scheduler)
    };
    let generator = Generator::start_with(scheduler()?, Some(Box::new(move || scheduler().ok())))?;
    let max_tokens = usize::try_from(args.sampling.n_predict).ok();
    Ok(Loaded { engine, generator, params, seed_said: args.sampling.seed.is_some(), max_tokens, template_kwargs })
}

/// Whether the model is likely to run on a GPU.
fn on_gpu(args: &Args) -> bool {
    match args.machine.preference() {
        DevicePreference::Cpu => false,
        DevicePreference::Auto => !args.machine.exact && device::best_ordinal().is_ok(),
        DevicePreference::Cuda(_) => true,
    }
}

/// Whether a step on a GPU is shared by as many sequences as it has rows. Not where layers have a sliding window: each sequence has
/// pages of its own in these, which are better left to the context.
fn shares_wide_steps(gguf: &Gguf) -> bool {
    !gguf.metadata().iter().any(|(key, _)| key.ends_with(".attention.sliding_window"))
}
