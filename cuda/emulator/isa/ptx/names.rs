//! Registers by name. A scope `{ … }` of inline assembly has names of its own, which hide those around it.

use std::collections::HashMap;

use super::super::ParseError;
use super::super::code::R;
use super::{Result, error};

/// How wide a register is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Predicate,
    Half,
    Word,
    Long,
}

impl Width {
    pub fn name(self) -> &'static str {
        match self {
            Self::Predicate => "a predicate",
            Self::Half => "16 bits",
            Self::Word => "32 bits",
            Self::Long => "64 bits",
        }
    }
}

/// All names of a kernel.
pub(super) struct Names {
    scopes: Vec<Scope>,
    /// The open ones, from the outermost.
    stack: Vec<usize>,
    /// Rows given out: predicates, words, longs.
    pub used: [usize; 3],
}

#[derive(Default)]
struct Scope {
    parent: Option<usize>,
    /// `%r<168>` by its `%r`: width, first row, how many; a single name is one of them, with None.
    ranges: HashMap<String, (Width, usize, Option<usize>)>,
}

impl Names {
    /// Inside of the kernel's own braces.
    pub fn new() -> Self {
        Self { scopes: vec![Scope::default()], stack: vec![0], used: [0; 3] }
    }

    pub fn open(&mut self) {
        self.scopes.push(Scope { parent: self.stack.last().copied(), ..Scope::default() });
        self.stack.push(self.scopes.len() - 1);
    }

    /// Whether this was the kernel's own brace.
    pub fn close(&mut self) -> bool {
        self.stack.pop();
        self.stack.is_empty()
    }

    /// The innermost open scope.
    pub fn scope(&self) -> usize {
        self.stack.last().copied().unwrap_or_default()
    }

    /// A row of the file that holds this width.
    pub fn row(&mut self, width: Width, count: usize) -> usize {
        let file = match width {
            Width::Predicate => 0,
            Width::Half | Width::Word => 1,
            Width::Long => 2,
        };
        self.used[file] += count;
        self.used[file] - count
    }

    /// `.reg .b32 %r<168>`, `.reg .pred %p1, %p2`.
    ///
    /// # Errors
    /// A type or a number of registers that this machine does not know, or a name that this scope has already.
    pub fn declare(&mut self, line: usize, text: &str) -> Result<()> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let unknown = || ParseError { line, what: format!("`{text}`: not registers that this machine knows") };
        let width = match words.get(1) {
            Some(&".pred") => Width::Predicate,
            Some(&(".b16" | ".u16" | ".s16" | ".f16")) => Width::Half,
            Some(&(".b32" | ".u32" | ".s32" | ".f32")) => Width::Word,
            Some(&(".b64" | ".u64" | ".s64" | ".f64")) => Width::Long,
            _ => return Err(unknown()),
        };
        for name in words[2..].concat().split(',') {
            let (name, count) = match name.split_once('<') {
                None => (name, None),
                Some((name, count)) => {
                    let count = count.strip_suffix('>').and_then(|c| c.parse::<usize>().ok());
                    (name, Some(count.filter(|c| *c < 1 << 16).ok_or_else(unknown)?))
                }
            };
            let first = self.row(width, count.unwrap_or(1));
            let scope = self.scope();
            if self.scopes[scope].ranges.insert(name.to_owned(), (width, first, count)).is_some() {
                return error(line, format!("`{text}`: {name} stands here a second time"));
            }
        }
        Ok(())
    }

    /// Width and row of a register, as this scope sees it.
    pub fn find(&self, scope: usize, name: &str) -> Option<(Width, R)> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[prefix.len()..].parse::<usize>().ok();
        let mut at = Some(scope);
        while let Some(scope) = at.map(|at| &self.scopes[at]) {
            if let Some((width, first, None)) = scope.ranges.get(name) {
                return Some((*width, R::try_from(*first).ok()?));
            }
            if let (Some((width, first, Some(count))), Some(number)) = (scope.ranges.get(prefix), number)
                && number < *count
            {
                return Some((*width, R::try_from(first + number).ok()?));
            }
            at = scope.parent;
        }
        None
    }
}
