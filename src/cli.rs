//! The command line: which job is asked for, and how it ends.

mod args;
mod bench;
mod chat;
mod completions;
mod devices;
mod exit;
mod flags;
mod help;
mod info;
mod input;
mod interrupt;
mod jobs;
mod normalise;
mod open;
mod perplexity;
mod progress;
mod quantize;
mod reply;
mod run;
mod synth;
mod terminal;
mod tokenize;

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{FromArgMatches, Subcommand};
use qrun::session::Timeline;

use self::{
    args::Args,
    exit::{Code, Exit},
    jobs::Job,
    terminal::Terminal,
};

/// Runs the program with its whole command line; returns its exit code.
pub fn main(argv: Vec<OsString>) -> ExitCode {
    let timeline = Timeline::start();
    match dispatch(argv.get(1..).unwrap_or_default(), timeline) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

/// The first word decides: the name of a job, or a model (a file of such a name is reached as `./info`).
fn dispatch(words: &[OsString], timeline: Timeline) -> Result<(), Exit> {
    let jobs = Job::augment_subcommands(clap::Command::new("qrun").no_binary_name(true));
    if words.first().and_then(|w| w.to_str()).is_some_and(|w| jobs.find_subcommand(w).is_some() || w == "help") {
        let is_bench = words.first().is_some_and(|word| word == "bench");
        let words = if is_bench { bench::rewrite(words)? } else { words.to_vec() };
        let matches = jobs.try_get_matches_from(words).map_err(said_by_clap)?;
        return Job::from_arg_matches(&matches).map_err(said_by_clap)?.run();
    }
    let normal = normalise::normalise(words, |name| std::env::var_os(name))?;
    let matches = args::command().try_get_matches_from(normal.argv).map_err(said_by_clap)?;
    let asked = |id: &str| matches.get_one::<String>(id).is_some_and(|word| word == "on");
    let shown = if asked("help") {
        help::screen()
    } else if asked("help-all") {
        help::everything()
    } else if asked("version") {
        format!("qrun {}\n", env!("CARGO_PKG_VERSION"))
    } else if asked("completion-bash") {
        completions::script(clap_complete::Shell::Bash)
    } else if asked("list-devices") {
        devices::listing()
    } else {
        String::new()
    };
    if !shown.is_empty() {
        return print(&shown);
    }
    let args = Args::new(&matches)?;
    let terminal = Terminal::new(&args.output);
    normal.notes.iter().for_each(|note| terminal.note(note));
    normal.details.iter().for_each(|detail| terminal.detail(detail));
    run::run(&args, terminal, timeline)
}

/// Text for stdout; a reader that goes away is no failure.
fn print(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// clap's own message, on the stream and with the code that fit it.
fn said_by_clap(error: clap::Error) -> Exit {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayVersion) {
        return match print(&error.render().to_string()) {
            Ok(()) => Exit::quiet(Code::Done),
            Err(exit) => exit,
        };
    }
    let text = error.render().to_string();
    let told = text.split("\n\nFor more information").next().unwrap_or(&text);
    Exit::usage(told.trim_start_matches("error: ").trim_end())
}
