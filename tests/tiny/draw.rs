//! Random elements and blocks of every format of the tiny models.

use half::{bf16, f16};
use qrun_quant::GgmlType;

/// How a tensor's elements are spread: around `mean` with standard deviation `std`.
#[derive(Clone, Copy)]
pub struct Spread {
    pub mean: f32,
    pub std: f32,
}

/// `n` elements in format `ty`.
pub fn draw(ty: GgmlType, n: usize, s: Spread, rng: &mut Rng) -> Vec<u8> {
    let blocks = n / ty.format().block;
    let mut out = Vec::with_capacity(ty.bytes_of(n));
    for _ in 0..blocks {
        match ty {
            GgmlType::F32 => out.extend(rng.normal(s).to_le_bytes()),
            GgmlType::F16 => out.extend(f16::from_f32(rng.normal(s)).to_le_bytes()),
            GgmlType::BF16 => out.extend(bf16::from_f32(rng.normal(s)).to_le_bytes()),
            // Uniform bytes have a standard deviation of 73.9, 5 bits 9.23, 6 bits with an i8 scale 1364.
            GgmlType::Q8_0 => {
                out.extend(rng.scale(s.std / 73.9));
                rng.bytes(32, &mut out);
            }
            GgmlType::Q5_0 => {
                out.extend(rng.scale(s.std / 9.23));
                rng.bytes(20, &mut out);
            }
            GgmlType::Q6_K => {
                rng.bytes(208, &mut out);
                out.extend(rng.scale(s.std / 1364.0));
            }
            // Uniform nibbles of the table have a standard deviation of 5.9.
            GgmlType::MXFP4 => {
                out.push((128.0 + (s.std / 5.9).log2().round()) as u8);
                rng.bytes(16, &mut out);
            }
            GgmlType::Q4_K => q4_k(s, rng, &mut out),
            GgmlType::NVFP4 => {
                // A scale is a float of 8 bits, its exponent from bit 3 on; half of it is for the table.
                let scale = (7.0 + (s.std / 2.93).log2()) * 8.0;
                out.extend((0..4).map(|_| (scale.round() as u8 + rng.below(9) as u8).saturating_sub(4)));
                rng.bytes(32, &mut out);
            }
            GgmlType::Q1_0 => {
                out.extend(rng.scale(s.std));
                rng.bytes(16, &mut out);
            }
            GgmlType::Q2_0 => {
                out.extend(rng.scale(s.std / 0.95));
                ternary(16, rng, &mut out);
            }
            GgmlType::TQ2_0 => {
                ternary(64, rng, &mut out);
                out.extend(rng.scale(s.std / 0.95));
            }
            // Digits of base 3 of uniform bytes have a standard deviation of 0.82, entries of the grid with their scales 7.2.
            GgmlType::TQ1_0 => {
                rng.bytes(52, &mut out);
                out.extend(rng.scale(s.std / 0.82));
            }
            // Entries of grids with odd scales up to 31: 55 in IQ2, 141 in IQ3.
            GgmlType::IQ2_XXS | GgmlType::IQ2_XS | GgmlType::IQ2_S => {
                out.extend(rng.scale(s.std / 55.0));
                rng.bytes(ty.format().bytes - 2, &mut out);
            }
            GgmlType::IQ3_XXS | GgmlType::IQ3_S => {
                out.extend(rng.scale(s.std / 141.0));
                rng.bytes(ty.format().bytes - 2, &mut out);
            }
            GgmlType::IQ1_S => {
                out.extend(rng.scale(s.std / 7.2));
                rng.bytes(48, &mut out);
            }
            GgmlType::IQ1_M => {
                rng.bytes(48, &mut out);
                let d = u16::from_le_bytes(rng.scale(s.std / 7.2));
                let words = (0..4).map(|i| rng.next() as u16 & 0x0fff | (d >> (4 * i) & 15) << 12);
                out.extend(words.flat_map(u16::to_le_bytes));
            }
            _ => unreachable!("{ty} is not drawn"),
        }
    }
    out
}

/// Bytes of four codes of two bits: 0, 1 and 2 alike, a few of 3.
fn ternary(n: usize, rng: &mut Rng, out: &mut Vec<u8>) {
    let mut code = |shift: usize| ((rng.below(13) / 4) as u8) << shift;
    out.extend((0..n).map(|_| code(0) | code(2) | code(4) | code(6)));
}

/// Offsets near 7.5 scales, as real blocks have: their elements lie around zero.
fn q4_k(s: Spread, rng: &mut Rng, out: &mut Vec<u8>) {
    let d = f16::from_f32(s.std / 168.0);
    out.extend(d.to_le_bytes());
    out.extend(f16::from_f32(d.to_f32() * 7.5).to_le_bytes());
    let scale: [u8; 8] = std::array::from_fn(|_| (rng.next() % 64) as u8);
    let min = scale.map(|s| (s + (rng.next() % 9) as u8).saturating_sub(4).min(63));
    let low = |j: usize, of: &[u8; 8]| of[j] | of[j + 4] >> 4 << 6;
    out.extend((0..4).map(|j| low(j, &scale)));
    out.extend((0..4).map(|j| low(j, &min)));
    out.extend((4..8).map(|j| scale[j] & 15 | min[j] << 4));
    rng.bytes(128, out);
}

/// SplitMix64.
pub struct Rng(u64);

impl Rng {
    /// A stream of its own for each name.
    pub fn new(name: &str) -> Self {
        Self(fnv1a(name.as_bytes()))
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// Nearly normal: the sum of four uniform 16-bit numbers.
    fn normal(&mut self, s: Spread) -> f32 {
        let sum: u64 = self.next().to_le_bytes().chunks(2).map(|b| u64::from(b[0]) | u64::from(b[1]) << 8).sum();
        let unit = (sum as f32 - 131_070.0) * (1.732_050_8 / 65_536.0);
        s.mean + s.std * unit
    }
    /// An f16 within a quarter of `x`.
    fn scale(&mut self, x: f32) -> [u8; 2] {
        let spread = 0.75 + (self.next() >> 48) as f32 / 131_072.0;
        f16::from_f32(x * spread).to_le_bytes()
    }
    fn bytes(&mut self, n: usize, out: &mut Vec<u8>) {
        out.extend((0..n).map(|_| self.next() as u8));
    }
}

/// FNV-1a, 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
