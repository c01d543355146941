//! Operands: registers, numbers, special registers and addresses of variables to rows of the register files.

use std::collections::HashMap;

use super::super::code::*;
use super::super::table::Form;
use super::names::{Names, Width};

/// Name, offset, bytes.
pub(super) type Variables = Vec<(String, usize, usize)>;

/// What the instructions of a kernel have in common while they are decoded.
pub(super) struct Decoder {
    pub names: Names,
    params: Variables,
    files: Files,
    lists: Vec<R>,
    /// Labels of branches; [`Op::Branch`] holds an index of this list until labels are known.
    pub targets: Vec<String>,
    constants: HashMap<(usize, u64), R>,
    specials: Vec<(Special, R)>,
}

/// One instruction being decoded.
pub(super) struct Decoding<'a> {
    pub decoder: &'a mut Decoder,
    pub scope: usize,
    pub shared: &'a Variables,
    /// The name cut at its dots.
    pub parts: Vec<&'a str>,
    pub operands: Vec<&'a str>,
}

/// What is said of most of them.
pub(super) const UNKNOWN: &str = "not an instruction that this machine knows";

/// What is wrong with it.
pub(super) type Wrong<T> = std::result::Result<T, String>;

impl Decoder {
    pub fn new(params: Variables) -> Self {
        let (files, lists, targets) = (Files::default(), Vec::new(), Vec::new());
        Self { names: Names::new(), params, files, lists, targets, constants: HashMap::new(), specials: Vec::new() }
    }

    pub fn finish(mut self) -> (Files, Vec<R>) {
        let [predicates, words, longs] = self.names.used;
        self.files = Files { words, longs, predicates, ..self.files };
        self.files.specials = self.specials.into_iter().map(|(special, row)| (row, special)).collect();
        (self.files, self.lists)
    }
}

