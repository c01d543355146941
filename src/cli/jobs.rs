//! The jobs beside answering: `qrun info`, `tokenize`, `perplexity`, `synth`, `devices`, `completions` ….

mod foreign;

use std::{ffi::OsString, path::Path};

use clap::Subcommand;

#[cfg(feature = "download")]
use super::models;
use super::{
    bench, compare, completions, devices, embed, exit::Exit, flags, info, man, named, normalise, perplexity, quantize,
    serve, stdout::print, synth, tokenize,
};

/// What qrun does beside answering.
#[derive(Debug, Subcommand)]
pub enum Job {
    /// What is in a file: metadata, tensor types by bytes, memory need per context size
    Info(info::Info),
    /// Text to tokens
    Tokenize(tokenize::Tokenize),
    /// A model file into a smaller one
    Quantize(quantize::Quantize),
    /// How well a model predicts a text, and how far it is from another one
    Perplexity(perplexity::Perplexity),
    /// Texts to vectors
    Embed(embed::Embed),
    /// Where two devices part: the first intermediate result that differs
    Compare(compare::Compare),
    // Described where its flags are.
    Bench(Box<bench::Bench>),
    /// Answers over HTTP
    #[command(disable_help_flag = true)]
    Serve {
        /// The model and flags: as behind qrun alone, and those of the server
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Fetches a model by its name; its path goes to stdout
    #[cfg(feature = "download")]
    Pull(models::Pull),
    /// The models that were fetched
    #[cfg(feature = "download")]
    Models(models::Models),
    /// Removes a model that was fetched
    #[cfg(feature = "download")]
    Rm(models::Rm),
    /// A model of random weights, to measure and to test with
    Synth(synth::Synth),
    /// The devices that can compute
    Devices,
    /// Shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The manual page, or that of a job
    Man {
        /// The job
        job: Option<String>,
    },
}

impl Job {
    /// Does the job to its end.
    ///
    /// # Errors
    /// The exit code of the job, and what to say.
    pub fn run(self) -> Result<(), Exit> {
        match self {
            Job::Info(job) => job.run(),
            Job::Tokenize(job) => job.run(),
            Job::Quantize(job) => job.run(),
            Job::Perplexity(job) => job.run(),
            Job::Embed(job) => job.run(),
            Job::Compare(job) => job.run(),
            Job::Bench(job) => job.run(),
            Job::Serve { words } => serve::run(&words),
            #[cfg(feature = "download")]
            Job::Pull(job) => job.run(),
            #[cfg(feature = "download")]
            Job::Models(job) => job.run(),
            #[cfg(feature = "download")]
            Job::Rm(job) => job.run(),
            Job::Synth(job) => job.run(),
            Job::Devices => print(&devices::listing()),
            Job::Completions { shell } => print(&completions::script(shell, Job::augment_subcommands)),
            Job::Man { job } => print(&man::page(job.as_deref(), Job::augment_subcommands)?),
        }
    }
}

/// The command line of a job as clap takes it, and lines for stderr; what llama.cpp's tools have and the job does not is
/// answered here.
///
/// # Errors
/// Exit code 2: a flag that would change what the job does.
pub fn normalise(words: &[OsString]) -> Result<(Vec<OsString>, Vec<String>), Exit> {
    match words.split_first() {
        Some((job, rest)) => {
            let rows = foreign::rows(&job.to_string_lossy());
            let parsed = normalise::normalise_job(rest, &|word| flags::find_in(rows.clone(), word))?;
            let argv = || parsed.given.iter().map(normalise::Given::to_word);
            // clap would take several letters behind one dash for flags of one letter each.
            if let Some(word) =
                argv().take_while(|word| word != "--").find(|word| job == "bench" && is_several_letters(word))
            {
                let word = word.display();
                return Err(Exit::usage(format!("unknown flag {word} (qrun bench --help lists the flags)")));
            }
            let argv = std::iter::once(job.clone()).chain(argv()).collect();
            Ok((argv, parsed.warnings))
        }
        None => Ok(Default::default()),
    }
}

fn is_several_letters(word: &OsString) -> bool {
    let letters = word.to_str().and_then(|word| word.strip_prefix('-'));
    letters.is_some_and(|rest| rest.len() > 1 && rest.chars().all(|c| c.is_ascii_alphabetic()))
}

/// Words that other programs have for what qrun does otherwise.
const ELSEWHERE: &[(&str, &str)] = &[
    ("run", "qrun MODEL.gguf chats, and with -p TEXT it answers once"),
    ("chat", "qrun MODEL.gguf chats"),
    ("server", "qrun serve MODEL.gguf answers over HTTP"),
    ("list", "qrun models lists the models that were fetched"),
    ("embedding", "qrun embed MODEL.gguf -p TEXT makes vectors of texts"),
    ("ls", "qrun models lists the models that were fetched"),
    ("show", "qrun info FILE shows what is in a model file"),
];

/// Says what was probably meant where the first word of a command line, one of `words`, is neither a job nor a file.
///
/// # Errors
/// Exit code 2 with that.
pub fn not_a_job(word: &Path, words: usize) -> Result<(), Exit> {
    let Some(text) = word.to_str().filter(|_| word.symlink_metadata().is_err()) else { return Ok(()) };
    if named::is_name(text) {
        return Ok(());
    }
    if text.contains(['/', '\\']) || text.to_ascii_lowercase().ends_with(".gguf") {
        return Ok(());
    }
    let elsewhere = ELSEWHERE.iter().find(|row| row.0 == text).map(|row| row.1.to_owned());
    let command = Job::augment_subcommands(clap::Command::new("qrun"));
    let names = command.get_subcommands().map(clap::Command::get_name);
    let nearest = || crate::nearest::of(names, text, |name| name).map(|name| format!("did you mean qrun {name}?"));
    let prompt = || text.contains(char::is_whitespace).then(|| "a prompt goes behind -p".to_owned());
    let neither = || (words > 1).then(|| "qrun MODEL.gguf -p TEXT, or qrun JOB … (qrun --help lists both)".to_owned());
    let alias = || named::nearest(text).map(|alias| format!("did you mean the model {alias}?"));
    match elsewhere.or_else(prompt).or_else(nearest).or_else(alias).or_else(neither) {
        Some(meant) => Err(Exit::usage(format!("{text:?} is neither a job nor a file; {meant}"))),
        None => Ok(()),
    }
}
