//! Byte-level BPE vocabularies (`tokenizer.ggml.model` = "gpt2"): the text is split into words, the
//! bytes of a word are the first pieces, and the pair that stands earliest in the list of merges is
//! merged first. Vocabularies spell bytes as printable characters.

use qrun_quant::{Error, Gguf, gguf::ValueType};

use super::{
    TokenizeError,
    merge::{Join, NONE},
    pre::PreTokenizer,
    run::{Run, Work},
    vocab::{Entries, Vocab},
};

const MERGES: &str = "tokenizer.ggml.merges";

/// What a BPE vocabulary has besides its entries.
pub struct Bpe {
    pub pre: &'static PreTokenizer,
    pairs: Pairs,
    /// Tokens of single bytes; [`NONE`] where there is none.
    bytes: [u32; 256],
    spelling: [char; 256],
}

/// The list of merges as a hash from (left, right): open addressing, a free slot has no token.
struct Pairs {
    slots: Vec<(u32, u32, Join)>,
    multiplier: u64,
}

impl Bpe {
    pub fn from_gguf(g: &Gguf, vocab: &Vocab, unknown: Option<u32>) -> Result<Self, Error> {
        let name = g.str("tokenizer.ggml.pre")?.unwrap_or("default");
        let pre = PreTokenizer::named(name).ok_or_else(|| {
            let known = PreTokenizer::names().collect::<Vec<_>>().join(", ");
            g.error("key tokenizer.ggml.pre", format!("a pre-tokenizer that qrun knows ({known})"), format!("{name:?}"))
        })?;
        let place = || format!("key {MERGES}");
        let merges = g.array(MERGES)?.ok_or_else(|| g.error(place(), "an array of strings", "no such key"))?;
        if merges.ty != ValueType::Str {
            return Err(g.error(place(), "an array of strings", format!("values of type {:?}", merges.ty)));
        }
        let mut pairs = Pairs::with_capacity(merges.len);
        let entries = vocab.entries();
        let (mut joined, mut last) = (Vec::new(), 0);
        let mut rest: &[u8] = &merges.bytes;
        for turn in 0..merges.len as u32 {
            let Some((length, tail)) = rest.split_first_chunk::<8>() else { break };
            let Some((merge, tail)) = tail.split_at_checked(u64::from_le_bytes(*length) as usize) else { break };
            rest = tail;
            let bad = |expected: &str| {
                g.error(
                    format!("key {MERGES}, merge {turn}"),
                    expected,
                    format!("{:?}", String::from_utf8_lossy(merge)),
                )
            };
            // The first piece is never empty, so a space at the very start belongs to it.
            let space = merge
                .iter()
                .skip(1)
                .position(|&b| b == b' ')
                .ok_or_else(|| bad("two pieces and a space between them"))?
                + 1;
            let (left, right) = (&merge[..space], &merge[space + 1..]);
            joined.clear();
            joined.extend_from_slice(left);
            joined.extend_from_slice(right);
            // Merges mostly come in the order of the tokens that they make, several for one token.
            let near =
                [last, last + 1].into_iter().find(|&id| (id as usize) < vocab.len() && entries.bytes(id) == joined);
            let ids = [entries.find(left), entries.find(right), near.or_else(|| entries.find(&joined))];
            let [Some(left), Some(right), Some(id)] = ids else {
                return Err(bad("two pieces that are tokens and make a token together"));
            };
            last = id;
            // Plain text never becomes a control token, whatever the merges say.
            if vocab.kinds[id as usize].is_text() {
                pairs.insert(left, right, Join { turn, id });
            }
        }
        let spelling = spelling();
        let bytes =
            spelling.map(|c| entries.find_text(c.encode_utf8(&mut [0; 4]).as_bytes()).or(unknown).unwrap_or(NONE));
        Ok(Self { pre, pairs, bytes, spelling })
    }

    /// Tokens of one fragment.
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

impl Pairs {
    fn with_capacity(n: usize) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let free = (0, 0, Join { turn: 0, id: NONE });
        // A random odd multiplier: no file can be made of colliding pairs.
        let multiplier = RandomState::new().hash_one(0u8) | 1;
        Self { slots: vec![free; (n + n / 2 + 1).next_power_of_two()], multiplier }
    }

    fn slot(&self, left: u32, right: u32) -> usize {
        let mask = self.slots.len() - 1;
        let key = (left as u64) << 32 | right as u64;
        let mut at = ((key.wrapping_mul(self.multiplier) >> 32) as usize) & mask;
        while self.slots[at].2.id != NONE && (self.slots[at].0, self.slots[at].1) != (left, right) {
            at = (at + 1) & mask;
        }
        at
    }

    /// A pair that is there already keeps its earlier turn.
    fn insert(&mut self, left: u32, right: u32, join: Join) {
        let at = self.slot(left, right);
        if self.slots[at].2.id == NONE {
            self.slots[at] = (left, right, join);
        }
    }

    fn get(&self, left: u32, right: u32) -> Option<Join> {
        let join = self.slots[self.slot(left, right)].2;
        (join.id != NONE).then_some(join)
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
