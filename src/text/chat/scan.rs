//! Where a JSON text ends, where white space does, and whether a text ends with the beginning of a mark.

/// How far a JSON text has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// In so many open brackets.
    pub fn inside(depth: u32) -> Self {
        Self { depth, ..Self::default() }
    }

    /// Takes a byte; whether the outermost bracket was closed by it.
    pub fn take(&mut self, byte: u8) -> bool {
        if self.in_string {
            match (self.escaped, byte) {
                (true, _) => self.escaped = false,
                (false, b'\\') => self.escaped = true,
                (false, b'"') => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

/// How many bytes at the end of `text` may be the beginning of `mark`.
pub fn beginning(text: &str, mark: &str) -> usize {
    let starts = text.char_indices().map(|(at, _)| at).filter(|at| text.len() - at < mark.len());
    starts.map(|at| &text[at..]).find(|end| mark.starts_with(*end)).map_or(0, str::len)
}

/// Where white space ends that begins at `at`, if there is any.
pub fn skip(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start().len()
}
