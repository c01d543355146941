//! Tiles that are packed by the products that need them, so that nobody waits until a whole model is packed.

use std::sync::{
    Arc,
    atomic::{
        AtomicU8, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use memmap2::MmapMut;

use super::{
    layout::{Line, bytes},
    par::Shared,
};
use crate::Bytes;

/// How many bytes of tiles products may keep. What they need beyond that they pack for themselves, and again the next time.
#[derive(Debug, Default)]
pub struct PackAllowance(AtomicUsize);

impl PackAllowance {
    /// From now on tiles of so many bytes are kept.
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Relaxed);
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

const EMPTY: u8 = 0;
const BEING_PACKED: u8 = 1;
const PACKED: u8 = 2;

/// The tiles of a matrix, some of them packed.
#[derive(Debug)]
pub(super) struct Packing {
    /// Owns what `at` points to.
    _memory: MmapMut,
    at: Shared<u8>,
    /// Bytes of a tile: whole lines.
    tile: usize,
    states: Box<[AtomicU8]>,
    /// Tiles that are not packed.
    left: AtomicUsize,
    /// Its pages are let go of when all are.
    file: Bytes,
    allowance: Arc<PackAllowance>,
}

impl Packing {
    /// Address space for so many tiles of so many lines; memory comes with what is written.
    ///
    /// # Errors
    /// The system refuses the address space.
    pub(super) fn new(tiles: usize, lines: usize, file: Bytes, allowance: Arc<PackAllowance>) -> std::io::Result<Self> {
        let tile = lines * Line::BYTES;
        let mut memory = tiles_in_memory(tiles * tile)?;
        let at = Shared::new(memory.as_mut_ptr());
        let states = (0..tiles).map(|_| AtomicU8::new(EMPTY)).collect();
        Ok(Self { _memory: memory, at, tile, states, left: AtomicUsize::new(tiles), file, allowance })
    }

    /// A tile that is packed.
    pub(super) fn packed(&self, i: usize) -> Option<&[u8]> {
        Some(self.packed_from(i, 1)).filter(|(_, n)| *n > 0).map(|(bytes, _)| bytes)
    }

    /// As many of `n` tiles from the i-th on as are packed before the first that is not.
    fn packed_from(&self, i: usize, n: usize) -> (&[u8], usize) {
        let n = self.states[i..i + n].iter().take_while(|state| state.load(Acquire) == PACKED).count();
        // SAFETY: the tiles are inside the map and were written before their states said so; nobody writes them again.
        (unsafe { std::slice::from_raw_parts(self.at.get().add(i * self.tile), n * self.tile) }, n)
    }

    /// The same; `pack` packs the i-th first where that is allowed and no other thread is about it.
    pub(super) fn tiles(&self, i: usize, n: usize, pack: impl FnOnce(&mut [Line])) -> (&[u8], usize) {
        let state = &self.states[i];
        if state.load(Relaxed) == EMPTY
            && self.allowance.take(self.tile)
            && state.compare_exchange(EMPTY, BEING_PACKED, Relaxed, Relaxed).is_ok()
        {
            // SAFETY: tile i is whole lines inside the map, which is zeroed and begins a page; the one thread that has
            // changed its state writes it, and nobody reads it before the state says so.
            let lines = unsafe {
                std::slice::from_raw_parts_mut(self.at.get().add(i * self.tile).cast::<Line>(), self.tile / Line::BYTES)
            };
            pack(lines);
            state.store(PACKED, Release);
            if self.left.fetch_sub(1, Relaxed) == 1 {
                self.file.release_pages();
            }
        }
        self.packed_from(i, n)
    }
}

/// Zeroed memory for tiles, in large pages where the system has them.
///
/// # Errors
/// The system refuses so many bytes of address space.
pub(super) fn tiles_in_memory(bytes: usize) -> std::io::Result<MmapMut> {
    let memory = MmapMut::map_anon(bytes.max(1))?;
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    Ok(memory)
}

/// Tiles of one matrix that a thread packs for itself.
#[derive(Default)]
pub(super) struct TileScratch {
    lines: Vec<Line>,
    /// The tile whose place is the first.
    first: usize,
    /// A bit for each that is packed, from the first.
    held: u64,
}

impl TileScratch {
    /// Tiles from this one on are asked for next; those that were are forgotten.
    pub(super) fn begin(&mut self, first: usize) {
        (self.first, self.held) = (first, 0);
    }

    /// One of the 64 tiles from where it was begun, of so many lines: packed by the first who asks.
    pub(super) fn tile(&mut self, tile: usize, lines: usize, pack: impl FnOnce(&mut [Line])) -> &[u8] {
        let at = tile - self.first;
        assert!(at < 64, "tile {at} of a run of at most 64");
        self.lines.resize(self.lines.len().max((at + 1) * lines), Line::ZERO);
        let place = &mut self.lines[at * lines..][..lines];
        if self.held >> at & 1 == 0 {
            pack(place);
            self.held |= 1 << at;
        }
        bytes(place)
    }
}
