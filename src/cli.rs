//! The command line: which job is asked for, and how it ends.

mod args;
mod bench;
mod chat;
mod completions;
mod devices;
mod echo;
mod exit;
mod flags;
mod help;
mod info;
mod input;
mod interrupt;
mod jobs;
mod normalise;
mod open;
mod output;
mod perplexity;
mod progress;
mod quantize;
mod reply;
mod run;
mod signals;
mod stdout;
mod synth;
mod terminal;
mod tokenize;
mod values;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{FromArgMatches, Subcommand};
use qrun::session::Timeline;

use self::{
    args::Args,
    exit::{Code, Exit},
    jobs::Job,
    stdout::print,
    terminal::{Terminal, say},
};

/// Runs the program with its whole command line; returns its exit code.
pub fn main(argv: Vec<OsString>) -> ExitCode {
    let timeline = Timeline::start();
    signals::watch_model_file();
    match dispatch(argv.get(1..).unwrap_or_default(), timeline) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

/// The first word decides: the name of a job, or a model (a file of such a name is reached as `./info`).
fn dispatch(words: &[OsString], timeline: Timeline) -> Result<(), Exit> {
    let first = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    if first == "help" && words.len() == 1 {
        return print(&help::screen());
    }
    let jobs = Job::augment_subcommands(clap::Command::new("qrun"));
    if jobs.find_subcommand(first).is_some() || first == "help" {
        let parsed = jobs::normalise(words)?;
        let argv = std::iter::once("qrun".into()).chain(parsed.argv);
        let matches = jobs.try_get_matches_from(argv).map_err(clap_error)?;
        parsed.warnings.iter().for_each(|warning| say(&format!("note: {warning}")));
        return Job::from_arg_matches(&matches).map_err(clap_error)?.run();
    }
    let parsed = normalise::normalise(words, |name| std::env::var_os(name))?;
    let matches = args::command().try_get_matches_from(parsed.argv).map_err(clap_error)?;
    let asked = |id: &str| matches.get_one::<String>(id).is_some_and(|word| word == "on");
    let shown = if asked("help") {
        help::screen()
    } else if asked("help-all") {
        help::everything()
    } else if asked("version") {
        format!("qrun {}\n", env!("CARGO_PKG_VERSION"))
    } else if asked("completion-bash") {
        completions::script(clap_complete::Shell::Bash, Job::augment_subcommands)
    } else if asked("list-devices") {
        devices::listing()
    } else {
        String::new()
    };
    if !shown.is_empty() {
        return print(&shown);
    }
    let words: Vec<&PathBuf> = matches.get_many("MODEL").into_iter().flatten().collect();
    if let Some(first) = words.first() {
        jobs::not_a_job(first, words.len())?;
    }
    let args = Args::new(&matches)?;
    let terminal = Terminal::new(&args.output);
    parsed.warnings.iter().for_each(|warning| terminal.warn(warning));
    parsed.details.iter().for_each(|detail| terminal.debug(detail));
    run::run(&args, terminal, timeline)
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
