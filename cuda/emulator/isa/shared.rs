//! Shared memory of a block: bounds, bytes that nothing wrote, passes over its banks, asynchronous copies.

use super::count::At;
use super::registers::{ALL, lanes, those};
use super::trouble::{Checked, FAILED, ILLEGAL_ADDRESS, MISALIGNED, trouble};

/// The bytes of the block that runs.
pub(super) struct Shared {
    bytes: Vec<u8>,
    /// A bit per byte that holds a value.
    written: Vec<u64>,
    copies: Vec<Copy>,
    /// Name, offset, bytes of the arrays; 0 bytes for the dynamic one.
    arrays: Vec<(String, usize, usize)>,
}

/// An asynchronous copy under way.
struct Copy {
    warp: usize,
    lane: usize,
    /// Of its thread's groups.
    group: u32,
    to: usize,
    data: [u8; 16],
}

/// Bits of a word of `written`.
#[inline(always)]
fn bits(address: usize, bytes: usize) -> u64 {
    (u64::MAX >> (64 - bytes)) << (address % 64)
}

impl Shared {
    pub fn new(bytes: usize, arrays: &[(String, usize, usize)]) -> Self {
        let written = vec![0; bytes.div_ceil(64)];
        Self { bytes: vec![0; bytes], written, copies: Vec::new(), arrays: arrays.to_vec() }
    }

    /// As a block finds it.
    pub fn begin(&mut self) {
        self.written.fill(0);
        self.copies.clear();
    }

    /// Bounds and alignment of `bytes` at each lane's address.
    #[inline(always)]
    pub fn check(&self, addresses: &[u64; 32], mask: u32, bytes: usize, verb: &str) -> Checked<()> {
        let (mut most, mut all) = (0, 0);
        for i in 0..32 {
            let address = if mask >> i & 1 != 0 { addresses[i] } else { 0 };
            most = most.max(address);
            all |= address;
        }
        if all % bytes as u64 != 0 || most.saturating_add(bytes as u64) > self.bytes.len() as u64 {
            return self.refuse(addresses, mask, bytes, verb);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, addresses: &[u64; 32], mask: u32, bytes: usize, verb: &str) -> Checked<()> {
        let pick = |wrong: &dyn Fn(u64) -> bool| those(mask, |lane| wrong(addresses[lane]));
        let size = self.bytes.len() as u64;
        let outside = pick(&|a| a.saturating_add(bytes as u64) > size);
        if outside != 0 {
            let address = addresses[outside.trailing_zeros() as usize];
            let what = format!("{verb} {bytes} bytes at shared address {address:#x}; the block has {size} bytes");
            return trouble(ILLEGAL_ADDRESS, outside, what);
        }
        let wrong = pick(&|a| a % bytes as u64 != 0);
        let address = addresses[wrong.trailing_zeros() as usize % 32];
        let place = self.describe(address as usize);
        trouble(MISALIGNED, wrong, format!("{verb} {bytes} bytes at {place}, which is not a multiple of {bytes}"))
    }

    /// Array and offset of an address.
    fn describe(&self, address: usize) -> String {
        let holds =
            |(_, begin, bytes): &&(String, usize, usize)| *begin <= address && (*bytes == 0 || address < begin + bytes);
        match self.arrays.iter().find(holds) {
            Some((name, begin, _)) => format!("shared address {address:#x} ({name} + {})", address - begin),
            None => format!("shared address {address:#x} (between arrays)"),
        }
    }

    /// Lanes that are about to read bytes without a value. Their bounds and alignment were checked.
    #[inline(always)]
    pub fn missing(&self, addresses: &[u64; 32], mask: u32, bytes: usize) -> u32 {
        let mut missing = 0;
        for lane in 0..32 {
            if mask >> lane & 1 != 0 {
                let (address, all) = (addresses[lane] as usize, bits(addresses[lane] as usize, bytes));
                missing |= u32::from(self.written[address / 64] & all != all) << lane;
            }
        }
        missing
    }

    /// Err where bytes that the lanes are about to read hold no value.
    #[inline(always)]
    pub fn defined(&self, addresses: &[u64; 32], mask: u32, bytes: usize) -> Checked<()> {
        match self.missing(addresses, mask, bytes) {
            0 => Ok(()),
            missing => trouble(FAILED, missing, self.undefined(addresses, missing, bytes)?),
        }
    }

    /// What is to be said about bytes that nothing wrote. Err where an asynchronous copy is to write them.
    #[cold]
    pub fn undefined(&self, addresses: &[u64; 32], missing: u32, bytes: usize) -> Checked<String> {
        let address = addresses[missing.trailing_zeros() as usize] as usize;
        let place = self.describe(address);
        if self.copies.iter().any(|c| c.to < address + bytes && address < c.to + 16) {
            let what = format!("reads {bytes} bytes at {place}, which a cp.async that nobody waited for is to write");
            return trouble(FAILED, missing, what);
        }
        Ok(format!("reads {bytes} bytes at {place}, which nothing wrote"))
    }

    /// An element of 1, 2, 4 or 8 bytes.
    #[inline(always)]
    pub fn read(&self, address: usize, width: usize) -> u64 {
        let bytes = &self.bytes[address..][..width];
        match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
            _ => bytes.try_into().map_or(0, u64::from_le_bytes),
        }
    }

