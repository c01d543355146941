//! The help texts, made from the table of flags. `--help` fits a screen and stands in the README.

use std::fmt::Write;

use super::flags::{self, Flag, Group, Status, Takes};

const USAGE: &str = "\
qrun runs a GGUF language model on this machine: a file, or a name (gemma-3-1b-it, USER/REPO:TAG).

  qrun MODEL                           a chat, at a terminal
  qrun MODEL -p \"Why is it blue?\"      one answer: its text on stdout, everything else on stderr
  qrun pull NAME, models, rm NAME      fetches a model; those that were fetched; removes one
  qrun info MODEL, tokenize MODEL      what is in a file and the memory it needs; text to tokens
  qrun serve [MODEL]                   answers over HTTP, for OpenAI, Anthropic and Ollama clients
  qrun quantize IN OUT TYPE            to Q4_K_M, Q5_K_M, Q6_K, Q8_0, Q4_0, F16 or BF16
  qrun embed, perplexity FILE -f TEXT  a vector for each line; how well a text is predicted
  qrun bench FILE, qrun synth NAME OUT how fast it is here; a model of random weights, to measure
  qrun devices, qrun completions SHELL what can compute here; completions for bash, zsh, fish …
";

/// What a script can tell from how the program ended.
pub const EXIT_CODES: &str = "0 done, 1 failure, 2 usage, 3 model file, 4 memory, 5 device, 6 not fetched, 130 Ctrl-C";

/// Column at which the explanation of a flag begins.
const COLUMN: usize = 32;

const SERVE: &str = "\
qrun serve [MODEL] [flags] answers over HTTP: OpenAI, llama-server, Anthropic and Ollama clients, and a page.
All flags for the model, the machine and sampling hold too (qrun --help); sampling flags are defaults for requests.
";

/// `qrun serve --help`.
pub fn serve() -> String {
    let mut text = SERVE.to_owned();
    write_groups(&mut text, |group| group == Group::Server);
    text
}

/// `--help`.
pub fn screen() -> String {
    let mut text = USAGE.to_owned();
    write_groups(&mut text, |group| group != Group::Server);
    let _ = writeln!(text, "\nExit codes: {EXIT_CODES}.");
    text
}

/// The flags of some groups under their headings.
fn write_groups(text: &mut String, wanted: impl Fn(Group) -> bool) {
    for (group, title) in Group::ALL.into_iter().filter(|row| wanted(row.0)) {
        let _ = writeln!(text, "\n{title}");
        for flag in flags::supported().chain(flags::serving()).filter(|f| f.group == Some(group)) {
            let _ = writeln!(text, "{}", row(flag, flag.help));
        }
    }
}

const SECTIONS: [&str; 5] = [
    "Further flags",
    "Flags of qrun serve",
    "Accepted, and always so",
    "Accepted without effect (one line on stderr)",
    "Refused (exit code 2)",
];

/// The section of `--help-all` for a flag that is not on the screen.
fn section(flag: &Flag) -> Option<&'static str> {
    match flag.status {
        Status::Used => flag.group.is_none().then_some(SECTIONS[0]),
        Status::Serve(_) | Status::ServeOrNoted(_) => Some(SECTIONS[1]),
        Status::NoOp => Some(SECTIONS[2]),
        Status::Noted => Some(SECTIONS[3]),
        Status::Refused | Status::RefusedUnless(_) => Some(SECTIONS[4]),
    }
}

/// `--help-all`: every flag with what becomes of it. Flags that share an answer stand together.
pub fn everything() -> String {
    let mut text = screen();
    text.push_str("\nFurther jobs\n  qrun man [JOB]                the manual page: qrun man | man -l -\n");
    for title in SECTIONS {
        let _ = writeln!(text, "\n{title}");
        let flags: Vec<&Flag> = flags::all().filter(|f| section(f) == Some(title)).collect();
        let mut answered: Vec<&str> = Vec::new();
        for flag in &flags {
            let sharing: Vec<&&Flag> = flags.iter().filter(|f| f.help == flag.help).collect();
            let used = matches!(flag.status, Status::Used | Status::Serve(_) | Status::ServeOrNoted(_));
            if used || sharing.len() < MANY {
                let _ = writeln!(text, "{}", row(flag, &answer(flag)));
            } else if !answered.contains(&flag.help) {
                answered.push(flag.help);
                let names = sharing.iter().flat_map(|f| f.spellings().map(|s| s.0));
                let _ = write!(text, "  {}:\n{}", flag.help, paragraph(names));
            }
        }
    }
    text
}

/// From so many flags on with the same answer it is given once.
const MANY: usize = 3;

/// What is said about a flag.
pub fn answer(flag: &Flag) -> String {
    let help = match flag.status {
        Status::RefusedUnless(same) => format!("{} (but {same})", flag.help),
        _ => flag.help.to_owned(),
    };
    if flag.env.is_empty() { help } else { format!("{help} (env {})", flag.env) }
}

/// Names in lines of the help's width.
fn paragraph<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for name in names {
        if width > 0 && width + name.len() + 2 > 96 {
            text.push('\n');
            width = 0;
        }
        text.push_str(if width == 0 { "    " } else { ", " });
        text.push_str(name);
        width += name.len() + 2;
    }
    text + "\n"
}

/// One flag: spellings, value, explanation.
fn row(flag: &Flag, help: &str) -> String {
    let names: Vec<&str> = flag.spellings().map(|s| s.0).collect();
    let value = match flag.takes {
        Takes::Nothing => String::new(),
        Takes::One(name, _) | Takes::Two(name) => format!(" {name}"),
        Takes::Maybe(words) => format!(" [{}]", words.join("|")),
    };
    let mut shown = format!("{}{value}", names.join(", "));
    // The screen has room for two spellings: the shortest and the longest known one.
    if flag.group.is_some() && shown.chars().count() > COLUMN - 4 {
        shown = format!("{}, {}{value}", names[0], names[1]);
        if shown.chars().count() > COLUMN - 4 {
            shown = format!("{}{value}", names[0]);
        }
    }
    let gap = (COLUMN - 2).saturating_sub(shown.chars().count()).max(2);
    format!("  {shown}{}{help}", " ".repeat(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_screen() {
        let text = screen();
        assert!(text.lines().count() <= 52, "{} lines", text.lines().count());
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} wide: {line}", line.chars().count());
        }
    }

    #[test]
    fn every_flag_is_somewhere() {
        let text = everything();
        for flag in flags::all() {
            let first = flag.spellings().next().map(|s| s.0).unwrap_or_default();
            assert!(text.contains(first), "{first}");
        }
    }
}
