//! What `nvdisasm -c -hex` prints, cut into instructions: address, guard, name, operands, control word.
//!
//! ```text
//! .text.gemv_q5_0:
//! .L_x_856:
//!         /*00a0*/              @!P0 LDC R2, c[0x0][R2+0x160] ;      /* 0x0000580002027b82 */
//!                                                                    /* 0x000e220000000800 */
//! ```

use std::collections::HashMap;

use super::super::ParseError;
use super::super::code::sass::Control;

/// The code of a kernel as text.
pub(super) struct Section<'a> {
    pub name: &'a str,
    pub lines: Vec<Line<'a>>,
    /// Labels and functions by name: the address that they stand before.
    pub labels: HashMap<&'a str, u32>,
}

/// One instruction.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// Of the listing, from 1.
    pub number: u32,
    /// In bytes from the start of the kernel.
    pub address: u32,
    /// `P0`, `!P0`, `UP0`, or None.
    pub guard: Option<&'a str>,
    /// `LDG.E.128.CONSTANT`.
    pub name: &'a str,
    /// At the commas, without `.reuse`.
    pub operands: Vec<String>,
    pub text: String,
    pub control: Control,
}

impl Control {
    /// From the upper half of an instruction's 128 bits.
    fn new(high: u64) -> Self {
        let field = |bit: u32, width: u32| (high >> (bit - 64)) as u8 & ((1 << width) - 1);
        Self {
            stall: field(105, 4),
            yields: field(109, 1),
            write: field(110, 3),
            read: field(113, 3),
            wait: field(116, 6),
        }
    }
}

fn error<T>(line: usize, what: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { line, what: what.into() })
}

/// `/* 0x… */` at the end of a line.
fn encoded(line: &str) -> Option<u64> {
    let digits = line.trim_end().strip_suffix("*/")?.rsplit_once("/* 0x")?.1;
    u64::from_str_radix(digits.trim(), 16).ok()
}

/// Operands at the commas outside of brackets; what stands in `(*"…"*)` is a comment.
fn operands(text: &str) -> Vec<String> {
    let text = text.split("(*").next().unwrap_or_default();
    let (mut depth, mut all, mut one) = (0i32, Vec::new(), String::new());
    for c in text.chars() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                all.push(std::mem::take(&mut one));
                continue;
            }
            _ => (),
        }
        one.push(c);
    }
    all.push(one);
    all.iter().map(|o| o.trim().replace(".reuse", "")).filter(|o| !o.is_empty()).collect()
}

/// All kernels of a listing.
///
/// # Errors
/// There is no `.text` section, or an instruction has no encoding or is not at its address: not what `nvdisasm -c -hex`
/// prints.
pub(super) fn sections(text: &str) -> Result<Vec<Section<'_>>, ParseError> {
    let mut all: Vec<Section<'_>> = Vec::new();
    let mut waiting: Vec<&str> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let number = n + 1;
        if let Some(name) = line.strip_prefix(".text.").and_then(|l| l.strip_suffix(':')) {
            all.push(Section { name, lines: Vec::new(), labels: HashMap::new() });
            waiting.clear();
            continue;
        }
        let Some(section) = all.last_mut() else { continue };
        if let Some(label) = line.strip_suffix(':').filter(|l| !l.starts_with([' ', '\t'])) {
            waiting.push(label);
            continue;
        }
        let Some((address, rest)) = line.trim_start().strip_prefix("/*").and_then(|l| l.split_once("*/")) else {
            continue;
        };
        // The second half of an instruction has an encoding alone.
        let Ok(address) = u32::from_str_radix(address, 16) else { continue };
        let Some(code) = rest.rsplit_once("/* 0x").map(|(code, _)| code.trim()) else {
            return error(number, "no encoding behind the instruction: expected what nvdisasm -c -hex prints");
        };
        let Some(high) = lines.next().and_then(|(_, line)| encoded(line)) else {
            return error(number, "no second half of the encoding below the instruction");
        };
        let code = code.trim_end_matches(';').trim().trim_start_matches('{').trim_end_matches('}').trim();
        let (guard, code) = match code.strip_prefix('@').and_then(|c| c.split_once(' ')) {
            Some((guard, code)) => (Some(guard), code.trim_start()),
            None => (None, code),
        };
        let (name, rest) = code.split_once(' ').unwrap_or((code, ""));
        if address as usize != 16 * section.lines.len() {
            return error(number, format!("an instruction at {address:#x}, expected {:#x}", 16 * section.lines.len()));
        }
        for label in waiting.drain(..) {
            section.labels.insert(label, address);
        }
        let guard_text = guard.map(|g| format!("@{g} ")).unwrap_or_default();
        let operands = operands(rest.trim_end_matches(';'));
        section.lines.push(Line {
            number: number as u32,
            address,
            guard,
            name: name.trim_end_matches(';'),
            text: format!("{guard_text}{name} {}", operands.join(", ")).trim_end().to_owned(),
            operands,
            control: Control::new(high),
        });
    }
    if all.is_empty() {
        return error(0, "no .text section: expected what nvdisasm -c -hex prints");
    }
    Ok(all)
}
