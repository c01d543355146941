//! Lists and ranges of numbers as llama-bench writes them: `512,1024`, `1-4`, `1-9+2`, `256-4096*2`.

use std::iter::successors;

/// The most numbers that one flag may stand for.
const MOST: usize = 1000;
/// What stands for numbers.
const FORMS: &str = "separated by commas, or ranges: first-last, first-last+step, first-last*factor";

/// The numbers that one value of a flag stands for.
#[derive(Debug, Clone)]
pub struct Numbers(pub Vec<i64>);

/// The numbers of all occurrences of a flag.
pub fn numbers(given: &[Numbers]) -> Vec<i64> {
    given.iter().flat_map(|numbers| numbers.0.clone()).collect()
}

/// The same of a flag of counts, or the one that stands for none.
pub fn all(given: &[Numbers], otherwise: usize) -> Vec<usize> {
    if given.is_empty() { vec![otherwise] } else { numbers(given).into_iter().map(|n| n as usize).collect() }
}

/// What clap reads such a flag with; no number is below `first` or above `last`.
pub fn list(first: i64, last: i64) -> impl Fn(&str) -> Result<Numbers, String> + Clone {
    move |text| {
        let expected = || format!("expected numbers from {first} to {last}, {FORMS}");
        let mut numbers = Vec::new();
        for part in text.split(',').map(str::trim) {
            let allowed = |r: &(i64, i64, char, i64)| first <= r.0.min(r.1) && r.0.max(r.1) <= last;
            let (from, to, sign, step) = range(part).filter(allowed).ok_or_else(expected)?;
            let stepped = |n: &i64| if sign == '*' { n.saturating_mul(step) } else { n.saturating_add(step) };
            let next = |n: &i64| Some(stepped(n)).filter(|next| next > n);
            if to < from {
                return Err(format!("{part}: the last number is below the first"));
            }
            if from < to && next(&from).is_none() {
                return Err(format!("{part}: the step does not lead to {to}"));
            }
            numbers.extend(successors(Some(from), next).take_while(|n| *n <= to).take(MOST + 1));
            // Asked of each part: a command line has room for many.
            if numbers.len() > MOST {
                return Err(format!("more than {MOST} numbers"));
            }
        }
        Ok(Numbers(numbers))
    }
}

/// First and last number, and how one leads to the next: `+` or `*`, and by how much.
fn range(text: &str) -> Option<(i64, i64, char, i64)> {
    let number = |digits: &str| digits.parse::<i64>().ok().filter(|_| !digits.starts_with('+'));
    // A minus in front belongs to the first number.
    let Some((dash, _)) = text.char_indices().skip(1).find(|c| c.1 == '-') else {
        return number(text).map(|n| (n, n, '+', 1));
    };
    let (first, rest) = (number(&text[..dash])?, &text[dash + 1..]);
    let sign = if rest.contains('*') { '*' } else { '+' };
    let (last, step) = rest.split_once(sign).unwrap_or((rest, "1"));
    Some((first, number(last)?, sign, number(step)?))
}
