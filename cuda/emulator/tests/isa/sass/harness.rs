//! A cubin around a few lines of machine code, which are given registers and leave others.
//!
//! Lines are written as nvdisasm prints them, without encodings; `wait 0x3 write 0 read 1` behind a `;` is what the
//! control word says, and `L1:` a label. What the kernel is given and leaves goes through instructions of memory alone,
//! so these tests need nothing else.

use std::fmt::Write;

use qrun_emulator::{
    Order,
    isa::{Approximation, Fault, Module, ParseError},
};

use crate::isa::harness::{Job, Memory, ORDERS, UNTOUCHED};

/// A register in the lanes of a warp.
pub type Lanes = [u32; 32];

/// Bytes of parameters that the harness has itself: three addresses, and nothing.
const OWN: usize = 32;

/// Where a kernel's own parameters begin in constant bank 0 of sm_75 – 89.
pub const PARAMS: usize = 0x160 + OWN;

/// A register pair that holds an address for each lane.
pub fn addresses(register: usize, of: impl Fn(usize) -> u64) -> [(usize, Lanes); 2] {
    let half = |shift: u32| std::array::from_fn(|lane| (of(lane) >> shift) as u32);
    [(register, half(0)), (register + 1, half(32))]
}

/// Two words.
pub fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Lane by lane.
pub fn lanes(of: impl Fn(usize) -> u32) -> Lanes {
    std::array::from_fn(of)
}

/// `P0` holds in the lanes whose R9 is a multiple of 32.
pub const CHOOSE: &str = "SHFL.IDX P0, RZ, RZ, R9, RZ\n";

/// A kernel of one warp.
#[derive(Clone, Copy)]
pub struct Code<'a> {
    pub text: &'a str,
    /// Registers that it is given, by number.
    pub given: &'a [(usize, Lanes)],
    /// Its parameters, from [`PARAMS`] on.
    pub params: &'a [u32],
    /// What `.nv.constant2` of the cubin holds.
    pub table: &'a [u8],
    /// Bytes of shared memory.
    pub shared: usize,
    /// Warps of its block.
    pub warps: u32,
    /// What the approximate instructions return.
    pub approximation: Approximation,
}

impl<'a> Code<'a> {
    pub fn new(text: &'a str, given: &'a [(usize, Lanes)]) -> Self {
        Self { text, given, params: &[], table: &[], shared: 1024, warps: 1, approximation: Approximation::Exact }
    }

    /// Runs it in an order; what it leaves in these registers, lane by lane.
    pub fn attempt<const N: usize>(
        &self,
        memory: &mut Memory,
        wanted: [usize; N],
        order: Order,
    ) -> Result<[Lanes; N], Fault> {
        let bytes: Vec<u8> = (0..32).map(|lane| 4 * lane).collect();
        let given: Vec<u32> = self.given.iter().flat_map(|(_, lanes)| *lanes).collect();
        let left = memory.put(&vec![UNTOUCHED; 32 * N.max(1)]);
        let own = [memory.put(&bytes), memory.put(&given), left, 0];
        let mut params: Vec<u8> = own.iter().flat_map(|address| address.to_le_bytes()).collect();
        params.extend(self.params.iter().flat_map(|word| word.to_le_bytes()));
        let image = image(75, 0x160, params.len(), self.shared, self.table);
        let wrong = |error: ParseError| Fault { code: 0, report: error.to_string() };
        let module = Module::disassembled(&image, &listing(&self.around(&wanted))).map_err(wrong)?;
        Job { order, approximation: self.approximation, ..Job::new(self.text, 32 * self.warps, &params) }
            .of(&module, memory)?;
        let words = memory.get::<u32>(left);
        Ok(std::array::from_fn(|i| words[32 * i..32 * i + 32].try_into().expect("32 lanes")))
    }

    /// The same where nothing may go wrong.
    #[track_caller]
    pub fn run<const N: usize>(&self, memory: &mut Memory, wanted: [usize; N], order: Order) -> [Lanes; N] {
        let left = self.attempt(memory, wanted, order);
        left.unwrap_or_else(|fault| panic!("{order:?}: {}\n{}", fault.report, self.text))
    }

    /// What it leaves in these registers, which no order changes.
    #[track_caller]
    pub fn leaves<const N: usize>(&self, wanted: [usize; N]) -> [Lanes; N] {
        let all = ORDERS.map(|order| self.run(&mut Memory::default(), wanted, order));
        assert!(all.iter().all(|left| *left == all[0]), "the result depends on the order\n{}", self.text);
        all[0]
    }

