//! The commands of a chat.

use std::path::Path;

use qrun::{plan::human_bytes, session::Loaded};
use serde_json::json;

use super::{Chat, files, history, settings};
use crate::cli::{exit::Exit, flags, input::LONGEST_PROMPT};

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
    ("/clear", "", Command::Clear, "forget the conversation"),
    ("/drop", "[N]", Command::Drop, "forget the oldest turn, or the N oldest"),
    ("/read", "FILE", Command::Read, "put a text file in front of the next message"),
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
    /// The command of a line and what follows it; what is wrong with the word when there is no such command. Letters
    /// may be capital, and the end of a word may be missing.
    pub fn parse(line: &str) -> Result<(Command, &str), String> {
        let (typed, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let word = typed.to_ascii_lowercase();
        let mut begin = COMMANDS.iter().filter(|row| word.len() > ENOUGH && row.0.starts_with(&word));
        let row = COMMANDS.iter().find(|row| row.0 == word).or_else(|| begin.next().filter(|_| begin.next().is_none()));
        let unknown = || {
            let meant = flags::nearest_of(COMMANDS.iter().map(|row| row.0), &word, |name| name);
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

impl Chat {
    /// Does what a command asks for; what goes wrong is said and changes nothing.
    pub fn execute(&mut self, command: Command, rest: &str) -> Result<(), Exit> {
        match (command, rest) {
            (Command::Help, _) => self.say(&summary()),
            (Command::Regen, _) => self.regenerate()?,
            (Command::Clear, _) => {
                self.clear();
                self.say("Chat history cleared.");
            }
            (Command::Read, "") => self.say("/read needs a file"),
            (Command::Glob, "") => self.say("/glob needs a pattern"),
            (Command::Save | Command::Replace, "") => self.say("/save needs a file"),
            (Command::Load, "") => self.say("/load needs a file"),
            (Command::Read, file) => self.read(&[files::home(file)]),
            (Command::Glob, pattern) => match files::glob(pattern) {
                Ok(found) if found.is_empty() => self.say(&format!("no file matches {pattern}")),
                Ok(found) => self.read(&found),
                Err(why) => self.say(&format!("error: {why}")),
            },
            (Command::Save, file) => match files::may_be_saved_to(&files::home(file), self.model()) {
                Ok(()) => self.save(&files::home(file)),
                Err(why) => self.say(&format!("error: {why}")),
            },
            (Command::Replace, file) => match files::may_be_replaced(&files::home(file), self.model()) {
                Ok(()) => self.save(&files::home(file)),
                Err(why) => self.say(&format!("error: {why}")),
            },
            (Command::Drop, n) => self.drop(n),
            (Command::Load, file) => self.load(&files::home(file)),
            (Command::Set, rest) => self.set(rest),
            (Command::Stats, _) => self.stats(),
            (Command::Tokens, text) => self.tokens(text),
            (Command::Exit, _) => {}
        }
        Ok(())
    }

    /// The last answer once more. Another seed, or the answer would be the same.
    fn regenerate(&mut self) -> Result<(), Exit> {
        let dropped = self.messages.pop_if(|m| m.role == "assistant");
        if self.messages.last().is_none_or(|m| m.role != "user") {
            self.messages.extend(dropped);
            self.say("Nothing to answer again.");
            return Ok(());
        }
        let params = self.session.params_mut();
        params.seed = (params.seed + 1) & u64::from(u32::MAX);
        if !self.answer()? {
            self.messages.extend(dropped);
        }
        Ok(())
    }

    fn model(&self) -> &Path {
        self.session.engine().gguf().path()
    }

    fn read(&mut self, files: &[std::path::PathBuf]) {
        for file in files {
            let text = match files::read_text(file, LONGEST_PROMPT.saturating_sub(self.pending.len() as u64)) {
                Ok(text) => text,
                Err(why) => {
                    self.say(&format!("error: {}: {why}", file.display()));
                    continue;
                }
            };
            let newline = if text.ends_with('\n') { "" } else { "\n" };
            self.pending.push_str(&format!("--- File: {} ---\n{text}{newline}", file.display()));
            self.say(&format!("Loaded text from '{}' ({} bytes)", file.display(), text.len()));
        }
    }

    fn drop(&mut self, n: &str) {
        let Ok(n) = (if n.is_empty() { Ok(1) } else { n.parse::<usize>() }) else {
            return self.say("/drop needs a number of turns");
        };
        let turns = history::count(&self.messages);
        let dropped = n.min(turns);
        if dropped == 0 {
            return self.say("Nothing to drop.");
        }
        (0..dropped).for_each(|_| {
            if !history::drop_oldest(&mut self.messages) {
                self.messages.retain(|m| m.role == "system");
            }
        });
        let (used, n_ctx) = (self.used(), self.session.n_ctx());
        self.say(&format!("Dropped {}; {used} of {n_ctx} tokens used", history::turns(dropped)));
    }

    fn save(&mut self, file: &Path) {
        let notes = json!({ "messages": self.messages, "system": self.system, "pending": self.pending });
        match self.session.save(file, &notes) {
            Ok(()) => self.say(&format!("Saved {} to '{}'", history::messages(self.messages.len()), file.display())),
            Err(error) => self.say(&format!("error: {error}")),
        }
    }

    /// The saved conversation in place of this one. Its cache is of use to the same model with the same types only; its
    /// text is to any.
    fn load(&mut self, file: &Path) {
        let Loaded { mut notes, computed_again } = match self.session.load(file) {
            Ok(loaded) => loaded,
            Err(error) => return self.say(&format!("error: {error}; the conversation is as it was")),
        };
        self.messages = serde_json::from_value(notes["messages"].take()).unwrap_or_default();
        self.system = notes["system"].as_str().map(Into::into);
        self.pending = notes["pending"].as_str().unwrap_or_default().into();
        self.last = None;
        let loaded = format!("Loaded {}", history::messages(self.messages.len()));
        match computed_again {
            None => {
                let tokens = self.session.cached().len();
                self.say(&format!("{loaded} ({tokens} tokens) from '{}'", file.display()));
            }
            Some(why) => {
                self.say(&format!("{loaded}, but not their cache: {why}. The next message computes it again"));
            }
        }
    }

    fn set(&mut self, rest: &str) {
        match rest.split_once(char::is_whitespace).map_or((rest, ""), |(name, text)| (name, text.trim())) {
            ("", _) => {
                let list = settings::list(self.session.params(), self.request.max_tokens);
                self.say(&format!("{list}\n{}", self.system_prompt()));
            }
            ("system", "") => self.say(&self.system_prompt()),
            ("system", "-" | "''" | "\"\"") => {
                self.set_system(None);
                self.say("system prompt removed");
            }
            ("system", text) => {
                self.set_system(Some(text.to_owned()));
                self.say("system prompt set");
            }
            _ => match settings::set(self.session.params_mut(), &mut self.request.max_tokens, rest) {
                Ok(said) => self.say(&said),
                Err(why) => self.say(&format!("error: {why}")),
            },
        }
    }

    fn set_system(&mut self, text: Option<String>) {
        self.messages.retain(|m| m.role != "system");
        if let Some(text) = &text {
            self.messages.insert(0, qrun::template::Message::new("system", text));
        }
        self.system = text;
    }

    fn system_prompt(&self) -> String {
        match &self.system {
            Some(text) => format!("system {text}\n(/set system - removes it)"),
            None => "system: none (/set system TEXT sets one)".into(),
        }
    }

    fn stats(&self) {
        if let Some(reply) = &self.last {
            let t = &reply.timings;
            self.say(&format!(
                "last answer: {} prompt tokens ({} from the cache) in {:.0} ms, {} tokens in {:.0} ms ({:.1} t/s), ended by {}",
                t.prompt_n + t.cache_n, t.cache_n, t.prompt_ms, t.predicted_n, t.predicted_ms,
                t.predicted_per_second(), reply.finish.name()
            ));
        }
        let plan = self.session.engine().plan();
        let (cached, n_ctx) = (self.session.cached().len(), self.session.n_ctx());
        self.say(&format!(
            "weights {}, KV cache {} of {} at most, {} per token read; {cached} of {n_ctx} tokens cached",
            human_bytes(plan.bytes.weights),
            human_bytes(self.session.kv_bytes()),
            human_bytes(plan.bytes.kv),
            human_bytes(self.session.bytes_per_token())
        ));
    }

    fn tokens(&self, text: &str) {
        if text.is_empty() {
            let (used, n_ctx) = (self.used(), self.session.n_ctx());
            return self.say(&format!("{used} of {n_ctx} tokens used, {}", history::messages(self.messages.len())));
        }
        match self.session.engine().tokenizer().encode(text, qrun::tokenizer::Encode::PLAIN) {
            Ok(ids) => self.say(&format!("{} tokens: {ids:?}", ids.len())),
            Err(error) => self.say(&format!("error: {error}")),
        }
    }
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
