//! Weights as the kernels take them: blocks as in a file, and the tile records of 16 rows that quantized ones become, byte
//! by byte as cuda/kernels/formats/ describes them.

use crate::isa::{
    harness::{Memory, Random},
    references::{from_16_bits, to_16_bits},
    trial::{Params, Trial, floats},
};

/// A format of weights: ggml's number, weights of a block, and columns and bytes of a record; dense ones have none.
#[derive(Clone, Copy, PartialEq)]
pub struct Format {
    pub number: i32,
    pub block: usize,
    record: Option<[usize; 2]>,
}

const fn dense(number: i32) -> Format {
    Format { number, block: 32, record: None }
}
const fn quantized(number: i32, block: usize, columns: usize, bytes: usize) -> Format {
    Format { number, block, record: Some([columns, bytes]) }
}

pub const F32: Format = dense(0);
pub const F16: Format = dense(1);
pub const BF16: Format = dense(30);
pub const Q5_0: Format = quantized(6, 32, 128, 1408);
pub const Q8_0: Format = quantized(8, 32, 128, 2176);
pub const Q4_K: Format = quantized(12, 256, 256, 2304);
pub const MXFP4: Format = quantized(39, 32, 128, 1088);

/// Rows of a record.
const ROWS: usize = 16;

/// Some weights that belong together.
struct Block {
    /// As in the file.
    bytes: Vec<u8>,
    /// What they stand for.
    values: Vec<f64>,
    /// Of quantized ones: a number for each weight, and what multiplies them: an f16 or an exponent; of Q4_K two f16, eight
    /// scales, eight minimums.
    codes: Vec<u8>,
    scales: Vec<u16>,
}

/// An f16 between 0.01 and 0.11, and its value.
fn scale(random: &mut Random) -> (u16, f64) {
    let bits = to_16_bits(0.01 + random.below(100) as f32 / 1000.0, 5);
    (bits as u16, from_16_bits(bits, 5))
}

/// Codes below 16 in pairs `apart` from each other in runs of twice as many, as nibbles.
fn nibbles(codes: &[u8], apart: usize) -> Vec<u8> {
    codes.chunks(2 * apart).flat_map(|run| (0..apart).map(|i| run[i] & 15 | run[i + apart] << 4)).collect()
}

impl Block {
    fn random(format: Format, random: &mut Random) -> Self {
        let mut any = |n: usize, below: usize| (0..n).map(|_| random.below(below) as u8).collect::<Vec<u8>>();
        match format {
            Q8_0 => {
                let codes = any(32, 256);
                let (bits, d) = scale(random);
                let values = codes.iter().map(|&q| d * f64::from(q as i8)).collect();
                let bytes = [&bits.to_le_bytes()[..], &codes].concat();
                Self { bytes, values, codes, scales: vec![bits] }
            }
            Q5_0 => {
                let codes = any(32, 32);
                let (bits, d) = scale(random);
                let fifth = codes.iter().enumerate().fold(0, |word, (i, q)| word | u32::from(q >> 4) << i);
                let values = codes.iter().map(|&q| d * (f64::from(q) - 16.0)).collect();
                let bytes = [&bits.to_le_bytes()[..], &fifth.to_le_bytes(), &nibbles(&codes, 16)].concat();
                Self { bytes, values, codes, scales: vec![bits] }
            }
            MXFP4 => {
                let (codes, e) = (any(32, 16), 120 + random.below(6));
                let value = |&q: &u8| {
                    let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(q % 8)];
                    2f64.powi(e as i32 - 127) * if q < 8 { size } else { -size }
                };
                let values = codes.iter().map(value).collect();
                Self { bytes: [vec![e as u8], nibbles(&codes, 16)].concat(), values, codes, scales: vec![e as u16] }
            }
            Q4_K => {
                let (codes, scales, minimums) = (any(256, 16), any(8, 64), any(8, 64));
                let ((d, of_d), (dmin, of_dmin)) = (scale(random), scale(random));
                let value = |(i, &q): (usize, &u8)| {
                    let [scale, minimum] = [&scales, &minimums].map(|all| f64::from(all[i / 32]));
                    of_d * scale * f64::from(q) - of_dmin * minimum
                };
                let values = codes.iter().enumerate().map(value).collect();
                // Six bits each: the first four of both in the low ones of a byte, of the last four the low nibbles together
                // and the rest above the first.
                let mut packed = [0; 12];
                for i in 0..4 {
                    packed[i] = scales[i] | scales[i + 4] >> 4 << 6;
                    packed[4 + i] = minimums[i] | minimums[i + 4] >> 4 << 6;
                    packed[8 + i] = scales[i + 4] & 15 | minimums[i + 4] << 4;
                }
                let bytes = [&d.to_le_bytes()[..], &dmin.to_le_bytes(), &packed, &nibbles(&codes, 32)].concat();
                let scales = [d, dmin].into_iter().chain(scales.into_iter().chain(minimums).map(u16::from)).collect();
                Self { bytes, values, codes, scales }
            }
            F32 => {
                let values = floats(32, random);
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                Self { bytes, values: values.iter().map(|&v| v.into()).collect(), codes: vec![], scales: vec![] }
            }
            _ => {
                let exponent = if format == BF16 { 8 } else { 5 };
                let bits: Vec<u64> = floats(32, random).iter().map(|&v| to_16_bits(v, exponent)).collect();
                let bytes = bits.iter().flat_map(|&b| (b as u16).to_le_bytes()).collect();
                let values = bits.iter().map(|&b| from_16_bits(b, exponent)).collect();
                Self { bytes, values, codes: vec![], scales: vec![] }
            }
        }
    }
}

