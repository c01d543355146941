//! Global memory: bounds, alignment, which bytes and sectors a launch touched, `.nc` loads against stores.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::GlobalMemory;
use super::cost::Trace;
use super::count::At;
use super::registers::{ALL, lanes, those};
use super::trouble::{Checked, FAILED, ILLEGAL_ADDRESS, MISALIGNED, trouble};
use super::visible::{Forbidden, PIECE, Visible};

/// How an instruction uses the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    /// `.nc`: nobody may write them while the launch runs.
    ReadOnly,
    Write,
    /// Atomics.
    Update,
    /// L2 is asked for them; nothing is read yet.
    Prefetch,
}

impl Use {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::ReadOnly => "reads (.nc)",
            Self::Write => "writes",
            Self::Update => "updates",
            Self::Prefetch => "prefetches",
        }
    }
}

/// What the launch knows of global memory.
pub(super) struct Global<'a> {
    source: &'a dyn GlobalMemory,
    regions: Vec<Region>,
    last: usize,
    pub visible: Visible,
    /// What the launch is to tell of its sectors to.
    pub trace: Option<Trace>,
}

/// An allocation or a fence, and its bytes that the launch used.
struct Region {
    range: Range<u64>,
    /// At or before the range, a multiple of 64: bit 0 of the first word of the marks.
    base: u64,
    /// A bit per byte, in pieces that are made when they are needed.
    pieces: Vec<Option<Box<[Marks]>>>,
    /// Bytes and sectors that were read and written, each counted once.
    read: (u64, u64),
    written: (u64, u64),
}

/// What became of 64 bytes: read, read by `.nc`, written.
type Marks = [u64; 3];

/// Counts the bytes and sectors of `bits` that `before` does not have.
#[inline(always)]
fn add((bytes, sectors): &mut (u64, u64), before: u64, bits: u64) {
    let new = bits & !before;
    if new == u64::MAX {
        (*bytes, *sectors) = (*bytes + 64, *sectors + 2);
    } else if new != 0 {
        *bytes += u64::from(new.count_ones());
        for half in [0xffff_ffff, 0xffff_ffff_0000_0000] {
            *sectors += u64::from(before & half == 0 && bits & half != 0);
        }
    }
}

/// Sorts addresses that are multiples of `bytes`, a power of two. The same ones remain; how often each comes may change.
#[inline(always)]
fn sort(addresses: &mut [u64; 32], bytes: u64) {
    let (mut least, mut most) = (addresses[0], addresses[0]);
    for address in addresses.iter() {
        (least, most) = (least.min(*address), most.max(*address));
    }
    let shift = bytes.trailing_zeros();
    if (most - least) >> shift >= 64 {
        return addresses.sort_unstable();
    }
    // A bit for each place that one may be at.
    let mut places = addresses.iter().fold(0u64, |places, address| places | 1 << ((address - least) >> shift));
    for address in addresses {
        *address = least + (u64::from(places.trailing_zeros()) << shift);
        let others = places & (places - 1);
        places = if others == 0 { places } else { others };
    }
}

/// Addresses of a warp that lie within bounds and are aligned: what may be read and written.
pub(super) struct Valid<'a> {
    addresses: &'a [u64; 32],
    mask: u32,
    bytes: u64,
}

impl<'a> Global<'a> {
    pub fn new(source: &'a dyn GlobalMemory, visible: Visible) -> Self {
        Self { source, regions: Vec::new(), last: 0, visible, trace: None }
    }

    /// The region that holds the bytes from `begin` to `end`.
    fn region(&mut self, begin: u64, end: u64) -> Result<usize, String> {
        let holds = |r: &Region| r.range.start <= begin && end <= r.range.end;
        if self.regions.get(self.last).is_some_and(holds) {
            return Ok(self.last);
        }
        if let Some(found) = self.regions.iter().position(holds) {
            self.last = found;
            return Ok(found);
        }
        let range = self.source.region(begin)?;
        if !range.contains(&begin) || end > range.end {
            return Err(format!(
                "which runs over the end of the {} bytes at {:#x}",
                range.end - range.start,
                range.start
            ));
        }
        let base = range.start & !63;
        self.regions.push(Region { range, base, pieces: Vec::new(), read: (0, 0), written: (0, 0) });
        self.last = self.regions.len() - 1;
        Ok(self.last)
    }

