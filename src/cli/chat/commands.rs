//! The commands of a chat.

use std::path::Path;

use qrun::session;
use serde_json::json;

use super::{Chat, files, settings};
use crate::cli::{exit::Exit, info};

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
    Load,
    Set,
    Stats,
    Tokens,
}

/// All commands: the word, what follows it, and what it does.
const COMMANDS: &[(&str, &str, Command, &str)] = &[
    ("/help", "", Command::Help, "this list"),
    ("/exit", "", Command::Exit, "leave; also /quit, /bye, Ctrl-D"),
    ("/quit", "", Command::Exit, ""),
    ("/bye", "", Command::Exit, ""),
    ("/regen", "", Command::Regen, "answer the last message again"),
    ("/clear", "", Command::Clear, "forget the conversation"),
    ("/read", "FILE", Command::Read, "put a text file in front of the next message"),
    ("/glob", "PATTERN", Command::Glob, "the same for all files of a pattern (* ? **)"),
    ("/save", "FILE", Command::Save, "save the conversation with its cache"),
    ("/load", "FILE", Command::Load, "go on with a saved conversation"),
    ("/set", "[NAME VALUE]", Command::Set, "show or change temp, top-k, top-p, min-p, seed, system …"),
    ("/stats", "", Command::Stats, "times of the last answer, memory in use"),
    ("/tokens", "[TEXT]", Command::Tokens, "tokens in the conversation, or of a text"),
];

impl Command {
    /// The command of a line and what follows it; the word itself when there is no such command.
    pub fn parse(line: &str) -> Result<(Command, &str), &str> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let row = COMMANDS.iter().find(|row| row.0 == word).ok_or(word)?;
        Ok((row.2, rest.trim()))
    }

    /// The words, for completion.
    pub fn words() -> impl Iterator<Item = &'static str> {
        COMMANDS.iter().map(|row| row.0)
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
            (Command::Save, "") => self.say("/save needs a file"),
            (Command::Load, "") => self.say("/load needs a file"),
            (Command::Read, file) => self.read(&[files::home(file)]),
            (Command::Glob, pattern) => match files::glob(pattern) {
                Ok(found) if found.is_empty() => self.say(&format!("no file matches {pattern}")),
                Ok(found) => self.read(&found),
                Err(why) => self.say(&format!("error: {why}")),
            },
            (Command::Save, file) => self.save(&files::home(file)),
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

    fn read(&mut self, files: &[std::path::PathBuf]) {
        for file in files {
            match std::fs::read(file).map(String::from_utf8) {
                Ok(Ok(text)) => {
                    let newline = if text.ends_with('\n') { "" } else { "\n" };
                    self.pending.push_str(&format!("--- File: {} ---\n{text}{newline}", file.display()));
                    self.say(&format!("Loaded text from '{}' ({} bytes)", file.display(), text.len()));
                }
                Ok(Err(error)) => {
                    let at = error.utf8_error().valid_up_to();
                    self.say(&format!("error: {}: expected UTF-8 text, found another byte at {at}", file.display()));
                }
                Err(error) => self.say(&format!("error: {}: {error}", file.display())),
            }
        }
    }

    fn save(&mut self, file: &Path) {
        let notes = json!({ "messages": self.messages, "system": self.system, "pending": self.pending });
        match self.session.save(file, &notes) {
            Ok(()) => self.say(&format!("Saved {} messages to '{}'", self.messages.len(), file.display())),
            Err(error) => self.say(&format!("error: {error}")),
        }
    }

    fn load(&mut self, file: &Path) {
        let session::Loaded { mut notes, computed_again } = match self.session.load(file) {
            Ok(loaded) => loaded,
            Err(error) => return self.say(&format!("error: {error}; the conversation is as it was")),
        };
        self.messages = serde_json::from_value(notes["messages"].take()).unwrap_or_default();
        self.system = notes["system"].as_str().map(Into::into);
        self.pending = notes["pending"].as_str().unwrap_or_default().into();
        self.last = None;
        if let Some(why) = computed_again {
            self.say(&format!(
                "note: the saved cache is not used ({why}); the conversation is computed again with the next message"
            ));
        }
        let tokens = self.session.cached().len();
        self.say(&format!("Loaded {} messages ({tokens} tokens) from '{}'", self.messages.len(), file.display()));
    }

    fn set(&mut self, rest: &str) {
        if let Some(text) = rest.strip_prefix("system ") {
            self.system = Some(text.trim().to_owned());
            self.messages.retain(|m| m.role != "system");
            self.messages.insert(0, qrun::template::Message::new("system", text.trim()));
            return self.say("system prompt set");
        }
        let limit = &mut self.request.max_tokens;
        match settings::set(self.session.params_mut(), limit, rest) {
            Ok(said) => self.say(&said),
            Err(why) => self.say(&format!("error: {why}")),
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
            info::bytes(plan.bytes.weights),
            info::bytes(self.session.kv_bytes()),
            info::bytes(plan.bytes.kv),
            info::bytes(self.session.bytes_per_token())
        ));
    }

    fn tokens(&self, text: &str) {
        if text.is_empty() {
            let (used, n_ctx) = (self.session.cached().len(), self.session.n_ctx());
            return self.say(&format!("{used} of {n_ctx} tokens used, {} messages", self.messages.len()));
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
    fn only_whole_words_are_commands() {
        assert_eq!(Command::parse("/read  a b.txt "), Ok((Command::Read, "a b.txt")));
        assert_eq!(Command::parse("/bye"), Ok((Command::Exit, "")));
        assert_eq!(Command::parse("/exitus now"), Err("/exitus"));
        assert_eq!(Command::parse("/"), Err("/"));
    }
}
