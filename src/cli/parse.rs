//! The command line of `qrun [MODEL] [flags]` from words to [`Args`].

use std::{ffi::OsString, path::PathBuf};

use super::{
    args::Args,
    exit::Exit,
    normalise::{self, Given},
};

/// The command line, and what is to be said about it.
#[derive(Debug)]
pub struct Parsed {
    pub args: Args,
    /// Lines for stderr about flags that have no effect here.
    pub warnings: Vec<String>,
    /// Lines for one who asks with `-v`.
    pub details: Vec<String>,
}

/// Reads the words (without the program name). `env` reads an environment variable; the command line wins over it.
/// `first` judges the first word that is not a flag, one of so many. `serving`: the words stand behind `qrun serve`.
///
/// # Errors
/// Exit code 2: a flag or a value that is not supported, two models, a word too much.
pub fn parse(
    words: &[OsString],
    serving: bool,
    env: impl Fn(&str) -> Option<OsString>,
    first: impl Fn(&std::path::Path, usize) -> Result<(), Exit>,
) -> Result<Parsed, Exit> {
    let mut args = Args::default();
    let environment = normalise::environment(env, serving)?;
    apply(&environment.given, &mut args)?;
    let default = args.model.take();
    let mut line = normalise::normalise(words, serving)?;
    let models = apply(&line.given, &mut args)?;
    // Help is for those who do not know yet what to name.
    if args.show.is_none() {
        if let Some(word) = models.first() {
            first(word, models.len())?;
        }
        args.model = one_model(models, args.model.take())?.or(default);
    }
    line.warnings.splice(0..0, environment.warnings);
    Ok(Parsed { args, warnings: line.warnings, details: environment.details })
}

/// Lets the flags have their effect; returns the words that are not flags.
fn apply(given: &[Given], args: &mut Args) -> Result<Vec<PathBuf>, Exit> {
    let mut words = Vec::new();
    for given in given {
        match given {
            Given::End => {}
            Given::Word(word) => words.push(word.into()),
            Given::Flag(flag, value) => {
                let wrong = |expected| {
                    let value = value.display().to_string();
                    Exit::usage(format!("invalid value {value:?} for --{}: {expected}", flag.id()))
                };
                (flag.apply)(args, flag.takes.read(value).map_err(wrong)?);
            }
        }
    }
    Ok(words)
}

/// The model: a word, or what `-m` names.
fn one_model(words: Vec<PathBuf>, flag: Option<PathBuf>) -> Result<Option<PathBuf>, Exit> {
    match (words.as_slice(), flag) {
        ([], flag) => Ok(flag),
        ([word], None) => Ok(Some(word.clone())),
        ([word], Some(flag)) => {
            Err(Exit::usage(format!("two models: {} and --model {}; name one", word.display(), flag.display())))
        }
        ([model, word, ..], _) => Err(Exit::usage(format!(
            "unexpected word {:?}: the model is {}; a prompt goes behind -p",
            word.display().to_string(),
            model.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Args, Exit> {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        parse(&words, false, |name| (name == "LLAMA_ARG_MODEL").then(|| "default.gguf".into()), |_, _| Ok(()))
            .map(|parsed| parsed.args)
    }

    #[test]
    fn flags_have_their_effect_and_the_last_one_wins() {
        let args =
            run("m.gguf --top-k 5 --top-k 7 -l 1+2 -l 3-inf -no-cnv -i -ngl 0 -ctk Q8_0 -v").expect("good flags");
        assert_eq!(args.model, Some("m.gguf".into()));
        assert_eq!((args.sampling.params.top_k, args.sampling.said.contains(&"top_k")), (7, true));
        assert_eq!(args.sampling.params.logit_bias, [(1, 2.0), (3, f32::NEG_INFINITY)]);
        assert_eq!(args.chat.conversation, Some(false));
        assert_eq!(args.machine.preference(), crate::engine::DevicePreference::Cpu);
        assert_eq!((args.machine.type_k, args.output.verbosity), (Some(qrun_models::KvType::Q8_0), 4));
        assert_eq!(run("-p x").expect("good flags").model, Some("default.gguf".into()));
        assert!(run("a.gguf -m b.gguf").expect_err("two models").message.contains("two models"));
        assert!(run("a.gguf b").expect_err("two words").message.contains("unexpected word"));
    }
}
