//! The command line: which job is asked for, and how it ends.

mod args;
mod bench;
mod chat;
mod compare;
mod completions;
mod devices;
mod echo;
mod embed;
mod exit;
mod flags;
mod help;
mod info;
mod input;
mod interrupt;
mod jobs;
mod man;
#[cfg(feature = "download")]
mod models;
mod named;
mod normalise;
mod open;
mod output;
mod parse;
mod perplexity;
mod progress;
mod quantize;
mod reply;
mod run;
mod serve;
mod shown;
mod signals;
mod stdout;
mod synth;
mod terminal;
mod tokenize;
mod values;

use std::ffi::OsString;

use crate::engine::Timeline;
use clap::{FromArgMatches, Subcommand};

use self::{
    args::Show,
    exit::{Code, Exit},
    jobs::Job,
    stdout::print,
    terminal::{Terminal, say},
};

/// Runs the program with its whole command line, the program's name first; returns its exit code. It writes to stdout and
/// stderr, handles SIGINT and SIGBUS, and Ctrl-C at a prompt ends the process: for a process that does nothing else.
pub fn main(argv: Vec<OsString>) -> u8 {
    let timeline = Timeline::start();
    signals::watch_model_file();
    match dispatch(argv.get(1..).unwrap_or_default(), timeline) {
        Ok(()) => 0,
        Err(exit) => exit.report(),
    }
}

/// The first word decides: the name of a job, or a model (a file of such a name is reached as `./info`).
fn dispatch(words: &[OsString], timeline: Timeline) -> Result<(), Exit> {
    let first = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    if first == "help" && words.len() == 1 {
        return print(&help::screen());
    }
    // Its flags are those of the table, and no others than behind qrun alone.
    if first == "serve" {
        return serve::run(&words[1..]);
    }
    let jobs = Job::augment_subcommands(clap::Command::new("qrun"));
    if jobs.find_subcommand(first).is_some() || first == "help" {
        let (argv, warnings) = jobs::normalise(words)?;
        let argv = std::iter::once("qrun".into()).chain(argv);
        let matches = jobs.try_get_matches_from(argv).map_err(clap_error)?;
        warnings.iter().for_each(|warning| say(&format!("note: {warning}")));
        return Job::from_arg_matches(&matches).map_err(clap_error)?.run();
    }
    let parsed = parse::parse(words, false, |name| std::env::var_os(name), jobs::not_a_job)?;
    if let Some(show) = parsed.args.show {
        return print(&shown(show)?);
    }
    let terminal = Terminal::new(&parsed.args.output);
    parsed.warnings.iter().for_each(|warning| terminal.warn(warning));
    parsed.details.iter().for_each(|detail| terminal.debug(detail));
    run::run(&parsed.args, terminal, timeline)
}

/// What is shown in place of an answer.
fn shown(show: Show) -> Result<String, Exit> {
    Ok(match show {
        Show::Help => help::screen(),
        Show::HelpAll => help::everything(),
        Show::Version => format!("qrun {}\n", env!("CARGO_PKG_VERSION")),
        Show::Completions => completions::script(clap_complete::Shell::Bash, Job::augment_subcommands),
        Show::Devices => devices::listing(),
        #[cfg(feature = "download")]
        Show::Models => models::listing()?,
        #[cfg(not(feature = "download"))]
        Show::Models => return Err(Exit::usage("-cl: this qrun was built without the feature download")),
    })
}

/// clap's own message, on the stream and with the code that fit it.
fn clap_error(error: clap::Error) -> Exit {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion) {
        return match print(&error.render().to_string()) {
            Ok(()) => Exit::quiet(Code::Done),
            Err(exit) => exit,
        };
    }
    let text = error.render().to_string();
    let told = text.split("\n\nFor more information").next().unwrap_or(&text);
    // Nobody who types an unknown flag means it as a value.
    let lines = told.lines().filter(|line| !line.trim_start().starts_with("tip: to pass '"));
    Exit::usage(lines.collect::<Vec<_>>().join("\n").trim_start_matches("error: ").trim_end())
}
