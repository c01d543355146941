//! Input vectors of matrix products, prepared once for all matrices of a call.

pub(super) mod f32;
pub(super) mod int16;
pub(super) mod int8;
mod quantize;

use std::ops::Range;

use self::{f32::FloatPanels, int8::Int8Panels, int16::Int16Panels};
use super::{
    Arithmetic,
    layout::{Line, NARROW, TILE, WIDE},
    tiles::multiplies_pairs,
    tuning::Tuning,
};
use crate::{GgmlType, simd::Isa};

/// Most tokens that are few: rows in floats are multiplied where they lie, those of 16 bits in f32. The same for all
/// instruction sets, as it decides what a product rounds.
pub const FEW: usize = 12;

/// Whether fast arithmetic rounds products with a type differently with more than [`FEW`] tokens.
pub fn rounds_by_rows(ty: GgmlType) -> bool {
    matches!(ty, GgmlType::F16 | GgmlType::BF16)
}

/// What fast arithmetic multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeType {
    /// f32, multiplied as they are.
    Float,
    /// 16-bit integers: fixed point.
    Int16,
    /// 8-bit integers.
    Int8,
}

impl ComputeType {
    /// The type of products with weights of type `ty` and `tokens` vectors at once.
    pub fn of(ty: GgmlType, tokens: usize) -> Self {
        match ty {
            GgmlType::F16 | GgmlType::BF16 if tokens > FEW => Self::Int16,
            _ if ty.format().block == 1 => Self::Float,
            _ => Self::Int8,
        }
    }
}

/// Input vectors of products, in the forms that their weights need. Only memory that is used again: each product
/// writes the vectors that it uses itself.
pub struct Activations {
    pub(super) arithmetic: Arithmetic,
    pub(super) isa: Isa,
    pub(super) tuning: &'static Tuning,
    pub(super) tokens: usize,
    pub(super) cols: usize,
    /// Tokens per panel of products in vector registers; the last panel is filled up with zeros.
    pub(super) width: usize,
    /// `[tokens][cols]`: set in exact arithmetic.
    pub(super) exact: Vec<f64>,
    /// Set for weights of [`ComputeType::Float`].
    f32: FloatPanels,
    /// Set for weights of [`ComputeType::Int16`].
    pub(super) int16: Int16Panels,
    /// Set for weights of [`ComputeType::Int8`].
    pub(super) int8: Int8Panels,
}

impl Activations {
    /// An empty set of vectors; memory is taken when vectors are set.
    pub fn new(arithmetic: Arithmetic) -> Self {
        Self::with_isa(arithmetic, Isa::best())
    }

    /// As [`Activations::new`], for products that use this instruction set. Panics when the machine
    /// lacks it.
    pub fn with_isa(arithmetic: Arithmetic, isa: Isa) -> Self {
        Self::with_tuning(arithmetic, isa, Tuning::of(isa))
    }

    /// The same cut into other pieces.
    pub fn with_tuning(arithmetic: Arithmetic, isa: Isa, tuning: &'static Tuning) -> Self {
        let isa = isa.checked();
        let (f32, int16, int8) = (FloatPanels::default(), Int16Panels::default(), Int8Panels::default());
        Self { arithmetic, isa, tuning, tokens: 0, cols: 0, width: 0, exact: Vec::new(), f32, int16, int8 }
    }

    /// Takes vectors `x[tokens][cols]` for products with weights of these types.
    pub(super) fn set(&mut self, x: &[f32], cols: usize, types: impl Iterator<Item = GgmlType>) {
        assert!(cols > 0 && x.len().is_multiple_of(cols), "{} elements in vectors of {cols}", x.len());
        (self.tokens, self.cols) = (x.len() / cols, cols);
        self.width = self.width_in_registers(self.tokens);
        if self.arithmetic == Arithmetic::Exact {
            self.exact.clear();
            self.exact.extend(x.iter().map(|x| f64::from(*x)));
            return;
        }
        let (mut f32, mut int16, mut int8, mut pairs) = (false, false, false, false);
        let many = self.tokens > self.tuning.in_registers;
        types.for_each(|ty| match ComputeType::of(ty, self.tokens) {
            ComputeType::Float => f32 = true,
            ComputeType::Int16 => int16 = true,
            ComputeType::Int8 => {
                int8 = true;
                pairs |= many && multiplies_pairs(self.isa, ty);
            }
        });
        let [of_floats, of_int16, of_int8] =
            [ComputeType::Float, ComputeType::Int16, ComputeType::Int8].map(|products| (cols, self.width_of(products)));
        if f32 {
            self.f32.set(x, of_floats);
        }
        if int16 {
            self.int16.set(self.isa, x, of_int16);
        }
        if int8 {
            self.int8.set(self.isa, x, of_int8, (many, pairs));
        }
    }

    /// Some steps of a panel in f32, `[step][width]`.
    pub(super) fn floats(&self, panel: usize, steps: Range<usize>) -> &[Line] {
        self.f32.panel(panel, steps, (self.cols, self.width))
    }

    /// Panels of products in vector registers.
    pub(super) fn panels(&self) -> usize {
        self.tokens.div_ceil(self.width)
    }

    /// Tokens per panel of such products.
    pub(super) fn width_of(&self, products: ComputeType) -> usize {
        if self.takes_tiles(products) { TILE } else { self.width }
    }

    /// Whether such products are made by tiles of AMX.
    fn takes_tiles(&self, products: ComputeType) -> bool {
        let many = match products {
            ComputeType::Float => false,
            ComputeType::Int16 => true,
            ComputeType::Int8 => self.tokens > self.tuning.in_registers,
        };
        many && self.isa == Isa::Amx
    }

    /// Tokens per panel in registers: what those of the instruction set can hold, and of few tokens what takes less time: a narrow
    /// panel has 0.7 of a wide one's, whether its last places are empty or not.
    fn width_in_registers(&self, tokens: usize) -> usize {
        match tokens {
            0..=1 => 1,
            _ if !self.isa.is_avx512() => NARROW,
            n if n >= self.tuning.in_registers => WIDE,
            n if 10 * n.div_ceil(WIDE) < 7 * n.div_ceil(NARROW) => WIDE,
            _ => NARROW,
        }
    }
}

/// Tokens of a panel of many: products take as long for fewer.
pub fn tokens_per_panel() -> usize {
    match Isa::best() {
        Isa::Amx => TILE,
        isa if isa.is_avx512() => WIDE,
        _ => NARROW,
    }
}
