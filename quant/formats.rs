//! THE table of tensor formats: one row per GGUF type, one file per row.
//!
//! To add a format on the CPU:
//!
//! 1. `formats/x.rs`: the block with its layout in prose, `dequantize`, `quantize` where qrun writes it, and its `FORMAT`.
//! 2. Here: `mod x;` and a row of `formats!`; the type leaves the list in [`GgmlType::foreign_name`].
//! 3. `cpu/tiles/formats.rs`: a row of `tile_formats!`, which says how codes and scales are stored in a tile. Kernels
//!    need nothing, unless codes or scales are of a new kind (`cpu/tiles/codes.rs`, `cpu/tiles/scales.rs`).
//! 4. Tests: where its scales are (`f16_offsets` in `tests/blocks.rs`); all others walk [`FORMATS`]. Reference values
//!    stand beside the ones in `tests/formats.rs`.

pub(crate) mod block;
mod codec;
mod convert;
mod fit;
mod fit_k;
mod grid;
mod grids;
pub(crate) mod iq1_m;
pub(crate) mod iq1_s;
pub(crate) mod iq2_s;
pub(crate) mod iq2_xs;
pub(crate) mod iq2_xxs;
pub(crate) mod iq3_s;
pub(crate) mod iq3_xxs;
pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod mxfp4;
pub(crate) mod nvfp4;
pub(crate) mod plain;
pub(crate) mod q1_0;
pub(crate) mod q2_0;
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
pub(crate) mod spread;
pub(crate) mod ternary;
pub(crate) mod tq1_0;
pub(crate) mod tq2_0;

pub use codec::Quantizer;
pub use convert::convert;
pub use grid::grid_quads;

use codec::Codec;

/// One format of the table.
pub struct Format {
    /// The type of tensors in this format.
    pub ty: GgmlType,
    /// Name as llama.cpp prints it, such as `Q4_K`.
    pub name: &'static str,
    /// Elements per block; rows are multiples of it.
    pub block: usize,
    /// Bytes of one block, scales included.
    pub bytes: usize,
    /// Whole blocks to f32, bit-exact with the public reference: `(blocks, out)`, where
    /// `out.len() == blocks.len() / bytes * block`.
    pub dequantize: fn(&[u8], &mut [f32]),
    /// f32 to whole blocks; `None` where qrun only reads the format.
    pub quantize: Option<Quantizer>,
}

impl Format {
    const fn new(ty: GgmlType, name: &'static str, codec: Codec) -> Self {
        let Codec { block, bytes, dequantize, quantize } = codec;
        Self { ty, name, block, bytes, dequantize, quantize }
    }
}

/// Writes the type and the table: a name, its number in the file, its codec.
macro_rules! formats {
    ($($name:ident = $number:literal, $codec:expr;)*) => {
        /// GGUF tensor types that qrun knows, with their numbers in the file.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum GgmlType {
            $($name = $number,)*
        }

        /// Every weight format that loads, is quantized to, or has kernels.
        pub static FORMATS: &[Format] = &[$(Format::new(GgmlType::$name, stringify!($name), $codec)),*];
    };
}

formats! {
    F32 = 0, plain::F32;
    F16 = 1, plain::F16;
    BF16 = 30, plain::BF16;
    Q1_0 = 41, q1_0::FORMAT;
    Q2_0 = 42, q2_0::FORMAT;
    Q4_0 = 2, q4_0::FORMAT;
    Q4_1 = 3, q4_1::FORMAT;
    Q5_0 = 6, q5_0::FORMAT;
    Q5_1 = 7, q5_1::FORMAT;
    Q8_0 = 8, q8_0::FORMAT;
    Q2_K = 10, q2_k::FORMAT;
    Q3_K = 11, q3_k::FORMAT;
    Q4_K = 12, q4_k::FORMAT;
    Q5_K = 13, q5_k::FORMAT;
    Q6_K = 14, q6_k::FORMAT;
    IQ1_S = 19, iq1_s::FORMAT;
    IQ1_M = 29, iq1_m::FORMAT;
    IQ2_XXS = 16, iq2_xxs::FORMAT;
    IQ2_XS = 17, iq2_xs::FORMAT;
    IQ2_S = 22, iq2_s::FORMAT;
    IQ3_XXS = 18, iq3_xxs::FORMAT;
    IQ3_S = 21, iq3_s::FORMAT;
    IQ4_NL = 20, iq4_nl::FORMAT;
    IQ4_XS = 23, iq4_xs::FORMAT;
    TQ1_0 = 34, tq1_0::FORMAT;
    TQ2_0 = 35, tq2_0::FORMAT;
    MXFP4 = 39, mxfp4::FORMAT;
    NVFP4 = 40, nvfp4::FORMAT;
}

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
    /// Its row of the table.
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
    /// What to call a type number that qrun does not read.
    pub fn foreign_name(n: u32) -> String {
        const FOREIGN: &[(u32, &str)] =
            &[(9, "Q8_1"), (15, "Q8_K"), (24, "I8"), (25, "I16"), (26, "I32"), (27, "I64"), (28, "F64")];
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
