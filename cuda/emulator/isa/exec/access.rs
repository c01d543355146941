//! Loads, stores, atomics, asynchronous copies.

use std::sync::atomic::Ordering;

use super::super::code::{Access, Address, Atomic, File, R, Space};
use super::super::count::At;
use super::super::memory::Use;
use super::super::registers::{ALL, Registers, each, lanes, over, those};
use super::super::shared::passes;
use super::super::trouble::{Checked, FAILED, ILLEGAL_ADDRESS, MISALIGNED, trouble, written};
use super::Context;

/// The address of each lane.
#[inline(always)]
pub(super) fn addresses(w: &Registers, address: Address, mask: u32) -> Checked<[u64; 32]> {
    let mut at = [0; 32];
    let known = if address.pair {
        machine_addresses(w, address, &mut at)
    } else if address.long {
        at = over(w.long(address.base), |base| base.wrapping_add_signed(i64::from(address.offset)));
        w.long_lanes(address.base)
    } else {
        at = over(w.word(address.base), |base| u64::from(base).wrapping_add_signed(i64::from(address.offset)));
        w.word_lanes(address.base)
    };
    written(mask, known, "its address")?;
    Ok(at)
}

/// The same of machine code; the lanes that have one.
#[inline(always)]
fn machine_addresses(w: &Registers, address: Address, at: &mut [u64; 32]) -> u32 {
    let offset = i64::from(address.offset);
    let low = w.word(address.base);
    let mut known = w.word_lanes(address.base);
    if address.long {
        let high = w.word(address.base + 1);
        known &= w.word_lanes(address.base + 1);
        *at = each(|i| (u64::from(high[i]) << 32 | u64::from(low[i])).wrapping_add_signed(offset));
    } else {
        *at = over(low, |low| (u64::from(low) << address.scale).wrapping_add_signed(offset));
    }
    if let Some((row, long)) = address.plus {
        let low = w.word(row);
        known &= w.word_lanes(row);
        *at = each(|i| at[i].wrapping_add(u64::from(low[i])));
        if long {
            let high = w.word(row + 1);
            known &= w.word_lanes(row + 1);
            *at = each(|i| at[i].wrapping_add(u64::from(high[i]) << 32));
        }
    }
    if !address.long && !address.plus.is_some_and(|(_, long)| long) {
        // Addresses of shared memory have 32 bits.
        *at = over(at, |at| at & 0xffff_ffff);
    }
    known
}

/// Writes an element, which `read` gives for a lane of the mask and a width, to its register.
#[inline(always)]
fn fetch(
    access: &Access,
    element: usize,
    w: &mut Registers,
    [mask, defined]: [u32; 2],
    read: impl Fn(usize, usize) -> u64,
) {
    // Most loads, with the width known.
    if access.width == 4 && access.file == File::Word {
        let value = if mask == ALL {
            each(|lane| read(lane, 4) as u32)
        } else {
            each(|lane| if mask >> lane & 1 != 0 { read(lane, 4) as u32 } else { 0 })
        };
        return w.set_word(access.rows[element], &value, mask, defined);
    }
    let read = |width| each(|lane| if mask >> lane & 1 != 0 { read(lane, width) } else { 0 });
    let values = match access.width {
        1 => read(1),
        2 => read(2),
        4 => read(4),
        _ => read(8),
    };
    set(access, element, &values, w, [mask, defined]);
}

/// Writes an element to its register as the width of memory and register say.
#[inline(always)]
fn set(access: &Access, element: usize, values: &[u64; 32], w: &mut Registers, [mask, defined]: [u32; 2]) {
    let row = access.rows[element];
    let unused = 64 - 8 * u32::from(access.width);
    let extend = |value: u64| if access.signed { ((value << unused) as i64 >> unused) as u64 } else { value };
    match access.file {
        File::Long => w.set_long(row, &over(values, extend), mask, defined),
        File::Word => w.set_word(row, &over(values, |v| extend(v) as u32), mask, defined),
        File::Half => w.set_word(row, &over(values, |v| extend(v) as u32 & 0xffff), mask, defined),
    }
}

