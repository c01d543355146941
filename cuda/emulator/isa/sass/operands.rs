//! Operands of machine code to rows of the register files.

use std::collections::HashMap;

use super::super::code::rows::{
    BIN, BIN_PREDICATE, Condition, FIRST_FREE, How, PREDICATES, Source, TRUE, UNIFORM, UNIFORM_PREDICATE, Uses, ZERO,
};
use super::super::code::{Address, Files, Guard, R, Special};
use super::super::float;
use super::listing::Line;

/// What is wrong with an instruction.
pub(super) type Wrong<T> = std::result::Result<T, String>;

/// What is said of an operand or a name that this machine does not know.
pub(super) const UNKNOWN: &str = "not an instruction that this machine knows";

/// Rows that hold constants, of one kernel.
pub(super) struct Constants {
    pub sm: u32,
    /// Where the parameters begin in bank 0, and their bytes.
    pub params: (usize, usize),
    /// Bank 2.
    pub table: Vec<u8>,
    pub files: Files,
    /// Operands of `mma`.
    pub lists: Vec<R>,
    by_bits: HashMap<Vec<Constant>, R>,
}

/// What a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Constant {
    Number(u32),
    /// Of constant bank 0, by its offset.
    Bank(u16),
    Special(Special),
}

impl Constants {
    pub fn new(sm: u32, params: (usize, usize), table: Vec<u8>) -> Self {
        let mut files = Files { words: usize::from(FIRST_FREE), predicates: PREDICATES, ..Files::default() };
        files.constants.extend((0..4).map(|i| (ZERO + i, 0)));
        files.predicate_constants.extend([(TRUE, true), (UNIFORM_PREDICATE + 7, true)]);
        Self { sm, params, table, files, lists: Vec::new(), by_bits: HashMap::new() }
    }

    /// Rows that hold these, one behind the other.
    fn rows(&mut self, constants: &[Constant]) -> Wrong<R> {
        if let Some(row) = self.by_bits.get(constants) {
            return Ok(*row);
        }
        let first = R::try_from(self.files.words + constants.len()).map_err(|_| "more than 65536 rows".to_owned())?;
        let first = first - constants.len() as R;
        for (row, constant) in (first..).zip(constants) {
            match constant {
                Constant::Number(bits) => self.files.constants.push((row, *bits)),
                Constant::Bank(offset) => self.files.specials.push((row, Special::Bank(*offset))),
                Constant::Special(special) => self.files.specials.push((row, *special)),
            }
        }
        self.files.words += constants.len();
        self.by_bits.insert(constants.to_vec(), first);
        Ok(first)
    }

    /// Rows that hold a number of 32 or 64 bits.
    pub fn number(&mut self, bits: u64, words: usize) -> Wrong<R> {
        match (words, bits) {
            (_, 0) => Ok(ZERO),
            (1, _) => self.rows(&[Constant::Number(bits as u32)]),
            _ => self.rows(&[Constant::Number(bits as u32), Constant::Number((bits >> 32) as u32)]),
        }
    }

    pub fn special(&mut self, special: Special) -> Wrong<R> {
        self.rows(&[Constant::Special(special)])
    }

    /// Words of a constant bank at an offset that is known.
    pub fn bank(&mut self, bank: u32, offset: usize, words: usize) -> Wrong<R> {
        let constants: Vec<Constant> = match bank {
            0 => {
                let known = |at: usize| match self.sm {
                    0..90 => at < 0x18 || [0x28, 0x118, 0x11c].contains(&at),
                    90..100 => at < 0x18 || [0x28, 0x208, 0x20c].contains(&at),
                    _ => (0x358..0x380).contains(&at),
                };
                let (begin, bytes) = self.params;
                let within = |at: usize| (begin..begin + bytes).contains(&at) || known(at);
                if let Some(at) = (0..words).map(|i| offset + 4 * i).find(|at| at % 4 != 0 || !within(*at)) {
                    return Err(format!(
                        "c[0x0][{at:#x}] is neither a parameter ({begin:#x} and {bytes} bytes) nor known"
                    ));
                }
                (0..words).map(|i| Constant::Bank((offset + 4 * i) as u16)).collect()
            }
            2 => {
                let word = |i: usize| {
                    let bytes = self.table.get(offset + 4 * i..)?.get(..4)?;
                    Some(Constant::Number(u32::from_le_bytes(bytes.try_into().ok()?)))
                };
                let all: Option<Vec<Constant>> = (0..words).map(word).collect();
                all.ok_or_else(|| format!("c[0x2][{offset:#x}] is behind the end of its {} bytes", self.table.len()))?
            }
            _ => return Err(format!("constant bank {bank} is not known")),
        };
        self.rows(&constants)
    }
}

