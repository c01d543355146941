//! Byte-level BPE vocabularies (`tokenizer.ggml.model` = "gpt2"): the text is split into words, the
//! bytes of a word are the first pieces, and the pair that stands earliest in the list of merges is
//! merged first. Vocabularies spell bytes as printable characters.

use qrun_quant::{Error, Gguf};

use super::{
    TokenizeError,
    merge::NONE,
    pairs::Pairs,
    pre::PreTokenizer,
    run::{Run, Work},
    vocab::{Entries, Vocab},
};

/// What a BPE vocabulary has besides its entries.
pub struct Bpe {
    pub pre: &'static PreTokenizer,
    pairs: Pairs,
    /// Tokens of single bytes; [`NONE`] where there is none.
    bytes: [u32; 256],
    spelling: [char; 256],
}

impl Bpe {
    /// Reads the pre-tokenizer and the merges; `unknown` stands for bytes without a token.
    ///
    /// # Errors
    /// `tokenizer.ggml.pre` names no pre-tokenizer that qrun knows; else as [`Pairs::from_gguf`].
    pub fn from_gguf(g: &Gguf, vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        let name = g.str("tokenizer.ggml.pre")?.unwrap_or("default");
        let pre = PreTokenizer::named(name).ok_or_else(|| {
            let known = PreTokenizer::names().collect::<Vec<_>>().join(", ");
            g.error("key tokenizer.ggml.pre", format!("a pre-tokenizer that qrun knows ({known})"), format!("{name:?}"))
        })?;
        let pairs = Pairs::from_gguf(g, vocab)?;
        let entries = vocab.entries();
        let spelling = spelling();
        let bytes =
            spelling.map(|c| entries.find_text(c.encode_utf8(&mut [0; 4]).as_bytes()).or(unknown).unwrap_or(NONE));
        Ok(Self { pre, pairs, bytes, spelling })
    }

    /// Tokens of one fragment.
    ///
    /// # Errors
    /// [`TokenizeError::NoToken`]: the vocabulary has no token for a byte, and none for what is unknown.
    pub fn encode<'t>(&self, entries: Entries<'_>, run: &mut Run<'t>, text: &'t str) -> Result<(), TokenizeError> {
        let mut result = Ok(());
        self.pre.split(text, &mut |word| {
            if result.is_ok() {
                result = run.word(word.as_bytes(), |work, out| self.merge(entries, work, out, word.as_bytes()));
            }
        });
        result
    }

    fn merge(
        &self,
        entries: Entries<'_>,
        work: &mut Work,
        out: &mut Vec<u32>,
        word: &[u8],
    ) -> Result<(), TokenizeError> {
        let Work { merger, spelled } = work;
        if self.pre.ignore_merges {
            spelled.clear();
            for &byte in word {
                spelled.extend_from_slice(self.spelling[byte as usize].encode_utf8(&mut [0; 4]).as_bytes());
            }
            if let Some(id) = entries.find_text(spelled) {
                out.push(id);
                return Ok(());
            }
        }
        merger.clear();
        for &byte in word {
            match self.bytes[byte as usize] {
                NONE => return Err(TokenizeError::NoToken { byte }),
                id => merger.push(id, 1),
            }
        }
        merger.merge(|left, right| self.pairs.get(left.id, right.id));
        out.extend(merger.symbols().map(|s| s.id));
        Ok(())
    }
}

/// How each byte is spelled: printable Latin-1 as itself, the others in order from U+0100 on.
fn spelling() -> [char; 256] {
    let mut next = 0x100;
    std::array::from_fn(|b| match b as u8 {
        b @ (b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) => b as char,
        _ => {
            next += 1;
            char::from_u32(next - 1).unwrap_or_default()
        }
    })
}

/// The bytes that an entry spells; characters outside the spelling stay as they are.
pub fn unspell(text: &str) -> Vec<u8> {
    const SHIFTED: [u8; 68] = shifted();
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}' => out.push(c as u8),
            '\u{100}'..='\u{143}' => out.push(SHIFTED[c as usize - 0x100]),
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// The bytes that are spelled U+0100, U+0101, …
const fn shifted() -> [u8; 68] {
    let mut out = [0; 68];
    let (mut byte, mut n) = (0u8, 0);
    while n < 68 {
        if !matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff) {
            out[n] = byte;
            n += 1;
        }
        byte = byte.wrapping_add(1);
    }
    out
}
