//! The list of merges of a BPE vocabulary (`tokenizer.ggml.merges`).

use qrun_quant::{Error, Gguf, gguf::ValueType};

use super::{
    merge::{Join, NONE},
    vocab::Vocab,
};

const MERGES: &str = "tokenizer.ggml.merges";

/// The list of merges as a hash from (left, right): open addressing, a free slot has no token.
pub struct Pairs {
    slots: Vec<(u32, u32, Join)>,
    multiplier: u64,
}

impl Pairs {
    /// Reads the merges; the first of the list is made first.
    ///
    /// # Errors
    /// The key is missing or no array of strings, or one of them is not two tokens that make a token together; the
    /// error has its number.
    pub fn from_gguf(g: &Gguf, vocab: &Vocab) -> Result<Self, Error> {
        let place = || format!("key {MERGES}");
        let merges = g.array(MERGES)?.ok_or_else(|| g.error(place(), "an array of strings", "no such key"))?;
        if merges.ty != ValueType::Str {
            return Err(g.error(place(), "an array of strings", format!("values of type {:?}", merges.ty)));
        }
        let mut pairs = Self::with_capacity(merges.len);
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
        Ok(pairs)
    }

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

    /// What two tokens become. A piece without a token ([`NONE`]) merges with nothing.
    pub fn get(&self, left: u32, right: u32) -> Option<Join> {
        let join = self.slots[self.slot(left, right)].2;
        (join.id != NONE).then_some(join)
    }
}