    /// Checks and counts `bytes` at each lane's address.
    #[inline(always)]
    pub fn check<'b>(
        &mut self,
        addresses: &'b [u64; 32],
        mask: u32,
        bytes: u64,
        how: Use,
        at: &mut At,
    ) -> Checked<Valid<'b>> {
        let valid = Valid { addresses, mask, bytes };
        at.bytes += bytes * u64::from(mask.count_ones());
        if let Some(trace) = &mut self.trace {
            lanes(mask).for_each(|lane| trace.touch(addresses[lane], bytes));
        }
        let first = addresses[0];
        let mut row = mask == ALL && first & (bytes - 1) == 0 && addresses[31] == first.wrapping_add(31 * bytes);
        if row {
            for i in 0..32 {
                row &= addresses[i] == first.wrapping_add(i as u64 * bytes);
            }
        }
        if row && let Ok(region) = self.region(first, first.wrapping_add(32 * bytes)) {
            let last = first + 32 * bytes - 1;
            at.sectors += last / 32 - first / 32 + 1;
            at.ideal_sectors += bytes;
            at.lines += last / 128 - first / 128 + 1;
            let begin = first - self.regions[region].base;
            let end = begin + 32 * bytes;
            let mut from = begin;
            while from < end {
                let to = (from / 64 * 64 + 64).min(end);
                let bits = (u64::MAX >> (64 - (to - from))) << (from % 64);
                self.uses(region, from / 64, bits, how, &valid)?;
                from = to;
            }
            return Ok(valid);
        }
        self.scattered(&valid, how, at)?;
        Ok(valid)
    }

    /// Marks bytes of 64 of a region, which others may forbid.
    #[inline(always)]
    fn uses(&mut self, region: usize, word: u64, bits: u64, how: Use, valid: &Valid<'_>) -> Checked<()> {
        let (visible, at) = (&mut self.visible, word as usize);
        let seen = self.regions[region].mark(at, bits, how).and_then(|()| match how {
            // The one reads nothing; what the other reads nobody stores.
            Use::Prefetch | Use::ReadOnly => Ok(()),
            Use::Read => visible.read(region, at, bits),
            Use::Write | Use::Update => visible.store(region, at, bits, how == Use::Update, valid.mask),
        });
        match seen {
            Ok(()) => Ok(()),
            Err(forbidden) => self.regions[region].refuse(valid, how, word, forbidden),
        }
    }

    /// Counts the sector at each lane's address, which has to be in memory.
    pub fn prefetch(&mut self, addresses: &[u64; 32], mask: u32, at: &mut At) -> Checked<()> {
        let mut sectors: Vec<u64> = Vec::with_capacity(32);
        for lane in lanes(mask) {
            if let Err(why) = self.region(addresses[lane], addresses[lane].saturating_add(1)) {
                return self.outside(addresses, mask, (lane, 1), Use::Prefetch, &why);
            }
            sectors.push(addresses[lane] / 32);
        }
        sectors.sort_unstable();
        sectors.dedup();
        if let Some(trace) = &mut self.trace {
            sectors.iter().for_each(|sector| trace.touch(32 * sector, 1));
        }
        (at.sectors, at.ideal_sectors) = (at.sectors + sectors.len() as u64, at.ideal_sectors + sectors.len() as u64);
        at.bytes += 32 * sectors.len() as u64;
        sectors.dedup_by_key(|sector| *sector / 4);
        at.lines += sectors.len() as u64;
        Ok(())
    }

    #[inline(always)]
    fn scattered(&mut self, valid: &Valid<'_>, how: Use, at: &mut At) -> Checked<()> {
        let Valid { addresses, mask, bytes } = *valid;
        if mask == 0 {
            return Ok(());
        }
        // Lanes that do not take part count as the first that does: the same bytes once more.
        let first = addresses[mask.trailing_zeros() as usize];
        let mut sorted = *addresses;
        let (mut all, mut ordered) = (first, true);
        for i in 0..32 {
            sorted[i] = if mask >> i & 1 != 0 { sorted[i] } else { first };
            all |= sorted[i];
        }
        for i in 1..32 {
            ordered &= sorted[i - 1] <= sorted[i];
        }
        if all & (bytes - 1) != 0 {
            return self.misaligned(addresses, mask, bytes, how);
        }
        if !ordered {
            sort(&mut sorted, bytes);
        }
        let (mut sectors, mut lines, mut distinct) = (1, 1, 1);
        for i in 1..32 {
            distinct += u64::from(sorted[i] != sorted[i - 1]);
            sectors += u64::from(sorted[i] / 32 != sorted[i - 1] / 32);
            lines += u64::from(sorted[i] / 128 != sorted[i - 1] / 128);
        }
        at.sectors += sectors;
        at.ideal_sectors += (distinct * bytes).div_ceil(32);
        at.lines += lines;
        let bits = u64::MAX >> (64 - bytes);
        if let Ok(region) = self.region(sorted[0], sorted[31].saturating_add(bytes)) {
            let base = self.regions[region].base;
            // Neighbours in the same 64 bytes are marked together.
            let (mut word, mut marks) = (u64::MAX, 0);
            for address in sorted {
                let offset = address - base;
                if offset / 64 != word {
                    if marks != 0 {
                        self.uses(region, word, marks, how, valid)?;
                    }
                    (word, marks) = (offset / 64, 0);
                }
                marks |= bits << (offset % 64);
            }
            return self.uses(region, word, marks, how, valid);
        }
        for lane in lanes(mask) {
            let address = addresses[lane];
            let region = match self.region(address, address.saturating_add(bytes)) {
                Ok(region) => region,
                Err(why) => return self.outside(addresses, mask, (lane, bytes), how, &why),
            };
            let offset = address - self.regions[region].base;
            self.uses(region, offset / 64, bits << (offset % 64), how, valid)?;
        }
        Ok(())
    }

    #[cold]
    fn misaligned(&self, addresses: &[u64; 32], mask: u32, bytes: u64, how: Use) -> Checked<()> {
        let wrong = those(mask, |lane| !addresses[lane].is_multiple_of(bytes));
        let address = addresses[wrong.trailing_zeros() as usize];
        let what = format!("{} {bytes} bytes at {address:#x}, which is not a multiple of {bytes}", how.verb());
        trouble(MISALIGNED, wrong, what)
    }

    #[cold]
    fn outside(
        &mut self,
        addresses: &[u64; 32],
        mask: u32,
        (first, bytes): (usize, u64),
        how: Use,
        why: &str,
    ) -> Checked<()> {
        let wrong = lanes(mask).filter(|lane| {
            let address = addresses[*lane];
            self.region(address, address.saturating_add(bytes)).is_err()
        });
        let wrong = wrong.fold(0, |mask, lane| mask | 1 << lane);
        let what = format!("{} {bytes} bytes at {:#x}, {why}", how.verb(), addresses[first]);
        trouble(ILLEGAL_ADDRESS, wrong | 1 << first, what)
    }

    /// Sectors that the launch read and wrote, each counted once; tells the driver of the bytes.
    pub fn finish(&self) -> (u64, u64) {
        let mut sectors = (0, 0);
        for region in &self.regions {
            sectors.0 += region.read.1;
            sectors.1 += region.written.1;
            self.source.traffic(region.range.clone(), region.read.0, region.written.0);
        }
        sectors
    }
}

