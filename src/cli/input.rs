//! Where the prompt comes from: `-p`, `-f`, `-bf`, and what is piped in.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::Path,
    time::Duration,
};

use super::{
    args::Input,
    exit::{Exit, system_error},
    terminal::Terminal,
};

/// The longest prompt that is read, in bytes: several times what the longest contexts hold.
pub const LONGEST_PROMPT: u64 = 64 << 20;
/// The longest text that a job measures, in bytes.
pub const LONGEST_TEXT: u64 = 1 << 30;

/// What the flags and a pipe say that the model should read.
#[derive(Debug, Default)]
pub struct Prompt {
    pub text: Option<String>,
    pub system: Option<String>,
}

impl Prompt {
    /// Gathers the prompt. A pipe is read to its end where `pipe` allows (a chat reads lines itself):
    /// alone it is the prompt, beside `-p` or `-f` it follows after an empty line, as with Ollama.
    ///
    /// # Errors
    /// Exit code 2: two prompts, two system prompts, or a file or a pipe that is too long, is not UTF-8 or cannot be
    /// opened. 1: it cannot be read.
    pub fn gather(input: &Input, terminal: &Terminal, pipe: Pipe) -> Result<Self, Exit> {
        let named = [input.prompt.is_some(), input.file.is_some(), input.binary_file.is_some()];
        if named.iter().filter(|&&n| n).count() > 1 {
            return Err(Exit::usage("two prompts: give one of -p, -f and -bf"));
        }
        if input.system.is_some() && input.system_file.is_some() {
            return Err(Exit::usage("two system prompts: give one of -sys and -sysf"));
        }
        let from_stdin = input.file.as_deref().is_some_and(|f| f == Path::new("-"));
        let mut text = match (&input.prompt, &input.file, &input.binary_file) {
            (Some(text), _, _) => Some(input.unescaped(text)),
            (_, Some(_), _) if from_stdin => Some(trim_one_newline(stdin(terminal)?)),
            (_, Some(file), _) => Some(trim_one_newline(read("-f", file)?)),
            (_, _, Some(file)) => Some(read("-bf", file)?),
            _ => None,
        };
        if pipe == Pipe::Read && !from_stdin && carries_data() {
            let piped = trim_one_newline(stdin(terminal)?);
            text = match text {
                Some(text) if piped.is_empty() => Some(text),
                Some(text) => Some(format!("{text}\n\n{piped}")),
                None => Some(piped),
            };
        }
        let system = match (&input.system, &input.system_file) {
            (Some(text), _) => Some(input.unescaped(text)),
            (_, Some(file)) => Some(trim_one_newline(read("-sysf", file)?)),
            _ => None,
        };
        Ok(Self { text, system: system.filter(|s| !s.is_empty()) })
    }
}

impl Input {
    /// A text of the command line, its escapes expanded unless that is switched off.
    pub fn unescaped(&self, text: &str) -> String {
        if self.escape { unescape(text) } else { text.to_owned() }
    }
}

/// What to do with piped input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pipe {
    /// It belongs to the prompt.
    Read,
    /// It is left alone.
    Leave,
}

/// Whether stdin is a pipe, a socket or a file: not a terminal, and not `/dev/null`.
fn carries_data() -> bool {
    #[cfg(unix)]
    {
        use std::os::{fd::AsFd, unix::fs::FileTypeExt};
        let file = io::stdin().as_fd().try_clone_to_owned().map(fs::File::from);
        let kind = file.and_then(|f| f.metadata()).map(|m| m.file_type());
        kind.is_ok_and(|k| k.is_file() || k.is_fifo() || k.is_socket())
    }
    #[cfg(not(unix))]
    {
        !io::stdin().is_terminal()
    }
}

/// All of stdin; says so when it is slow in coming, for a pipe that nobody closes looks like a hang.
fn stdin(terminal: &Terminal) -> Result<String, Exit> {
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let terminal = *terminal;
    std::thread::spawn(move || {
        if waiting.recv_timeout(Duration::from_secs(2)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            terminal.warn("reading stdin until it ends (< /dev/null where there is nothing to read)");
        }
    });
    if io::stdin().is_terminal() {
        terminal.info("reading the prompt; Ctrl-D ends it");
    }
    let read = bounded("stdin", io::stdin().lock(), LONGEST_PROMPT);
    drop(done);
    read
}

fn read(flag: &str, file: &Path) -> Result<String, Exit> {
    file_text(flag, file, LONGEST_PROMPT)
}

/// The text of a file that a flag names, of at most `longest` bytes.
///
/// # Errors
/// Exit code 2: the file cannot be read, is longer, or is not UTF-8.
pub fn file_text(flag: &str, file: &Path, longest: u64) -> Result<String, Exit> {
    let name = file.display().to_string();
    let failed = |e: io::Error| Exit::usage(format!("{flag} {name}: {}", system_error(&e)));
    let open = fs::File::open(file).map_err(failed)?;
    if open.metadata().map_err(failed)?.is_dir() {
        return Err(Exit::usage(format!("{flag} {name}: a folder, not a file")));
    }
    bounded(&name, open, longest)
}

/// The text of `source`, read to its end but no further than `longest` bytes: some sources never end.
///
/// # Errors
/// Exit code 2 where it is longer, or not UTF-8.
pub fn bounded(source: &str, reader: impl Read, longest: u64) -> Result<String, Exit> {
    let mut bytes = Vec::new();
    reader.take(longest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest {
        return Err(too_long(source, longest));
    }
    text(source, bytes)
}

/// More was read than any context holds.
pub fn too_long(source: &str, longest: u64) -> Exit {
    Exit::usage(format!("{source}: the text is too long: more than {} MB", longest >> 20))
}

/// Bytes as text; `source` is what the message calls them.
///
/// # Errors
/// Exit code 2: bytes that are not UTF-8, with their place. Most vocabularies have no tokens of their own for them, so
/// they are refused instead of being replaced.
pub fn text(source: &str, bytes: Vec<u8>) -> Result<String, Exit> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Exit::usage(format!("{source}: expected UTF-8, found byte {:#04x} at offset {at}", e.as_bytes()[at]))
    })
}

/// The text without the newline that editors put at the end of a file.
pub fn trim_one_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// `\n \r \t \' \" \\` and `\xHH` as llama.cpp expands them; any other backslash stays.
pub fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let hex = tail.strip_prefix('x').and_then(|h| u8::from_str_radix(h.get(..2)?, 16).ok());
        let (c, used) = match (tail.chars().next(), hex) {
            (Some('n'), _) => ('\n', 1),
            (Some('r'), _) => ('\r', 1),
            (Some('t'), _) => ('\t', 1),
            (Some(c @ ('\'' | '"' | '\\')), _) => (c, 1),
            (_, Some(byte)) if byte < 0x80 => (byte as char, 3),
            _ => ('\\', 0),
        };
        out.push(c);
        rest = &tail[used..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_llama_cpp_has_them() {
        let cases = [
            (r"a\nb", "a\nb"),
            (r"\\n", r"\n"),
            (r"\q\", r"\q\"),
            (r#"\"\'\t\r"#, "\"'\t\r"),
            (r"\x41\xzz\xé", r"A\xzz\xé"),
            ("", ""),
        ];
        for (typed, wanted) in cases {
            assert_eq!(unescape(typed), wanted, "{typed}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_named() {
        let error = text("stdin", b"ab\xffc".to_vec()).expect_err("0xff is not UTF-8");
        assert!(error.message.contains("0xff at offset 2"), "{}", error.message);
    }
}
