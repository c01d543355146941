//! The text of a GBNF grammar to rules.

use std::collections::HashMap;

use super::{
    GrammarError,
    chars::{Chars, MAX_CHAR},
};

/// Deepest nesting of groups.
const MAX_DEPTH: usize = 64;
/// Largest count of a repetition.
const MAX_REPEAT: u32 = 100_000;

/// A part of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// One character of a set.
    Chars(Chars),
    /// A rule, by number.
    Rule(usize),
    /// One after the other; empty: nothing.
    Seq(Vec<Expr>),
    /// Any of them.
    Alt(Vec<Expr>),
    /// `min` to `max` times, one after the other; without `max`: any number from `min` on.
    Repeat(Box<Expr>, u32, Option<u32>),
}

/// The rules of a grammar.
#[derive(Debug)]
pub struct Rules {
    pub rules: Vec<Expr>,
    pub root: usize,
}

/// # Errors
/// What is no GBNF, with its line; a rule that is used and not defined; no rule `root`.
pub fn parse(text: &str) -> Result<Rules, GrammarError> {
    let mut parser =
        Parser { chars: text.chars().collect(), at: 0, names: HashMap::new(), rules: Vec::new(), depth: 0 };
    parser.space(true);
    while parser.peek().is_some() {
        parser.rule()?;
        parser.space(true);
    }
    let undefined = parser.names.iter().filter(|(_, rule)| parser.rules[rule.number].is_none());
    if let Some((name, rule)) = undefined.min_by_key(|(_, rule)| rule.line) {
        return Err(GrammarError::Gbnf { line: rule.line, detail: format!("the rule {name:?} is not defined") });
    }
    let root = parser.names.get("root").map(|rule| rule.number);
    let root =
        root.ok_or(GrammarError::Gbnf { line: 1, detail: "there is no rule \"root\", where a text begins".into() })?;
    Ok(Rules { rules: parser.rules.into_iter().flatten().collect(), root })
}

/// Where a name was met first.
struct Name {
    number: usize,
    line: usize,
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    names: HashMap<String, Name>,
    rules: Vec<Option<Expr>>,
    depth: usize,
}