impl Region {
    /// Marks bytes; Err where a store meets a read-only load.
    #[inline(always)]
    fn mark(&mut self, word: usize, bits: u64, how: Use) -> Result<(), Forbidden> {
        let (piece, word) = (word / PIECE, word % PIECE);
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, || None);
        }
        let piece = self.pieces[piece].get_or_insert_with(|| vec![[0; 3]; PIECE].into_boxed_slice());
        let [read, read_only, written] = &mut piece[word];
        if how != Use::Write {
            add(&mut self.read, *read | *read_only, bits);
        }
        let (met, why) = match how {
            Use::Read | Use::Prefetch => {
                *read |= bits;
                return Ok(());
            }
            Use::ReadOnly => {
                *read_only |= bits;
                (*written & bits, "which this launch has stored: .nc is for what no launch writes while it runs")
            }
            Use::Write | Use::Update => {
                add(&mut self.written, *written, bits);
                *written |= bits;
                *read |= if how == Use::Update { bits } else { 0 };
                (
                    *read_only & bits,
                    "which this launch has loaded by .nc: that is for what no launch writes while it runs",
                )
            }
        };
        if met == 0 { Ok(()) } else { Err((met, why)) }
    }

    /// Names the lanes whose bytes of 64 are forbidden.
    #[cold]
    fn refuse(&self, valid: &Valid<'_>, how: Use, word: u64, (forbidden, why): Forbidden) -> Checked<()> {
        let Valid { addresses, mask, bytes } = *valid;
        let wrong = those(mask, |lane| {
            let offset = addresses[lane].wrapping_sub(self.base);
            offset / 64 == word && forbidden & (u64::MAX >> (64 - bytes)) << (offset % 64) != 0
        });
        let address = addresses[wrong.trailing_zeros() as usize % 32];
        trouble(FAILED, wrong, format!("{} {bytes} bytes at {address:#x}, {why}", how.verb()))
    }
}

