//! Which parts of a grammar may be lexemes.
//!
//! llguidance cuts a text into lexemes first, the longest that fits, and never goes back on that. A GBNF grammar knows no
//! lexemes: every way to cut is good. So a part of a rule becomes a lexeme only if that changes nothing: no text that it
//! matches can be made longer, towards any lexeme, by a character that may also follow it. What fails is cut into single
//! characters, which never fail. (One lexeme for each character everywhere would be right too, but too slow: the parser
//! would take a step for every character of every token of the vocabulary.)

use super::{chars::Chars, parse::Expr};

/// Most characters of all lexemes, repetitions written out; a grammar with more is cut into single characters.
const MAX_PLACES: usize = 1500;

/// The places of a lexeme where characters stand, and which place may follow which.
#[derive(Debug, Default, Clone)]
pub struct Places {
    chars: Vec<Chars>,
    next: Vec<Vec<usize>>,
    first: Vec<usize>,
    last: Vec<bool>,
    empty: bool,
}

/// Where a part of an expression begins and ends.
struct Ends {
    first: Vec<usize>,
    last: Vec<usize>,
    empty: bool,
}

impl Places {
    /// The places of an expression without recursion; `None`: too many.
    pub fn new(expr: &Expr, rules: &[Expr]) -> Option<Self> {
        let mut places = Self::default();
        let ends = places.add(expr, rules)?;
        (places.first, places.empty) = (ends.first, ends.empty);
        places.last = vec![false; places.chars.len()];
        ends.last.into_iter().for_each(|place| places.last[place] = true);
        Some(places)
    }

    pub fn len(&self) -> usize {
        self.chars.len()
    }

    fn add(&mut self, expr: &Expr, rules: &[Expr]) -> Option<Ends> {
        let nothing = Ends { first: Vec::new(), last: Vec::new(), empty: true };
        match expr {
            Expr::Chars(chars) => {
                if self.chars.len() >= MAX_PLACES {
                    return None;
                }
                let place = self.chars.len();
                self.chars.push(chars.clone());
                self.next.push(Vec::new());
                Some(Ends { first: vec![place], last: vec![place], empty: false })
            }
            Expr::Rule(rule) => self.add(&rules[*rule], rules),
            Expr::Seq(parts) => parts.iter().try_fold(nothing, |before, part| {
                let after = self.add(part, rules)?;
                Some(self.join(before, after))
            }),
            Expr::Alt(parts) => {
                let mut all = Ends { empty: false, ..nothing };
                for part in parts {
                    let ends = self.add(part, rules)?;
                    all.first.extend(ends.first);
                    all.last.extend(ends.last);
                    all.empty |= ends.empty;
                }
                Some(all)
            }
            Expr::Repeat(part, min, max) => {
                let mut all = nothing;
                for count in 0..max.unwrap_or((*min).max(1)) {
                    let mut ends = self.add(part, rules)?;
                    ends.empty |= count >= *min;
                    // The last of an endless repetition comes again and again.
                    if max.is_none() && count + 1 == (*min).max(1) {
                        self.link(&ends.last, &ends.first);
                    }
                    all = self.join(all, ends);
                }
                Some(all)
            }
        }
    }

    fn link(&mut self, from: &[usize], to: &[usize]) {
        from.iter().for_each(|&place| self.next[place].extend(to));
    }

    fn join(&mut self, before: Ends, after: Ends) -> Ends {
        self.link(&before.last, &after.first);
        let [mut first, mut last] = [before.first, after.last];
        if before.empty {
            first.extend(&after.first);
        }
        if after.empty {
            last.extend(before.last);
        }
        Ends { first, last, empty: before.empty && after.empty }
    }

    /// Whether a text of this lexeme, made longer by one of `chars`, may be the beginning of a text of `other`.
    pub fn grows_into(&self, other: &Self, chars: &[&Chars]) -> bool {
        let (n, m) = (self.len(), other.len());
        let mut seen = vec![false; n * m];
        let mut open: Vec<(usize, usize)> = Vec::new();
        let pairs = |a: &[usize], b: &[usize]| -> Vec<(usize, usize)> {
            a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b))).collect()
        };
        let mut found = pairs(&self.first, &other.first);
        loop {
            for (a, b) in found.drain(..) {
                if !seen[a * m + b] && self.chars[a].meets(&other.chars[b]) {
                    seen[a * m + b] = true;
                    open.push((a, b));
                }
            }
            let Some((a, b)) = open.pop() else { return false };
            let longer = |next: &usize| chars.iter().any(|chars| chars.meets(&other.chars[*next]));
            if self.last[a] && other.next[b].iter().any(longer) {
                return true;
            }
            found = pairs(&self.next[a], &other.next[b]);
        }
    }

    /// Whether nothing at all is a text of this lexeme.
    pub fn may_be_empty(&self) -> bool {
        self.empty
    }

    /// The characters that a text of this lexeme may begin with.
    pub fn begins(&self) -> impl Iterator<Item = &Chars> {
        self.first.iter().map(|&place| &self.chars[place])
    }
}

/// Whether all lexemes together have few enough places to be compared.
pub fn comparable(all: &[Places]) -> bool {
    all.iter().map(Places::len).sum::<usize>() <= MAX_PLACES
}
