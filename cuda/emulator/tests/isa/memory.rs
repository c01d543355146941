//! Loads and stores of every width, space and vector: one row per opcode that the shipped PTX has.

use crate::isa::harness::{Random, UNTOUCHED, outcome};

/// A load or store, and the register on its other side.
pub struct Access {
    pub op: &'static str,
    /// `r` 32 bits, `l` 64, `h` 16, `f` f32, `d` f64.
    pub register: char,
}

const fn row(op: &'static str, register: char) -> Access {
    Access { op, register }
}

pub static LOADS: &[Access] = &[
    row("ld.global.f32", 'f'),
    row("ld.global.f64", 'd'),
    row("ld.global.s32", 'l'),
    row("ld.global.u16", 'h'),
    row("ld.global.u16", 'r'),
    row("ld.global.u32", 'r'),
    row("ld.global.u32", 'l'),
    row("ld.global.u64", 'l'),
    row("ld.global.v2.f32", 'f'),
    row("ld.global.v2.u32", 'r'),
    row("ld.global.v4.f32", 'f'),
    row("ld.global.v4.u32", 'r'),
    row("ld.global.nc.u8", 'r'),
    row("ld.global.nc.u16", 'h'),
    row("ld.global.nc.u32", 'r'),
    row("ld.global.nc.L1::no_allocate.v2.u32", 'r'),
    row("ld.global.nc.L1::no_allocate.v4.u32", 'r'),
    row("ld.shared.f32", 'f'),
    row("ld.shared.s32", 'l'),
    row("ld.shared.u16", 'r'),
    row("ld.shared.u32", 'r'),
    row("ld.shared.u32", 'l'),
    row("ld.shared.u64", 'l'),
    row("ld.shared.v2.f32", 'f'),
    row("ld.shared.v2.u32", 'r'),
    row("ld.shared.v2.u64", 'l'),
    row("ld.shared.v4.f32", 'f'),
    row("ld.shared.v4.u32", 'r'),
];

pub static STORES: &[Access] = &[
    row("st.global.f32", 'f'),
    row("st.global.u8", 'r'),
    row("st.global.u8", 'h'),
    row("st.global.u16", 'r'),
    row("st.global.u16", 'h'),
    row("st.global.u32", 'r'),
    row("st.global.u64", 'l'),
    row("st.global.v2.f32", 'f'),
    row("st.global.v2.u32", 'r'),
    row("st.global.v4.f32", 'f'),
    row("st.global.v4.u32", 'r'),
    row("st.volatile.global.u32", 'r'),
    row("st.volatile.global.v4.u32", 'r'),
    row("st.shared.f32", 'f'),
    row("st.shared.u16", 'h'),
    row("st.shared.u32", 'r'),
    row("st.shared.u64", 'l'),
    row("st.shared.v2.f32", 'f'),
    row("st.shared.v2.u32", 'r'),
    row("st.shared.v2.u64", 'l'),
    row("st.shared.v4.f32", 'f'),
    row("st.shared.v4.u32", 'r'),
];

/// Lanes, and the places that they take: no lane its own, none at the ends.
const LANES: usize = 32;
const PLACES: usize = LANES + 2;
/// Words of the memory that a case works on: places of 16 bytes, a whole number of words per lane.
const WORDS: usize = 160;

/// What lane `lane` is concerned with.
fn place(lane: usize) -> usize {
    (lane * 5 + 3) % LANES + 1
}

