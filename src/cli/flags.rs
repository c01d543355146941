//! THE table of flags: what people type, what qrun makes of it. Parser, help, shell completions and
//! the answer to an unknown flag are all read off it.
//!
//! To add a flag: a row in `flags/used.rs`, which says what it sets (for sampling: a parameter that is there).

mod flag;
mod foreign;
mod serve;
mod server;
mod speculative;
mod used;
mod value;

pub use flag::{Apply, Flag, Group, Status};
pub use value::{Check, Takes};

/// All rows: those that qrun supports first.
pub fn all() -> impl Iterator<Item = &'static Flag> + Clone {
    let others = [serve::FLAGS, foreign::FLAGS, speculative::FLAGS, server::FLAGS].into_iter().flatten();
    supported().chain(others)
}

/// The rows that the parser knows.
pub fn supported() -> impl Iterator<Item = &'static Flag> + Clone {
    used::FLAGS.iter().chain(speculative::USED)
}

/// The rows that `qrun serve` has besides.
pub fn serving() -> impl Iterator<Item = &'static Flag> {
    serve::FLAGS.iter()
}

/// Rows of llama.cpp's programs that qrun answers without having them.
pub fn foreign() -> impl Iterator<Item = &'static Flag> + Clone {
    let noted = serve::FLAGS.iter().filter(|flag| matches!(flag.status, Status::ServeOrNoted(_)));
    foreign::FLAGS.iter().chain(noted)
}

/// The row of a word as typed, and whether this spelling switches it on. `_` counts as `-` in long flags.
pub fn find(word: &str) -> Option<(&'static Flag, bool)> {
    find_in(all(), word)
}

/// The same in some rows.
pub fn find_in(rows: impl Iterator<Item = &'static Flag> + Clone, word: &str) -> Option<(&'static Flag, bool)> {
    let dashed = if word.starts_with("--") { word.replace('_', "-") } else { word.to_owned() };
    let spelled = |name: &str| rows.clone().find_map(|f| f.spellings().find(|s| s.0 == name).map(|s| (f, s.1)));
    // `--ngl` is not a flag of llama.cpp, but there is only one thing it can mean.
    spelled(&dashed).or_else(|| dashed.strip_prefix('-').filter(|s| s.len() > 3).and_then(spelled))
}

/// The known spelling nearest to an unknown one, if one is near enough to be meant.
pub fn nearest(word: &str) -> Option<&'static str> {
    let names = all().flat_map(|f| f.spellings().map(|s| s.0));
    crate::nearest::of(names, &word.replace('_', "-"), |name| name.trim_start_matches('-'))
}

/// The one of `words` that is meant: by itself in any case, or as llama.cpp also spells on, off and auto.
pub fn one_of(words: &[&'static str], word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let meant = match word.as_str() {
        "1" | "true" | "yes" | "enabled" => "on",
        "0" | "false" | "no" | "disabled" => "off",
        "-1" => "auto",
        other => other,
    };
    words.iter().find(|w| **w == meant).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::cli::args::Args;

    #[test]
    fn no_spelling_stands_twice() {
        let mut seen = HashSet::new();
        for flag in all() {
            for (name, _) in flag.spellings() {
                assert!(seen.insert(name), "{name} stands in two rows");
            }
            assert!(!flag.help.is_empty(), "{} says nothing", flag.names);
        }
        let ids: HashSet<_> = supported().chain(serving()).map(Flag::id).collect();
        assert_eq!(ids.len(), supported().chain(serving()).count());
    }

    /// Each row changes something when it is given a value that is not the default.
    #[test]
    fn every_row_has_an_effect() {
        let default = format!("{:?}", Args::default());
        for flag in supported().chain(serving()) {
            let candidates: &[&str] = match flag.takes {
                Takes::Nothing | Takes::Maybe(_) => &["on", "off"],
                Takes::One(..) | Takes::Two(_) => {
                    &["3", "2", "0.5", "cpu", "q8_0", "7+1", "top_k", "none", "draft-mtp"]
                }
            };
            let changes = |given: &&&str| {
                let mut args = Args::default();
                flag.takes.read((**given).as_ref()).is_ok_and(|value| {
                    (flag.apply)(&mut args, value);
                    format!("{args:?}") != default
                })
            };
            assert!(candidates.iter().find(changes).is_some(), "{} changes nothing", flag.names);
        }
    }

    #[test]
    fn the_nearest_name_is_what_was_meant() {
        let cases = [
            ("--tmep", Some("--temp")),
            ("--topk", Some("--top-k")),
            ("--max-tokens", None),
            ("-nlg", Some("-ngl")),
            ("--promt", Some("--prompt")),
            ("--contex-size", Some("--ctx-size")),
            ("--xyzzyplugh", None),
        ];
        for (typed, meant) in cases {
            let found = nearest(typed);
            assert!(meant.is_none() || found == meant, "{typed}: {found:?}");
        }
        assert_eq!(nearest("--xyzzyplugh-frobnicate"), None);
    }

    #[test]
    fn underscores_and_double_dashes_are_forgiven() {
        for word in ["--top_k", "--top-k"] {
            assert_eq!(find(word).map(|f| f.0.id()), Some("top-k"));
        }
        assert_eq!(find("--ngl").map(|f| f.0.id()), Some("gpu-layers"));
        assert_eq!(find("--no-escape").map(|f| (f.0.id(), f.1)), Some(("escape", false)));
        assert!(find("--p").is_none());
    }
}
