//! Code as it is executed: decoded once, no strings.

use super::ParseError;

/// One PTX text: an image of the archive.
#[derive(Debug, Clone)]
pub struct Module {
    /// The `.target`, as 75 or 80.
    pub sm: u32,
    pub(super) kernels: Vec<Kernel>,
}

impl Module {
    /// Reads and decodes all kernels. An instruction that this machine does not know is refused with its line, even
    /// where no launch would reach it.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let _ = text;
        Err(ParseError { line: 0, what: "the reader of PTX is being written".to_owned() })
    }

    /// The kernel of this name (`.visible .entry`).
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// All kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }
}

/// A kernel, ready to run.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// As the text names it.
    pub name: String,
    /// The module's `.target`.
    pub sm: u32,
    /// The product of `.maxntid`; 1024 where there is none.
    pub max_threads: u32,
    /// Bytes of the parameters together.
    pub param_bytes: usize,
    /// Bytes of the shared arrays that are not dynamic.
    pub shared_bytes: usize,
}

impl Kernel {
    /// Line in the text and the text itself of each instruction, by its index (that of [`super::KernelCounts::at`]).
    pub fn listing(&self) -> impl Iterator<Item = (u32, &str)> {
        std::iter::empty()
    }
}
