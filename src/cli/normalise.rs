//! From the command line as people type it to the one that clap parses.
//!
//! llama.cpp has flags of several letters behind one dash (`-ngl 99`), old bare forms (`-fa`,
//! `--color`) and `_` for `-`; values may begin with a dash (`-n -1`). Every flag is looked up in the
//! table here and handed on as `--name=value`; what qrun does not support ends here.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use super::{
    exit::Exit,
    flags::{self, Flag, Status, Takes},
};

/// Values of a switch.
const SWITCH: &[&str] = &["on", "off"];

/// A piece of the command line.
#[derive(Debug, Clone)]
pub enum Given {
    /// A flag that has an effect, and its value.
    Flag(&'static Flag, OsString),
    /// A word that is not a flag.
    Word(OsString),
    /// `--`: only words follow.
    End,
}

impl Given {
    /// As one word: `--name=value`.
    pub fn to_word(&self) -> OsString {
        match self {
            Given::Word(word) => word.clone(),
            Given::End => "--".into(),
            Given::Flag(flag, value) => {
                let mut word = OsString::from(format!("--{}=", flag.id()));
                word.push(value);
                word
            }
        }
    }
}

/// The command line in pieces, and what is to be said about it.
#[derive(Debug, Default)]
pub struct ParsedArgs {
    /// Without the program name.
    pub given: Vec<Given>,
    /// Lines for stderr, one per argument that was changed.
    pub warnings: Vec<String>,
    /// Lines for one who asks with `-v`.
    pub details: Vec<String>,
    /// Whether the flags of `qrun serve` are used.
    serving: bool,
}

/// Takes `args` (without the program name) apart.
///
/// # Errors
/// Exit code 2: a flag that is unknown, refused or without its value.
pub fn normalise(args: &[OsString], serving: bool) -> Result<ParsedArgs, Exit> {
    let mut parsed = ParsedArgs { serving, ..ParsedArgs::default() };
    parsed.take_all(args, &flags::find, unknown)?;
    Ok(parsed)
}

/// What the environment says; `env` reads a variable.
///
/// # Errors
/// Exit code 2: a switch that is neither on nor off.
pub fn environment(env: impl Fn(&str) -> Option<OsString>, serving: bool) -> Result<ParsedArgs, Exit> {
    let mut parsed = ParsedArgs { serving, ..ParsedArgs::default() };
    let known = flags::supported().chain(flags::serving().filter(|_| serving));
    for flag in known.filter(|f| !f.env.is_empty()) {
        if let Some(value) = env(flag.env).filter(|v| !v.is_empty()) {
            parsed.take_environment(flag, &value)?;
        }
    }
    Ok(parsed)
}

/// Takes the words behind a job's name apart: flags that `find` knows are answered or renamed, all others are clap's.
///
/// # Errors
/// Exit code 2: a flag that is refused or without its value.
pub fn normalise_job(args: &[OsString], find: Find) -> Result<ParsedArgs, Exit> {
    let mut parsed = ParsedArgs::default();
    parsed.take_all(args, find, |_| None)?;
    Ok(parsed)
}

/// Words that are still to be read.
type Rest<'a> = std::iter::Peekable<std::slice::Iter<'a, OsString>>;
/// Looks a flag up.
type Find<'a> = &'a dyn Fn(&str) -> Option<(&'static Flag, bool)>;

impl ParsedArgs {
    /// Takes words until there are none; `unknown` says what is wrong with a flag that `find` does not know.
    fn take_all(&mut self, args: &[OsString], find: Find, unknown: impl Fn(&str) -> Option<Exit>) -> Result<(), Exit> {
        let mut rest = args.iter().peekable();
        while let Some(word) = rest.next() {
            if word == "--" {
                self.given.push(Given::End);
                self.given.extend(rest.cloned().map(Given::Word));
                break;
            }
            let Some((typed, inline)) = split(word, find) else {
                self.given.push(Given::Word(word.clone()));
                continue;
            };
            match find(&typed) {
                Some((flag, on)) => {
                    let values = values((flag, &typed), inline, &mut rest, find)?;
                    self.take(flag, &typed, on, &values)?;
                }
                None => match unknown(&typed) {
                    Some(exit) => return Err(exit),
                    None => self.given.push(Given::Word(word.clone())),
                },
            }
        }
        Ok(())
    }
}

/// The values of a flag: behind `=`, or the words that follow.
fn values(
    (flag, typed): (&Flag, &str),
    inline: Option<OsString>,
    rest: &mut Rest,
    find: Find,
) -> Result<Vec<OsString>, Exit> {
    let mut values = vec![];
    match flag.takes {
        Takes::Nothing => {
            let is_value = |word: &OsStr| word.to_str().is_some_and(|word| flags::one_of(SWITCH, word).is_some());
            match (inline, rest.peek()) {
                (Some(value), _) => values.push(switch(typed, &value)?),
                // A model may have such a name.
                (None, Some(word)) if is_value(word) && !Path::new(word).exists() => {
                    let word = word.display();
                    return Err(Exit::usage(format!(
                        "{typed} takes no value, found {word}: leave it out, or write {typed}={word}"
                    )));
                }
                _ => {}
            }
        }
        Takes::Maybe(words) => {
            let said = |word: &OsStr| flags::one_of(words, word.to_str()?);
            values.push(match inline {
                Some(value) => said(&value).map_or(value, Into::into),
                None => {
                    let follows = rest.next_if(|word| said(word).is_some());
                    follows.and_then(|word| said(word)).unwrap_or(words[0]).into()
                }
            });
        }
        Takes::One(name, _) | Takes::Two(name) => {
            let missing = |found: &str| Exit::usage(format!("{typed} needs a value ({name}), found {found}"));
            values.extend(inline);
            let wanted = if matches!(flag.takes, Takes::Two(_)) { 2 } else { 1 };
            while values.len() < wanted {
                let value = rest.next().ok_or_else(|| missing("the end of the command line"))?;
                if value.to_str().is_some_and(|v| find(v).is_some()) {
                    let value = value.display();
                    return Err(missing(&format!("the flag {value}; write {typed}={value} if that is the value")));
                }
                values.push(value.clone());
            }
        }
    }
    Ok(values)
}

impl ParsedArgs {
    /// One flag with its values: handed on, noted or refused.
    fn take(&mut self, flag: &'static Flag, typed: &str, on: bool, values: &[OsString]) -> Result<(), Exit> {
        let value = values.first();
        let shown = value.map(|v| v.to_string_lossy().into_owned()).unwrap_or_default();
        match flag.status {
            Status::Serve(same) if !self.serving => {
                if same.is_empty() || !equal(&shown, same) {
                    return Err(Exit::usage(format!("{typed} belongs to qrun serve: {}", flag.help)));
                }
            }
            Status::ServeOrNoted(why) if !self.serving => {
                self.warnings.push(format!("{typed} has no effect: {why}"));
            }
            Status::Used | Status::Serve(_) | Status::ServeOrNoted(_) => {
                // `--no-escape=off` is `--escape`.
                let off = value.is_some_and(|value| value == "off");
                let switched = if on != off { "on" } else { "off" };
                let value = value.filter(|_| on).map_or(switched.into(), Clone::clone);
                self.given.push(Given::Flag(flag, value));
            }
            // It goes on however it is switched off.
            Status::NoOp if shown == "off" => {
                self.warnings.push(format!("{typed}={shown} has no effect: {}", flag.help));
            }
            Status::NoOp => {}
            Status::Noted => self.warnings.push(format!("{typed} has no effect: {}", flag.help)),
            Status::RefusedUnless(same) if equal(&shown, same) => {}
            Status::RefusedUnless(same) => {
                return Err(Exit::usage(format!("{typed} {shown}: {} (only {same} is accepted)", flag.help)));
            }
            Status::Refused => return Err(Exit::usage(format!("{typed}: {}", flag.help))),
        }
        Ok(())
    }

    fn take_environment(&mut self, flag: &'static Flag, value: &OsStr) -> Result<(), Exit> {
        let value = match flag.takes {
            Takes::Nothing => switch(flag.env, value)?,
            _ => value.to_owned(),
        };
        self.details.push(format!("--{} is {} from the environment ({})", flag.id(), value.display(), flag.env));
        self.take(flag, flag.env, true, &[value])
    }
}

/// A word that is a flag: its name as typed, and the value behind `=`. Paths that are not UTF-8 are
/// words of their own, never flags.
fn split(word: &OsStr, find: Find) -> Option<(String, Option<OsString>)> {
    let text = word.to_str()?;
    let second = text.strip_prefix('-')?.chars().next()?;
    if second.is_ascii_digit() || second == '.' {
        return None;
    }
    match text.split_once('=') {
        Some((name, value)) if find(name).is_some() || name.starts_with("--") => {
            Some((name.to_owned(), Some(value.into())))
        }
        _ => Some((text.to_owned(), None)),
    }
}

/// The value of a switch, given behind `=` or in the environment.
fn switch(name: &str, value: &OsStr) -> Result<OsString, Exit> {
    let found = value.to_str().and_then(|word| flags::one_of(SWITCH, word));
    found.map(Into::into).ok_or_else(|| {
        Exit::usage(format!("{name} is a switch: expected on or off, found {:?}", value.display().to_string()))
    })
}

/// The same word, or the same number (`1.0` and `1`).
fn equal(a: &str, b: &str) -> bool {
    a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

fn unknown(typed: &str) -> Option<Exit> {
    let meant = match flags::nearest(typed) {
        Some(name) => format!("; the nearest known one is {name}"),
        None => String::new(),
    };
    Some(Exit::usage(format!("unknown flag {typed}{meant} (qrun --help lists the flags)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<ParsedArgs, Exit> {
        let args: Vec<OsString> = line.split(' ').filter(|w| !w.is_empty()).map(Into::into).collect();
        normalise(&args, false)
    }

    #[test]
    fn lines_as_people_type_them() {
        let cases = [
            ("m.gguf -ngl 99 -n -1", "m.gguf --gpu-layers=99 --predict=-1"),
            ("-m m.gguf --color -p hi", "--model=m.gguf --color=on --prompt=hi"),
            ("--color off -fa -p hi", "--color=off --prompt=hi"),
            ("-fa on -p hi", "--prompt=hi"),
            ("-fa 1 --color 0 -rea disabled -fit true -p hi", "--color=off --reasoning=off --prompt=hi"),
            ("-rea -1 --color=Enabled", "--reasoning=auto --color=on"),
            ("--top_k=5 --no-escape -no-cnv", "--top-k=5 --escape=off --conversation=off"),
            ("-st -r -- x", "--single-turn=on --reverse-prompt=-- x"),
            ("-- -p", "-- -p"),
            ("--repeat-last-n -1 --temp=0", "--repeat-last-n=-1 --temp=0"),
            ("--mirostat 0 --dry-multiplier 0.0 --rope-scale 1", ""),
            ("--json=off", "--json=off"),
            ("--no-escape=0 --no-repack=1 -no-cnv=off", "--escape=on --repack=off --conversation=on"),
            ("-", "-"),
        ];
        for (typed, wanted) in cases {
            let parsed = run(typed).unwrap_or_else(|e| panic!("{typed}: {}", e.message));
            let argv: Vec<_> = parsed.given.iter().map(|g| g.to_word().to_string_lossy().into_owned()).collect();
            assert_eq!(argv.join(" "), wanted, "{typed}");
        }
    }

    #[test]
    fn what_is_not_supported_says_why() {
        let cases = [
            ("--tmep 0", "--temp"),
            ("--mirostat 2", "not implemented"),
            ("--grammar x", "not implemented"),
            ("-p", "needs a value (TEXT)"),
            ("-p -n 5", "the flag -n"),
            ("--context-shift", "-c"),
            ("-dr a/b", "-hf USER/REPO"),
            ("--json=maybe", "on or off"),
            ("--mlock 1", "--mlock takes no value, found 1"),
            ("m.gguf -cnv off -p x", "write -cnv=off"),
            ("-m m.gguf --no-repack false", "--no-repack takes no value"),
        ];
        for (typed, part) in cases {
            let error = run(typed).expect_err(typed);
            assert!(error.message.contains(part), "{typed}: {}", error.message);
        }
    }
}
