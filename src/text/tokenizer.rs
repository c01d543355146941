//! Text to tokens and back, from the vocabulary that a GGUF file carries.
//!
//! Four kinds of vocabulary: SentencePiece-like ([`spm`]), BPE over bytes ([`bpe`]), BPE over characters ([`chars`]) and
//! WordPiece ([`wordpiece`]).
//! Entries stay in the file mapping, so a tokenizer for 262,144 tokens is ready in a few hundredths of a second.

mod bpe;
mod chars;
mod classes;
#[cfg(feature = "hf-tokenizer")]
mod json;
mod merge;
mod pairs;
mod pre;
mod run;
mod spaces;
mod special;
mod spm;
mod stream;
mod vocab;
mod wordpiece;

use std::borrow::Cow;

use qrun_quant::{Error, Gguf};

use bpe::Bpe;
use chars::CharBpe;
use run::Run;
use spaces::SPACE;
use special::{Fragment, Parse, Specials};
use spm::Spm;
pub use stream::Utf8Stream;
pub use vocab::TokenKind;
use vocab::Vocab;
use wordpiece::WordPiece;

/// How a text is to be read.
///
/// The default is what a prompt of the user needs: the marks that the model expects around a text,
/// and special tokens where they are written out. [`Encode::PLAIN`] takes every character literally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encode {
    /// Put BOS (and EOS) around the text where the model wants them, once.
    pub add_special: bool,
    /// Read control tokens that are spelled out in the text as such.
    pub parse_special: bool,
}

impl Encode {
    /// A text and nothing but the text.
    pub const PLAIN: Self = Self { add_special: false, parse_special: false };
}

impl Default for Encode {
    fn default() -> Self {
        Self { add_special: true, parse_special: true }
    }
}

/// Why a text has no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenizeError {
    /// The vocabulary has neither a token for this byte nor one for what is unknown.
    #[error("the vocabulary has no token for the byte {byte:#04x}, and no unknown token")]
    NoToken {
        /// The first byte that the vocabulary cannot say.
        byte: u8,
    },
    /// Positions in a text are 32-bit numbers, and a space can become three bytes.
    #[error("a text of {bytes} bytes; one call takes at most {MAX_TEXT}")]
    TooLong {
        /// Length of the text.
        bytes: usize,
    },
    /// An external tokenizer reported an error.
    #[error("{0}")]
    External(String),
}

/// Longest text for one call, in bytes.
pub const MAX_TEXT: usize = 1 << 30;

/// A vocabulary, ready to encode and decode.
pub struct Tokenizer {
    vocab: Vocab,
    engine: Engine,
    specials: Specials,
    ids: SpecialIds,
    eog: Vec<u32>,
}

/// How text becomes tokens.
enum Engine {
    Spm(Box<Spm>),
    Bpe(Box<Bpe>),
    Chars(Box<CharBpe>),
    Words(WordPiece),
    #[cfg(feature = "hf-tokenizer")]
    Json(Box<json::Json>),
}

impl Engine {
    /// Whether entries spell bytes as printable characters (or else spaces as U+2581).
    fn spells_bytes(&self) -> bool {
        match self {
            Self::Spm(_) | Self::Chars(_) | Self::Words(_) => false,
            Self::Bpe(_) => true,
            #[cfg(feature = "hf-tokenizer")]
            Self::Json(json) => json.spells_bytes,
        }
    }
}

/// Tokens with a role, and what is put around a text.
#[derive(Debug, Default)]
struct SpecialIds {
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    unknown: Option<u32>,
    padding: Option<u32>,
    separator: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    /// Put the separator last where EOS is not.
    add_sep: bool,
}

