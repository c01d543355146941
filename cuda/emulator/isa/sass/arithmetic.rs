//! Executes [`Compute`].

use super::super::Approximation;
use super::super::code::R;
use super::super::registers::Registers;
use super::compute::Compute;

pub(in super::super) fn compute(f: Compute, w: &mut Registers, mask: u32, how: Approximation) {
    let _ = (w, mask, how);
    match f {}
}

/// Copies so many rows.
pub(in super::super) fn copy(w: &mut Registers, mask: u32, d: R, a: R, rows: u8) {
    for i in 0..R::from(rows) {
        w.map(mask, d + i, a + i, |a| a);
    }
}
