//! Which tokens go through the layers together: a pure function of what the sequences still have to compute.

/// A running sequence, as far as planning looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Tokens that are known and not in the cache yet.
    pub tokens: usize,
    /// Most of them that one step takes.
    pub most: usize,
    /// Whether it is a decode step: its one token was sampled.
    pub decodes: bool,
    /// Its place in the order of arrival.
    pub order: u64,
}

/// Rows of each sequence in the next step, in the order of `pending`. Every decoding sequence has its row; what is left of
/// `budget` (at least one row) goes to prompts, the oldest first.
pub fn rows(pending: &[Pending], budget: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = pending.iter().map(|p| usize::from(p.decodes)).collect();
    let mut left = budget.saturating_sub(rows.iter().sum()).max(1);
    let mut prompts: Vec<usize> = (0..pending.len()).filter(|&i| !pending[i].decodes).collect();
    prompts.sort_by_key(|&i| pending[i].order);
    for i in prompts {
        rows[i] = pending[i].tokens.min(pending[i].most).min(left);
        left -= rows[i];
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_comes_first_and_then_the_oldest_prompt() {
        let decode = |order| Pending { tokens: 1, most: 1, decodes: true, order };
        let prompt = |tokens, order| Pending { tokens, most: usize::MAX, decodes: false, order };
        for (pending, budget, expected) in [
            (vec![prompt(100, 0)], 64, vec![64]),
            (vec![prompt(10, 0)], 64, vec![10]),
            (vec![decode(0), prompt(100, 1)], 64, vec![1, 63]),
            (vec![prompt(100, 5), decode(2), prompt(40, 3)], 64, vec![23, 1, 40]),
            (vec![prompt(100, 5), prompt(100, 3)], 64, vec![0, 64]),
            (vec![decode(0), decode(1), decode(2), prompt(9, 3)], 2, vec![1, 1, 1, 1]),
            (vec![Pending { most: 7, ..prompt(100, 0) }, prompt(100, 1)], 64, vec![7, 57]),
            (vec![], 64, vec![]),
        ] {
            assert_eq!(rows(&pending, budget), expected, "{pending:?}");
        }
    }
}
