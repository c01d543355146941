//! The commands of a chat.

/// What a line with a slash asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Command {
    Help,
    Exit,
    Regen,
    Clear,
    Read,
    Glob,
    Save,
    Replace,
    Load,
    Drop,
    Set,
    Stats,
    Tokens,
}

/// All commands: the word, what follows it, and what it does.
const COMMANDS: &[(&str, &str, Command, &str)] = &[
    ("/help", "", Command::Help, "this list"),
    ("/?", "", Command::Help, ""),
    ("/exit", "", Command::Exit, "leave; also /quit, /bye, Ctrl-D"),
    ("/quit", "", Command::Exit, ""),
    ("/bye", "", Command::Exit, ""),
    ("/regen", "", Command::Regen, "answer the last message again"),
    ("/regenerate", "", Command::Regen, ""),
    ("/clear", "", Command::Clear, "forget the conversation"),
    ("/drop", "[N]", Command::Drop, "forget the oldest turn, or the N oldest"),
    ("/read", "FILE", Command::Read, "put a text file in front of the next message; - forgets it"),
    ("/glob", "PATTERN", Command::Glob, "the same for all files of a pattern (* ? **)"),
    ("/save", "FILE", Command::Save, "save the conversation with its cache; /save! replaces any file"),
    ("/save!", "FILE", Command::Replace, ""),
    ("/load", "FILE", Command::Load, "go on with a saved conversation"),
    ("/set", "[NAME VALUE]", Command::Set, "show or change temp, top-k, top-p, min-p, seed, system …"),
    ("/stats", "", Command::Stats, "times of the last answer, memory in use"),
    ("/tokens", "[TEXT]", Command::Tokens, "tokens in the conversation, or of a text"),
];

/// Letters of a command that are enough to mean it, if no other begins with them.
const ENOUGH: usize = 3;

impl Command {
    /// The command of a line and what follows it. Letters may be capital, and the end of a word may be missing.
    ///
    /// # Errors
    /// There is no such command: what was typed, and the nearest one.
    pub fn parse(line: &str) -> Result<(Command, &str), String> {
        let (typed, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let word = typed.to_ascii_lowercase();
        let mut begin = COMMANDS.iter().filter(|row| word.len() > ENOUGH && row.0.starts_with(&word));
        let row = COMMANDS
            .iter()
            .find(|row| row.0 == word)
            .or_else(|| begin.next().filter(|row| begin.all(|other| other.2 == row.2)));
        let unknown = || {
            let meant =
                crate::nearest::of(COMMANDS.iter().map(|row| row.0).filter(|name| *name != "/?"), &word, |name| name);
            match meant.filter(|_| word.len() > 1) {
                Some(name) => format!("unknown command {typed}; did you mean {name}?"),
                None => format!("unknown command {typed}; /help lists the commands"),
            }
        };
        row.map(|row| (row.2, rest.trim())).ok_or_else(unknown)
    }

    /// The words, for completion.
    pub fn words() -> impl Iterator<Item = &'static str> {
        COMMANDS.iter().filter(|row| !row.3.is_empty()).map(|row| row.0)
    }
}

/// The list that `/help` shows.
pub fn summary() -> String {
    let rows = COMMANDS.iter().filter(|row| !row.3.is_empty());
    let lines: Vec<String> =
        rows.map(|(word, rest, _, what)| format!("  {:<20} {what}", format!("{word} {rest}"))).collect();
    lines.join("\n")
        + "\n  //text               send text that begins with a slash\n  a line that ends in \\ goes on in the next"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_may_be_short_and_capital_but_not_wrong() {
        assert_eq!(Command::parse("/read  a b.txt "), Ok((Command::Read, "a b.txt")));
        assert_eq!(Command::parse("/bye"), Ok((Command::Exit, "")));
        assert_eq!(Command::parse("/Help"), Ok((Command::Help, "")));
        assert_eq!(Command::parse("/?"), Ok((Command::Help, "")));
        assert_eq!(Command::parse("/rege"), Ok((Command::Regen, "")));
        assert_eq!(Command::parse("/regenerate"), Ok((Command::Regen, "")));
        assert_eq!(Command::parse("/save! x"), Ok((Command::Replace, "x")));
        for (typed, said) in [
            ("/exitus now", "/exit?"),
            ("/quti", "/quit?"),
            ("/sa x", "/save?"),
            ("/", "/help lists"),
            ("/frobnicate", "/help lists"),
        ] {
            let error = Command::parse(typed).expect_err(typed);
            assert!(error.contains(said), "{typed}: {error}");
        }
    }
}
