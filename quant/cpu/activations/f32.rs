//! Vectors in f32, for weights in floats that are multiplied as they are.

use std::ops::Range;

use crate::cpu::{
    layout::{LANES, Line, WIDE, steps},
    par::{self, Shared},
};

/// Vectors in panels of `width` tokens, in the order in which they are read.
#[derive(Default)]
pub(in crate::cpu) struct FloatPanels {
    /// `[panel][step][width]` lines of 16 columns; columns and tokens that are not there are zero.
    lines: Vec<Line>,
}

impl FloatPanels {
    /// Takes vectors `x[tokens][cols]`.
    pub(in crate::cpu) fn set(&mut self, x: &[f32], (cols, width): (usize, usize)) {
        let (steps, panels) = (steps(cols), (x.len() / cols).div_ceil(width));
        self.lines.resize(panels * steps * width, Line::ZERO);
        let out = Shared::new(self.lines.as_mut_ptr());
        par::parallel_for(panels, 1, |range| {
            for panel in range {
                // SAFETY: the panel's lines, which this chunk alone writes.
                let lines =
                    unsafe { std::slice::from_raw_parts_mut(out.get().add(panel * steps * width), steps * width) };
                let tokens: [&[f32]; WIDE] = std::array::from_fn(|t| {
                    let token = (panel * width + t) * cols;
                    x.get(token..token + cols).unwrap_or(&[])
                });
                // Tokens that are not there stay zero.
                for (step, lines) in lines.chunks_exact_mut(width).enumerate() {
                    for (x, line) in tokens.iter().zip(lines) {
                        let whole = x.as_chunks::<LANES>().0.get(step);
                        *line = Line(whole.copied().unwrap_or_default().map(f32::to_ne_bytes));
                    }
                }
                let Some(last) = lines.chunks_exact_mut(width).next_back() else { continue };
                for (x, line) in tokens.iter().zip(last) {
                    for (x, bytes) in x.as_chunks::<LANES>().1.iter().zip(&mut line.0) {
                        *bytes = x.to_ne_bytes();
                    }
                }
            }
        });
    }

    /// Some steps of a panel, `[step][width]`.
    pub(in crate::cpu) fn panel(&self, panel: usize, range: Range<usize>, (cols, width): (usize, usize)) -> &[Line] {
        let start = panel * steps(cols);
        &self.lines[(start + range.start) * width..(start + range.end) * width]
    }
}