impl Valid<'_> {
    /// An element of 1, 2, 4 or 8 bytes, `offset` bytes behind the address of the lane that it is asked for.
    #[inline(always)]
    pub fn element(&self, offset: u64, width: u64) -> impl Fn(usize) -> u64 {
        assert!(offset & (width - 1) == 0 && offset + width <= self.bytes);
        move |lane| {
            assert!(self.mask >> lane & 1 != 0);
            let address = self.addresses[lane].wrapping_add(offset);
            // SAFETY: `check` found `bytes` bytes at this lane's address inside of a region, whose bytes are readable by
            // the contract of `GlobalMemory`, and the address aligned to `bytes`, so to the element too. Whoever else
            // uses them does so as another processor, hence atomics.
            unsafe {
                match width {
                    1 => u64::from(AtomicU8::from_ptr(address as *mut u8).load(Ordering::Relaxed)),
                    2 => u64::from(AtomicU16::from_ptr(address as *mut u16).load(Ordering::Relaxed)),
                    4 => u64::from(AtomicU32::from_ptr(address as *mut u32).load(Ordering::Relaxed)),
                    _ => AtomicU64::from_ptr(address as *mut u64).load(Ordering::Relaxed),
                }
            }
        }
    }

    /// Stores an element of a lane.
    #[inline(always)]
    pub fn write_lane(&self, lane: usize, offset: u64, width: u64, value: u64, order: Ordering) {
        assert!(self.mask >> lane & 1 != 0 && offset & (width - 1) == 0 && offset + width <= self.bytes);
        let address = self.addresses[lane].wrapping_add(offset);
        // SAFETY: as in `element`; the bytes are writable by the same contract.
        unsafe {
            match width {
                1 => AtomicU8::from_ptr(address as *mut u8).store(value as u8, order),
                2 => AtomicU16::from_ptr(address as *mut u16).store(value as u16, order),
                4 => AtomicU32::from_ptr(address as *mut u32).store(value as u32, order),
                _ => AtomicU64::from_ptr(address as *mut u64).store(value, order),
            }
        }
    }
}
