//! What the rules have in common: runs of characters by class, and the ends that many expressions share.

use std::ops::Range;

use super::super::classes::Class;

/// The first character and its class.
pub fn first(text: &str) -> Option<(char, Class)> {
    text.chars().next().map(|c| (c, Class::of(c)))
}

/// Class of the character at `at`; `None` at the end.
pub fn class_at(text: &str, at: usize) -> Option<Class> {
    first(&text[at..]).map(|(_, class)| class)
}

/// `[\r\n]`
pub fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// End of the run of accepted characters that begins at `start`.
pub fn run(text: &str, start: usize, accept: impl Fn(char, Class) -> bool) -> usize {
    let end = |(at, c)| (!accept(c, Class::of(c))).then_some(start + at);
    text[start..].char_indices().find_map(end).unwrap_or(text.len())
}

/// The first run of accepted characters.
pub fn first_run(text: &str, accept: impl Fn(char, Class) -> bool) -> Option<Range<usize>> {
    let start = text.char_indices().find(|&(_, c)| accept(c, Class::of(c)))?.0;
    Some(start..run(text, start, accept))
}

/// The first run of accepted characters, together with one white space before it.
pub fn first_run_after_space(text: &str, accept: impl Fn(char, Class) -> bool) -> Option<Range<usize>> {
    let mut before = None;
    for (at, c) in text.char_indices() {
        let class = Class::of(c);
        // White space takes its place before a run even where it is itself accepted.
        if accept(c, class) {
            return Some(before.unwrap_or(at)..run(text, at, accept));
        }
        before = (class == Class::Space).then_some(at);
    }
    None
}

/// The first numbers, up to `most` of them.
pub fn first_numbers(text: &str, most: usize) -> Option<Range<usize>> {
    let start = text.char_indices().find(|&(_, c)| Class::of(c) == Class::Number)?.0;
    Some(start..start + numbers(&text[start..], most))
}

/// End of up to `most` numbers at the start.
pub fn numbers(text: &str, most: usize) -> usize {
    let number = |&c: &char| Class::of(c) == Class::Number;
    text.chars().take(most).take_while(number).map(char::len_utf8).sum()
}

/// A space or none, one or more characters that `sign` accepts, and then those that `tail` accepts.
pub fn signs(text: &str, sign: impl Fn(Class) -> bool, tail: impl Fn(char) -> bool) -> Option<usize> {
    let start = usize::from(text.starts_with(' '));
    let end = run(text, start, |_, class| sign(class));
    (end > start).then(|| run(text, end, |c, _| tail(c)))
}

/// `\s*[\r\n]+`: white space up to and with its last line end.
pub fn lines(text: &str) -> Option<usize> {
    let white = &text[..run(text, 0, |_, class| class == Class::Space)];
    white.rfind(is_line_end).map(|at| at + 1)
}

/// `\s+(?!\S)|\s+`: white space, of which the last is left to a word that follows.
pub fn spaces(text: &str) -> usize {
    let end = run(text, 0, |_, class| class == Class::Space);
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    if end == text.len() || end == last { end } else { end - last }
}

/// How letters of a contraction are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// `(?i:…)`
    Any,
    /// As they are written.
    Lower,
}

/// Length of `'s|'t|'re|'ve|'m|'ll|'d` at `at`.
pub fn contraction(text: &str, at: usize, case: Case) -> Option<usize> {
    // U+017F is an s when case is ignored.
    let fold = |c: char| match case {
        Case::Any if c == 'ſ' => 's',
        Case::Any => c.to_ascii_lowercase(),
        Case::Lower => c,
    };
    let mut chars = text[at..].strip_prefix('\'')?.chars();
    let a = chars.next()?;
    match (fold(a), chars.next().map(fold)) {
        ('s' | 't' | 'm' | 'd', _) => Some(1 + a.len_utf8()),
        ('r' | 'v', Some('e')) | ('l', Some('l')) => Some(3),
        _ => None,
    }
}