type Result<T, E = GrammarError> = std::result::Result<T, E>;

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = self.chars[self.at..].iter().copied().take(text.chars().count()).eq(text.chars());
        self.at += if found { text.chars().count() } else { 0 };
        found
    }

    fn line(&self) -> usize {
        1 + self.chars[..self.at.min(self.chars.len())].iter().filter(|c| **c == '\n').count()
    }

    fn wrong<T>(&self, expected: &str) -> Result<T> {
        let found = match self.peek() {
            Some(c) => format!("{c:?}"),
            None => "the end".into(),
        };
        Err(GrammarError::Gbnf { line: self.line(), detail: format!("expected {expected}, found {found}") })
    }

    /// Skips white space and comments, and the ends of lines too where `lines`.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                        self.at += 1;
                    }
                }
                ' ' | '\t' => self.at += 1,
                '\n' | '\r' if lines => self.at += 1,
                _ => return,
            }
        }
    }

    fn name(&mut self) -> Option<String> {
        let word = |c: &&char| c.is_ascii_alphanumeric() || **c == '-' || **c == '_';
        let name: String = self.chars[self.at..].iter().take_while(word).collect();
        self.at += name.len();
        (!name.is_empty()).then_some(name)
    }

    fn number_of(&mut self, name: String) -> usize {
        let (line, next) = (self.line(), self.rules.len());
        let number = self.names.entry(name).or_insert(Name { number: next, line }).number;
        if number == next {
            self.rules.push(None);
        }
        number
    }

    fn rule(&mut self) -> Result<()> {
        let Some(name) = self.name() else { return self.wrong("the name of a rule") };
        let number = self.number_of(name.clone());
        self.space(false);
        if !self.takes("::=") {
            return self.wrong("\"::=\" after the name of a rule");
        }
        if self.rules[number].is_some() {
            let detail = format!("the rule {name:?} is defined twice");
            return Err(GrammarError::Gbnf { line: self.line(), detail });
        }
        self.space(true);
        let body = self.alternatives()?;
        self.rules[number] = Some(body);
        match self.peek() {
            None | Some('\n' | '\r') => Ok(()),
            Some(_) => self.wrong("the end of the line"),
        }
    }

    fn alternatives(&mut self) -> Result<Expr> {
        let mut all = vec![self.sequence()?];
        loop {
            // A line that begins with `|` goes on with the rule before it.
            let before = self.at;
            self.space(true);
            if !self.takes("|") {
                self.at = before;
                break;
            }
            self.space(true);
            all.push(self.sequence()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expr::Alt(all) })
    }

    fn sequence(&mut self) -> Result<Expr> {
        let mut all = Vec::new();
        loop {
            let part = match self.peek() {
                Some('"') => self.literal()?,
                Some('[') => self.set()?,
                Some('.') => {
                    self.at += 1;
                    Expr::Chars(Chars::any())
                }
                Some('(') => self.group()?,
                _ => match self.name() {
                    Some(name) => Expr::Rule(self.number_of(name)),
                    None => break,
                },
            };
            let part = self.repeated(part)?;
            all.push(part);
            self.space(self.depth > 0);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expr::Seq(all) })
    }

    fn group(&mut self) -> Result<Expr> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.wrong(&format!("at most {MAX_DEPTH} groups inside of each other"));
        }
        self.space(true);
        let inner = self.alternatives()?;
        self.space(true);
        self.depth -= 1;
        if !self.takes(")") {
            return self.wrong("\")\"");
        }
        Ok(inner)
    }

    /// A part with the repetitions behind it.
    fn repeated(&mut self, mut part: Expr) -> Result<Expr> {
        loop {
            let before = self.at;
            self.space(self.depth > 0);
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.bounds()?,
                _ => {
                    self.at = before;
                    return Ok(part);
                }
            };
            self.at += 1;
            part = Expr::Repeat(Box::new(part), min, max);
        }
    }

    /// `{m}`, `{m,}` or `{m,n}`, up to the closing brace.
    fn bounds(&mut self) -> Result<(u32, Option<u32>)> {
        self.at += 1;
        let min = self.count()?;
        let bounds = if self.takes(",") {
            self.space(true);
            (min, if self.peek() == Some('}') { None } else { Some(self.count()?) })
        } else {
            (min, Some(min))
        };
        match (self.peek(), bounds) {
            (Some('}'), (min, Some(max))) if max < min => self.wrong("a second count that is not below the first"),
            (Some('}'), bounds) => Ok(bounds),
            _ => self.wrong("\"}\""),
        }
    }

    fn count(&mut self) -> Result<u32> {
        self.space(true);
        let digits: String = self.chars[self.at..].iter().take_while(|c| c.is_ascii_digit()).collect();
        match digits.parse() {
            Ok(count) if count <= MAX_REPEAT => {
                self.at += digits.len();
                self.space(true);
                Ok(count)
            }
            _ => self.wrong(&format!("a count from 0 to {MAX_REPEAT}")),
        }
    }

    fn literal(&mut self) -> Result<Expr> {
        self.at += 1;
        let mut all = Vec::new();
        while !self.takes("\"") {
            let c = self.char("\" at the end of a text")?;
            all.push(Expr::Chars(Chars::one(c)));
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expr::Seq(all) })
    }

    fn set(&mut self) -> Result<Expr> {
        self.at += 1;
        let negated = self.takes("^");
        let mut ranges = Vec::new();
        while !self.takes("]") {
            let first = self.char("] at the end of a set")?;
            let mut last = first;
            if self.peek() == Some('-') && self.chars.get(self.at + 1) != Some(&']') {
                self.at += 1;
                last = self.char("] at the end of a set")?;
            }
            if last < first {
                return self.wrong("a range from a lower to a higher character");
            }
            ranges.push((first, last));
        }
        let set = if negated { Chars::new(ranges).others() } else { Chars::new(ranges) };
        if set.is_empty() {
            return self.wrong("a set of at least one character");
        }
        Ok(Expr::Chars(set))
    }

    /// A character of a text or a set, escapes resolved.
    fn char(&mut self, end: &str) -> Result<u32> {
        let Some(c) = self.peek() else { return self.wrong(end) };
        if c == '\n' {
            return self.wrong(end);
        }
        self.at += 1;
        if c != '\\' {
            return Ok(u32::from(c));
        }
        let Some(kind) = self.peek() else { return self.wrong("an escape") };
        let plain = match kind {
            't' => '\t',
            'r' => '\r',
            'n' => '\n',
            '\\' | '"' | '[' | ']' | '-' | '^' => kind,
            'x' => return self.hexadecimal(2),
            'u' => return self.hexadecimal(4),
            'U' => return self.hexadecimal(8),
            _ => return self.wrong("an escape: one of \\\\ \\\" \\[ \\] \\t \\r \\n \\x41 \\u0041 \\U00000041"),
        };
        self.at += 1;
        Ok(u32::from(plain))
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32> {
        self.at += 1;
        let text: String = self.chars[self.at..].iter().take(digits).collect();
        let value = if text.len() == digits { u32::from_str_radix(&text, 16).ok() } else { None };
        match value.filter(|&value| value <= MAX_CHAR && char::from_u32(value).is_some()) {
            Some(value) => {
                self.at += digits;
                Ok(value)
            }
            None => self.wrong(&format!("{digits} hexadecimal digits that name a character")),
        }
    }
}
