//! What the commands of a chat do.

use std::path::Path;

use crate::{
    engine::plan::human_bytes,
    generate::{Loaded, may_be_replaced, may_be_saved_to},
};
use serde_json::json;

use super::{
    Chat, Sent,
    commands::{self, Command},
    files, history, settings,
};
use crate::cli::{exit::Exit, input::LONGEST_PROMPT};

impl Chat {
    /// Does what a command asks for; what goes wrong is said and changes nothing.
    ///
    /// # Errors
    /// `/regen` alone has some: those of an answer, as
    /// [`AnswerPrinter::answer`](crate::cli::reply::AnswerPrinter::answer).
    pub fn execute(&mut self, command: Command, rest: &str) -> Result<(), Exit> {
        match (command, rest) {
            (Command::Help, _) => self.say(&commands::summary()),
            (Command::Regen, _) => self.regenerate()?,
            (Command::Clear, _) => {
                self.clear();
                self.say("Chat history cleared.");
            }
            (Command::Read, "") => self.say("/read needs a file"),
            (Command::Glob, "") => self.say("/glob needs a pattern"),
            (Command::Save | Command::Replace, "") => self.say("/save needs a file"),
            (Command::Load, "") => self.say("/load needs a file"),
            (Command::Read, "-") => {
                self.pending.clear();
                self.say("No text waits for the next message.");
            }
            (Command::Read, file) => self.read(&[files::home(file)]),
            (Command::Glob, pattern) => match files::glob(pattern) {
                Ok(found) if found.is_empty() => self.say(&format!("no file matches {pattern}")),
                Ok(found) => self.read(&found),
                Err(why) => self.say(&format!("error: {why}")),
            },
            (Command::Save | Command::Replace, file) => {
                let file = files::home(file);
                let may = match command {
                    Command::Replace => may_be_replaced(&file, self.model()),
                    _ => may_be_saved_to(&file, self.model(), "/save! FILE replaces it"),
                };
                match may {
                    Ok(()) => self.save(&file),
                    Err(why) => self.say(&format!("error: {why}")),
                }
            }
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
        if self.answer()? != Sent::Answered {
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
            self.messages.insert(0, crate::text::template::Message::new("system", text));
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
            let speed = t.predicted_per_second();
            let speed = if speed > 0.0 { format!(" ({speed:.1} t/s)") } else { String::new() };
            self.say(&format!(
                "last answer: {} prompt tokens ({} from the cache) in {:.0} ms, {} tokens in {:.0} ms{speed}, ended by {}",
                t.prompt_n + t.cache_n, t.cache_n, t.prompt_ms, t.predicted_n, t.predicted_ms, reply.finish.name()
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
        match self.session.engine().tokenizer().encode(text, crate::text::tokenizer::Encode::PLAIN) {
            Ok(ids) => self.say(&format!("{} tokens: {ids:?}", ids.len())),
            Err(error) => self.say(&format!("error: {error}")),
        }
    }
}
