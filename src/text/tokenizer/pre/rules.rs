//! The rules that pre-tokenizers are made of. Each stands for a regular expression, which its
//! comment gives; the tests compare the two over generated texts. All take time in proportion to
//! what they match or skip.

use std::ops::Range;

use super::{
    super::classes::Class,
    scan::{
        Case, class_at, contraction, first, first_numbers, first_run, first_run_after_space, is_line_end, lines,
        numbers, run, signs, spaces,
    },
    scripts::{CASED, HAN, ZEROS},
};

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
pub fn llama3(text: &str) -> Option<Range<usize>> {
    words(text, Class::is_letter, 3, is_line_end)
}

/// As [`llama3`], but each digit alone: `\p{N}`.
pub fn qwen2(text: &str) -> Option<Range<usize>> {
    words(text, Class::is_letter, 1, is_line_end)
}

/// As [`qwen2`], with combining marks among the letters: `[\p{L}\p{M}]+`, `[^\s\p{L}\p{M}\p{N}]+`.
pub fn qwen35(text: &str) -> Option<Range<usize>> {
    words(text, Class::is_letter_or_mark, 1, is_line_end)
}

/// As [`qwen2`], but all digits together: `\p{N}+`.
pub fn minicpm5(text: &str) -> Option<Range<usize>> {
    words(text, Class::is_letter, usize::MAX, is_line_end)
}

/// As [`qwen2`], but no line ends behind signs: ` ?[^\s\p{L}\p{N}\r\n]+`.
pub fn seed_coder(text: &str) -> Option<Range<usize>> {
    words(text, Class::is_letter, 1, |_| false)
}