impl Access {
    fn has(&self, part: &str) -> bool {
        self.op.split('.').any(|p| p == part)
    }
    fn shared(&self) -> bool {
        self.has("shared")
    }
    /// How many elements of how many bytes.
    fn shape(&self) -> (usize, usize) {
        let count = if self.has("v4") {
            4
        } else if self.has("v2") {
            2
        } else {
            1
        };
        let bits: usize =
            self.op.rsplit(['u', 's', 'f']).next().and_then(|n| n.parse().ok()).expect("a type at the end");
        (count, bits / 8)
    }
    fn bytes(&self) -> usize {
        let (count, bytes) = self.shape();
        count * bytes
    }
    /// Bytes of a register.
    fn width(&self) -> usize {
        match self.register {
            'h' => 2,
            'r' | 'f' => 4,
            _ => 8,
        }
    }
    /// The registers as an operand.
    fn registers(&self) -> String {
        let name = match self.register {
            'h' => "rs",
            'r' => "r",
            'l' => "rd",
            'f' => "f",
            _ => "fd",
        };
        let all: Vec<String> = (0..self.shape().0).map(|i| format!("%{name}{}", 20 + i)).collect();
        if all.len() == 1 { all.concat() } else { format!("{{{}}}", all.join(", ")) }
    }
    /// The addresses of all forms: how they are written, and by how many places they are off (none: every lane takes
    /// the first place).
    fn addresses(&self) -> Vec<(String, Option<i64>)> {
        let bytes = self.bytes() as i64;
        let mut all: Vec<(String, Option<i64>)> = vec![
            ("[%rd9]".into(), Some(0)),
            (format!("[%rd9+{bytes}]"), Some(1)),
            (format!("[%rd9+-{bytes}]"), Some(-1)),
        ];
        if self.shared() {
            all.push((format!("[tile+{bytes}]"), None));
        }
        all
    }
    /// Shapes as coverage.rs writes them.
    pub fn shapes(&self) -> impl Iterator<Item = String> {
        let registers = match self.shape().0 {
            1 => self.register.to_string(),
            n => format!("{{{}}}", vec![self.register.to_string(); n].join(",")),
        };
        let all = ["[l]", "[l+#]", "[S]", "[S+#]"].map(|address| match self.has("ld") {
            true => format!("{} {registers},{address}", self.op),
            false => format!("{} {address},{registers}", self.op),
        });
        let forms = if self.shared() { 4 } else { 2 };
        all.into_iter().take(forms)
    }
}

/// %rd9: the lane's place, behind %rd`base`.
fn aim(base: &str, bytes: usize) -> String {
    format!(
        "mad.lo.s32 %r1, %r0, 5, 3; and.b32 %r1, %r1, 31; add.s32 %r1, %r1, 1; mul.wide.u32 %rd8, %r1, {bytes}; \
         add.s64 %rd9, {base}, %rd8; "
    )
}

/// Copies all words between global memory and the shared array, four bytes at a time.
fn copy(store: bool, global: &str) -> String {
    let mut text = format!(
        "mul.wide.u32 %rd4, %r0, 4; add.s64 %rd5, {global}, %rd4; mov.u64 %rd6, tile; add.s64 %rd7, %rd6, %rd4; "
    );
    for at in (0..WORDS / LANES).map(|i| 4 * LANES * i) {
        text += &match store {
            true => format!("ld.global.u32 %r9, [%rd5+{at}]; st.shared.u32 [%rd7+{at}], %r9; "),
            false => format!("ld.shared.u32 %r9, [%rd7+{at}]; st.global.u32 [%rd5+{at}], %r9; "),
        };
    }
    text + "bar.sync 0; "
}

const TILE: &str = ".shared .align 16 .b8 tile[640];";

