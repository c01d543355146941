//! Manual pages: `qrun(1)` from the table of flags, a page for each job from what clap knows of it.

use clap::{Command, builder::StyledStr};
use clap_mangen::{
    Man,
    roff::{Roff, bold, italic, roman},
};

use super::{
    exit::Exit,
    flags::{self, Flag, Group, Takes},
    help,
};

const VERSION: &str = concat!("qrun ", env!("CARGO_PKG_VERSION"));
const MANUAL: &str = "User Commands";

/// Pages have no date: the same program makes the same bytes. An empty word would let the next one take its place.
const DATE: &str = " ";

const DESCRIPTION: &str = "\
Reads a model from a GGUF file and continues a text or a chat with it, on the CPU or on an NVIDIA GPU. At a terminal it \
chats; with -p and a pipe it gives one answer. Generated text goes to the standard output, everything else to the standard \
error. The same seed gives the same text on any number of threads. Without a model file a small one inside the program answers.";

const EXAMPLES: [(&str, &str); 4] = [
    ("qrun model.gguf", "A chat; /help lists its commands."),
    ("qrun model.gguf -p \"Why is the sky blue?\" </dev/null", "One answer."),
    ("qrun info model.gguf", "What is in the file, and the memory it needs."),
    ("qrun serve model.gguf", "Answers over HTTP at 127.0.0.1:8080."),
];

/// The page of the program, or of one of its jobs; `with_jobs` adds the jobs to a command.
///
/// # Errors
/// Exit code 2: no job of this name.
pub fn page(job: Option<&str>, with_jobs: fn(Command) -> Command) -> Result<String, Exit> {
    let mut jobs = with_jobs(Command::new("qrun")).disable_help_subcommand(true);
    match job {
        None => Ok(program(&jobs)),
        Some("serve") => Ok(server()),
        Some(name) => {
            let names = || jobs.get_subcommands().map(|job| job.get_name().to_owned()).collect::<Vec<_>>().join(", ");
            let unknown = Exit::usage(format!("man {name}: expected one of the jobs {}", names()));
            jobs.build();
            jobs.find_subcommand(name).map(page_of).ok_or(unknown)
        }
    }
}

/// The page of a job whose flags clap knows.
fn page_of(job: &Command) -> String {
    let name = format!("qrun-{}", job.get_name());
    let page = Man::new(job.clone().display_name(name.clone()).version(None::<&str>)).title(name.to_uppercase());
    let mut bytes = Vec::new();
    let written = page.date(DATE).source(VERSION).manual(MANUAL).render(&mut bytes);
    // Nothing is in the way of writing to memory.
    written.map(|()| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn program(jobs: &Command) -> String {
    let mut page = head("QRUN", "qrun - runs a GGUF language model on this machine");
    page.control("SH", ["SYNOPSIS"]).text([bold("qrun"), roman(" ["), italic("MODEL.gguf"), roman("] [flags]")]);
    page.control("br", []).text([bold("qrun "), italic("JOB"), roman(" …")]);
    page.control("SH", ["DESCRIPTION"]).text([roman(DESCRIPTION)]);
    for (group, title) in Group::ALL.into_iter().filter(|row| row.0 != Group::Server) {
        page.control("SH", [title.to_uppercase().as_str()]);
        flags::supported().filter(|flag| flag.group == Some(group)).for_each(|flag| row(&mut page, flag));
    }
    page.control("SH", ["FURTHER FLAGS"]);
    flags::supported().filter(|flag| flag.group.is_none()).for_each(|flag| row(&mut page, flag));
    page.control("PP", []).text([
        roman("Flags of llama.cpp's programs that have no effect here, or are refused, are listed by "),
        bold("qrun --help-all"),
        roman("."),
    ]);
    page.control("SH", ["JOBS"]);
    for job in jobs.get_subcommands() {
        let about = job.get_about().map(StyledStr::to_string).unwrap_or_default();
        page.control("TP", []).text([bold(format!("qrun-{}", job.get_name())), roman("(1)")]);
        page.text([roman(about)]);
    }
    page.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in help::EXIT_CODES.split(", ").filter_map(|row| row.split_once(' ')) {
        page.control("TP", []).text([bold(code)]).text([roman(meaning)]);
    }
    page.control("SH", ["EXAMPLES"]);
    for (line, what) in EXAMPLES {
        page.control("TP", []).text([bold(line)]).text([roman(what)]);
    }
    page.control("SH", ["FILES"]).control("TP", []).text([italic("~/.local/state/qrun/history")]);
    page.text([roman("What was typed in chats; --no-history keeps nothing.")]);
    page.to_roff()
}

/// The page of `qrun serve`, whose flags are in the table.
fn server() -> String {
    let mut page = head("QRUN-SERVE", "qrun-serve - answers over HTTP");
    page.control("SH", ["SYNOPSIS"]).text([bold("qrun serve"), roman(" ["), italic("MODEL.gguf"), roman("] [flags]")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman(
            "Answers clients of OpenAI, llama-server, Anthropic and Ollama, and serves a page to chat at. The flags \
         for the model, the machine and sampling hold too, see ",
        ),
        bold("qrun"),
        roman(
            "(1); those of sampling are \
         what requests have that say nothing else.",
        ),
    ]);
    page.control("SH", ["FLAGS"]);
    flags::serving().for_each(|flag| row(&mut page, flag));
    page.to_roff()
}

/// The title and the line that `whatis` reads.
fn head(title: &str, name: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [title, "1", DATE, VERSION, MANUAL]);
    page.control("SH", ["NAME"]).text([roman(name)]);
    page
}

/// A flag: all its spellings, then what it does.
fn row(page: &mut Roff, flag: &Flag) {
    let mut line = Vec::new();
    for (name, _) in flag.spellings() {
        line.extend((!line.is_empty()).then(|| roman(", ")));
        line.push(bold(name));
    }
    match flag.takes {
        Takes::Nothing => {}
        Takes::One(name, _) | Takes::Two(name) => line.extend([roman(" "), italic(name)]),
        Takes::Maybe(words) => line.extend([roman(" ["), italic(words.join("|")), roman("]")]),
    }
    page.control("TP", []).text(line).text([roman(help::answer(flag))]);
}
