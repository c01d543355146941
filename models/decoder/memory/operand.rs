//! What projections multiply with.

use qrun_cuda::{ArenaLayout, Ptr, ops::activations::QuantizedActivations};

/// What a projection multiplies with, `[rows][width]`: as numbers for dense weights, as an int8 image for quantized
/// ones. Each is written where a consumer wants it.
#[derive(Clone, Copy)]
pub struct Operand {
    pub values: Ptr<f32>,
    pub image: QuantizedActivations,
}

impl Operand {
    /// So many rows of so many elements.
    pub fn take(layout: &mut ArenaLayout, name: &str, [rows, width]: [usize; 2]) -> Self {
        Self {
            values: layout.take(format!("activations/{name}"), rows * width),
            // Blocks of 32: a width that is not a multiple of 32 only has dense consumers.
            image: QuantizedActivations::take(layout, &format!("activations/{name}.image"), rows, width / 32 * 32),
        }
    }
}