fn run(what: &str, body: &str, input: &[u32], output: usize) -> Result<Vec<u32>, String> {
    let done = std::panic::catch_unwind(|| outcome(LANES as u32, TILE, body, input, output));
    done.map_err(|e| format!("{what}: {}", e.downcast_ref::<String>().map_or("a panic", |s| s)))
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[test]
fn loads_take_the_bytes_at_their_address() {
    let mut wrong = vec![];
    for row in LOADS {
        let mut random = Random(row.op.len() as u64);
        let input: Vec<u32> = (0..WORDS).map(|_| random.next() as u32).collect();
        let (count, bytes) = row.shape();
        for (address, off) in row.addresses() {
            let mut body = String::new();
            if row.shared() {
                body += &(copy(true, "%rd0") + "mov.u64 %rd10, tile; " + &aim("%rd10", row.bytes()));
            } else {
                body += &aim("%rd0", row.bytes());
            }
            body += &format!(
                "{} {}, {address}; mul.wide.u32 %rd8, %r0, 32; add.s64 %rd1, %rd1, %rd8; ",
                row.op,
                row.registers()
            );
            for i in 0..count {
                let (at, n) = (8 * i, 20 + i);
                body += &match row.register {
                    'h' => format!("cvt.u32.u16 %r{n}, %rs{n}; st.global.u32 [%rd1+{at}], %r{n}; "),
                    'r' => format!("st.global.u32 [%rd1+{at}], %r{n}; "),
                    'l' => format!("st.global.u64 [%rd1+{at}], %rd{n}; "),
                    'f' => format!("st.global.f32 [%rd1+{at}], %f{n}; "),
                    _ => format!("mov.b64 %rd{n}, %fd{n}; st.global.u64 [%rd1+{at}], %rd{n}; "),
                };
            }
            let what = format!("{} {}, {address}", row.op, row.registers());
            let mut expected = vec![UNTOUCHED; LANES * 8];
            for lane in 0..LANES {
                let from = off.map_or(1, |off| (place(lane) as i64 + off) as usize) * row.bytes();
                for i in 0..count {
                    let element = &bytes_of(&input)[from + i * bytes..][..bytes];
                    let sign = if row.op.contains(".s32") && element[bytes - 1] & 0x80 != 0 { 0xFF } else { 0 };
                    let mut value = [sign; 8];
                    value[..bytes].copy_from_slice(element);
                    let value = u64::from_le_bytes(value);
                    expected[8 * lane + 2 * i] = value as u32;
                    if row.width() == 8 {
                        expected[8 * lane + 2 * i + 1] = (value >> 32) as u32;
                    }
                }
            }
            match run(&what, &body, &input, LANES * 8) {
                Err(report) => wrong.push(report),
                Ok(found) if found != expected => {
                    wrong.push(format!("{what}: expected {expected:x?}, found {found:x?}"))
                }
                Ok(_) => (),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn stores_change_the_bytes_at_their_address_and_no_others() {
    let mut wrong = vec![];
    for row in STORES {
        let mut random = Random(row.op.len() as u64);
        // 32 bytes per lane.
        let input: Vec<u32> = (0..LANES * 8).map(|_| random.next() as u32).collect();
        let (count, bytes) = row.shape();
        for (address, off) in row.addresses() {
            let mut body =
                String::from("mul.wide.u32 %rd8, %r0, 32; add.s64 %rd0, %rd0, %rd8; setp.eq.s32 %p1, %r0, 5; ");
            for i in 0..count {
                let (at, n) = (8 * i, 20 + i);
                body += &match row.register {
                    'h' => format!("ld.global.u16 %rs{n}, [%rd0+{at}]; "),
                    'r' => format!("ld.global.u32 %r{n}, [%rd0+{at}]; "),
                    'l' => format!("ld.global.u64 %rd{n}, [%rd0+{at}]; "),
                    _ => format!("ld.global.f32 %f{n}, [%rd0+{at}]; "),
                };
            }
            if row.shared() {
                body += &(copy(true, "%rd1") + "mov.u64 %rd10, tile; " + &aim("%rd10", row.bytes()));
            } else {
                body += &aim("%rd1", row.bytes());
            }
            // Where all lanes would write the same place, only lane 5 does.
            let guard = if off.is_none() { "@%p1 " } else { "" };
            body += &format!("{guard}{} {address}, {}; ", row.op, row.registers());
            if row.shared() {
                body += &("bar.sync 0; ".to_owned() + &copy(false, "%rd1"));
            }
            let what = format!("{} {address}, {}", row.op, row.registers());
            let mut expected = bytes_of(&[UNTOUCHED; WORDS]);
            for lane in (0..LANES).filter(|&lane| off.is_some() || lane == 5) {
                let to = off.map_or(1, |off| (place(lane) as i64 + off) as usize) * row.bytes();
                for i in 0..count {
                    let value = &bytes_of(&input)[32 * lane + 8 * i..][..bytes];
                    expected[to + i * bytes..][..bytes].copy_from_slice(value);
                }
            }
            match run(&what, &body, &input, WORDS).map(|found| bytes_of(&found)) {
                Err(report) => wrong.push(report),
                Ok(found) if found != expected => {
                    wrong.push(format!("{what}: expected {expected:x?}, found {found:x?}"))
                }
                Ok(_) => (),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Places at the ends exist: an address may be off by one either way.
#[test]
fn places_are_a_permutation() {
    let mut places: Vec<usize> = (0..LANES).map(place).collect();
    places.sort_unstable();
    assert_eq!(places, (1..=LANES).collect::<Vec<_>>());
    const { assert!(PLACES * 16 <= WORDS * 4) };
}