/// One instruction while it is decoded.
pub(super) struct Decoding<'a> {
    pub constants: &'a mut Constants,
    pub line: &'a Line<'a>,
    /// The name cut at its dots: `LDG`, `E`, `128`.
    pub parts: Vec<&'a str>,
    pub uses: Uses,
}

/// `R12`, `UR4`, `RZ`: its first row, or None where it is not a register.
fn register(text: &str) -> Option<R> {
    if text == "RZ" || text == "URZ" {
        return Some(ZERO);
    }
    let (digits, base, end) = match text.strip_prefix("UR") {
        Some(digits) => (digits, UNIFORM, 63),
        None => (text.strip_prefix('R')?, 0, 255),
    };
    digits.parse::<R>().ok().filter(|n| *n < end).map(|n| base + n)
}

/// `P3`, `UP0`, `PT`.
fn predicate(text: &str) -> Option<R> {
    let (digits, base) = match text.strip_prefix("UP") {
        Some(digits) => (digits, UNIFORM_PREDICATE),
        None => (text.strip_prefix('P')?, 0),
    };
    if digits == "T" { Some(base + 7) } else { digits.parse::<R>().ok().filter(|n| *n < 7).map(|n| base + n) }
}

/// `0x1f`, `-0x8`, as 64 bits of two's complement.
pub(super) fn integer(text: &str) -> Option<u64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = u64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// `1.5`, `-0`, `+INF`, `+QNAN`, `5.9604644775390625e-08`.
fn real(text: &str) -> Option<f64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let value = match digits {
        "INF" => f64::INFINITY,
        "QNAN" | "SNAN" | "NAN" => f64::NAN,
        _ if digits.starts_with(|c: char| c.is_ascii_digit()) => digits.parse().ok()?,
        _ => return None,
    };
    Some(sign * value)
}

