//! States of recurrent layers behind tokens that a step has only guessed. A guess that is accepted leaves its state in the
//! cache; one that is not was never there.

use std::ops::Range;

use super::PAGE;

/// Most guesses of a sequence in a step: with the token before them they lie in two blocks at most, neither of which a
/// recurrent layer passes at once.
pub const MOST_DRAFTED: usize = PAGE - 1;

/// What pages hold after a token, `[kind]`; nothing of kinds that are not recurrent.
type States = Vec<Option<Box<[f32]>>>;

/// The guesses of one sequence in its last step.
#[derive(Default)]
pub(super) struct Drafted {
    /// Their positions; empty also once they are accepted or gone.
    positions: Range<usize>,
    /// By guess; kept for later steps.
    states: Vec<States>,
}

impl Drafted {
    /// Notes which positions of the step under way are guesses.
    pub fn note(&mut self, positions: Range<usize>) {
        self.positions = positions;
    }

    /// Whether a position is one of them.
    pub fn contains(&self, pos: usize) -> bool {
        self.positions.contains(&pos)
    }

    /// The position before the first of them.
    pub fn last_certain(&self) -> usize {
        self.positions.start.saturating_sub(1)
    }

    /// A part of the states before a guess, to be changed into that after it. `held` is what the cache has before the first
    /// guess, of kind `kind` of `kinds`.
    pub fn state(&mut self, pos: usize, [kind, kinds]: [usize; 2], held: &[f32], part: Range<usize>) -> &mut [f32] {
        let i = pos - self.positions.start;
        if self.states.len() <= i {
            self.states.resize_with(i + 1, || vec![None; kinds]);
        }
        let (before, own) = self.states.split_at_mut(i);
        let own = own[0][kind].get_or_insert_with(|| vec![0.0; held.len()].into());
        let before = before.last().and_then(|kinds| kinds[kind].as_deref()).unwrap_or(held);
        own[part.clone()].copy_from_slice(&before[part.clone()]);
        &mut own[part]
    }

    /// The end of the first `n` guesses, which are none any more.
    pub fn accept(&mut self, n: usize) -> Range<usize> {
        let Range { start, end } = std::mem::take(&mut self.positions);
        start..end.min(start + n)
    }

    /// What pages are to hold behind the guesses at `accepted`, the last one and those at the ends of blocks: positions,
    /// kinds and states.
    pub fn states(&mut self, accepted: Range<usize>) -> impl Iterator<Item = (usize, usize, &mut Box<[f32]>)> {
        let (start, end) = (accepted.start, accepted.end);
        let stays = move |pos: usize| pos + 1 == end || (pos + 1).is_multiple_of(PAGE);
        let of_guess = move |(i, states)| (start + i, states);
        let guesses = self.states.iter_mut().take(accepted.len()).enumerate().map(of_guess);
        guesses.filter(move |(pos, _)| stays(*pos)).flat_map(|(pos, states): (usize, &mut States)| {
            states.iter_mut().enumerate().filter_map(move |(kind, states)| Some((pos, kind, states.as_mut()?)))
        })
    }
}
