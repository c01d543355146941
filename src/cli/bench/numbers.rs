//! Lists and ranges of numbers as llama-bench writes them: `512,1024`, `1-4`, `1-9+2`, `256-4096*2`.

use std::ops::RangeInclusive;

/// The most numbers that one flag may stand for.
const MOST: usize = 1000;

/// The numbers that one value of a flag stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers(pub Vec<i64>);

/// Numbers from 0 on.
pub fn from_zero(text: &str) -> Result<Numbers, String> {
    parse(text, 0..=i64::from(i32::MAX))
}

/// Numbers from 1 on.
pub fn from_one(text: &str) -> Result<Numbers, String> {
    parse(text, 1..=i64::from(i32::MAX))
}

/// Numbers from 1 to what a machine may have of threads.
pub fn threads(text: &str) -> Result<Numbers, String> {
    parse(text, 1..=1024)
}

/// Numbers from -1 (all) on.
pub fn layers(text: &str) -> Result<Numbers, String> {
    parse(text, -1..=i64::from(i32::MAX))
}

fn parse(text: &str, allowed: RangeInclusive<i64>) -> Result<Numbers, String> {
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim) {
        let range = range(part).filter(|r| allowed.contains(&r.first) && allowed.contains(&r.last));
        let Range { first, last, sign, step } = range.ok_or_else(|| expected(&allowed))?;
        if last < first {
            return Err(format!("{part}: the last number is below the first"));
        }
        let mut n = first;
        while n <= last {
            if numbers.len() == MOST {
                return Err(format!("more than {MOST} numbers"));
            }
            numbers.push(n);
            let next = if sign == '*' { n.saturating_mul(step) } else { n.saturating_add(step) };
            if next <= n && n < last {
                return Err(format!("{part}: the step does not lead from {first} to {last}"));
            }
            n = next.max(n + 1);
        }
    }
    Ok(Numbers(numbers))
}

fn expected(allowed: &RangeInclusive<i64>) -> String {
    let (first, last) = (allowed.start(), allowed.end());
    format!(
        "expected numbers from {first} to {last}, separated by commas, or ranges: first-last, first-last+step, first-last*factor"
    )
}

/// `first-last`, and how one number leads to the next: `+step` or `*step`.
struct Range {
    first: i64,
    last: i64,
    sign: char,
    step: i64,
}

fn range(text: &str) -> Option<Range> {
    let number = |digits: &str| digits.parse::<i64>().ok().filter(|_| !digits.starts_with('+'));
    // A minus in front belongs to the first number.
    let Some((dash, _)) = text.char_indices().skip(1).find(|c| c.1 == '-') else {
        let first = number(text)?;
        return Some(Range { first, last: first, sign: '+', step: 1 });
    };
    let rest = &text[dash + 1..];
    let sign = rest.chars().find(|c| "+*".contains(*c)).unwrap_or('+');
    let (last, step) = rest.split_once(sign).unwrap_or((rest, "1"));
    Some(Range { first: number(&text[..dash])?, last: number(last)?, sign, step: number(step)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let cases: [(&str, &[i64]); 9] = [
            ("512", &[512]),
            ("512,1024", &[512, 1024]),
            ("1-4", &[1, 2, 3, 4]),
            ("1-9+3", &[1, 4, 7]),
            ("16-128*2", &[16, 32, 64, 128]),
            ("8,1-2,64-100*10", &[8, 1, 2, 64]),
            ("0", &[0]),
            ("-1", &[-1]),
            ("-1-1", &[-1, 0, 1]),
        ];
        for (text, expected) in cases {
            assert_eq!(layers(text).expect(text).0, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_says_what_one_is() {
        let cases = [
            ("", "expected numbers"),
            ("1,", "expected numbers"),
            ("x", "expected numbers"),
            ("1-", "expected numbers"),
            ("1-x+1", "expected numbers"),
            ("1-4+", "expected numbers"),
            ("1-4/2", "expected numbers"),
            ("+5", "expected numbers"),
            ("-5", "expected numbers from -1"),
            ("99999999999999999999", "expected numbers"),
            ("é-2", "expected numbers"),
            ("4-1", "below the first"),
            ("1-4+0", "does not lead"),
            ("0-4*2", "does not lead"),
            ("2-4*1", "does not lead"),
            ("1-2000000000", "more than 1000"),
        ];
        for (text, part) in cases {
            let error = layers(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(from_one("0").is_err() && from_zero("-1").is_err() && threads("1025").is_err());
    }
}