    #[inline(always)]
    pub fn write(&mut self, address: usize, width: usize, value: u64) {
        let bytes = &mut self.bytes[address..address + width];
        match width {
            1 => bytes[0] = value as u8,
            2 => bytes.copy_from_slice(&(value as u16).to_le_bytes()),
            4 => bytes.copy_from_slice(&(value as u32).to_le_bytes()),
            _ => bytes.copy_from_slice(&value.to_le_bytes()),
        }
        self.written[address / 64] |= bits(address, width);
    }

    /// Eight halves, for `ldmatrix`.
    pub fn row(&self, address: usize) -> [u16; 8] {
        std::array::from_fn(|i| self.read(address + 2 * i, 2) as u16)
    }

    /// Begins a copy of 16 bytes: nobody may read them before [`Shared::wait`].
    pub fn copy(&mut self, (warp, lane): (usize, usize), group: u32, to: usize, data: [u8; 16]) {
        self.written[to / 64] &= !bits(to, 16);
        self.copies.push(Copy { warp, lane, group, to, data });
    }

    /// Ends the copies of the lanes of a warp whose group comes before that of the list.
    pub fn wait(&mut self, warp: usize, mask: u32, before: &[u32; 32]) {
        let (bytes, written) = (&mut self.bytes, &mut self.written);
        self.copies.retain(|c| {
            let done = c.warp == warp && mask >> c.lane & 1 != 0 && c.group < before[c.lane];
            if done {
                bytes[c.to..c.to + 16].copy_from_slice(&c.data);
                written[c.to / 64] |= bits(c.to, 16);
            }
            !done
        });
    }
}

/// Counts how often the banks are passed over: for 4, 8 or 16 bytes per lane the most distinct words of a bank among 32,
/// 16 or 8 lanes, summed over these groups; and how often at best.
#[inline(always)]
pub(super) fn passes(addresses: &[u64; 32], mask: u32, bytes: usize, at: &mut At) {
    let words = bytes.div_ceil(4);
    let mut row = mask == ALL && addresses[0].is_multiple_of(4);
    for i in 0..32 {
        row &= addresses[i] == addresses[0].wrapping_add((i * bytes) as u64);
    }
    if row {
        at.passes += words as u64;
        at.ideal_passes += words as u64;
    } else {
        scattered_passes(addresses, mask, words, at);
    }
}

fn scattered_passes(addresses: &[u64; 32], mask: u32, words: usize, at: &mut At) {
    let group = 32 / words;
    for first in (0..32).step_by(group) {
        let members = mask >> first & (u32::MAX >> (32 - group));
        let (mut seen, mut counts) = ([u64::MAX; 32], [0u8; 32]);
        // Second and later words of a bank.
        let (mut others, mut n) = ([0; 128], 0);
        for lane in lanes(members) {
            for word in addresses[first + lane] / 4..addresses[first + lane] / 4 + words as u64 {
                let bank = (word % 32) as usize;
                if counts[bank] == 0 {
                    (seen[bank], counts[bank]) = (word, 1);
                } else if seen[bank] != word && !others[..n].contains(&word) {
                    others[n] = word;
                    n += 1;
                    counts[bank] += 1;
                }
            }
        }
        at.passes += u64::from(counts.into_iter().max().unwrap_or_default());
        at.ideal_passes += u64::from(members != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks() {
        let counted = |addresses: &[u64; 32], mask, bytes| {
            let mut at = At::default();
            passes(addresses, mask, bytes, &mut at);
            (at.passes, at.ideal_passes)
        };
        let of = |f: fn(u64) -> u64, bytes| counted(&std::array::from_fn(|lane| f(lane as u64)), ALL, bytes);
        assert_eq!((of(|i| 4 * i, 4), of(|i| 8 * i, 8), of(|i| 16 * i, 16)), ((1, 1), (2, 2), (4, 4)));
        assert_eq!((of(|_| 128, 4), of(|i| i, 1), of(|i| 2 * i, 2)), ((1, 1), (1, 1), (1, 1)));
        assert_eq!(
            (of(|i| 8 * i, 4), of(|i| 128 * i, 4), of(|i| 128 * (i % 3), 4)),
            ((2, 1), (32, 1), (3, 1)),
            "other words of one bank"
        );
        assert_eq!((of(|i| 144 * i, 16), of(|i| 128 * i, 16)), ((4, 4), (32, 4)));
        assert_eq!((counted(&[0; 32], 0, 4), counted(&[0; 32], 0xff00, 16)), ((0, 0), (1, 1)));
    }

    #[test]
    fn copies_arrive_when_their_thread_waits() {
        let mut shared = Shared::new(32, &[("tile".into(), 0, 32)]);
        shared.begin();
        let at = std::array::from_fn(|lane| 16 * lane as u64);
        shared.copy((0, 0), 0, 0, [1; 16]);
        shared.copy((0, 1), 1, 16, [2; 16]);
        let report = |s: &Shared, mask| s.defined(&at, mask, 16).err().map(|t| t.what);
        assert!(report(&shared, 1).is_some_and(|what| what.contains("cp.async that nobody waited for")));
        shared.wait(0, 1, &[1; 32]);
        assert!(report(&shared, 1).is_none() && report(&shared, 2).is_some());
        shared.wait(0, 3, &[1; 32]);
        assert!(report(&shared, 2).is_some());
        shared.wait(0, 2, &[2; 32]);
        assert!(report(&shared, 3).is_none());
        assert_eq!((shared.read(0, 4), shared.read(16, 8)), (0x0101_0101, 0x0202_0202_0202_0202));
    }
}
