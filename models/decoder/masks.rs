//! Masks of sequences that the device samples: which tokens may come next, given anew for each.
//!
//! A mask depends on the token before it, which the host has to know. So a sequence with masks never runs ahead: its mask is
//! given before the step that feeds that token, waits here, and goes to the device with the step. A row whose mask has
//! not come is the host's.

/// What is known of each sequence.
pub struct Masks(Vec<Mask>);

#[derive(Clone, Default)]
struct Mask {
    /// Whether each token of the sequence needs one.
    wanted: bool,
    /// Whether `words` are for the next token.
    given: bool,
    words: Vec<u32>,
}

impl Masks {
    /// No sequence needs any.
    pub fn new(sequences: usize) -> Self {
        Self(vec![Mask::default(); sequences])
    }

    /// Notes whether the tokens of a sequence need masks from here on; none has come.
    pub fn begin(&mut self, seq: u32, wanted: bool) {
        let mask = &mut self.0[seq as usize];
        (mask.wanted, mask.given) = (wanted, false);
    }

    /// Takes the mask for the next token of a sequence.
    pub fn give(&mut self, seq: u32, allowed: &[u32]) {
        let mask = &mut self.0[seq as usize];
        mask.words.clear();
        mask.words.extend_from_slice(allowed);
        mask.given = true;
    }

    /// Whether the tokens of a sequence need masks.
    pub fn wants(&self, seq: u32) -> bool {
        self.0[seq as usize].wanted
    }

    /// Whether the next token of a sequence needs a mask that has not come.
    pub fn misses(&self, seq: u32) -> bool {
        let mask = &self.0[seq as usize];
        mask.wanted && !mask.given
    }

    /// The mask for the next token of a sequence, which is for no other.
    pub fn take(&mut self, seq: u32) -> Option<&[u32]> {
        let mask = &mut self.0[seq as usize];
        (std::mem::take(&mut mask.given) && mask.wanted).then_some(mask.words.as_slice())
    }
}
