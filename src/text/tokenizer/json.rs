//! An external `tokenizer.json`, read and run by the `tokenizers` crate.

use std::path::Path;

use qrun_quant::{Error, gguf::Array};
use tokenizers::Tokenizer as External;

use super::{Encode, Engine, SpecialIds, TokenKind, TokenizeError, Tokenizer, special, vocab};

/// The external tokenizer, twice: reading special tokens in a text, and taking them literally.
pub struct Json {
    parsing: External,
    literal: External,
    pub spells_bytes: bool,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. BOS and EOS are what its template puts around a text.
    ///
    /// # Errors
    /// The `tokenizers` crate does not read the file; it has no tokens, ids from 2^22 on, or 4 GiB of text.
    pub fn from_json(path: &Path) -> Result<Self, Error> {
        let expected = "a tokenizer.json that the tokenizers crate reads";
        let external = |e: tokenizers::Error| Error::new(path, "file", expected, e.to_string());
        let parsing = External::from_file(path).map_err(external)?;
        let n = parsing.get_vocab(true).values().max().map_or(0, |&id| id as usize + 1);
        if n == 0 || n > MOST_TOKENS {
            return Err(Error::new(
                path,
                "vocabulary",
                format!("ids from 0 to {}", MOST_TOKENS - 1),
                format!("{n} ids"),
            ));
        }
        let added = parsing.get_added_tokens_decoder();
        let texts: Vec<String> = (0..n as u32).map(|id| parsing.id_to_token(id).unwrap_or_default()).collect();
        let kind = |(id, text): (u32, &String)| match added.get(&id) {
            Some(token) if token.special => TokenKind::Control,
            Some(_) => TokenKind::UserDefined,
            None if text.is_empty() => TokenKind::Unused,
            None if vocab::byte_of(text).is_some() => TokenKind::Byte,
            None => TokenKind::Normal,
        };
        let kinds = (0..).zip(&texts).map(kind).collect();
        let blob = Array::of_strings(&texts).bytes;
        let mut vocab = vocab::Vocab::new(blob, kinds)
            .ok_or_else(|| Error::new(path, "vocabulary", "less than 4 GiB of text", "more"))?;

        let around = parsing.encode("a", true).map_err(external)?;
        let (ids, mask) = (around.get_ids(), around.get_special_tokens_mask());
        let mark = |id: Option<&u32>, mask: Option<&u32>| id.copied().filter(|_| mask == Some(&1));
        let (bos, eos) = (mark(ids.first(), mask.first()), mark(ids.last(), mask.last()));
        let eot = special::end_of_turn(&vocab, None);
        let eog = special::end_of_generation(&mut vocab, eos.into_iter().chain(eot));
        let ids = SpecialIds { bos, eos, eot, add_bos: bos.is_some(), add_eos: eos.is_some(), ..SpecialIds::default() };
        let mut literal = parsing.clone();
        literal.set_encode_special_tokens(true);
        let decoder = serde_json::to_string(&parsing.get_decoder()).unwrap_or_default();
        let spells_bytes = decoder.contains("\"ByteLevel\"");
        Ok(Self::new(vocab, Engine::Json(Box::new(Json { parsing, literal, spells_bytes })), ids, eog))
    }
}

/// Largest vocabulary that is accepted: ids need not be dense, but each takes its place here.
const MOST_TOKENS: usize = 1 << 22;

impl Json {
    /// The tokens of a text. One that begins with `bos` gets no second one.
    ///
    /// # Errors
    /// [`TokenizeError::External`] with what the crate says.
    pub fn encode(&self, text: &str, how: Encode, bos: Option<u32>) -> Result<Vec<u32>, TokenizeError> {
        let external = if how.parse_special { &self.parsing } else { &self.literal };
        let encoding =
            external.encode_fast(text, how.add_special).map_err(|e| TokenizeError::External(e.to_string()))?;
        let mut ids = encoding.get_ids().to_vec();
        // A text that has its own BOS gets no second one.
        if how.add_special && ids.len() > 1 && bos.is_some() && ids[0] == ids[1] && Some(ids[0]) == bos {
            ids.remove(0);
        }
        Ok(ids)
    }

    pub fn decode(&self, ids: &[u32]) -> String {
        self.parsing.decode(ids, true).unwrap_or_default()
    }
}
