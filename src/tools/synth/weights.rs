//! Random weights: an integer hash for the numbers, the real quantizers for the blocks.

use std::collections::HashMap;

use qrun_quant::{GgmlType, Result, gguf::write::Entry};

use super::shape::Fill;

/// Above so many weights blocks are drawn from a pool instead of quantized one by one: the quantizers
/// do some tens of megabytes a second, a disk does gigabytes.
const POOL_ABOVE: u64 = 1 << 24;
/// Weights that are copied together from a pool; a multiple of every block.
const UNIT: usize = 256;
/// Units in a pool.
const POOL: usize = 1024;
/// Units that are written at a time.
const CHUNK: usize = 4096;

/// SplitMix64 (Steele, Lea & Flood 2014): state `s += 0x9E3779B97F4A7C15`, output `mix(s)`.
pub struct Stream(u64);

impl Stream {
    /// The numbers of one tensor: they depend on the seed and its name (FNV-1a), not on its place.
    pub fn new(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
        Self(mix(seed) ^ hash)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A value of mean 0 and spread 1, nearly normal: the sum of four 16-bit numbers, exact in integers.
    pub fn normal(&mut self) -> f32 {
        let x = self.bits();
        let sum = (x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48);
        // The spread of the sum is sqrt(4 · (65536² - 1) / 12).
        (sum as f32 - 131_070.0) * (1.0 / 37_837.227)
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Makes the bytes of one tensor after another.
pub struct Generator {
    seed: u64,
    pooled: bool,
    /// Quantized units by format and spread.
    pools: HashMap<(GgmlType, u32), Vec<u8>>,
    out: Vec<u8>,
}

impl Generator {
    /// A generator for a model of so many parameters.
    pub fn new(seed: u64, parameters: u64) -> Self {
        Self { seed, pooled: parameters > POOL_ABOVE, pools: HashMap::new(), out: Vec::new() }
    }

    /// Gives the bytes of `entry` to `write`, a chunk at a time.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn tensor(&mut self, entry: &Entry, fill: &Fill, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut left = entry.shape.iter().product::<u64>() as usize;
        let mut stream = Stream::new(self.seed, &entry.name);
        let (mean, std) = match fill {
            Fill::Values(values) => return write(&quantize(entry.ty, values)),
            Fill::Normal { mean, std } => (*mean, *std),
        };
        if self.pooled && entry.shape.len() > 1 && mean == 0.0 {
            return self.pooled_tensor(entry, std, write);
        }
        while left > 0 {
            let n = left.min(UNIT * CHUNK);
            let values: Vec<f32> = (0..n).map(|_| mean + std * stream.normal()).collect();
            write(&quantize(entry.ty, &values))?;
            left -= n;
        }
        Ok(())
    }

    /// A tensor of units drawn from a pool at random, by 16 bits of the stream each.
    fn pooled_tensor(&mut self, entry: &Entry, std: f32, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let unit = entry.ty.bytes_of(UNIT);
        let pool = self.pools.entry((entry.ty, std.to_bits())).or_insert_with(|| {
            let mut stream = Stream::new(self.seed, entry.ty.name());
            let values: Vec<f32> = (0..POOL * UNIT).map(|_| std * stream.normal()).collect();
            quantize(entry.ty, &values)
        });
        let mut stream = Stream::new(self.seed, &entry.name);
        let mut left = entry.ty.bytes_of(entry.shape.iter().product::<u64>() as usize);
        while left > 0 {
            self.out.clear();
            while self.out.len() < left.min(CHUNK * unit) {
                let bits = stream.bits();
                for draw in 0..4 {
                    let at = (bits >> (16 * draw)) as usize % POOL * unit;
                    self.out.extend_from_slice(&pool[at..at + unit]);
                }
            }
            let n = left.min(self.out.len());
            write(&self.out[..n])?;
            left -= n;
        }
        Ok(())
    }
}

/// Values to blocks. The header has checked that the format can be written.
fn quantize(ty: GgmlType, values: &[f32]) -> Vec<u8> {
    let mut out = vec![0; ty.bytes_of(values.len())];
    if let Some(quantize) = ty.format().quantize {
        quantize(values, &mut out);
    }
    out
}
