//! Shell completions, from the same table as the parser.

use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::Shell;
use qrun_models::KvType;

use super::flags::{self, Check, Flag, Takes};

/// The script for a shell; `with_jobs` adds the jobs to the command.
pub fn script(shell: Shell, with_jobs: fn(Command) -> Command) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut with_jobs(command()), "qrun", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The command line as a shell should know it: one- and many-letter spellings, files as values.
fn command() -> Command {
    let model = Arg::new("MODEL").value_hint(ValueHint::FilePath);
    let command = Command::new("qrun").disable_help_flag(true).disable_version_flag(true).arg(model);
    flags::supported().fold(command, |c, flag| c.arg(argument(flag)))
}

fn argument(flag: &'static Flag) -> Arg {
    let arg = Arg::new(flag.id()).long(flag.id()).help(flag.help);
    let arg = flag.spellings().filter(|s| s.1).fold(arg, |arg, (name, _)| match name.strip_prefix("--") {
        Some(long) if long != flag.id() => arg.visible_alias(long),
        None if name.len() == 2 => arg.short(name.chars().nth(1)),
        // Several letters behind one dash are more than the shells' scripts know; qrun takes them behind two as well.
        None if name.len() > 3 => arg.visible_alias(name.trim_start_matches('-')),
        _ => arg,
    });
    match flag.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::Maybe(words) => arg.num_args(0..=1).value_parser(words.to_vec()),
        Takes::One(name, Check::File) => arg.value_name(name).value_hint(ValueHint::FilePath),
        Takes::One(name, Check::CacheType) => arg.value_name(name).value_parser(KvType::ALL.map(KvType::name)),
        Takes::One(name, Check::Device) => arg.value_name(name).value_parser(["auto", "cuda", "cpu"]),
        Takes::One(name, _) | Takes::Two(name) => arg.value_name(name),
    }
}