/// An element that is stored.
#[inline(always)]
fn get(access: &Access, element: usize, w: &Registers, mask: u32) -> Checked<[u64; 32]> {
    let row = access.rows[element];
    let what = "the value that it stores";
    match access.file {
        File::Long => written(mask, w.long_lanes(row), what).map(|()| *w.long(row)),
        _ => written(mask, w.word_lanes(row), what).map(|()| over(w.word(row), u64::from)),
    }
}

#[inline(always)]
pub(super) fn load(
    space: Space,
    access: &Access,
    w: &mut Registers,
    mask: u32,
    context: &mut Context<'_>,
    pc: usize,
) -> Checked<()> {
    let at = addresses(w, access.address, mask)?;
    let (count, width) = (usize::from(access.count), usize::from(access.width));
    let bytes = count * width;
    let how = match space {
        Space::Param => return constant(access, &at, w, mask, ("parameters", context.params, &mut context.at[pc])),
        Space::Table => {
            let table = &context.kernel.table;
            return constant(access, &at, w, mask, ("constant bank 2", table, &mut context.at[pc]));
        }
        Space::Shared => {
            let (shared, counts) = (&context.shared, &mut context.at[pc]);
            shared.check(&at, mask, bytes, "reads")?;
            // Compilers load more than is used: what counts is whether somebody goes on with it.
            let missing = shared.missing(&at, mask, bytes);
            if missing != 0 {
                context.unwritten = Some((pc, shared.undefined(&at, missing, bytes)?));
            }
            counts.bytes += bytes as u64 * u64::from(mask.count_ones());
            passes(&at, mask, bytes, counts);
            for element in 0..count {
                let offset = (element * width) as u64;
                let missing = if missing == 0 {
                    0
                } else {
                    shared.missing(&over(&at, |at| at.wrapping_add(offset)), mask, width)
                };
                fetch(access, element, w, [mask, !missing], |lane, width| {
                    shared.read(at[lane].wrapping_add(offset) as usize, width)
                });
            }
            return Ok(());
        }
        Space::ReadOnly => Use::ReadOnly,
        Space::Global | Space::Volatile => Use::Read,
    };
    let valid = context.global.check(&at, mask, bytes as u64, how, &mut context.at[pc])?;
    if mask == ALL && width == 4 && access.file == File::Word && count.is_multiple_of(2) {
        // Weights: two words at once.
        for element in (0..count).step_by(2) {
            let words = each(valid.element((4 * element) as u64, 8));
            w.set_word(access.rows[element], &over(&words, |both| both as u32), ALL, ALL);
            w.set_word(access.rows[element + 1], &over(&words, |both| (both >> 32) as u32), ALL, ALL);
        }
        return Ok(());
    }
    for element in 0..count {
        let offset = (element * width) as u64;
        fetch(access, element, w, [mask, ALL], |lane, width| valid.element(offset, width as u64)(lane));
    }
    Ok(())
}

/// A load of the parameters, or of constant bank 2.
#[inline(always)]
fn constant(
    access: &Access,
    at: &[u64; 32],
    w: &mut Registers,
    mask: u32,
    (name, held, counts): (&str, &[u8], &mut At),
) -> Checked<()> {
    let (count, width) = (usize::from(access.count), usize::from(access.width));
    let bytes = count * width;
    let first = at[mask.trailing_zeros() as usize % 32];
    let size = held.len() as u64;
    let outside = those(mask, |lane| at[lane].saturating_add(bytes as u64) > size);
    if outside != 0 {
        return trouble(
            ILLEGAL_ADDRESS,
            outside,
            format!("reads {bytes} bytes at byte {first} of the {size} of {name}"),
        );
    }
    if let Some(lane) = lanes(mask).find(|lane| !at[*lane].is_multiple_of(bytes as u64)) {
        let what = format!("reads {bytes} bytes at byte {} of the {name}, not a multiple of {bytes}", at[lane]);
        return trouble(MISALIGNED, 1 << lane, what);
    }
    counts.bytes += bytes as u64 * u64::from(mask.count_ones());
    let read = |address: u64, element: usize| {
        let from = address as usize + element * width;
        held[from..from + width].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    };
    let uniform = lanes(mask).all(|lane| at[lane] == first);
    for element in 0..count {
        let values = if uniform {
            [read(first, element); 32]
        } else {
            each(|lane| if mask >> lane & 1 != 0 { read(at[lane], element) } else { 0 })
        };
        set(access, element, &values, w, [mask, ALL]);
    }
    Ok(())
}

