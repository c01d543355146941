//! `qrun tokenize FILE`: text to tokens. A file with nothing but a vocabulary is enough.

use std::{fmt::Write, io, path::PathBuf};

use crate::text::tokenizer::{Encode, Tokenizer};

use super::{exit::Exit, input, stdout::print, values::ModelFile};

/// Text to tokens; the text comes from -p, -f or stdin, byte for byte.
#[derive(Debug, clap::Args)]
pub struct Tokenize {
    #[command(flatten)]
    file: ModelFile,
    /// The text
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "text_file")]
    prompt: Option<String>,
    /// A file with the text; - is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    text_file: Option<PathBuf>,
    /// One line of ids, separated by spaces
    #[arg(long)]
    ids: bool,
    /// No BOS (and no EOS) around the text
    #[arg(long)]
    no_bos: bool,
    /// Take special tokens that are written out as plain text
    #[arg(long)]
    no_parse_special: bool,
    /// Read stdin (which happens anyway without -p and -f)
    #[arg(long, hide = true)]
    stdin: bool,
    /// Say how many tokens there are
    #[arg(long)]
    show_count: bool,
}

impl Tokenize {
    /// Prints the tokens of the text.
    ///
    /// # Errors
    /// Exit code 3: the file is damaged or has no vocabulary. 6: it was not fetched. 2: the text cannot be read, or not
    /// be said in tokens. 1: stdout fails.
    pub fn run(self) -> Result<(), Exit> {
        let tokenizer = Tokenizer::from_gguf(&self.file.open()?)?;
        let text = self.text()?;
        let how = Encode { add_special: !self.no_bos, parse_special: !self.no_parse_special };
        let ids = tokenizer.encode(&text, how)?;
        let mut out = String::new();
        if self.ids {
            let words: Vec<String> = ids.iter().map(u32::to_string).collect();
            out = words.join(" ") + "\n";
        } else {
            for &id in &ids {
                let piece = tokenizer.piece(id);
                let shown = if piece.is_empty() { tokenizer.text(id).into() } else { String::from_utf8_lossy(&piece) };
                let _ = writeln!(out, "{id:6} -> {shown:?}");
            }
        }
        if self.show_count {
            let _ = writeln!(out, "Total number of tokens: {}", ids.len());
        }
        print(&out)
    }

    fn text(&self) -> Result<String, Exit> {
        if let Some(text) = &self.prompt {
            return Ok(text.clone());
        }
        match &self.text_file {
            Some(file) if file.as_os_str() != "-" => input::file_text("-f", file, input::LONGEST_TEXT),
            _ => input::bounded("stdin", io::stdin().lock(), input::LONGEST_TEXT),
        }
    }
}