/// Contractions, words of `letter`, up to `digits` numbers, signs with `tail` behind them, white space.
fn words(text: &str, letter: fn(Class) -> bool, digits: usize, tail: fn(char) -> bool) -> Option<Range<usize>> {
    let (c, class) = first(text)?;
    if let Some(len) = contraction(text, 0, Case::Any) {
        return Some(0..len);
    }
    let after = c.len_utf8();
    let sign = |class| !letter(class) && !matches!(class, Class::Number | Class::Space);
    let end = match class {
        class if letter(class) => run(text, after, |_, k| letter(k)),
        Class::Number => numbers(text, digits),
        _ if !is_line_end(c) && class_at(text, after).is_some_and(letter) => run(text, after, |_, k| letter(k)),
        _ => signs(text, sign, tail).or_else(|| lines(text)).unwrap_or_else(|| spaces(text)),
    };
    Some(0..end)
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub fn gpt2(text: &str) -> Option<Range<usize>> {
    let (c, mut class) = first(text)?;
    if let Some(len) = contraction(text, 0, Case::Lower) {
        return Some(0..len);
    }
    let start = usize::from(c == ' ');
    if c == ' ' {
        class = class_at(text, start).unwrap_or(Class::Space);
    }
    let end = match class {
        class if class.is_letter() => run(text, start, |_, k| k.is_letter()),
        Class::Number => run(text, start, |_, k| k == Class::Number),
        Class::Space => spaces(text),
        _ => run(text, start, |_, k| no_word(k)),
    };
    Some(0..end)
}

/// `[^\s\p{L}\p{N}]`
fn no_word(class: Class) -> bool {
    !class.is_letter() && !matches!(class, Class::Number | Class::Space)
}

/// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
pub fn tekken(text: &str) -> Option<Range<usize>> {
    if let Some(end) = cased_word(text, |_| true) {
        return Some(0..end);
    }
    numbers_signs_spaces(text, 1, slash)
}

/// As [`tekken`], with `(?i:'s|'t|'re|'ve|'m|'ll|'d)?` at the end of words and numbers of three digits: `\p{N}{1,3}`.
pub fn gpt4o(text: &str) -> Option<Range<usize>> {
    word_with_contraction(text, |_| true).or_else(|| numbers_signs_spaces(text, 3, slash))
}

/// As [`gpt4o`], but each digit alone: `\p{N}`.
pub fn youtu(text: &str) -> Option<Range<usize>> {
    word_with_contraction(text, |_| true).or_else(|| numbers_signs_spaces(text, 1, slash))
}

/// `\p{Han}+` before all else; then as [`gpt4o`] without such letters in its words, and without `/` behind signs:
/// `[…&&[^\p{Han}]]`, `[\r\n]*`.
pub fn kimi_k2(text: &str) -> Option<Range<usize>> {
    let han = run(text, 0, |c, _| is_han(c));
    if han > 0 {
        return Some(0..han);
    }
    word_with_contraction(text, |c| !is_han(c)).or_else(|| numbers_signs_spaces(text, 3, is_line_end))
}

/// Behind signs: `[\r\n/]`.
fn slash(c: char) -> bool {
    is_line_end(c) || c == '/'
}

fn word_with_contraction(text: &str, letter: fn(char) -> bool) -> Option<Range<usize>> {
    let end = cased_word(text, letter)?;
    Some(0..end + contraction(text, end, Case::Any).unwrap_or(0))
}

/// What [`tekken`] and those like it do where no word begins.
fn numbers_signs_spaces(text: &str, digits: usize, tail: fn(char) -> bool) -> Option<Range<usize>> {
    let end = match first(text)?.1 {
        Class::Number => numbers(text, digits),
        _ => signs(text, no_word, tail).or_else(|| lines(text)).unwrap_or_else(|| spaces(text)),
    };
    Some(0..end)
}

/// End of a word of capital letters and then small ones, with another character before it perhaps; of letters and marks that
/// `letter` accepts.
fn cased_word(text: &str, letter: fn(char) -> bool) -> Option<usize> {
    let (c, class) = first(text)?;
    let can_lead = !is_line_end(c) && !class.is_letter() && class != Class::Number;
    let after = c.len_utf8();
    can_lead
        .then(|| ends_in_lower(text, after, letter))
        .flatten()
        .or_else(|| ends_in_lower(text, 0, letter))
        .or_else(|| can_lead.then(|| upper(text, after, letter)).flatten())
        .or_else(|| upper(text, 0, letter))
}

fn may_be_upper(class: Class) -> bool {
    matches!(class, Class::Upper | Class::Letter | Class::Mark)
}

fn may_be_lower(class: Class) -> bool {
    matches!(class, Class::Lower | Class::Letter | Class::Mark)
}

/// End of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` from `start` on. The first part
/// takes what it can and gives back up to the last character that the second can begin with.
fn ends_in_lower(text: &str, start: usize, letter: fn(char) -> bool) -> Option<usize> {
    let upper_end = run(text, start, |c, class| may_be_upper(class) && letter(c));
    let end = run(text, upper_end, |c, class| may_be_lower(class) && letter(c));
    if end > upper_end {
        return Some(end);
    }
    let last = |(at, c): (usize, char)| may_be_lower(Class::of(c)).then_some(start + at + c.len_utf8());
    text[start..upper_end].char_indices().rev().find_map(last)
}

/// End of `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+` from `start` on. What may follow has been tried.
fn upper(text: &str, start: usize, letter: fn(char) -> bool) -> Option<usize> {
    Some(run(text, start, |c, class| may_be_upper(class) && letter(c))).filter(|&end| end > start)
}

/// ``[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``
pub fn deepseek_v3(text: &str) -> Option<Range<usize>> {
    // Controls and numbers that no word follows match nothing.
    text.char_indices().find_map(|(at, _)| marked_word(&text[at..]).map(|end| at..at + end))
}

/// End of what [`deepseek_v3`] matches at the start.
fn marked_word(text: &str) -> Option<usize> {
    let (c, class) = first(text)?;
    let after = c.len_utf8();
    if c.is_ascii_punctuation() {
        let end = run(text, after, |c, _| c.is_ascii_alphabetic());
        if end > after {
            return Some(end);
        }
    }
    let can_lead = !is_line_end(c) && !class.is_sign();
    if class.is_letter_or_mark() || can_lead && class_at(text, after).is_some_and(Class::is_letter_or_mark) {
        return Some(run(text, after, |_, k| k.is_letter_or_mark()));
    }
    let white = || lines(text).unwrap_or_else(|| spaces(text));
    signs(text, Class::is_sign, is_line_end).or_else(|| (class == Class::Space).then(white))
}

/// `[^\n]+|[\n]+`
pub fn line_feeds(text: &str) -> Option<Range<usize>> {
    let begins = text.starts_with('\n');
    Some(0..text.find(|c| (c == '\n') != begins).unwrap_or(text.len()))
}

/// `\p{N}`
pub fn digit(text: &str) -> Option<Range<usize>> {
    first_numbers(text, 1)
}

/// `\p{N}{1,3}`
pub fn up_to_three_digits(text: &str) -> Option<Range<usize>> {
    first_numbers(text, 3)
}

/// `\p{N}+`
pub fn digits(text: &str) -> Option<Range<usize>> {
    first_numbers(text, usize::MAX)
}

/// `[0-9][0-9][0-9]`
pub fn three_digits(text: &str) -> Option<Range<usize>> {
    let start = text.as_bytes().windows(3).position(|w| w.iter().all(u8::is_ascii_digit))?;
    Some(start..start + 3)
}

/// `\d{1,3}(?=(?:\d{3})*\b)`: digits by three, counted from their end, where a word ends there.
pub fn digits_by_three(text: &str) -> Option<Range<usize>> {
    let ends_word = |end: &usize| !text[*end..].chars().next().is_some_and(is_word);
    let (run, n) = digit_runs(text).find(|(run, _)| ends_word(&run.end))?;
    let first = text[run.start..].chars().take((n - 1) % 3 + 1).map(char::len_utf8).sum::<usize>();
    Some(run.start..run.start + first)
}

/// `(?=(\d{3})+(?!\d))`, which cuts and takes nothing: from one cut to the next.
pub fn before_three_digits(text: &str) -> Option<Range<usize>> {
    let mut cuts = digit_runs(text).flat_map(|(run, n)| {
        let chars = text[run.clone()].char_indices().enumerate();
        chars.filter(move |(i, _)| (n - i) % 3 == 0).map(move |(_, (at, _))| run.start + at)
    });
    let first = cuts.next()?;
    Some(first..cuts.next().unwrap_or(text.len()))
}

/// `\d+`: where each run is, and how many digits it has.
fn digit_runs(text: &str) -> impl Iterator<Item = (Range<usize>, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text[from..].find(is_digit)?;
        from = run(text, start, |c, _| is_digit(c));
        Some((start..from, text[start..from].chars().count()))
    })
}