/// Operands at the commas outside of brackets and braces.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => (),
        }
    }
    parts.push(text[begin..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

impl<'a> Decoding<'a> {
    /// The operands, where there are so many.
    pub fn exactly<const N: usize>(&self) -> Wrong<[&'a str; N]> {
        let found = self.operands.len();
        <[&str; N]>::try_from(self.operands.as_slice())
            .map_err(|_| format!("{found} operands, the instruction has {N}"))
    }

    /// What a row of the table says.
    pub fn form(&mut self, operands: &str, form: Form) -> Wrong<Op> {
        let expected = operands.len();
        if self.operands.len() != expected {
            return Err(format!("{} operands, the instruction has {expected}", self.operands.len()));
        }
        let widths = operands.bytes().map(|c| match c {
            b'h' => Width::Half,
            b'w' => Width::Word,
            b'l' => Width::Long,
            _ => Width::Predicate,
        });
        let mut rows = [0; 5];
        for (i, width) in widths.enumerate() {
            let operand = self.operands[i];
            rows[i] = if i == 0 { self.register(operand, width)? } else { self.value(operand, width)? };
        }
        let [d, a, b, c, e] = rows;
        Ok(match form {
            Form::Unary(f) => Op::Unary(f, d, a),
            Form::Binary(f) => Op::Binary(f, d, [a, b]),
            Form::Ternary(f) => Op::Ternary(f, d, [a, b, c]),
            Form::Insert => Op::Insert(d, [a, b, c, e]),
            Form::UnaryLong(f) => Op::UnaryLong(f, d, a),
            Form::BinaryLong(f) => Op::BinaryLong(f, d, [a, b]),
            Form::TernaryLong(f) => Op::TernaryLong(f, d, [a, b, c]),
            Form::ShiftLong(f) => Op::ShiftLong(f, d, a, b),
            Form::Widen(f) => Op::Widen(f, d, a),
            Form::WidenTwo(f) => Op::WidenTwo(f, d, [a, b]),
            Form::Narrow(f) => Op::Narrow(f, d, a),
            Form::Select => Op::Select(d, [a, b], c),
            Form::SelectLong => Op::SelectLong(d, [a, b], c),
            Form::Logic(Logic::Not) => Op::Logic(Logic::Not, d, [a, a]),
            Form::Logic(Logic::Move) => Op::Logic(Logic::Move, d, [a, a]),
            Form::Logic(f) => Op::Logic(f, d, [a, b]),
        })
    }

    /// `mov` with braces on one side.
    pub fn packed(&mut self) -> Wrong<Op> {
        let [d, a] = self.exactly()?;
        let long = self.parts[1] == "b64";
        let (whole, part) = if long { (Width::Long, Width::Word) } else { (Width::Word, Width::Half) };
        match (list(d).as_slice(), list(a).as_slice()) {
            ([whole_d], [low, high]) => {
                let (d, parts) = (self.register(whole_d, whole)?, [self.value(low, part)?, self.value(high, part)?]);
                Ok(if long { Op::WidenTwo(WidenTwo::Pack, d, parts) } else { Op::Binary(Binary::Pack16, d, parts) })
            }
            ([low, high], [a]) => {
                let (parts, a) = ([self.register(low, part)?, self.register(high, part)?], self.value(a, whole)?);
                Ok(if long { Op::Words(parts, a) } else { Op::Halves(parts, a) })
            }
            _ => Err("expected two registers in braces on one side".to_owned()),
        }
    }

    /// `setp`.
    pub fn compare(&mut self, test: &str, kind: &str) -> Wrong<Op> {
        let unknown = || "not an instruction that this machine knows".to_owned();
        let (kind, width) = match kind {
            "u16" | "b16" => (Kind::U16, Width::Half),
            "s16" => (Kind::S16, Width::Half),
            "u32" | "b32" => (Kind::U32, Width::Word),
            "s32" => (Kind::S32, Width::Word),
            "f32" => (Kind::F32, Width::Word),
            "u64" | "b64" => (Kind::U64, Width::Long),
            "s64" => (Kind::S64, Width::Long),
            "f64" => (Kind::F64, Width::Long),
            _ => return Err(unknown()),
        };
        let (bits, float) = (self.parts[2].starts_with('b'), matches!(kind, Kind::F32 | Kind::F64));
        let test = match test {
            "eq" => Test::Eq,
            "ne" => Test::Ne,
            "lt" if !bits => Test::Lt,
            "le" if !bits => Test::Le,
            "gt" if !bits => Test::Gt,
            "ge" if !bits => Test::Ge,
            "equ" if float => Test::EqU,
            "neu" if float => Test::NeU,
            "ltu" if float => Test::LtU,
            "leu" if float => Test::LeU,
            "gtu" if float => Test::GtU,
            "geu" if float => Test::GeU,
            "nan" if float => Test::Nan,
            "num" if float => Test::Num,
            _ => return Err(unknown()),
        };
        let [d, a, b] = self.exactly()?;
        let d = self.register(d, Width::Predicate)?;
        Ok(Op::Compare(test, kind, d, [self.value(a, width)?, self.value(b, width)?]))
    }

    /// A register of this width, or what stands there instead.
    pub fn register(&mut self, text: &str, width: Width) -> Wrong<R> {
        match self.decoder.names.find(self.scope, text) {
            Some((found, row)) if found == width => Ok(row),
            Some((found, _)) => Err(format!("{text} is {}, the instruction takes {}", found.name(), width.name())),
            None => Err(format!("{text} is not a register")),
        }
    }

    /// A register of any width of words or longs: how wide it is, and its row.
    pub fn any_register(&self, text: &str) -> Wrong<(Width, R)> {
        self.decoder.names.find(self.scope, text).ok_or_else(|| format!("{text} is not a register"))
    }

    /// A register, a number, a special register or the address of a variable.
    pub fn value(&mut self, text: &str, width: Width) -> Wrong<R> {
        if self.decoder.names.find(self.scope, text).is_some() {
            return self.register(text, width);
        }
        if let Some(name) = text.strip_prefix('%') {
            return self
                .special(name, width)
                .ok_or_else(|| format!("{text} is not a register that this machine knows"));
        }
        let address = || self.variable(text).filter(|_| matches!(width, Width::Word | Width::Long));
        let bits = number(text, width).or_else(|| address().map(|a| a as u64));
        let bits = bits.ok_or_else(|| format!("{text} is not a value of {} that this machine knows", width.name()))?;
        self.constant(bits, width)
    }

    /// The offset of a shared array in its window, or of a parameter.
    pub fn variable(&self, name: &str) -> Option<usize> {
        let mut all = self.shared.iter().chain(&self.decoder.params);
        all.find(|(of, ..)| of == name).map(|(_, offset, _)| *offset)
    }

    /// Whether the name is a parameter's.
    pub fn is_param(&self, name: &str) -> bool {
        self.decoder.params.iter().any(|(of, ..)| of == name)
    }

    /// A row that holds the number in all lanes.
    pub fn constant(&mut self, bits: u64, width: Width) -> Wrong<R> {
        let bits = match width {
            Width::Predicate => u64::from(bits != 0),
            Width::Half => bits & 0xffff,
            Width::Word => bits & 0xffff_ffff,
            Width::Long => bits,
        };
        let file = if width == Width::Half { Width::Word } else { width };
        let decoder = &mut *self.decoder;
        if let Some(row) = decoder.constants.get(&(file as usize, bits)) {
            return Ok(*row);
        }
        let row = R::try_from(decoder.names.row(file, 1)).map_err(|_| "more registers than 65536".to_owned())?;
        decoder.constants.insert((file as usize, bits), row);
        match width {
            Width::Predicate => decoder.files.predicate_constants.push((row, bits != 0)),
            Width::Half | Width::Word => decoder.files.constants.push((row, bits as u32)),
            Width::Long => decoder.files.long_constants.push((row, bits)),
        }
        Ok(row)
    }

    fn special(&mut self, name: &str, width: Width) -> Option<R> {
        let (name, axis) = name.split_once('.').unwrap_or((name, ""));
        let axis = ["x", "y", "z", ""].iter().position(|a| *a == axis)?;
        let special = match (name, axis) {
            ("laneid", 3) => Special::Lane,
            (_, 3) => return None,
            ("tid", _) => Special::Thread(axis),
            ("ntid", _) => Special::Threads(axis),
            ("ctaid", _) => Special::Block(axis),
            ("nctaid", _) => Special::Blocks(axis),
            _ => return None,
        };
        if width != Width::Word {
            return None;
        }
        if let Some((_, row)) = self.decoder.specials.iter().find(|(of, _)| *of == special) {
            return Some(*row);
        }
        let row = R::try_from(self.decoder.names.row(Width::Word, 1)).ok()?;
        self.decoder.specials.push((special, row));
        Some(row)
    }

    /// Adds to the lists of operands; where they begin.
    pub fn keep(&mut self, rows: &[R]) -> u32 {
        self.decoder.lists.extend_from_slice(rows);
        (self.decoder.lists.len() - rows.len()) as u32
    }
}

/// `{a, b}` as its parts; anything else as one.
pub(super) fn list(text: &str) -> Vec<&str> {
    match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        Some(inside) => inside.split(',').map(str::trim).collect(),
        None => vec![text],
    }
}

/// `[%rd1+-8]`, `[name+4]`, `[%r1]`.
pub(super) fn address(d: &mut Decoding<'_>, space: Space, text: &str) -> Wrong<Address> {
    let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let inside = inside.ok_or_else(|| format!("{text} is not an address"))?;
    let (base, offset) = match inside.split_once('+') {
        None => (inside, 0),
        Some((base, offset)) => {
            (base.trim(), offset.trim().parse::<i32>().map_err(|_| format!("{offset} is not an offset"))?)
        }
    };
    if d.variable(base).is_some() {
        if d.is_param(base) != (space == Space::Param) {
            return Err(format!("{base} lies in another memory"));
        }
        return Ok(Address { base: d.value(base, Width::Long)?, long: true, ..Address::at(offset) });
    }
    match d.any_register(base)? {
        (Width::Long, base) => Ok(Address { base, long: true, ..Address::at(offset) }),
        (Width::Word, base) if space == Space::Shared => Ok(Address { base, long: false, ..Address::at(offset) }),
        (width, _) => Err(format!("{base} is {}, an address has 64 bits", width.name())),
    }
}

/// `-12`, `0x1F`, `0f3F800000`, `0d…`: the bits.
fn number(text: &str, width: Width) -> Option<u64> {
    if let Some(bits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return (width == Width::Word && bits.len() == 8).then(|| u64::from_str_radix(bits, 16).ok())?;
    }
    if let Some(bits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return (width == Width::Long && bits.len() == 16).then(|| u64::from_str_radix(bits, 16).ok())?;
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let digits = digits.strip_suffix('U').unwrap_or(digits);
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}
