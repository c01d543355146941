//! Special tokens: finding them in text, and which of them end a generation.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

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

    /// Cuts a text at the special tokens in it. Where two overlap, the longer one counts, then the one
    /// with the lower id, then the one further left. Control and unknown tokens count only where
    /// `parse` says so, user-defined ones always.
    pub fn split<'t>(&self, vocab: &Vocab, text: &'t str, parse: Parse) -> Vec<Fragment<'t>> {
        let search = Search { specials: self, vocab, text: text.as_bytes(), parse };
        let mut fragments = Vec::new();
        let mut from = 0;
        for (at, len, id) in search.matches() {
            if from < at {
                fragments.push(Fragment::Text(&text[from..at]));
            }
            fragments.push(Fragment::Token(id));
            from = at + len;
        }
        if from < text.len() {
            fragments.push(Fragment::Text(&text[from..]));
        }
        fragments
    }
}

/// The search for special tokens in one text.
struct Search<'s> {
    specials: &'s Specials,
    vocab: &'s Vocab,
    text: &'s [u8],
    parse: Parse,
}

impl Search<'_> {
    /// All matches that count, in order: position, length, id.
    fn matches(&self) -> Vec<(usize, usize, u32)> {
        let end = self.text.len();
        let candidate = |(len, id), at| (len, Reverse(id), Reverse(at));
        let all = (0..end).filter_map(|at| Some(candidate(self.longest(at, end)?, at)));
        let mut queue: BinaryHeap<_> = all.collect();
        let mut matches = Vec::new();
        let mut taken = vec![false; if queue.is_empty() { 0 } else { end }];
        while let Some((len, Reverse(id), Reverse(at))) = queue.pop() {
            match taken[at..at + len].iter().position(|&t| t) {
                Some(0) => {}
                Some(room) => queue.extend(self.longest(at, at + room).map(|shorter| candidate(shorter, at))),
                None => {
                    taken[at..at + len].fill(true);
                    matches.push((at, len, id));
                }
            }
        }
        matches.sort_unstable();
        matches
    }

    /// Length and id of the longest special token at `at` that ends at or before `limit`.
    fn longest(&self, at: usize, limit: usize) -> Option<(usize, u32)> {
        let text = &self.text[at..limit];
        let range = &self.specials.first[*text.first()? as usize];
        let mut list = &self.specials.sorted[range.start as usize..range.end as usize];
        let entries = self.vocab.entries();
        let mut found = None;
        for len in 1.. {
            let Some(&id) = list.first() else { break };
            if entries.bytes(id).len() == len {
                if self.parse == Parse::All || self.vocab.kinds[id as usize] == TokenKind::UserDefined {
                    found = Some((len, id));
                }
                list = &list[1..];
            }
            let Some(&next) = text.get(len) else { break };
            let byte = |id: &u32| entries.bytes(*id)[len];
            if list.first().map(byte) != Some(next) || list.last().map(byte) != Some(next) {
                let start = list.partition_point(|id| byte(id) < next);
                let end = list.partition_point(|id| byte(id) <= next);
                list = &list[start..end];
            }
        }
        found
    }
}

/// Which special tokens are looked for in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parse {
    /// Control and user-defined tokens.
    All,
    /// User-defined tokens only.
    UserDefined,
}

/// Entries that end a turn, in the order in which they are taken where the file names none.
const END_OF_TURN: [&str; 12] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<end_of_utterance>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
];

/// Further entries that end a generation.
const END_OF_GENERATION: [&str; 8] =
    ["<|eom_id|>", RETURN, CALL, "<|calls|>", "<|flush|>", "<|tool_response>", "<eos>", "[e~["];

/// Entries behind which code that fills a gap in a file ends: padding, another repository, another file.
const END_OF_INFILL: [&str; 8] = [
    "<|fim_pad|>",
    "<fim_pad>",
    "<fim-pad>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<reponame>",
    "<|file_sep|>",
];

/// Entries that end a generation only where the file marks them as control tokens: in other
/// vocabularies they are ordinary text, such as the end tag of struck-through HTML.
const IF_CONTROL: [&str; 2] = ["</s>", "[EOS]"];

/// In harmony, the form of gpt-oss, an answer is several messages: these end it, and [`END`] ends a message only.
const RETURN: &str = "<|return|>";
const CALL: &str = "<|call|>";
const END: &str = "<|end|>";

/// Whether [`END`] ends a message, not the answer.
fn goes_on_after_end(vocab: &Vocab) -> bool {
    let has = |text: &str| vocab.entries().find(text.as_bytes()).is_some();
    has(CALL) && has(RETURN) || has("<|calls|>") && has("<|flush|>")
}

/// The end-of-turn token: the one that the file names, else one by its text.
pub fn end_of_turn(vocab: &Vocab, named: Option<u32>) -> Option<u32> {
    let find = |text: &str| vocab.entries().find(text.as_bytes());
    if goes_on_after_end(vocab) {
        return named.filter(|id| Some(*id) != find(END)).or_else(|| find(RETURN));
    }
    named.or_else(|| END_OF_TURN.into_iter().find_map(find))
}

/// Tokens that end a generation: those by their texts, and those that the file names. They are control tokens, whatever
/// the file says.
pub fn end_of_generation(vocab: &mut Vocab, named: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let find = |text: &&str| vocab.entries().find(text.as_bytes());
    let all = END_OF_TURN.iter().chain(&END_OF_GENERATION).chain(&END_OF_INFILL);
    let mut found: Vec<u32> = all.filter_map(find).collect();
    let by_text = found.len();
    found.extend(IF_CONTROL.iter().filter_map(find).filter(|&id| vocab.kinds[id as usize] == TokenKind::Control));
    found.extend(named);
    for &id in &found[..by_text] {
        vocab.kinds[id as usize] = TokenKind::Control;
    }
    if goes_on_after_end(vocab) {
        let end = vocab.entries().find(END.as_bytes());
        found.retain(|&id| Some(id) != end);
    }
    found
}