/// `\d`: a decimal digit of any script.
pub fn is_digit(c: char) -> bool {
    let zero = ZEROS[..ZEROS.partition_point(|&zero| zero <= c)].last();
    c.is_ascii_digit() || zero.is_some_and(|&zero| c as u32 - (zero as u32) < 10)
}

/// `\w`: what `\b` takes for a part of a word.
pub fn is_word(c: char) -> bool {
    let joins = matches!(
        c,
        '_' | '\u{203f}' | '\u{2040}' | '\u{2054}' | '\u{fe33}' | '\u{fe34}' | '\u{fe4d}'..='\u{fe4f}' | '\u{ff3f}'
    );
    joins || c.is_alphabetic() || is_digit(c) || Class::of(c) == Class::Mark || matches!(c, '\u{200c}' | '\u{200d}')
}

/// ` ?[^(\s|.,!?…。，、।۔،)]+`
pub fn bloom(text: &str) -> Option<Range<usize>> {
    let word = |c: char, class| class != Class::Space && !"(|.,!?…。，、।۔،)".contains(c);
    let found = first_run(text, word)?;
    Some(found.start - usize::from(text[..found.start].ends_with(' '))..found.end)
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

/// `\s?\p{P}+`
pub fn spaced_punctuation(text: &str) -> Option<Range<usize>> {
    first_run_after_space(text, |_, class| class == Class::Punctuation)
}

/// `\s?\p{L}+`
pub fn spaced_letters(text: &str) -> Option<Range<usize>> {
    first_run_after_space(text, |_, class| class.is_letter())
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

/// `[一-龥぀-ゟ゠-ヿ]+`
pub fn han_and_kana(text: &str) -> Option<Range<usize>> {
    first_run(text, |c, _| matches!(c, '\u{4e00}'..='\u{9fa5}' | '\u{3040}'..='\u{30ff}'))
}

/// `[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`
pub fn east_asian_scripts(text: &str) -> Option<Range<usize>> {
    let script = |c: char| match c {
        '가'..='힣' | 'ㄱ'..='ㆎ' => Some(0),
        '！' | '…' | '“' | '”' | '‘' | '’' | '—' | '：' | '；' | '，' | '、'..='\u{303f}' | '︰'..='﹏' => {
            Some(1)
        }
        'ㄅ'..='ㄯ' => Some(2),
        '\u{4e00}'..='\u{9fa5}' | '\u{3040}'..='\u{30ff}' => Some(3),
        _ => None,
    };
    let (start, of) = text.char_indices().find_map(|(at, c)| Some((at, script(c)?)))?;
    Some(start..run(text, start, |c, _| script(c) == Some(of)))
}

/// `\s?[!-/:-~！-／：-～‘-‟　-。]+`
pub fn wide_punctuation(text: &str) -> Option<Range<usize>> {
    first_run_after_space(
        text,
        |c, _| matches!(c, '!'..='/' | ':'..='~' | '！'..='／' | '：'..='～' | '‘'..='‟' | '\u{3000}'..='。'),
    )
}

/// `\s?[…]+` with the letters of the bicameral scripts.
pub fn cased_letters(text: &str) -> Option<Range<usize>> {
    first_run_after_space(text, |c, _| is_cased(c))
}

fn is_cased(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { is_in(&CASED, c) }
}

/// `\p{Han}`
pub fn is_han(c: char) -> bool {
    !c.is_ascii() && is_in(&HAN, c)
}

fn is_in(ranges: &[(char, char)], c: char) -> bool {
    let after = ranges.partition_point(|&(start, _)| start <= c);
    after > 0 && c <= ranges[after - 1].1
}
