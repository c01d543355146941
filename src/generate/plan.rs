//! Which tokens go through the layers together: a pure function of what the sequences still have to compute.

/// Prompts that have rows in one step while anybody decodes.
const PROMPTS: usize = 2;
/// How often a request may be passed by younger ones.
const PASSES: u32 = 4;
/// Rows of prompts that are always allowed.
pub const LEAST: usize = 8;
/// Rows of prompts where nothing is known of how long they take.
pub const START: usize = 16;

/// A running sequence, as far as planning looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Tokens that are known and not in the cache yet.
    pub tokens: usize,
    /// Most of them that one step takes.
    pub most: usize,
    /// Whether it is a decode step: its one token was sampled.
    pub decodes: bool,
    /// Tokens that are guessed behind that one.
    pub drafted: usize,
    /// Its place in the order of arrival.
    pub order: u64,
    /// How often younger ones went before it.
    pub passed: u32,
}

/// Tokens that went through the layers in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepRows {
    /// Of prompts, those that were computed again among them.
    pub prompt: usize,
    /// Tokens that were sampled before, one of each sequence that goes on, and those that were guessed behind them.
    pub decode: usize,
}

/// Most rows of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Rows of prompts and of decoding together.
    pub rows: usize,
    /// Rows of prompts while anybody decodes.
    pub beside: usize,
}

/// Rows of each sequence in the next step, in the order of what is pending, and which of them are passed by a younger one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub rows: Vec<usize>,
    pub passed: Vec<usize>,
}

impl Budget {
    /// Rows of prompts in a step beside so many that decode.
    pub fn of_prompts(&self, decodes: usize) -> usize {
        let most = self.rows.saturating_sub(decodes);
        if decodes == 0 { most.max(1) } else { self.beside.min(most.max(START.min(self.rows))).max(1) }
    }
}

/// Of so many rows of prompts, those that with a row of each sequence that decodes make a step of a multiple of `multiple`.
pub fn whole(rows: usize, decodes: usize, multiple: usize) -> usize {
    (rows.saturating_add(decodes) / multiple * multiple).saturating_sub(decodes)
}

/// Every decoding sequence has its row, and those of its draft. The rows that the budget leaves go to prompts, to two at most beside decoding: first to one that they
/// bring to its end, even where longer ones are older (each of these is passed four times at most), then to the oldest.
pub fn plan(pending: &[Pending], budget: Budget) -> Plan {
    let of_decoding = |p: &Pending| if p.decodes { 1 + p.drafted } else { 0 };
    let mut rows: Vec<usize> = pending.iter().map(of_decoding).collect();
    let decodes = rows.iter().sum();
    let mut left = budget.of_prompts(decodes);
    let most = if decodes == 0 { usize::MAX } else { PROMPTS };
    let mut prompts: Vec<usize> = (0..pending.len()).filter(|&i| !pending[i].decodes).collect();
    prompts.sort_by_key(|&i| pending[i].order);
    let short = |&i: &usize| pending[i].tokens <= left;
    let passes = |&at: &usize| prompts[..at].iter().all(|i| pending[*i].passed < PASSES);
    let first = prompts.iter().position(short).filter(passes).unwrap_or(0);
    let passed = prompts[..first].to_vec();
    if first > 0 {
        prompts[..=first].rotate_right(1);
    }
    for i in prompts.into_iter().take(most) {
        rows[i] = pending[i].tokens.min(pending[i].most).min(left);
        left -= rows[i];
    }
    Plan { rows, passed }
}

/// A waiting request, as far as admission looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Tokens that have to be computed before its first one is chosen.
    pub rest: usize,
    /// Whether another request runs in the sequence that it asks for: it lets others pass until that is free.
    pub busy: bool,
    /// Whether another request is computing what it begins with.
    pub held_back: bool,
    /// Whether there are pages for it.
    pub fits: bool,
    /// How often younger ones went before it.
    pub passed: u32,
}

