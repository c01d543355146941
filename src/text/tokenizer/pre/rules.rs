//! The rules that pre-tokenizers are made of. Each stands for a regular expression, which its
//! comment gives; the tests compare the two over generated texts. All take time in proportion to
//! what they match or skip.

use std::ops::Range;

use super::{super::classes::Class, cased::CASED};

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
pub fn llama3(text: &str) -> Option<Range<usize>> {
    words_and_numbers(text, 3)
}

/// As [`llama3`], but each digit alone: `\p{N}`.
pub fn qwen2(text: &str) -> Option<Range<usize>> {
    words_and_numbers(text, 1)
}

fn words_and_numbers(text: &str, digits: usize) -> Option<Range<usize>> {
    let (c, class) = first(text)?;
    let after = c.len_utf8();
    if c == '\''
        && let Some(len) = contraction(&text[after..], AnyCase)
    {
        return Some(0..after + len);
    }
    let end = match class {
        class if class.is_letter() => run(text, after, |_, k| k.is_letter()),
        Class::Number => numbers(text, digits),
        _ if !is_line_end(c) && class_at(text, after).is_some_and(Class::is_letter) => {
            run(text, after, |_, k| k.is_letter())
        }
        _ => symbols(text, is_line_end).or_else(|| lines(text)).unwrap_or_else(|| spaces(text)),
    };
    Some(0..end)
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub fn gpt2(text: &str) -> Option<Range<usize>> {
    let (c, mut class) = first(text)?;
    if c == '\''
        && let Some(len) = contraction(&text[1..], LowerCase)
    {
        return Some(0..1 + len);
    }
    let start = usize::from(c == ' ');
    if c == ' ' {
        class = class_at(text, start).unwrap_or(Class::Space);
    }
    let end = match class {
        class if class.is_letter() => run(text, start, |_, k| k.is_letter()),
        Class::Number => run(text, start, |_, k| k == Class::Number),
        Class::Space => spaces(text),
        _ => run(text, start, |_, k| k.is_symbol()),
    };
    Some(0..end)
}

/// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
pub fn tekken(text: &str) -> Option<Range<usize>> {
    let (c, class) = first(text)?;
    let after = c.len_utf8();
    let can_lead = !is_line_end(c) && !class.is_letter() && class != Class::Number;
    let end = can_lead
        .then(|| ends_in_lower(text, after))
        .flatten()
        .or_else(|| ends_in_lower(text, 0))
        .or_else(|| can_lead.then(|| upper(text, after)).flatten())
        .or_else(|| upper(text, 0))
        .or_else(|| (class == Class::Number).then_some(after))
        .or_else(|| symbols(text, |c| is_line_end(c) || c == '/'))
        .or_else(|| lines(text))
        .unwrap_or_else(|| spaces(text));
    Some(0..end)
}

fn may_be_upper(_: char, class: Class) -> bool {
    matches!(class, Class::Upper | Class::Letter | Class::Mark)
}

fn may_be_lower(_: char, class: Class) -> bool {
    matches!(class, Class::Lower | Class::Letter | Class::Mark)
}

/// End of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` from `start` on. The first part
/// takes what it can and gives back up to the last character that the second can begin with.
fn ends_in_lower(text: &str, start: usize) -> Option<usize> {
    let upper_end = run(text, start, may_be_upper);
    let end = run(text, upper_end, may_be_lower);
    if end > upper_end {
        return Some(end);
    }
    let last = |(at, c): (usize, char)| may_be_lower(c, Class::of(c)).then_some(start + at + c.len_utf8());
    text[start..upper_end].char_indices().rev().find_map(last)
}

/// End of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+` from `start` on. What may follow has been tried.
fn upper(text: &str, start: usize) -> Option<usize> {
    Some(run(text, start, may_be_upper)).filter(|&end| end > start)
}

/// `\p{N}`
pub fn digit(text: &str) -> Option<Range<usize>> {
    let is_number = |(at, c): (usize, char)| (Class::of(c) == Class::Number).then_some(at..at + c.len_utf8());
    text.char_indices().find_map(is_number)
}

/// `\p{N}+`
pub fn digits(text: &str) -> Option<Range<usize>> {
    first_run(text, |_, class| class == Class::Number)
}

/// `[0-9][0-9][0-9]`
pub fn three_digits(text: &str) -> Option<Range<usize>> {
    let start = text.as_bytes().windows(3).position(|w| w.iter().all(u8::is_ascii_digit))?;
    Some(start..start + 3)
}

/// `[\p{P}\$\+<=>\^~\|]+`
pub fn punctuation(text: &str) -> Option<Range<usize>> {
    first_run(text, |c, class| class == Class::Punctuation || matches!(c, '$' | '+' | '<'..='>' | '^' | '~' | '|'))
}

/// [`punctuation`] and the back-tick: ``[\p{P}\$\+<=>\^~\|`]+``
pub fn falcon_punctuation(text: &str) -> Option<Range<usize>> {
    first_run(text, |c, class| {
        class == Class::Punctuation || matches!(c, '$' | '+' | '<'..='>' | '^' | '~' | '|' | '`')
    })
}

/// `[\r\n]`
pub fn line_end(text: &str) -> Option<Range<usize>> {
    text.find(is_line_end).map(|at| at..at + 1)
}

/// `\s+$`
pub fn trailing_space(text: &str) -> Option<Range<usize>> {
    let start = text.trim_end().len();
    (start < text.len()).then_some(start..text.len())
}

/// `[一-龥ࠀ-一가-퟿]+`
pub fn cjk(text: &str) -> Option<Range<usize>> {
    first_run(text, |c, _| matches!(c, '\u{800}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7ff}'))
}

/// `\s?[!-/:-~！-／：-～‘-‟　-。]+`
pub fn wide_punctuation(text: &str) -> Option<Range<usize>> {
    first_run_after_space(
        text,
        |c| matches!(c, '!'..='/' | ':'..='~' | '！'..='／' | '：'..='～' | '‘'..='‟' | '\u{3000}'..='。'),
    )
}

/// `\s?[…]+` with the letters of the bicameral scripts.
pub fn cased_letters(text: &str) -> Option<Range<usize>> {
    first_run_after_space(text, is_cased)
}

fn is_cased(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    let after = CASED.partition_point(|&(start, _)| start <= c);
    after > 0 && c <= CASED[after - 1].1
}

// What the rules have in common.

fn first(text: &str) -> Option<(char, Class)> {
    text.chars().next().map(|c| (c, Class::of(c)))
}

fn class_at(text: &str, at: usize) -> Option<Class> {
    first(&text[at..]).map(|(_, class)| class)
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// End of the run of accepted characters that begins at `start`.
fn run(text: &str, start: usize, accept: impl Fn(char, Class) -> bool) -> usize {
    let end = |(at, c)| (!accept(c, Class::of(c))).then_some(start + at);
    text[start..].char_indices().find_map(end).unwrap_or(text.len())
}

/// The first run of accepted characters.
fn first_run(text: &str, accept: impl Fn(char, Class) -> bool) -> Option<Range<usize>> {
    let start = text.char_indices().find(|&(_, c)| accept(c, Class::of(c)))?.0;
    Some(start..run(text, start, accept))
}

/// The first run of accepted characters, together with one white space before it.
fn first_run_after_space(text: &str, accept: impl Fn(char) -> bool) -> Option<Range<usize>> {
    let mut before = None;
    for (at, c) in text.char_indices() {
        // White space takes its place before a run even where it is itself accepted.
        if accept(c) {
            return Some(before.unwrap_or(at)..run(text, at, |c, _| accept(c)));
        }
        before = c.is_whitespace().then_some(at);
    }
    None
}

/// End of up to `most` numbers at the start.
fn numbers(text: &str, most: usize) -> usize {
    let number = |&c: &char| Class::of(c) == Class::Number;
    text.chars().take(most).take_while(number).map(char::len_utf8).sum()
}

/// ` ?[^\s\p{L}\p{N}]+` and then the characters that `tail` accepts.
fn symbols(text: &str, tail: impl Fn(char) -> bool) -> Option<usize> {
    let start = usize::from(text.starts_with(' '));
    let end = run(text, start, |_, class| class.is_symbol());
    (end > start).then(|| run(text, end, |c, _| tail(c)))
}

/// `\s*[\r\n]+`: white space up to and with its last line end.
fn lines(text: &str) -> Option<usize> {
    let white = &text[..run(text, 0, |_, class| class == Class::Space)];
    white.rfind(is_line_end).map(|at| at + 1)
}

/// `\s+(?!\S)|\s+`: white space, of which the last is left to a word that follows.
fn spaces(text: &str) -> usize {
    let end = run(text, 0, |_, class| class == Class::Space);
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    if end == text.len() || end == last { end } else { end - last }
}

use Case::{AnyCase, LowerCase};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    AnyCase,
    LowerCase,
}

/// Length of what follows the apostrophe in `'s|'t|'re|'ve|'m|'ll|'d`.
fn contraction(text: &str, case: Case) -> Option<usize> {
    // U+017F is an s when case is ignored.
    let fold = |c: char| {
        if case == AnyCase && c == 'ſ' {
            's'
        } else if case == AnyCase {
            c.to_ascii_lowercase()
        } else {
            c
        }
    };
    let mut chars = text.chars();
    let a = chars.next()?;
    match (fold(a), chars.next().map(fold)) {
        ('s' | 't' | 'm' | 'd', _) => Some(a.len_utf8()),
        ('r' | 'v', Some('e')) | ('l', Some('l')) => Some(2),
        _ => None,
    }
}
