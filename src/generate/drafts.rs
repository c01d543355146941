//! Speculative decoding: what guesses tokens ahead. A step computes a sequence's next token and the guesses behind it, and of
//! these keeps what the request's own sampler chooses, one by one. So a wrong guess costs time, and none changes a text.

use qrun_models::{DraftRequest, Forward};

/// A sequence that guesses are wanted of.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The decoder's id of the sequence.
    pub seq: u32,
    /// Its tokens so far; the decoder holds all but the last one.
    pub tokens: &'a [u32],
    /// Most guesses.
    pub most: usize,
}

/// Guesses how sequences go on.
pub trait Drafter: Send {
    /// For each sequence as many tokens as it likes, up to the most that are wanted.
    fn draft(&mut self, forward: &mut dyn Forward, wanted: &[Wanted]) -> Vec<Vec<u32>>;
}

/// Guesses with the draft head of the model (MTP).
#[derive(Debug, Clone, Copy, Default)]
pub struct HeadDrafter {
    /// Drafts that are shorter are not used.
    pub n_min: usize,
    /// A token that the head finds less probable ends a draft.
    pub p_min: f32,
}

impl Drafter for HeadDrafter {
    fn draft(&mut self, forward: &mut dyn Forward, wanted: &[Wanted]) -> Vec<Vec<u32>> {
        let next = |w: &Wanted| Some(DraftRequest { seq: w.seq, token: *w.tokens.last()?, most: w.most });
        let requests: Vec<DraftRequest> = wanted.iter().filter_map(next).collect();
        let mut drafts = forward.draft(&requests, self.p_min);
        drafts.iter_mut().filter(|draft| draft.len() < self.n_min).for_each(Vec::clear);
        drafts
    }
}

/// Guesses that a text goes on as it did after the same tokens before.
#[derive(Debug, Clone, Copy)]
pub struct NGramDrafter {
    /// How many tokens have to be the same, 1 or more; a draft has as many at least.
    pub size_n: usize,
    /// Most tokens of a draft.
    pub size_m: usize,
}

impl NGramDrafter {
    /// What followed the last `size_n` tokens where they came before, the last time.
    fn find<'a>(&self, tokens: &'a [u32], most: usize) -> &'a [u32] {
        let (n, m) = (self.size_n, self.size_m.min(most));
        // As llama.cpp: not in shorter texts, not at their first token, and no shorter drafts.
        if tokens.len() <= n + self.size_m + 2 {
            return &[];
        }
        let end = tokens.len() - n;
        let found = (1..end - 1).rev().find(|&at| tokens[at..at + n] == tokens[end..]);
        let follows = found.map_or(&[][..], |at| &tokens[at + n..tokens.len() - 1]);
        let draft = &follows[..follows.len().min(m)];
        if follows.len().min(self.size_m) < n { &[] } else { draft }
    }
}

impl Drafter for NGramDrafter {
    fn draft(&mut self, _: &mut dyn Forward, wanted: &[Wanted]) -> Vec<Vec<u32>> {
        wanted.iter().map(|w| self.find(w.tokens, w.most).to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_same_tokens_the_last_time() {
        let grams = NGramDrafter { size_n: 2, size_m: 3 };
        for (tokens, most, draft) in [
            // 7 8 came twice before.
            (&[0, 7, 8, 1, 2, 3, 7, 8, 4, 5, 6, 7, 8][..], 9, &[4, 5, 6][..]),
            (&[0, 7, 8, 1, 2, 3, 7, 8, 4, 5, 6, 7, 8], 2, &[4, 5]),
            // Not at the first token, nor where less follows than the tokens that were looked for.
            (&[7, 8, 1, 2, 3, 4, 5, 6, 7, 8], 9, &[]),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0], 9, &[]),
            // Too short a text.
            (&[0, 7, 8, 1, 2, 7, 8], 9, &[]),
            (&[0, 7, 8, 1, 2, 3, 7, 8], 9, &[1, 2, 3]),
            (&[], 9, &[]),
        ] {
            assert_eq!(grams.find(tokens, most), draft, "{tokens:?}");
        }
    }
}
