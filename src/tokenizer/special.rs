//! Special tokens: finding them in text, and which of them end a generation.

use std::ops::Range;

use super::{TokenKind, vocab::Vocab};

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment<'t> {
    /// Text between special tokens, never empty.
    Text(&'t str),
    /// A special token that stood in the text.
    Token(u32),
}

/// The special tokens in the order of their texts. Those that begin alike stand together, the
/// shortest first, so that a text is followed through the list by narrowing a range.
pub struct Specials {
    sorted: Vec<u32>,
    /// The range of `sorted` for each first byte.
    first: Vec<Range<u32>>,
}

impl Specials {
    pub fn new(vocab: &Vocab) -> Self {
        let entries = vocab.entries();
        let is_special = |&id: &u32| {
            let kind = vocab.kinds[id as usize];
            matches!(kind, TokenKind::Control | TokenKind::UserDefined | TokenKind::Unknown)
                && !entries.bytes(id).is_empty()
        };
        let mut sorted: Vec<u32> = (0..vocab.len() as u32).filter(is_special).collect();
        sorted.sort_by_key(|&id| (entries.bytes(id), id));
        sorted.dedup_by_key(|id| entries.bytes(*id));
        let first_byte = |id: &u32| entries.bytes(*id)[0] as usize;
        let first = (0..256).map(|b| {
            let below = |limit| sorted.partition_point(|id| first_byte(id) < limit) as u32;
            below(b)..below(b + 1)
        });
        Self { first: first.collect(), sorted }
    }

    /// Cuts a text at the special tokens in it: the leftmost first, and of those the longest.
    /// Control and unknown tokens count only where `parse` says so, user-defined ones always.
    pub fn split<'t>(&self, vocab: &Vocab, text: &'t str, parse: Parse) -> Vec<Fragment<'t>> {
        let mut fragments = Vec::new();
        let (mut from, mut at) = (0, 0);
        while at < text.len() {
            match self.longest_at(vocab, &text.as_bytes()[at..], parse) {
                Some((id, len)) => {
                    if from < at {
                        fragments.push(Fragment::Text(&text[from..at]));
                    }
                    fragments.push(Fragment::Token(id));
                    at += len;
                    from = at;
                }
                _ => at += 1,
            }
        }
        if from < text.len() {
            fragments.push(Fragment::Text(&text[from..]));
        }
        fragments
    }

    fn longest_at(&self, vocab: &Vocab, text: &[u8], parse: Parse) -> Option<(u32, usize)> {
        let range = &self.first[text[0] as usize];
        let mut list = &self.sorted[range.start as usize..range.end as usize];
        let entries = vocab.entries();
        let mut found = None;
        for len in 1.. {
            let &id = list.first()?;
            if entries.bytes(id).len() == len {
                if parse == Parse::All || vocab.kinds[id as usize] == TokenKind::UserDefined {
                    found = Some((id, len));
                }
                list = &list[1..];
            }
            let Some(&next) = text.get(len) else { break };
            let start = list.partition_point(|&id| entries.bytes(id)[len] < next);
            let end = list.partition_point(|&id| entries.bytes(id)[len] <= next);
            list = &list[start..end];
            if list.is_empty() {
                break;
            }
        }
        found
    }
}

/// Which special tokens are looked for in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parse {
    /// All of them.
    All,
    /// User-defined tokens only.
    UserDefined,
}

/// Entries that end a turn, in the order in which they are taken where the file names none.
const END_OF_TURN: [&str; 11] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
];

/// Further entries that end a generation.
const END_OF_GENERATION: [&str; 7] =
    ["<|eom_id|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<turn|>", "[e~["];

/// Entries that end a generation only where the file marks them as control tokens: in other
/// vocabularies they are ordinary text, such as the end tag of struck-through HTML.
const IF_CONTROL: [&str; 3] = ["</s>", "<eos>", "[EOS]"];

/// The end-of-turn token by its text, where the file names none.
pub fn end_of_turn(vocab: &Vocab) -> Option<u32> {
    END_OF_TURN.iter().find_map(|text| vocab.entries().find(text.as_bytes()))
}

/// Tokens that end a generation by their texts. They are control tokens, whatever the file says.
pub fn end_of_generation(vocab: &mut Vocab) -> Vec<u32> {
    let find = |text: &&str| vocab.entries().find(text.as_bytes());
    let mut found: Vec<u32> = END_OF_TURN.iter().chain(&END_OF_GENERATION).filter_map(find).collect();
    found.extend(IF_CONTROL.iter().filter_map(find).filter(|&id| vocab.kinds[id as usize] == TokenKind::Control));
    // Where a vocabulary has both of these, `<|end|>` ends a message, not the answer.
    let has = |text: &str| vocab.entries().find(text.as_bytes()).is_some();
    if has("<|call|>") && has("<|return|>") || has("<|calls|>") && has("<|flush|>") {
        let end = vocab.entries().find(b"<|end|>");
        found.retain(|&id| Some(id) != end);
    }
    for &id in &found {
        vocab.kinds[id as usize] = TokenKind::Control;
    }
    found
}