impl Tokenizer {
    /// Builds the tokenizer that a GGUF file describes (`tokenizer.ggml.*`).
    ///
    /// # Errors
    /// A key `tokenizer.ggml.*` is missing, has a wrong type or length, or names a model or a pre-tokenizer that qrun
    /// does not know; the error names the key, what was expected and what was found.
    pub fn from_gguf(g: &Gguf) -> Result<Self, Error> {
        let place = "key tokenizer.ggml.model";
        let known = "\"llama\" (SentencePiece), \"gpt2\" (BPE over bytes), \"gemma4\" (BPE over characters) or \"bert\" (WordPiece)";
        let model = g.str("tokenizer.ggml.model")?.ok_or_else(|| g.error(place, known, "no such key"))?;
        let defaults = match model {
            "llama" => SpecialIds { bos: Some(1), eos: Some(2), unknown: Some(0), add_bos: true, ..Default::default() },
            "gpt2" | "gemma4" | "bert" => SpecialIds::default(),
            other => return Err(g.error(place, known, format!("{other:?}"))),
        };
        let mut vocab = Vocab::from_gguf(g)?;
        let mut ids = SpecialIds::read(g, vocab.len(), defaults)?;
        if model == "bert" {
            ids.around_words(g, &vocab)?;
        }
        ids.eot = special::end_of_turn(&vocab, ids.eot);
        let last = id(g, "eom", vocab.len())?;
        let eog = special::end_of_generation(&mut vocab, [ids.eos, ids.eot, last].into_iter().flatten());
        let engine = match model {
            "llama" => Engine::Spm(Spm::from_gguf(g, &vocab, ids.unknown)?.into()),
            "gemma4" => Engine::Chars(CharBpe::from_gguf(g, &vocab, ids.unknown)?.into()),
            "bert" => Engine::Words(WordPiece::of(&vocab, ids.unknown)),
            _ => Engine::Bpe(Bpe::from_gguf(g, &vocab, ids.unknown)?.into()),
        };
        match &engine {
            Engine::Bpe(bpe) => {
                ids.add_bos = g.bool(ADD_BOS)?.unwrap_or(bpe.pre.add_bos);
                ids.add_sep = g.bool("tokenizer.ggml.add_sep_token")?.unwrap_or(true) && bpe.pre.add_sep;
            }
            // Whatever the file says: early ones say no, and the model has never seen a text without.
            Engine::Chars(_) => ids.add_bos = true,
            _ => {}
        }
        Ok(Self::new(vocab, engine, ids, eog))
    }

    fn new(vocab: Vocab, engine: Engine, ids: SpecialIds, mut eog: Vec<u32>) -> Self {
        eog.sort_unstable();
        eog.dedup();
        Self { specials: Specials::new(&vocab), vocab, engine, ids, eog }
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// [`TokenizeError::TooLong`] of more than [`MAX_TEXT`] bytes; [`TokenizeError::NoToken`] where the vocabulary has
    /// no token for a byte, and none for what is unknown; [`TokenizeError::External`] from a `tokenizer.json`.
    pub fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, TokenizeError> {
        if text.len() > MAX_TEXT {
            return Err(TokenizeError::TooLong { bytes: text.len() });
        }
        #[cfg(feature = "hf-tokenizer")]
        if let Engine::Json(json) = &self.engine {
            return json.encode(text, how, self.ids.bos);
        }
        let parse = if how.parse_special { Parse::All } else { Parse::UserDefined };
        let fragments = self.specials.split(&self.vocab, text, parse);
        let wanted = |add: bool, id: Option<u32>| id.filter(|_| how.add_special && add);
        // A text that has its own BOS gets no second one: models have never seen two.
        let is = |fragment: Option<&Fragment>, id: u32| fragment == Some(&Fragment::Token(id));
        let bos = wanted(self.ids.add_bos, self.ids.bos).filter(|&id| !is(fragments.first(), id));
        let eos = wanted(self.ids.add_eos, self.ids.eos).or(wanted(self.ids.add_sep, self.ids.separator));
        let eos = eos.filter(|&id| !is(fragments.last(), id));

        let mut run = Run::default();
        run.out.extend(bos);
        let entries = self.vocab.entries();
        let mut after_special = true;
        for fragment in fragments {
            match (fragment, &self.engine) {
                (Fragment::Token(id), _) => run.out.push(id),
                (Fragment::Text(text), Engine::Spm(spm)) => {
                    let prefix = if spm.add_space_prefix && after_special { SPACE } else { "" };
                    spm.encode(entries, &mut run, text, prefix)?;
                }
                (Fragment::Text(text), Engine::Bpe(bpe)) => bpe.encode(entries, &mut run, text)?,
                (Fragment::Text(text), Engine::Chars(chars)) => chars.encode(entries, &mut run, text)?,
                (Fragment::Text(text), Engine::Words(words)) => words.encode(entries, &mut run, text)?,
                #[cfg(feature = "hf-tokenizer")]
                (Fragment::Text(_), Engine::Json(_)) => unreachable!("encoded above"),
            }
            after_special = matches!(fragment, Fragment::Token(_));
        }
        run.out.extend(eos);
        Ok(run.out)
    }

    /// The text of a sequence of tokens; bytes that are no UTF-8 become U+FFFD. The space that
    /// `encode` puts before a text (SPM) is taken away again.
    pub fn decode(&self, ids: &[u32]) -> String {
        #[cfg(feature = "hf-tokenizer")]
        if let Engine::Json(json) = &self.engine {
            return json.decode(ids);
        }
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.piece(id).into_owned()).collect();
        let adds_space = match &self.engine {
            Engine::Spm(spm) => spm.add_space_prefix,
            Engine::Words(_) => true,
            _ => false,
        };
        let start = usize::from(adds_space && bytes.first() == Some(&b' '));
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }

    /// Tokens of the vocabulary, unused ones included.
    pub fn n_vocab(&self) -> usize {
        self.vocab.len()
    }

    /// The bytes that a token adds to the text: none for control tokens, and for ids that do not exist.
    pub fn piece(&self, id: u32) -> Cow<'_, [u8]> {
        let text = self.text(id);
        let literal = Cow::Borrowed(text.as_bytes());
        match self.kind(id) {
            TokenKind::Control | TokenKind::Unknown | TokenKind::Unused => Cow::Borrowed(&[]),
            TokenKind::Byte => vocab::byte_of(text).map_or(literal, |byte| vec![byte].into()),
            TokenKind::Normal if self.engine.spells_bytes() => bpe::unspell(text).into(),
            _ if !self.engine.spells_bytes() && text.contains(SPACE) => text.replace(SPACE, " ").into_bytes().into(),
            _ => literal,
        }
    }

    /// The vocabulary entry as written in the file; empty for ids that do not exist.
    pub fn text(&self, id: u32) -> &str {
        self.vocab.text(id)
    }

    /// What a token is for; ids that do not exist are unused.
    pub fn kind(&self, id: u32) -> TokenKind {
        self.vocab.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    /// The token whose vocabulary entry is exactly this text.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.vocab.entries().find(text.as_bytes())
    }

    /// The token that begins a text, if the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.ids.bos
    }
    /// The token that ends a text, if the file names one.
    pub fn eos(&self) -> Option<u32> {
        self.ids.eos
    }
    /// Ends a turn of a chat.
    pub fn eot(&self) -> Option<u32> {
        self.ids.eot
    }
    /// Stands for what the vocabulary does not cover.
    pub fn unk(&self) -> Option<u32> {
        self.ids.unknown
    }
    /// Fills up batches in training.
    pub fn pad(&self) -> Option<u32> {
        self.ids.padding
    }
    /// Whether the model wants BOS before a text.
    pub fn add_bos(&self) -> bool {
        self.ids.add_bos
    }
    /// Whether the model wants EOS after a text.
    pub fn add_eos(&self) -> bool {
        self.ids.add_eos
    }
    /// Whether generation ends with this token.
    pub fn is_eog(&self, id: u32) -> bool {
        self.eog.contains(&id)
    }
    /// The tokens that end a generation, in rising order.
    pub fn eog(&self) -> impl Iterator<Item = u32> {
        self.eog.iter().copied()
    }
}

const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";

impl SpecialIds {
    fn read(g: &Gguf, n_vocab: usize, defaults: Self) -> Result<Self, Error> {
        let exists = |id: Option<u32>| id.filter(|&id| (id as usize) < n_vocab);
        Ok(Self {
            bos: id(g, "bos", n_vocab)?.or(exists(defaults.bos)),
            eos: id(g, "eos", n_vocab)?.or(exists(defaults.eos)),
            eot: id(g, "eot", n_vocab)?,
            unknown: id(g, "unknown", n_vocab)?.or(exists(defaults.unknown)),
            padding: id(g, "padding", n_vocab)?,
            // Misspelled by the format.
            separator: id(g, "seperator", n_vocab)?,
            add_bos: g.bool(ADD_BOS)?.unwrap_or(defaults.add_bos),
            add_eos: g.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false),
            add_sep: false,
        })
    }
}

impl SpecialIds {
    /// The marks of a vocabulary of words: `[CLS]` before a text and `[SEP]` behind it, by their names where the file does
    /// not say which they are.
    fn around_words(&mut self, g: &Gguf, vocab: &Vocab) -> Result<(), Error> {
        let find = |text: &str| vocab.entries().find(text.as_bytes());
        self.bos = id(g, "cls", vocab.len())?.or(self.bos).or_else(|| find("[CLS]"));
        self.separator = self.separator.or_else(|| find("[SEP]"));
        self.unknown = self.unknown.or_else(|| find("[UNK]"));
        self.add_bos = g.bool(ADD_BOS)?.unwrap_or(true);
        self.add_sep = g.bool("tokenizer.ggml.add_sep_token")?.unwrap_or(true);
        Ok(())
    }
}

/// `tokenizer.ggml.ROLE_token_id`. Converters write ids outside the vocabulary for "there is none".
fn id(g: &Gguf, role: &str, n_vocab: usize) -> Result<Option<u32>, Error> {
    let key = format!("tokenizer.ggml.{role}_token_id");
    match g.get(&key) {
        // -1 in a signed type is one of those ids.
        Some(value) if value.as_u64().is_none() && value.as_f64() == Some(-1.0) => Ok(None),
        _ => Ok(g.u64(&key)?.filter(|&id| id < n_vocab as u64).map(|id| id as u32)),
    }
}
