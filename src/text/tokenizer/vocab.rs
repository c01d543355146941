//! Vocabulary entries, left in the file mapping, and a hash from text to id.

use std::hash::{BuildHasher, Hasher, RandomState};

use qrun_quant::{Bytes, Error, Gguf, gguf::ValueType};
use rustc_hash::FxHasher;

/// What a vocabulary entry is for (`tokenizer.ggml.token_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// Stands for text that no other token covers.
    Unknown,
    /// A mark between texts (begin, end, turns): adds nothing to the text.
    Control,
    /// Text that is always matched whole, before anything else.
    UserDefined,
    /// An entry that the model was not trained on.
    Unused,
    /// One byte, written as `<0xNN>`.
    Byte,
}

impl TokenKind {
    fn from_number(n: f64) -> Option<Self> {
        if n.fract() != 0.0 {
            return None;
        }
        Some(match n as i64 {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            0 | 5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }

    /// Whether merging pieces of ordinary text may produce such a token. Control and byte tokens
    /// never come out of text, however it is spelled.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Normal | Self::UserDefined | Self::Unused)
    }
}

pub const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
/// Bytes of the length that stands before each string in a GGUF array.
const LENGTH: usize = 8;

/// All entries: where their texts begin in the mapping, what they are, and how to find them.
pub struct Vocab {
    blob: Bytes,
    /// Start of each text in `blob`; one more than there are tokens.
    starts: Vec<u32>,
    pub kinds: Vec<TokenKind>,
    index: Index,
}

/// Open addressing: the upper half of a slot is the upper half of the hash, the lower one id + 1.
struct Index {
    slots: Vec<u64>,
    /// Random, so that no file can be made of colliding entries.
    seed: usize,
    /// Length of the longest text in bytes.
    longest: usize,
}

/// The texts of a vocabulary, borrowed once for many look-ups.
#[derive(Clone, Copy)]
pub struct Entries<'v> {
    vocab: &'v Vocab,
    blob: &'v [u8],
}

impl Vocab {
    /// Reads tokens and token types.
    ///
    /// # Errors
    /// The tokens are missing, no strings, none, or 4 GiB of text; the types are not as many, or one is none of 0 to 6.
    pub fn from_gguf(g: &Gguf) -> Result<Self, Error> {
        let place = || format!("key {TOKENS}");
        let tokens = g.array(TOKENS)?.ok_or_else(|| g.error(place(), "an array of strings", "no such key"))?;
        if tokens.ty != ValueType::Str || tokens.len == 0 {
            let found = format!("{} values of type {:?}", tokens.len, tokens.ty);
            return Err(g.error(place(), "an array of at least one string", found));
        }
        let kinds = match g.array(TYPES)? {
            None => vec![TokenKind::Normal; tokens.len],
            Some(types) if types.len != tokens.len => {
                let expected = format!("{} values, one per token", tokens.len);
                return Err(g.error(format!("key {TYPES}"), expected, types.len.to_string()));
            }
            Some(types) if types.ty.size() == 0 => {
                let found = format!("values of type {:?}", types.ty);
                return Err(g.error(format!("key {TYPES}"), "an array of integers", found));
            }
            Some(types) => {
                let bad = |i: usize, n: f64| {
                    g.error(format!("key {TYPES}"), "token types from 0 to 6", format!("{n} for token {i}"))
                };
                let kind = |(i, n): (usize, f64)| TokenKind::from_number(n).ok_or_else(|| bad(i, n));
                types.numbers().enumerate().map(kind).collect::<Result<Vec<_>, _>>()?
            }
        };
        Self::new(tokens.bytes.clone(), kinds)
            .ok_or_else(|| g.error(place(), "less than 4 GiB of text", format!("{} bytes", tokens.bytes.len())))
    }

    /// `blob` holds one string per kind in GGUF's layout: a 64-bit length, then the bytes.
    pub fn new(blob: Bytes, kinds: Vec<TokenKind>) -> Option<Self> {
        u32::try_from(blob.len() + LENGTH).ok()?;
        let mut starts = Vec::with_capacity(kinds.len() + 1);
        let mut at = 0usize;
        let (bytes, mut longest): (&[u8], _) = (&blob, 0);
        for _ in &kinds {
            let length = bytes.get(at..)?.first_chunk::<LENGTH>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            starts.push((at + LENGTH) as u32);
            longest = longest.max(length);
            at = at.checked_add(LENGTH)?.checked_add(length).filter(|&at| at <= bytes.len())?;
        }
        starts.push((at + LENGTH) as u32);
        let seed = RandomState::new().hash_one(0u8) as usize;
        let slots = vec![0; (kinds.len() * 2).next_power_of_two()];
        let mut vocab = Self { blob, starts, kinds, index: Index { slots, seed, longest } };
        vocab.fill_index();
        Some(vocab)
    }

    fn fill_index(&mut self) {
        let mut slots = std::mem::take(&mut self.index.slots);
        let entries = self.entries();
        let mask = slots.len() - 1;
        for id in 0..self.kinds.len() as u32 {
            let text = entries.bytes(id);
            let hash = self.index.hash(text);
            let mut at = hash as usize & mask;
            // Of equal texts the first keeps its place, so that finding is the same in every run.
            while slots[at] != 0 && !entries.is_in_slot(slots[at], hash, text) {
                at = (at + 1) & mask;
            }
            if slots[at] == 0 {
                slots[at] = hash & !0xffff_ffff | (id as u64 + 1);
            }
        }
        self.index.slots = slots;
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The entries for look-ups.
    pub fn entries(&self) -> Entries<'_> {
        Entries { vocab: self, blob: &self.blob }
    }

    /// The entry as written in the file; empty where there is no such id.
    pub fn text(&self, id: u32) -> &str {
        // The reader checked the encoding; the fallback only keeps this function total.
        if (id as usize) < self.len() { str::from_utf8(self.entries().bytes(id)).unwrap_or("") } else { "" }
    }
}

impl Index {
    fn hash(&self, text: &[u8]) -> u64 {
        let mut hasher = FxHasher::with_seed(self.seed);
        hasher.write(text);
        hasher.finish()
    }
}

impl<'v> Entries<'v> {
    /// The text of a token that exists.
    pub fn bytes(self, id: u32) -> &'v [u8] {
        let (start, next) = (self.vocab.starts[id as usize], self.vocab.starts[id as usize + 1]);
        &self.blob[start as usize..next as usize - LENGTH]
    }

    fn is_in_slot(self, slot: u64, hash: u64, text: &[u8]) -> bool {
        (slot ^ hash) >> 32 == 0 && self.bytes(slot as u32 - 1) == text
    }

    /// The token with exactly this text.
    pub fn find(self, text: &[u8]) -> Option<u32> {
        let index = &self.vocab.index;
        if text.len() > index.longest {
            return None;
        }
        let (hash, mask) = (index.hash(text), index.slots.len() - 1);
        let mut at = hash as usize & mask;
        while index.slots[at] != 0 {
            if self.is_in_slot(index.slots[at], hash, text) {
                return Some(index.slots[at] as u32 - 1);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// The token with exactly this text, if text may become it ([`TokenKind::is_text`]).
    pub fn find_text(self, text: &[u8]) -> Option<u32> {
        self.find(text).filter(|&id| self.vocab.kinds[id as usize].is_text())
    }

    /// The token that stands for a byte: `<0xNN>`.
    pub fn find_byte(self, byte: u8) -> Option<u32> {
        self.find(format!("<0x{byte:02X}>").as_bytes())
    }
}

/// The byte that an entry such as `<0x0A>` stands for.
pub fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}