pub(super) fn prefetch(
    address: Address,
    w: &Registers,
    mask: u32,
    context: &mut Context<'_>,
    pc: usize,
) -> Checked<()> {
    let at = addresses(w, address, mask)?;
    context.global.prefetch(&at, mask, &mut context.at[pc])
}

#[inline(always)]
pub(super) fn store(
    space: Space,
    access: &Access,
    w: &Registers,
    mask: u32,
    context: &mut Context<'_>,
    pc: usize,
) -> Checked<()> {
    let at = addresses(w, access.address, mask)?;
    let (count, width) = (usize::from(access.count), usize::from(access.width));
    let bytes = count * width;
    if space == Space::Shared {
        let (shared, counts) = (&mut context.shared, &mut context.at[pc]);
        shared.check(&at, mask, bytes, "writes")?;
        counts.bytes += bytes as u64 * u64::from(mask.count_ones());
        passes(&at, mask, bytes, counts);
        for element in 0..count {
            let values = get(access, element, w, mask)?;
            for lane in lanes(mask) {
                shared.write(at[lane] as usize + element * width, width, values[lane]);
            }
        }
        return Ok(());
    }
    let valid = context.global.check(&at, mask, bytes as u64, Use::Write, &mut context.at[pc])?;
    let order = if space == Space::Volatile { Ordering::Release } else { Ordering::Relaxed };
    for element in 0..count {
        let values = get(access, element, w, mask)?;
        for lane in lanes(mask) {
            valid.write_lane(lane, (element * width) as u64, width as u64, values[lane], order);
        }
    }
    if space == Space::Volatile {
        lanes(mask).for_each(|lane| context.memory.published(Some(at[lane])));
    }
    Ok(())
}

/// What an atomic makes of the old value and its operand, in 32 or 64 bits.
fn update(f: Atomic, wide: bool, old: u64, value: u64) -> u64 {
    // Signed and of the instruction's width.
    let signed = |x: u64| if wide { x as i64 } else { i64::from(x as u32 as i32) };
    match f {
        Atomic::Add => old.wrapping_add(value),
        Atomic::MinU => old.min(value),
        Atomic::MaxU => old.max(value),
        Atomic::MinS => signed(old).min(signed(value)) as u64,
        Atomic::MaxS => signed(old).max(signed(value)) as u64,
        Atomic::And => old & value,
        Atomic::Or => old | value,
        Atomic::Xor => old ^ value,
        Atomic::Exchange => value,
    }
}

/// A value of one or two rows of words, or of one row of longs, as the access has them.
#[inline(always)]
fn operand(access: &Access, first: R, w: &Registers, mask: u32) -> Checked<[u64; 32]> {
    let of = Access { rows: [first, first + 1, 0, 0], ..*access };
    let low = get(&of, 0, w, mask)?;
    if access.count == 1 {
        return Ok(low);
    }
    let high = get(&of, 1, w, mask)?;
    Ok(each(|lane| low[lane] | high[lane] << 32))
}

/// The same for a result.
#[inline(always)]
fn set_all(access: &Access, values: &[u64; 32], w: &mut Registers, mask: u32) {
    set(access, 0, values, w, [mask, ALL]);
    if access.count > 1 {
        set(access, 1, &over(values, |value| value >> 32), w, [mask, ALL]);
    }
}