    /// The fault that it meets.
    #[track_caller]
    pub fn fault(&self, memory: &mut Memory) -> Fault {
        match self.attempt(memory, [], Order::Forward) {
            Ok(_) => panic!("no fault was found in\n{}", self.text),
            Err(fault) => fault,
        }
    }

    /// Whether the fault has this code and its report these words.
    #[track_caller]
    pub fn faults(&self, memory: &mut Memory, code: i32, says: &[&str]) {
        let fault = self.fault(memory);
        let silent: Vec<_> = says.iter().filter(|word| !fault.report.contains(**word)).collect();
        assert!(fault.code == code && silent.is_empty(), "{silent:?} of {code} in {fault:?}\n{}", self.text);
    }

    /// The lines with those that load and store registers.
    fn around(&self, wanted: &[usize]) -> String {
        let mut text = String::from(
            "S2R R250, SR_LANEID\nULDC.64 UR56, c[0x0][0x160]\nULDC.64 UR58, c[0x0][0x168]\n\
             ULDC.64 UR60, c[0x0][0x170]\nLDG.E.U8 R250, [R250.U32+UR56]\n",
        );
        let at = |register: &str, i: usize| match i {
            0 => format!("[R250.U32+{register}]"),
            _ => format!("[R250.U32+{register}+{:#x}]", 128 * i),
        };
        for (i, (register, _)) in self.given.iter().enumerate() {
            let _ = writeln!(text, "LDG.E R{register}, {}", at("UR58", i));
        }
        text += self.text;
        text += "\n";
        for (i, register) in wanted.iter().enumerate() {
            let _ = writeln!(text, "STG.E {}, R{register}", at("UR60", i));
        }
        text + "EXIT\n"
    }
}

/// What nvdisasm would print of the lines.
pub fn listing(text: &str) -> String {
    let mut listing = String::from(".text.k:\n");
    let mut address = 0;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.ends_with(':') {
            listing += line;
            listing.push('\n');
            continue;
        }
        let (code, control) = line.split_once(';').unwrap_or((line, ""));
        let word = |name: &str| {
            let (_, rest) = control.split_once(name)?;
            let digits = rest.split_whitespace().next().expect("a number behind its name");
            let digits = digits.strip_prefix("0x").unwrap_or(digits);
            Some(u64::from_str_radix(digits, 16).expect("a number"))
        };
        let (write, read, wait) = (word("write").unwrap_or(7), word("read").unwrap_or(7), word("wait").unwrap_or(0));
        // Bits 105 – 125 of 128: stall, yield, the two barriers, those that are waited for.
        let high = 1 << 41 | write << 46 | read << 49 | wait << 52;
        let _ = writeln!(listing, "        /*{address:04x}*/ {code} ; /* 0x0 */");
        let _ = writeln!(listing, "        /* {high:#018x} */");
        address += 16;
    }
    listing
}

/// An ELF file of the kernel `k` without its code.
pub fn image(sm: u32, begin: usize, params: usize, shared: usize, table: &[u8]) -> Vec<u8> {
    let word = |value: usize| (value as u32).to_le_bytes();
    // EIATTR_PARAM_CBANK: a symbol, where the parameters begin, their bytes.
    let mut info = vec![4, 0x0a, 8, 0, 0, 0, 0, 0];
    info.extend(word(begin | params << 16));
    // Name, type, bytes in the file, size.
    let sections: [(&str, usize, &[u8], usize); 4] = [
        (".shstrtab", 3, &[], 0),
        (".nv.info.k", 1, &info, info.len()),
        (".nv.constant2.k", 1, table, table.len()),
        (".nv.shared.k", 8, &[], shared),
    ];
    let names: String = sections.iter().map(|(name, ..)| format!("{name}\0")).collect();
    let (mut file, mut headers, mut name) = (vec![0; 64], vec![0; 64], 0);
    for (title, kind, bytes, size) in sections {
        let bytes = if title == ".shstrtab" { names.as_bytes() } else { bytes };
        let mut header = [0; 64];
        for (at, value) in [(0, name), (4, kind), (24, file.len()), (32, size.max(bytes.len()))] {
            header[at..at + 4].copy_from_slice(&word(value));
        }
        headers.extend(header);
        file.extend(bytes);
        name += title.len() + 1;
    }
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let flags = if sm < 100 { sm } else { sm << 8 };
    let tables = file.len();
    file[40..44].copy_from_slice(&word(tables));
    file[48..52].copy_from_slice(&flags.to_le_bytes());
    file[58..64].copy_from_slice(&[64, 0, sections.len() as u8 + 1, 0, 1, 0]);
    file.extend(headers);
    file
}
