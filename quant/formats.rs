//! THE table of tensor formats: one row per GGUF type, one file per row under `formats/`.
//!
//! To add a format: write `formats/x.rs` (block struct with its layout in prose, dequantize, quantize) and add its row here.

pub(crate) mod block;
mod convert;
mod fit;
mod fit_k;
pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod plain;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;
pub(crate) mod scalar;

pub use convert::convert;

/// GGUF tensor types that qrun knows, with their numbers in the file.
#[allow(non_camel_case_types, missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum GgmlType {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ4_NL = 20,
    IQ4_XS = 23,
    BF16 = 30,
}

/// One row of the table.
pub struct Format {
    /// The type this row describes.
    pub ty: GgmlType,
    /// Name as llama.cpp prints it, such as `Q4_K`.
    pub name: &'static str,
    /// Elements per block; rows are multiples of it.
    pub block: usize,
    /// Bytes per block.
    pub bytes: usize,
    /// Whole blocks to f32, bit-exact with the public reference: `(blocks, out)`, where
    /// `out.len() == blocks.len() / bytes * block`.
    pub dequantize: fn(&[u8], &mut [f32]),
    /// f32 to whole blocks; `None` where qrun only reads the format.
    pub quantize: Option<Quantizer>,
}

/// f32 to whole blocks: `(values, out)`.
///
/// Total and deterministic: any values give a block, and the same values give the same bytes on every
/// machine. In the block formats a NaN counts as 0 and what the block cannot reach (infinities too)
/// becomes the nearest value that it can; F32, F16 and BF16 keep NaN and infinities.
pub type Quantizer = fn(&[f32], &mut [u8]);

/// All formats.
pub static FORMATS: &[Format] = &[
    plain::F32,
    plain::F16,
    plain::BF16,
    q4_0::FORMAT,
    q4_1::FORMAT,
    q5_0::FORMAT,
    q5_1::FORMAT,
    q8_0::FORMAT,
    q2_k::FORMAT,
    q3_k::FORMAT,
    q4_k::FORMAT,
    q5_k::FORMAT,
    q6_k::FORMAT,
    iq4_nl::FORMAT,
    iq4_xs::FORMAT,
];

impl GgmlType {
    /// All types of the table.
    pub fn all() -> impl Iterator<Item = GgmlType> {
        FORMATS.iter().map(|f| f.ty)
    }
    /// The type with this number in the file, if qrun knows it.
    pub fn from_number(n: u32) -> Option<GgmlType> {
        FORMATS.iter().map(|f| f.ty).find(|&t| t as u32 == n)
    }
    /// The type with this name (any case), if qrun knows it.
    pub fn from_name(name: &str) -> Option<GgmlType> {
        FORMATS.iter().find(|f| f.name.eq_ignore_ascii_case(name)).map(|f| f.ty)
    }
    /// The table row.
    pub fn format(self) -> &'static Format {
        FORMATS.iter().find(|f| f.ty == self).expect("every GgmlType has a row in FORMATS")
    }
    /// Name as llama.cpp prints it.
    pub fn name(self) -> &'static str {
        self.format().name
    }
    /// Bytes of `n` elements; `n` must be a multiple of the block.
    pub fn bytes_of(self, n: usize) -> usize {
        let f = self.format();
        debug_assert!(n.is_multiple_of(f.block));
        n / f.block * f.bytes
    }
    /// How to call a type number that qrun does not read.
    pub fn foreign_name(n: u32) -> String {
        const FOREIGN: &[(u32, &str)] = &[
            (9, "Q8_1"),
            (15, "Q8_K"),
            (16, "IQ2_XXS"),
            (17, "IQ2_XS"),
            (18, "IQ3_XXS"),
            (19, "IQ1_S"),
            (21, "IQ3_S"),
            (22, "IQ2_S"),
            (24, "I8"),
            (25, "I16"),
            (26, "I32"),
            (27, "I64"),
            (28, "F64"),
            (29, "IQ1_M"),
            (34, "TQ1_0"),
            (35, "TQ2_0"),
            (39, "MXFP4"),
            (40, "NVFP4"),
            (41, "Q1_0"),
        ];
        match FOREIGN.iter().find(|f| f.0 == n) {
            Some((_, name)) => format!("{name} (type {n})"),
            None => format!("type {n}"),
        }
    }
}

impl std::fmt::Display for GgmlType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