impl<'a> Decoding<'a> {
    pub fn operands(&self) -> &'a [String] {
        &self.line.operands
    }

    /// The operand at a place.
    pub fn operand(&self, at: usize) -> Wrong<&'a str> {
        let found = self.operands().len();
        self.operands().get(at).map(String::as_str).ok_or_else(|| format!("{found} operands, expected more"))
    }

    /// Err unless there are so many.
    pub fn count(&self, expected: usize) -> Wrong<()> {
        let found = self.operands().len();
        if found == expected { Ok(()) } else { Err(format!("{found} operands, expected {expected}")) }
    }

    /// Whether the name has the part.
    pub fn has(&self, part: &str) -> bool {
        self.parts[1..].contains(&part)
    }

    /// Err where the name has a part that is not among these.
    pub fn only(&self, parts: &[&str]) -> Wrong<()> {
        match self.parts[1..].iter().find(|p| !parts.contains(p)) {
            None => Ok(()),
            Some(part) => Err(format!(".{part}: {UNKNOWN}")),
        }
    }

    /// Whether the operand is a predicate (`!P0`, `UPT`).
    pub fn is_predicate(&self, at: usize) -> bool {
        self.operands().get(at).is_some_and(|o| predicate(o.trim_start_matches(['!', '~'])).is_some())
    }

    /// The first of `rows` rows that the instruction writes.
    pub fn destination(&mut self, at: usize, rows: R) -> Wrong<R> {
        let text = self.operand(at)?;
        match register(text) {
            Some(ZERO) => Ok(BIN),
            Some(row) => {
                self.uses.writes.extend(row..row + rows);
                Ok(row)
            }
            None => Err(format!("{text} is not a register")),
        }
    }

    /// The predicate that the instruction writes.
    pub fn predicate_destination(&mut self, at: usize) -> Wrong<R> {
        let text = self.operand(at)?;
        match predicate(text) {
            Some(row) if row % 8 == 7 => Ok(BIN_PREDICATE),
            Some(row) => {
                self.uses.writes.push(Uses::PREDICATES + row);
                Ok(row)
            }
            None => Err(format!("{text} is not a predicate")),
        }
    }

    /// A predicate that is read, `!P1`.
    pub fn condition(&mut self, at: usize) -> Wrong<Condition> {
        let text = self.operand(at)?;
        self.condition_of(text)
    }

    /// The same of a text: an operand or a guard.
    pub fn condition_of(&mut self, text: &str) -> Wrong<Condition> {
        let (not, name) = text.strip_prefix('!').map_or((false, text), |name| (true, name));
        let row = predicate(name).ok_or_else(|| format!("{text} is not a predicate"))?;
        if row % 8 != 7 {
            self.uses.reads.push(Uses::PREDICATES + row);
        }
        Ok(Guard { predicate: row, not })
    }

    /// A register without modifiers that is read: the first of `rows` rows.
    pub fn plain(&mut self, at: usize, rows: R) -> Wrong<R> {
        let text = self.operand(at)?;
        let row = register(text).ok_or_else(|| format!("{text} is not a register"))?;
        self.read(row, rows);
        Ok(row)
    }

    /// The row of a register by its name.
    pub fn register(&self, text: &str) -> Wrong<R> {
        register(text).ok_or_else(|| format!("{text} is not a register"))
    }

    /// Notes that rows are read.
    pub fn read(&mut self, row: R, rows: R) {
        if row < ZERO || (UNIFORM..FIRST_FREE).contains(&row) {
            self.uses.reads.extend(row..row + rows);
        }
    }

    /// A source of 32-bit integers: register, number, constant bank; `-` and `~`.
    pub fn word(&mut self, at: usize) -> Wrong<Source> {
        let text = self.operand(at)?;
        self.source(text, 1, false)
    }

    /// The same of 64 bits: a register and the next one, 8 bytes of a bank, a number whose sign is extended.
    pub fn long(&mut self, at: usize) -> Wrong<Source> {
        let text = self.operand(at)?;
        self.source(text, 2, false)
    }

    /// A source of f32; `-`, `|…|`, numbers in decimals.
    pub fn float(&mut self, at: usize) -> Wrong<Source> {
        let text = self.operand(at)?;
        self.source(text, 1, true)
    }

    /// A source of f64.
    pub fn double(&mut self, at: usize) -> Wrong<Source> {
        let text = self.operand(at)?;
        self.source(text, 2, true)
    }

    /// Half of a register as f32: `-R1.H0_H0`; `RZ` alone is 0.
    pub fn half(&mut self, at: usize) -> Wrong<Source> {
        let text = self.operand(at)?;
        let (negative, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
        let (name, upper) = match name.rsplit_once('.') {
            Some((name, "H0_H0")) => (name, 0),
            Some((name, "H1_H1")) => (name, 1),
            None => (name, 0),
            Some(_) => return Err(format!("{text} is not a half that this machine knows")),
        };
        let row = register(name).ok_or_else(|| format!("{text} is not a register"))?;
        self.read(row, 1);
        Ok(Source { row, how: if negative { How::NegateHalf(upper) } else { How::Half(upper) } })
    }

    /// A number as the bits of an f16.
    pub fn half_number(&self, at: usize) -> Wrong<u32> {
        let text = self.operand(at)?;
        let value = real(text).filter(|value| !value.is_nan()).ok_or_else(|| format!("{text} is not a number"))?;
        Ok(float::to_half(value as f32))
    }

    fn source(&mut self, text: &str, words: usize, float: bool) -> Wrong<Source> {
        if let Some(value) = integer(text) {
            // 32-bit numbers of a 64-bit instruction: integers extend their sign, floats are the upper half.
            let row = self.constants.number(value, words)?;
            return Ok(Source { row, how: How::Plain });
        }
        if float && let Some(value) = real(text) {
            let bits = match (words, value.is_nan()) {
                (1, true) => u64::from(if text.starts_with('-') { 0xffff_ffffu32 } else { 0x7fff_ffff }),
                (1, false) => u64::from((value as f32).to_bits()),
                _ => value.to_bits(),
            };
            let row = self.constants.number(bits, words)?;
            return Ok(Source { row, how: How::Plain });
        }
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (not, rest) = rest.strip_prefix('~').map_or((false, rest), |rest| (true, rest));
        let (absolute, rest) = match rest.strip_prefix('|').and_then(|r| r.strip_suffix('|')) {
            Some(inside) => (true, inside),
            None => (false, rest),
        };
        let (rest, part) = match rest.rsplit_once('.') {
            Some((name, "B0")) => (name, How::Byte(0)),
            Some((name, "B1")) => (name, How::Byte(1)),
            Some((name, "B2")) => (name, How::Byte(2)),
            Some((name, "B3")) => (name, How::Byte(3)),
            Some((name, "H1")) => (name, How::Upper),
            _ => (rest, How::Plain),
        };
        let how = match (negative, not, absolute) {
            (false, false, false) => part,
            (true, false, false) => {
                if float {
                    How::NegateF
                } else {
                    How::Negate
                }
            }
            (false, true, false) => How::Not,
            (false, false, true) if float => How::AbsoluteF,
            (true, false, true) if float => How::NegateAbsoluteF,
            _ => return Err(format!("{text} is not a source that this machine knows")),
        };
        if let Some(row) = register(rest) {
            self.read(row, words as R);
            return Ok(Source { row, how });
        }
        match bank(rest) {
            Some((number, offset, None)) => {
                let offset = usize::try_from(offset).map_err(|_| format!("{text} is not an address"))?;
                Ok(Source { row: self.constants.bank(number, offset, words)?, how })
            }
            _ => Err(format!("{text} is not a source that this machine knows")),
        }
    }

    /// `c[0x0][0x160]`: bank and offset; None where a register is part of the address.
    pub fn constant(&self, at: usize) -> Wrong<Option<(u32, usize)>> {
        let text = self.operand(at)?;
        let unknown = || format!("{text} is not an address in a constant bank");
        let (number, offset, register) = bank(text).ok_or_else(unknown)?;
        let offset = usize::try_from(offset).map_err(|_| unknown());
        if register.is_some() { Ok(None) } else { Ok(Some((number, offset?))) }
    }

    /// `c[0x0][R2+0x160]`, `c[0x2][R5]`: bank, register, offset.
    pub fn indexed(&mut self, at: usize) -> Wrong<(u32, R, i64)> {
        let text = self.operand(at)?;
        match bank(text) {
            Some((number, offset, Some(row))) => {
                self.read(row, 1);
                Ok((number, row, offset))
            }
            _ => Err(format!("{text} is not an address in a constant bank")),
        }
    }

    /// `[R2]`, `[R2.64+0x10]`, `[R2.X4+UR4+-0x8]`, `desc[UR4][R2.64]`, `[0x40]`, `[UR4]`. Where the register says nothing,
    /// `wide` says whether it has 64 bits.
    pub fn address(&mut self, at: usize, wide: bool) -> Wrong<Address> {
        let text = self.operand(at)?;
        let unknown = || format!("{text} is not an address that this machine knows");
        let inside = text.strip_prefix("desc[").map_or(Some(text), |rest| rest.split_once(']').map(|(_, r)| r));
        if let Some(rest) = text.strip_prefix("desc[")
            && let Some(row) = rest.split_once(']').and_then(|(name, _)| register(name))
        {
            self.read(row, 2);
        }
        let inside = inside.and_then(|t| t.strip_prefix('[')).and_then(|t| t.strip_suffix(']')).ok_or_else(unknown)?;
        let mut address = Address { base: ZERO, long: wide, pair: true, scale: 0, plus: None, offset: 0 };
        let mut has_base = false;
        for part in inside.split('+') {
            if let Some(value) = integer(part) {
                address.offset = i32::try_from(value as i64).map_err(|_| unknown())?;
                continue;
            }
            let (name, form) = part.split_once('.').map_or((part, ""), |(name, form)| (name, form));
            let row = register(name).ok_or_else(unknown)?;
            let uniform = name.starts_with('U');
            if uniform && has_base {
                // Beside a 64-bit base it has 64 bits as well.
                address.plus = Some((row, wide));
                self.read(row, if wide { 2 } else { 1 });
                continue;
            }
            (address.base, has_base) = (row, true);
            match form {
                "" | "64" => address.long = wide,
                "U32" => address.long = false,
                "X4" => address.scale = 2,
                "X8" => address.scale = 3,
                "X16" => address.scale = 4,
                _ => return Err(unknown()),
            }
            self.read(row, if address.long { 2 } else { 1 });
        }
        Ok(address)
    }

    /// Adds to the lists of operands; where they begin.
    pub fn keep(&mut self, rows: &[R]) -> u32 {
        self.constants.lists.extend_from_slice(rows);
        (self.constants.lists.len() - rows.len()) as u32
    }
}

/// `c[0x0][0x160]`, `c[0x2][R5+0x8]`, `c[0x0][RZ]`: bank, offset, register.
fn bank(text: &str) -> Option<(u32, i64, Option<R>)> {
    let (number, inside) = text.strip_prefix("c[0x")?.split_once("][")?;
    let (number, inside) = (u32::from_str_radix(number, 16).ok()?, inside.strip_suffix(']')?);
    let (mut offset, mut row) = (0, None);
    for part in inside.split('+') {
        match integer(part) {
            Some(value) => offset = value as i64,
            None => row = Some(register(part)?).filter(|row| *row != ZERO),
        }
    }
    Some((number, offset, row))
}
