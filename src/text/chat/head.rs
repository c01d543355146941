//! The beginning of a call that is a JSON object: its name, and where its arguments begin.

use super::scan::Scan;

/// What the beginning of a call says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// It is none.
    None,
    /// Not enough yet.
    More,
    /// A call.
    Call {
        /// Name of the tool that is called.
        name: String,
        /// The arguments, where they came before the name or not at all; else they follow.
        arguments: Option<String>,
        /// Bytes of the head.
        end: usize,
    },
}

impl Head {
    /// The head in a text that has `by` more bytes before it.
    pub fn shifted(self, by: usize) -> Self {
        match self {
            Self::Call { name, arguments, end } => Self::Call { name, arguments, end: end + by },
            other => other,
        }
    }
}

/// Why a part of the text could not be read.
enum Stop {
    More,
    None,
}

/// Reads the members of `{"name": …, KEY: …}` in any order, up to the arguments' object or, where those came first, to the
/// end of the name.
pub fn members(text: &str, key: &str) -> Head {
    match read(&mut Cursor { text, at: 0 }, key) {
        Ok((name, arguments, end)) => Head::Call { name, arguments, end },
        Err(Stop::More) => Head::More,
        Err(Stop::None) => Head::None,
    }
}

fn read(cursor: &mut Cursor, key: &str) -> Result<(String, Option<String>, usize), Stop> {
    let (mut name, mut arguments) = (None, None);
    cursor.expect('{')?;
    loop {
        let member = cursor.string()?;
        cursor.expect(':')?;
        match member.as_str() {
            "name" => name = Some(cursor.string()?),
            member if member == key => {
                let first = cursor.peek()?;
                if first != '{' {
                    return Err(Stop::None);
                }
                if let Some(name) = name {
                    return Ok((name, None, cursor.at));
                }
                arguments = Some(cursor.value()?);
            }
            _ => drop(cursor.value()?),
        }
        if let (Some(name), Some(_)) = (&name, &arguments) {
            return Ok((name.clone(), arguments, cursor.at));
        }
        match (cursor.peek()?, name.take()) {
            // A call without arguments.
            ('}', Some(name)) => return Ok((name, Some("{}".into()), cursor.at)),
            (',', held) => {
                name = held;
                cursor.expect(',')?;
            }
            _ => return Err(Stop::None),
        }
    }
}

/// A place in a JSON text that may not be complete.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    /// The next character that is no white space.
    fn peek(&mut self) -> Result<char, Stop> {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
        self.text[self.at..].chars().next().ok_or(Stop::More)
    }

    fn expect(&mut self, wanted: char) -> Result<(), Stop> {
        if self.peek()? != wanted {
            return Err(Stop::None);
        }
        self.at += wanted.len_utf8();
        Ok(())
    }

    /// The end of the string that begins here.
    fn string_end(&self) -> Result<usize, Stop> {
        let mut escaped = false;
        for (at, byte) in self.text.bytes().enumerate().skip(self.at + 1) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return Ok(at + 1),
                _ => {}
            }
        }
        Err(Stop::More)
    }

    fn string(&mut self) -> Result<String, Stop> {
        if self.peek()? != '"' {
            return Err(Stop::None);
        }
        let end = self.string_end()?;
        let text = serde_json::from_str(&self.text[self.at..end]).map_err(|_| Stop::None)?;
        self.at = end;
        Ok(text)
    }

    /// Any value, as it is written.
    fn value(&mut self) -> Result<String, Stop> {
        let start = self.at + (self.text[self.at..].len() - self.text[self.at..].trim_start().len());
        let end = match self.peek()? {
            '"' => self.string_end()?,
            '{' | '[' => {
                let mut scan = Scan::default();
                let closed = self.text.bytes().enumerate().skip(start).find(|&(_, byte)| scan.take(byte));
                closed.ok_or(Stop::More)?.0 + 1
            }
            _ => start + self.text[start..].find([',', '}', ']']).ok_or(Stop::More)?,
        };
        self.at = end;
        Ok(self.text[start..end].into())
    }
}
