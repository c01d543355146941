//! Rust source as tokens: enough to read `mod`, `use` and paths.

/// One token; numbers, lifetimes and comments are left out.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Ident(String),
    /// What stands between the quotes of a string, escapes as written.
    Text(String),
    /// `::`.
    Sep,
    /// Any other character.
    Punct(char),
}

impl Token {
    /// The name, if the token is an identifier.
    pub fn ident(&self) -> Option<&str> {
        match self {
            Self::Ident(name) => Some(name),
            _ => None,
        }
    }
    /// Whether the token is this character.
    pub fn is(&self, c: char) -> bool {
        *self == Self::Punct(c)
    }
}

/// The tokens of a file.
pub fn tokens(text: &str) -> Vec<Token> {
    let (c, mut i, mut out) = (text.chars().collect::<Vec<_>>(), 0, Vec::new());
    let at = |i: usize| c.get(i).copied().unwrap_or('\0');
    while i < c.len() {
        match (c[i], at(i + 1)) {
            ('/', '/') => i += c[i..].iter().take_while(|c| **c != '\n').count(),
            ('/', '*') => i = comment_end(&c, i),
            ('"', _) => i = push_text(&c, i + 1, &mut out),
            ('\'', '\\') => i += 3 + c[(i + 3).min(c.len())..].iter().take_while(|c| **c != '\'').count() + 1,
            ('\'', _) if at(i + 2) == '\'' => i += 3,
            ('\'', _) => i += 1 + name_length(&c[i + 1..]),
            (':', ':') => {
                out.push(Token::Sep);
                i += 2;
            }
            ('r', '"' | '#') if raw_hashes(&c[i..]).is_some() => i = push_raw(&c, i, &mut out),
            ('b', '"') => i += 1,
            ('b', 'r') if raw_hashes(&c[i + 1..]).is_some() => i += 1,
            (d, _) if d.is_ascii_digit() => i += name_length(&c[i..]),
            (a, _) if a.is_alphabetic() || a == '_' => {
                let n = name_length(&c[i..]);
                out.push(Token::Ident(c[i..i + n].iter().collect()));
                i += n;
            }
            (c, _) => {
                if !c.is_whitespace() {
                    out.push(Token::Punct(c));
                }
                i += 1;
            }
        }
    }
    out
}

fn name_length(c: &[char]) -> usize {
    c.iter().take_while(|c| c.is_alphanumeric() || **c == '_').count()
}

/// The place behind a block comment, which may hold others.
fn comment_end(c: &[char], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0);
    while i < c.len() {
        match (c[i], c.get(i + 1)) {
            ('/', Some('*')) => (i, depth) = (i + 2, depth + 1),
            ('*', Some('/')) => (i, depth) = (i + 2, depth - 1),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn push_text(c: &[char], start: usize, out: &mut Vec<Token>) -> usize {
    let mut end = start;
    while end < c.len() && c[end] != '"' {
        end += if c[end] == '\\' { 2 } else { 1 };
    }
    let end = end.min(c.len());
    out.push(Token::Text(c[start..end].iter().collect()));
    end + 1
}

/// How many `#` a raw string that starts here has.
fn raw_hashes(c: &[char]) -> Option<usize> {
    let hashes = c[1..].iter().take_while(|c| **c == '#').count();
    (c[0] == 'r' && c.get(1 + hashes) == Some(&'"')).then_some(hashes)
}

fn push_raw(c: &[char], start: usize, out: &mut Vec<Token>) -> usize {
    let hashes = raw_hashes(&c[start..]).unwrap_or_default();
    let first = start + 2 + hashes;
    let ends = |i: usize| c[i] == '"' && c[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    let end = (first..c.len()).find(|i| ends(*i)).unwrap_or(c.len());
    out.push(Token::Text(c[first..end].iter().collect()));
    end + 1 + hashes
}