/// Updates bytes of shared memory that hold values, lane by lane; what `f` makes of a lane and its old value, if
/// anything, is stored.
fn update_shared(
    at: &[u64; 32],
    width: usize,
    mask: u32,
    (context, pc): (&mut Context<'_>, usize),
    mut f: impl FnMut(usize, u64) -> Option<u64>,
) -> Checked<()> {
    let (shared, counts) = (&mut context.shared, &mut context.at[pc]);
    shared.check(at, mask, width, "updates")?;
    shared.defined(at, mask, width)?;
    counts.bytes += width as u64 * u64::from(mask.count_ones());
    passes(at, mask, width, counts);
    for lane in lanes(mask) {
        if let Some(new) = f(lane, shared.read(at[lane] as usize, width)) {
            shared.write(at[lane] as usize, width, new);
        }
    }
    Ok(())
}

/// Lanes one after another; each gets the old value.
pub(super) fn atomic(
    space: Space,
    f: Atomic,
    access: &Access,
    value: R,
    w: &mut Registers,
    mask: u32,
    (context, pc): (&mut Context<'_>, usize),
) -> Checked<()> {
    let at = addresses(w, access.address, mask)?;
    let width = usize::from(access.width) * usize::from(access.count);
    let operand = operand(access, value, w, mask)?;
    let mut old = [0; 32];
    if space == Space::Shared {
        update_shared(&at, width, mask, (context, pc), |lane, found| {
            old[lane] = found;
            Some(update(f, width == 8, found, operand[lane]))
        })?;
    } else {
        context.global.visible.atomic();
        let valid = context.global.check(&at, mask, width as u64, Use::Update, &mut context.at[pc])?;
        for lane in lanes(mask) {
            old[lane] = valid.element(0, width as u64)(lane);
            let new = update(f, width == 8, old[lane], operand[lane]);
            valid.write_lane(lane, 0, width as u64, new, Ordering::SeqCst);
        }
    }
    set_all(access, &old, w, mask);
    Ok(())
}

/// Of shared memory, lanes one after another: the value is stored where memory holds the other one.
pub(super) fn compare_swap(
    access: &Access,
    swapped: R,
    [compare, value]: [R; 2],
    w: &mut Registers,
    mask: u32,
    (context, pc): (&mut Context<'_>, usize),
) -> Checked<()> {
    let at = addresses(w, access.address, mask)?;
    let width = usize::from(access.width) * usize::from(access.count);
    let (compare, value) = (operand(access, compare, w, mask)?, operand(access, value, w, mask)?);
    let mut stored = [0; 32];
    update_shared(&at, width, mask, (context, pc), |lane, found| {
        stored[lane] = u64::from(found == compare[lane]);
        (stored[lane] == 1).then_some(value[lane])
    })?;
    set_all(access, &stored, w, mask);
    w.set_predicate(swapped, those(mask, |lane| stored[lane] == 1), mask, ALL);
    Ok(())
}

/// The lanes of a `cp.async` that copy all of their 16 bytes; the others fill with zeros.
#[inline(always)]
pub(super) fn sixteen(bytes: R, w: &Registers, mask: u32) -> Checked<u32> {
    written(mask, w.word_lanes(bytes), "how many bytes it copies")?;
    let bytes = w.word(bytes);
    let odd = those(mask, |lane| ![0, 16].contains(&bytes[lane]));
    if odd != 0 {
        let found = bytes[odd.trailing_zeros() as usize];
        return trouble(FAILED, odd, format!("copies {found} of its 16 bytes; this machine knows 0 and 16"));
    }
    Ok(those(mask, |lane| bytes[lane] == 16))
}

/// `cp.async` of 16 bytes: they are read now, in the lanes of `whole`, and arrive when the thread waits.
#[inline(always)]
pub(super) fn copy(
    to: Address,
    from: Address,
    whole: u32,
    w: &Registers,
    mask: u32,
    (context, pc, warp): (&mut Context<'_>, usize, usize),
) -> Checked<()> {
    let (to, from) = (addresses(w, to, mask)?, addresses(w, from, mask)?);
    context.shared.check(&to, mask, 16, "copies")?;
    passes(&to, mask, 16, &mut context.at[pc]);
    let valid = context.global.check(&from, whole, 16, Use::Read, &mut context.at[pc])?;
    for lane in lanes(mask) {
        let mut data = [0; 16];
        if whole >> lane & 1 != 0 {
            data[..8].copy_from_slice(&valid.element(0, 8)(lane).to_le_bytes());
            data[8..].copy_from_slice(&valid.element(8, 8)(lane).to_le_bytes());
        }
        context.shared.copy((warp, lane), context.groups[warp][lane], to[lane] as usize, data);
    }
    Ok(())
}

pub(super) fn commit(mask: u32, context: &mut Context<'_>, warp: usize) {
    lanes(mask).for_each(|lane| context.groups[warp][lane] += 1);
}

/// Waits until at most so many of each lane's latest groups are under way; `u32::MAX`: for all, committed or not.
pub(super) fn wait(groups: u32, mask: u32, context: &mut Context<'_>, warp: usize) {
    let open = &context.groups[warp];
    let before = open.map(|open| if groups == u32::MAX { u32::MAX } else { open.saturating_sub(groups) });
    context.shared.wait(warp, mask, &before);
}
