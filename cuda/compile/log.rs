//! What ptxas says about each kernel: registers, stack, spills, shared memory.

use anyhow::{Context, Result};

/// A kernel's needs on one SM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    pub kernel: String,
    /// Per thread.
    pub registers: u32,
    /// Bytes per thread stored and loaded because registers ran out.
    pub spills: u32,
    /// Bytes of local memory per thread: arrays that did not become registers.
    pub stack: u32,
    /// Bytes of static shared memory per block.
    pub shared: u32,
}

impl Resources {
    /// Reads a log of `ptxas -v`. Functions that were not inlined count towards the kernel that follows them.
    ///
    /// # Errors
    /// A line about registers or spills has no number where one belongs.
    pub fn of_log(log: &str) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for line in log.lines() {
            if let Some(rest) = line.split("Compiling entry function '").nth(1) {
                let kernel = rest.split('\'').next().context("a kernel's name")?.to_owned();
                all.push(Self { kernel, registers: 0, spills: 0, stack: 0, shared: 0 });
                continue;
            }
            let Some(last) = all.last_mut() else { continue };
            if line.contains("bytes spill stores") {
                last.stack += before(line, "bytes stack frame")?;
                last.spills += before(line, "bytes spill stores")? + before(line, "bytes spill loads")?;
            } else if line.contains("Used ") && line.contains(" registers") {
                last.registers = before(line, "registers")?;
                last.shared = before(line, "bytes smem").unwrap_or(0);
            }
        }
        Ok(all)
    }
}

/// The number that stands before `what`.
fn before(line: &str, what: &str) -> Result<u32> {
    let head = line.split(what).next().filter(|h| h.len() < line.len());
    let number = head.and_then(|h| h.split_whitespace().last()).and_then(|n| n.parse().ok());
    number.with_context(|| format!("ptxas' log: expected a number before {what:?}, found {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'norm' for 'sm_75'
ptxas info    : Function properties for norm
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 18 registers, used 1 barriers, 16 bytes stack, 132 bytes smem, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'embed' for 'sm_75'
ptxas info    : Function properties for embed
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, 384 bytes cmem[0]
";
        let found = Resources::of_log(log).expect("a log");
        let norm = Resources { kernel: "norm".into(), registers: 18, spills: 12, stack: 16, shared: 132 };
        let embed = Resources { kernel: "embed".into(), registers: 40, spills: 0, stack: 0, shared: 0 };
        assert_eq!(found, [norm, embed]);
    }
}