/// A matrix of random weights.
pub struct Weights {
    format: Format,
    rows: usize,
    k: usize,
    blocks: Vec<Block>,
}

impl Weights {
    /// `k` is a multiple of the format's block.
    pub fn random(format: Format, [rows, k]: [usize; 2], random: &mut Random) -> Self {
        let blocks = (0..rows * k / format.block).map(|_| Block::random(format, random)).collect();
        Self { format, rows, k, blocks }
    }

    /// `[rows][k]`: what they stand for.
    pub fn values(&self) -> Vec<f64> {
        self.blocks.iter().flat_map(|block| block.values.iter().copied()).collect()
    }

    /// Rows as in the file.
    fn file(&self) -> Vec<u8> {
        self.blocks.iter().flat_map(|block| block.bytes.iter().copied()).collect()
    }

    /// As kernels read them: records where they are quantized, else as in the file.
    pub fn on_device(&self) -> Vec<u8> {
        let Some([columns, bytes]) = self.format.record else { return self.file() };
        let in_row = self.k.div_ceil(columns);
        let mut records = vec![0; self.rows.div_ceil(ROWS) * in_row * bytes];
        for (n, record) in records.chunks_exact_mut(bytes).enumerate() {
            for row in 0..ROWS {
                for column in 0..columns {
                    let code = self.block(ROWS * (n / in_row) + row, n % in_row * columns + column);
                    let code = code.map_or(0, |(block, i)| block.codes[i]);
                    self.format.put_code(record, [row, column], code);
                }
                for column in (0..columns).step_by(self.format.block) {
                    if let Some((block, _)) = self.block(ROWS * (n / in_row) + row, n % in_row * columns + column) {
                        self.format.put_scales(record, [row, column], &block.scales);
                    }
                }
            }
        }
        records
    }

    /// The block of a weight, and which of its weights that is; none past the ends of the matrix.
    fn block(&self, row: usize, column: usize) -> Option<(&Block, usize)> {
        let block = (row * self.k + column) / self.format.block;
        (row < self.rows && column < self.k).then(|| (&self.blocks[block], column % self.format.block))
    }
}

impl Format {
    pub fn dense(self) -> bool {
        self.record.is_none()
    }

    /// The code of a weight, in a record that had zeros.
    fn put_code(self, record: &mut [u8], [row, column]: [usize; 2], code: u8) {
        // Lane 4g + t has elements 4t..4t+3 of both halves of each block of 32, of the rows g and g + 8.
        let (g, i, chunk, j, element) = (row % 8, row / 8, column / 128, column % 128 / 32, column % 32);
        let (half, t, byte) = (element / 16, element % 16 / 4, element % 4);
        let lane = 4 * g + t;
        if self == Q8_0 {
            record[512 * j + 16 * lane + 8 * half + 4 * i + byte] = code;
            return;
        }
        // A plane of 1024 bytes for each 128 columns: nibbles, those of the second half above those of the first.
        record[1024 * chunk + 512 * i + 16 * lane + 4 * j + byte] |= (code & 15) << (4 * half);
        if self == Q5_0 {
            // The fifth bits, inverted.
            record[1024 + 8 * lane + 4 * i + byte] |= (code >> 4 ^ 1) << (2 * j + half);
        }
    }

    /// The scales of the block that begins at this column.
    fn put_scales(self, record: &mut [u8], [row, column]: [usize; 2], scales: &[u16]) {
        let (g, i, j) = (row % 8, row / 8, column / 32);
        let mut halves = |at: usize, halves: &[u16]| {
            let bytes: Vec<u8> = halves.iter().flat_map(|h| h.to_le_bytes()).collect();
            record[at..at + bytes.len()].copy_from_slice(&bytes);
        };
        match self {
            Q5_0 => halves(1280 + 16 * g + 8 * i + 2 * j, scales),
            Q8_0 => halves(2048 + 16 * g + 8 * i + 2 * j, scales),
            MXFP4 => record[1024 + 8 * g + 4 * i + j] = scales[0] as u8,
            _ => {
                // 16 bytes per row: low nibbles of a scale and its minimum, four and four; the upper bits of both; d and dmin.
                let at = 2048 + 16 * row;
                halves(at + 12, &scales[..2]);
                for s in 0..8 {
                    let (scale, minimum) = (scales[2 + s] as u8, scales[10 + s] as u8);
                    record[at + s] = scale & 15 | minimum << 4;
                    record[at + 8 + s % 4] |= (scale >> 4 | minimum >> 4 << 2) << (4 * (s / 4));
                }
            }
        }
    }
}

/// Rows of a file become records, to the bit: of some rows that do not fill a tile, of blocks that do not fill a record.
pub fn repack(trial: &Trial<'_>, format: Format) -> Result<(), String> {
    const WARPS: usize = 4;
    let [rows, k] = [21, if format == Q4_K { 768 } else { 288 }];
    let weights = Weights::random(format, [rows, k], &mut Random(10));
    let expected = weights.on_device();
    let mut memory = Memory::default();
    let to = memory.put(&vec![0xC3_u8; expected.len()]);
    let params = Params::new("repack::RepackParams")
        .set("from", memory.put(&weights.file()))
        .set("to", to)
        .set("rows", rows as i32)
        .set("k", k as i32);
    let records = expected.len() / format.record.expect("it is quantized")[1];
    trial.run(&memory, &params.bytes, [records.div_ceil(WARPS) as u32, 1, 1], 32 * WARPS as u32, 0)?;
    let found = memory.get::<u8>(to);
    let wrong = (0..found.len()).find(|&i| found[i] != expected[i]);
    wrong.map_or(Ok(()), |i| Err(format!("wrong: byte {i} is {:#04x}, expected {:#04x}", found[i], expected[i])))
}
