//! llama-bench's flags as people type them, rewritten for clap, which knows no word of several letters behind one dash.

use std::ffi::OsString;

use crate::cli::exit::Exit;

/// What becomes of a flag.
enum Handling {
    /// It has this name here.
    Alias(&'static str),
    /// It is accepted without effect, for this reason; a value follows.
    Ignored(&'static str),
    /// The same without a value.
    IgnoredSwitch(&'static str),
    /// It would change what is measured: only this value is accepted, which is what is measured anyway.
    OnlyValue(&'static str, &'static str),
    /// It would change what is measured.
    Refused(&'static str),
}
use Handling::{Alias, Ignored, IgnoredSwitch, OnlyValue, Refused};

const THREADS: &str = "the operating system places threads";
const MAPPED: &str = "the file is always mapped";
const MOE: &str = "mixture-of-experts models and partial off-load are not implemented";
const ONE_DEVICE: &str = "one device runs the whole model";
const DOWNLOAD: &str = "qrun does not download models; name a GGUF file";
const CONTEXT: &str = "the context is as long as the longest test needs";
const NOTHING_LIKE_IT: &str = "has no counterpart in qrun";

/// Every spelling of llama-bench's that clap does not take as it is.
#[rustfmt::skip]
const WORDS: &[(&[&str], Handling)] = &[
    (&["-pg"], Alias("--pg")),
    (&["-ub"], Alias("--ubatch-size")),
    (&["-ctk"], Alias("--cache-type-k")),
    (&["-ctv"], Alias("--cache-type-v")),
    (&["-ngl", "--gpu-layers"], Alias("--n-gpu-layers")),
    (&["-dev"], Alias("--device")),
    (&["-oe"], Alias("--output-err")),
    (&["-rpk"], Alias("--repack")),
    (&["-fa", "--flash-attn"], Ignored("attention never stores the whole score matrix")),
    (&["-sm", "--split-mode"], Ignored(ONE_DEVICE)),
    (&["-lm", "--load-mode"], Ignored(MAPPED)),
    (&["-lzm", "--lazy-mode"], Ignored(MAPPED)),
    (&["-mmp", "--mmap"], Ignored(MAPPED)),
    (&["-dio", "--direct-io"], Ignored(MAPPED)),
    (&["--prio"], Ignored(THREADS)),
    (&["--poll"], Ignored(THREADS)),
    (&["--numa"], Ignored(THREADS)),
    (&["-C", "--cpu-mask"], Ignored(THREADS)),
    (&["--cpu-strict"], Ignored(THREADS)),
    (&["-fitt", "--fit-target"], Ignored(CONTEXT)),
    (&["-fitc", "--fit-ctx"], Ignored(CONTEXT)),
    (&["-nopo", "--no-op-offload"], Ignored(NOTHING_LIKE_IT)),
    (&["--no-host"], Ignored(NOTHING_LIKE_IT)),
    (&["-v", "--verbose"], IgnoredSwitch("everything there is to say is said")),
    (&["--progress"], IgnoredSwitch("a terminal shows progress in any case")),
    (&["--offline"], IgnoredSwitch("qrun never uses the network")),
    (&["-mg", "--main-gpu"], OnlyValue("0", ONE_DEVICE)),
    (&["-ts", "--tensor-split"], OnlyValue("0", ONE_DEVICE)),
    (&["-nkvo", "--no-kv-offload"], OnlyValue("0", "the cache lives where the model runs")),
    (&["-embd", "--embeddings"], OnlyValue("0", "embeddings are not implemented")),
    (&["-ncmoe", "--n-cpu-moe"], OnlyValue("0", MOE)),
    (&["-ot", "--override-tensor"], Refused(MOE)),
    (&["-rpc", "--rpc"], Refused("remote back ends are not implemented")),
    (&["-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-hft", "--hf-token"], Refused(DOWNLOAD)),
];

/// The words for clap, and what is to be said info those that are not among them.
pub fn rewrite(words: &[OsString]) -> Result<(Vec<OsString>, Vec<String>), Exit> {
    let (mut for_clap, mut notes) = (Vec::new(), Vec::new());
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            for_clap.push(word.clone());
            for_clap.extend(rest.cloned());
            break;
        }
        let (typed, inline) = match word.to_str().and_then(|w| w.split_once('=')) {
            Some((name, value)) => (name, Some(value)),
            None => (word.to_str().unwrap_or_default(), None),
        };
        let Some((_, handling)) = WORDS.iter().find(|(names, _)| names.contains(&typed)) else {
            if several_letters(typed) {
                return Err(Exit::usage(format!("unknown flag {typed} (qrun bench --help lists the flags)")));
            }
            for_clap.push(word.clone());
            continue;
        };
        let mut value = || {
            let next = || rest.next_if(|w| !is_flag(&w.to_string_lossy())).map(|w| w.to_string_lossy().into_owned());
            inline.map(str::to_owned).or_else(next)
        };
        match handling {
            Alias(name) => {
                for_clap.push(inline.map_or_else(|| (*name).into(), |value| format!("{name}={value}").into()));
            }
            Ignored(why) => {
                value();
                notes.push(format!("{typed} has no effect: {why}"));
            }
            IgnoredSwitch(why) => notes.push(format!("{typed} has no effect: {why}")),
            OnlyValue(same, _) if value().as_deref() == Some(*same) => {}
            OnlyValue(same, why) => return Err(Exit::usage(format!("{typed}: {why} (only {same} is accepted)"))),
            Refused(why) => return Err(Exit::usage(format!("{typed}: {why}"))),
        }
    }
    notes.dedup();
    Ok((for_clap, notes))
}

/// A dash and no number.
fn is_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Several letters behind one dash, which clap would take for flags of one letter each.
fn several_letters(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.len() > 1 && rest.chars().all(|c| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<(String, usize), Exit> {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let (words, notes) = rewrite(&words)?;
        let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
        Ok((words.join(" "), notes.len()))
    }

    #[test]
    fn lines_as_people_type_them() {
        let cases = [
            ("-m m.gguf -p 512 -n 128 -pg 8,4", "-m m.gguf -p 512 -n 128 --pg 8,4", 0),
            ("-ngl 99 -fa 1 -ctk q8_0 -ctv=f16 m", "--n-gpu-layers 99 --cache-type-k q8_0 --cache-type-v=f16 m", 1),
            ("-fa -p 4", "-p 4", 1),
            ("-sm none --poll 0 --prio -1 -mg 0 -p 4", "-p 4", 3),
            ("-mmp 0 --mmap 1 -v", "", 3),
            ("-oe csv -ngl -1", "--output-err csv --n-gpu-layers -1", 0),
            ("-- -fa", "-- -fa", 0),
        ];
        for (typed, words, notes) in cases {
            let found = run(typed).unwrap_or_else(|e| panic!("{typed}: {}", e.message));
            assert_eq!(found, (words.to_owned(), notes), "{typed}");
        }
    }

    #[test]
    fn what_would_change_the_measurement_is_refused_by_name() {
        for typed in ["-mg 1", "-nkvo 1", "-hf a/b", "-ot x=y", "-embd"] {
            let name = typed.split(' ').next().unwrap_or_default();
            let error = run(typed).expect_err(typed);
            assert!(error.message.starts_with(&format!("{name}: ")), "{typed}: {}", error.message);
        }
        assert!(run("-xyz 1").expect_err("no flag").message.contains("unknown flag -xyz"));
    }
}