/// Which of the waiting requests, in the order of arrival, may run now. The oldest; but one that is held back, or too long
/// for a step of `chunk` rows and for the pages that are left, lets others pass four times: where it is not held back only
/// such as do fit.
pub fn admit(waiting: impl Iterator<Item = Candidate>, chunk: usize) -> Option<usize> {
    let mut short_only = false;
    for (i, c) in waiting.enumerate().filter(|(_, c)| !c.busy) {
        if !c.held_back && c.fits && (!short_only || c.rest <= chunk) {
            return Some(i);
        }
        if c.passed >= PASSES || (!c.held_back && c.rest <= chunk) {
            return None;
        }
        short_only |= !c.held_back;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_comes_first_and_then_two_prompts() {
        let decode = |order| Pending { tokens: 1, most: 1, decodes: true, drafted: 0, order, passed: 0 };
        let prompt = |tokens, order| Pending { tokens, most: usize::MAX, decodes: false, drafted: 0, order, passed: 0 };
        let passed = |tokens, order, passed| Pending { passed, ..prompt(tokens, order) };
        for (pending, beside, rows, were_passed) in [
            (vec![prompt(100, 0)], 16, vec![64], vec![]),
            (vec![prompt(10, 0)], 16, vec![10], vec![]),
            (vec![decode(0), prompt(100, 1)], 48, vec![1, 48], vec![]),
            (vec![decode(0), prompt(100, 1)], 8, vec![1, 8], vec![]),
            // A batch has a size too.
            (vec![decode(0), prompt(100, 1)], 512, vec![1, 63], vec![]),
            (vec![prompt(100, 5), decode(2), prompt(40, 3)], 48, vec![8, 1, 40], vec![]),
            (vec![prompt(100, 5), prompt(100, 3)], 16, vec![0, 64], vec![]),
            // Two prompts beside decoding, whatever is left; as many as fit where nobody waits for his next token.
            (vec![decode(0), prompt(9, 1), prompt(9, 2), prompt(9, 3)], 48, vec![1, 9, 9, 0], vec![]),
            (vec![prompt(9, 0), prompt(9, 1), prompt(9, 2)], 16, vec![9, 9, 9], vec![]),
            // A short one passes longer ones, but not for ever.
            (vec![prompt(100, 0), prompt(100, 1), prompt(40, 2)], 16, vec![24, 0, 40], vec![0, 1]),
            (vec![prompt(100, 0), passed(100, 1, 4), prompt(40, 2)], 16, vec![64, 0, 0], vec![]),
            (vec![passed(100, 0, 3), prompt(64, 1), prompt(40, 2)], 16, vec![0, 64, 0], vec![0]),
            (vec![Pending { most: 7, ..prompt(100, 0) }, prompt(100, 1)], 16, vec![7, 57], vec![]),
            (vec![], 16, vec![], vec![]),
        ] {
            let found = plan(&pending, Budget { rows: 64, beside });
            assert_eq!(found, Plan { rows, passed: were_passed }, "{pending:?}");
        }
        let all = vec![decode(0); 70];
        assert_eq!(plan(&all, Budget { rows: 64, beside: 16 }).rows, [1; 70], "all of them, always");
    }

    #[test]
    fn steps_are_multiples() {
        for (rows, decodes, multiple, expected) in [
            (38, 3, 6, 33),
            (39, 3, 6, 39),
            (8, 100, 6, 8),
            (8, 101, 6, 7),
            (3, 1, 6, 0),
            (40, 0, 16, 32),
            (7, 5, 1, 7),
        ] {
            assert_eq!(whole(rows, decodes, multiple), expected, "{rows} beside {decodes}, multiples of {multiple}");
        }
        assert!(whole(usize::MAX, 3, 16) > 1 << 40);
    }

    #[test]
    fn the_oldest_is_next_unless_it_cannot_start() {
        let ready = |rest| Candidate { rest, busy: false, held_back: false, fits: true, passed: 0 };
        let large = |rest, passed| Candidate { fits: false, passed, ..ready(rest) };
        let held = |passed| Candidate { held_back: true, passed, ..ready(300) };
        for (waiting, expected) in [
            (vec![], None),
            (vec![ready(500), ready(5)], Some(0)),
            (vec![large(500, 0), ready(5)], Some(1)),
            (vec![large(500, 3), ready(500), ready(5)], Some(2)),
            (vec![large(500, 4), ready(5)], None),
            (vec![large(500, 0), large(500, 4), ready(5)], None),
            // It would run if there were pages: it is next.
            (vec![large(5, 0), ready(5)], None),
            (vec![held(0), ready(500)], Some(1)),
            (vec![held(4), ready(500)], None),
            (vec![held(0), large(500, 0), ready(500), ready(64)], Some(3)),
            // Whose sequence is busy is in nobody's way, however often it was passed.
            (vec![Candidate { busy: true, ..held(4) }, Candidate { busy: true, ..ready(5) }, ready(500)], Some(2)),
            (vec![Candidate { busy: true, ..ready(5) }], None),
        ] {
            assert_eq!(admit(waiting.iter().copied(), 64), expected, "{waiting:?}");
        }
    }
}
