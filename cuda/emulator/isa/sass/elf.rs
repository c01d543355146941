//! What the machine needs of a cubin besides its code: sections by name, and what `.nv.info` says of a kernel.

/// `EIATTR_MAX_THREADS`: three numbers.
const MAX_THREADS: u8 = 0x05;
/// `EIATTR_PARAM_CBANK`: a symbol, then where the parameters begin in constant bank 0, and their bytes (16 bits each).
const PARAM_CBANK: u8 = 0x0a;
/// `EIATTR_REGCOUNT`, in the `.nv.info` of the image: a symbol, then a number.
const REGISTERS: u8 = 0x2f;
/// An attribute whose value has a size of its own; others hold 16 bits.
const SIZED: u8 = 4;

/// A cubin's sections.
pub(super) struct Elf<'a> {
    image: &'a [u8],
    /// Name, offset, bytes, whether the file holds them.
    sections: Vec<(&'a str, usize, usize, bool)>,
    /// `10 * major + minor`.
    pub sm: u32,
}

/// What is said of a kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Info {
    pub max_threads: u32,
    /// Where the parameters begin in constant bank 0.
    pub param_begin: usize,
    pub param_bytes: usize,
}

fn number(image: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let field = image.get(at..at.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
}

impl<'a> Elf<'a> {
    /// Reads the table of sections of a 64-bit file; None where it is not one.
    pub fn read(image: &'a [u8]) -> Option<Self> {
        if !image.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let flags = number(image, 48, 4)?;
        // Up to sm_90 in bits 0–7, from sm_100 in bits 8–15.
        let sm = if flags & 0xff >= 50 { flags & 0xff } else { flags >> 8 & 0xff };
        let (table, size, count, names) =
            (number(image, 40, 8)?, number(image, 58, 2)?, number(image, 60, 2)?, number(image, 62, 2)?);
        let field = |section: usize, at: usize, bytes: usize| number(image, table + section * size + at, bytes);
        let strings = field(names, 24, 8)?;
        let mut sections = Vec::new();
        for section in 0..count {
            let name = image.get(strings + field(section, 0, 4)?..)?;
            let name = std::str::from_utf8(name.split(|b| *b == 0).next()?).ok()?;
            // 8: SHT_NOBITS.
            sections.push((name, field(section, 24, 8)?, field(section, 32, 8)?, field(section, 4, 4)? != 8));
        }
        Some(Self { image, sections, sm: sm as u32 })
    }

    /// Bytes of a section; those that the file does not hold are empty.
    pub fn section(&self, name: &str) -> Option<&'a [u8]> {
        let (_, offset, bytes, held) = self.sections.iter().find(|(of, ..)| *of == name)?;
        if *held { self.image.get(*offset..offset.checked_add(*bytes)?) } else { Some(&[]) }
    }

    /// How many bytes a section has, whether the file holds them or not.
    pub fn size(&self, name: &str) -> usize {
        self.sections.iter().find(|(of, ..)| *of == name).map_or(0, |(_, _, bytes, _)| *bytes)
    }

    /// Registers of a thread; 0 where the image does not say.
    pub fn registers(&self, kernel: &str) -> u32 {
        // The section of the code names the kernel's symbol in the lower 24 bits of sh_info.
        let find = || {
            let code = self.sections.iter().position(|(of, ..)| of.strip_prefix(".text.") == Some(kernel))?;
            let table = number(self.image, 40, 8)? + code * number(self.image, 58, 2)?;
            let symbol = number(self.image, table + 44, 4)? & 0xff_ffff;
            let bytes = self.section(".nv.info")?;
            let mut at = 0;
            while at + 4 <= bytes.len() {
                let (form, attribute, size) = (bytes[at], bytes[at + 1], number(bytes, at + 2, 2)?);
                at += 4;
                if form == SIZED {
                    if attribute == REGISTERS && number(bytes, at, 4)? == symbol {
                        return number(bytes, at + 4, 4);
                    }
                    at += size;
                }
            }
            None
        };
        find().unwrap_or(0) as u32
    }

    /// What `.nv.info` says of a kernel; None where it says nothing of its parameters.
    pub fn info(&self, kernel: &str) -> Option<Info> {
        let bytes = self.section(&format!(".nv.info.{kernel}"))?;
        let (mut info, mut found, mut at) = (Info { max_threads: 1024, param_begin: 0, param_bytes: 0 }, false, 0);
        while at + 4 <= bytes.len() {
            let (form, attribute, size) = (bytes[at], bytes[at + 1], number(bytes, at + 2, 2)?);
            at += 4;
            if form != SIZED {
                continue;
            }
            match attribute {
                MAX_THREADS => {
                    let axes = (0..3).map(|axis| number(bytes, at + 4 * axis, 4));
                    info.max_threads = axes.map(|n| n.unwrap_or(1).max(1) as u32).product();
                }
                PARAM_CBANK => {
                    (info.param_begin, info.param_bytes) = (number(bytes, at + 4, 2)?, number(bytes, at + 6, 2)?);
                    found = true;
                }
                _ => (),
            }
            at += size;
        }
        found.then_some(info)
    }
}
