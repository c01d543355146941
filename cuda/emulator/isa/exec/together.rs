//! What lanes do together: exchanges, votes, tensor cores.

use super::super::code::{Address, Guard, Mma, R, Shuffle};
use super::super::fragments;
use super::super::registers::{ALL, Registers, lanes};
use super::super::shared::passes;
use super::super::trouble::{Checked, written};
use super::Context;
use super::access::addresses;

/// A lane that is read but does not take part gives a value that counts as never written.
#[inline(always)]
pub(super) fn shuffle(
    how: Shuffle,
    d: R,
    valid: Option<R>,
    [value, lane, clamp]: [R; 3],
    w: &mut Registers,
    mask: u32,
) -> Checked<()> {
    written(mask, w.word_lanes(lane) & w.word_lanes(clamp), "the lane that it reads")?;
    let (x, b, c) = (w.word(value), w.word(lane), w.word(clamp));
    let known = w.word_lanes(value) & mask;
    let (mut result, mut defined, mut inside) = ([0; 32], 0, 0u32);
    for i in lanes(mask) {
        let (own, b, segments) = (i as u32, b[i] & 31, c[i] >> 8 & 31);
        let first = own & segments;
        let last = first | c[i] & 31 & !segments;
        let (from, holds) = match how {
            Shuffle::Up => (own.wrapping_sub(b), own >= b && own - b >= last),
            Shuffle::Down => (own + b, own + b <= last),
            Shuffle::Xor => (own ^ b, own ^ b <= last),
            Shuffle::Index => {
                let from = first | b & !segments;
                (from, from <= last)
            }
        };
        let from = if holds { from as usize } else { i };
        result[i] = x[from];
        defined |= (known >> from & 1) << i;
        inside |= u32::from(holds) << i;
    }
    w.set_word(d, &result, mask, defined);
    if let Some(valid) = valid {
        w.set_predicate(valid, inside, mask, ALL);
    }
    Ok(())
}

#[inline(always)]
pub(super) fn ballot(d: R, predicate: R, w: &mut Registers, mask: u32) -> Checked<()> {
    written(mask, w.predicate_lanes(predicate), "the predicate that it votes on")?;
    let votes = w.predicate(predicate) & mask;
    w.set_word(d, &[votes; 32], mask, ALL);
    Ok(())
}

/// The lanes of a mask in which the condition holds.
#[inline(always)]
pub(super) fn holding(condition: Guard, w: &Registers, mask: u32, what: &str) -> Checked<u32> {
    w.guarded(Some(condition), mask).or_else(|lanes| written(lanes, 0, what).map(|()| 0))
}

/// The lanes whose condition holds and whether there are any, or all, to the lanes of `to`.
#[inline(always)]
pub(super) fn vote(
    [ballot, holds]: [R; 2],
    (condition, all): (Guard, bool),
    w: &mut Registers,
    mask: u32,
    to: u32,
) -> Checked<()> {
    let votes = holding(condition, w, mask, "the predicate that it votes on")?;
    w.set_word(ballot, &[votes; 32], to, ALL);
    let held = if all { votes == mask } else { votes != 0 };
    w.set_predicate(holds, if held { ALL } else { 0 }, to, ALL);
    Ok(())
}

/// Operands stand in the kernel's lists: d, a, b, c.
#[inline(always)]
pub(super) fn multiply(mma: Mma, list: usize, w: &mut Registers, context: &mut Context<'_>, pc: usize) -> Checked<()> {
    context.at[pc].macs += fragments::macs(mma);
    let [nd, na, nb] = fragments::registers(mma);
    let lists = &context.kernel.lists[list..list + nd + na + nb + nd];
    let (d, rest) = lists.split_at(nd);
    let (a, rest) = rest.split_at(na);
    let (b, c) = rest.split_at(nb);
    for (name, rows) in [("a", a), ("b", b), ("c", c)] {
        for (i, row) in rows.iter().enumerate() {
            if w.word_lanes(*row) != ALL {
                written(ALL, w.word_lanes(*row), &format!("register {i} of its operand {name}"))?;
            }
        }
    }
    let mut result = [[0; 32]; 4];
    fragments::multiply(mma, w, [a, b, c], &mut result);
    for (row, value) in d.iter().zip(&result) {
        w.set_word(*row, value, ALL, ALL);
    }
    Ok(())
}

/// 8×8 matrices of halves: lane 8·j + r holds the address of row r of matrix j.
#[inline(always)]
pub(super) fn load_matrix(
    d: &[R],
    transposed: bool,
    address: Address,
    w: &mut Registers,
    context: &mut Context<'_>,
    pc: usize,
) -> Checked<()> {
    let mask = ALL >> (32 - 8 * d.len());
    let at = addresses(w, address, mask)?;
    context.shared.check(&at, mask, 16, "reads")?;
    context.shared.defined(&at, mask, 16)?;
    context.at[pc].bytes += 16 * u64::from(mask.count_ones());
    passes(&at, mask, 16, &mut context.at[pc]);
    for (j, row) in d.iter().enumerate() {
        let rows = std::array::from_fn(|r| context.shared.row(at[8 * j + r] as usize));
        w.set_word(*row, &fragments::load_matrix(&rows, transposed), ALL, ALL);
    }
    Ok(())
}
