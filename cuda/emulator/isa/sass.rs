//! Machine code: a cubin and what nvdisasm prints of it, to the same [`Module`] as PTX gives.
//!
//! ```text
//! listing   text -> lines: address, guard, name, operands, control word
//! elf       sections of the cubin: parameters, threads, shared bytes, constant bank 2
//! operands  registers, numbers, constant banks to rows
//! compute, access, flow   one instruction each: arithmetic; memory and what lanes do together; control flow
//! arithmetic   executes what `compute` decodes
//! warp      convergence barriers;  scoreboard   registers that a load has not delivered yet
//! ```

mod access;
mod arithmetic;
mod compute;
mod elf;
mod flow;
mod listing;
#[path = "../../compile/listings.rs"]
mod listings;
mod nvdisasm;
mod operands;
mod scoreboard;
mod warp;

use super::ParseError;
use super::code::rows::{TRUE, Uses};
use super::code::sass::{Bank, reserved_shared};
use super::code::{Guard, Instruction, Kernel, Module, Op};
use super::count::Class;
use elf::Elf;
use listing::{Line, Section};
use operands::{Constants, Decoding, UNKNOWN, Wrong};

pub(super) use arithmetic::{compute, copy};
pub use nvdisasm::{disassemble, nvdisasm};
pub(super) use warp::Warp;

impl Module {
    /// Reads machine code, which [`nvdisasm`] takes apart.
    ///
    /// # Errors
    /// nvdisasm is not installed or fails; else as [`Module::disassembled`].
    pub fn cubin(image: &[u8]) -> Result<Self, ParseError> {
        let listing = disassemble(image).map_err(|what| ParseError { line: 0, what })?;
        Self::disassembled(image, &listing)
    }

    /// Reads machine code: the cubin, and what `nvdisasm -c -hex` prints of it.
    ///
    /// # Errors
    /// `image` is not a 64-bit ELF file or lacks the parameters of a kernel; `listing` is not what nvdisasm prints, or
    /// has an instruction that this machine does not know (with its line, even where no launch would reach it).
    pub fn disassembled(image: &[u8], listing: &str) -> Result<Self, ParseError> {
        let wrong = |what: &str| ParseError { line: 0, what: what.to_owned() };
        let elf = Elf::read(image).ok_or_else(|| wrong("not a cubin: expected a 64-bit ELF file"))?;
        let sections = listing::sections(listing)?;
        let kernels: Result<_, _> = sections.iter().map(|section| kernel(&elf, section)).collect();
        Ok(Self { sm: elf.sm, kernels: kernels? })
    }
}

fn kernel(elf: &Elf<'_>, section: &Section<'_>) -> Result<Kernel, ParseError> {
    let (name, sm) = (section.name, elf.sm);
    let missing = || ParseError { line: 0, what: format!("the cubin has no .nv.info.{name} with its parameters") };
    let info = elf.info(name).ok_or_else(missing)?;
    let table = elf.section(&format!(".nv.constant2.{name}")).unwrap_or_default().to_vec();
    let mut constants = Constants::new(sm, (info.param_begin, info.param_bytes), table);
    let (mut code, mut lines, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut controls, mut uses) = (Vec::new(), Vec::new());
    for line in &section.lines {
        let wrong = |what: String| ParseError { line: line.number as usize, what: format!("`{}`: {what}", line.text) };
        let mut decoding =
            Decoding { constants: &mut constants, line, parts: line.name.split('.').collect(), uses: Uses::default() };
        let guard = line.guard.map(|guard| decoding.condition_of(guard)).transpose().map_err(wrong)?;
        let (op, class) = decode(&mut decoding, section).map_err(wrong)?;
        let Uses { reads, writes, .. } = decoding.uses;
        let rows = [scoreboard::rows(&[&reads[..], &writes].concat()), scoreboard::rows(&writes)];
        uses.push(Uses { reads, writes, rows, pipe: scoreboard::pipe(class) });
        code.push(Instruction { op, guard: guard.filter(|g| *g != ALWAYS) });
        classes.push(class);
        controls.push(line.control);
        lines.push((line.number, line.text.as_str().into()));
    }
    let shared_bytes = elf.size(&format!(".nv.shared.{name}")).max(reserved_shared(sm));
    Ok(Kernel {
        name: name.to_owned(),
        sm,
        max_threads: info.max_threads,
        param_bytes: info.param_bytes,
        shared_bytes,
        registers: elf.registers(name),
        shared: vec![("shared".to_owned(), 0, shared_bytes), ("dynamic".to_owned(), shared_bytes, 0)],
        code,
        lines,
        classes,
        lists: constants.lists,
        files: constants.files,
        table: constants.table,
        bank: Bank::new(sm, info.param_begin),
        controls,
        uses,
    })
}

/// `@PT`.
const ALWAYS: Guard = Guard { predicate: TRUE, not: false };

fn decode(d: &mut Decoding<'_>, section: &Section<'_>) -> Wrong<(Op, Class)> {
    if let Some(branch) = flow::decode(d, section)? {
        return Ok(branch);
    }
    if let Some(access) = access::decode(d)? {
        return Ok(access);
    }
    compute::decode(d)?.ok_or_else(|| UNKNOWN.to_owned())
}

/// The index of the instruction that a label stands before.
fn target(line: &Line<'_>, section: &Section<'_>) -> Wrong<u32> {
    let name = line.operands.iter().find_map(|o| o.strip_prefix("`(")?.strip_suffix(')')).ok_or("it has no label")?;
    if name == section.name {
        return Ok(0);
    }
    let address = section.labels.get(name).ok_or_else(|| format!("no instruction behind label {name}"))?;
    Ok(address / 16)
}
