//! What one block may read of what another stores in the same launch. A store is shown by a fence and then an atomic of its
//! block (each thread's own fence, or after a barrier that of any thread), and is read after an atomic and then a fence of
//! the reading block: `last_block` of ptx.cuh. Blocks run one after another here, so without these rules a missing fence
//! would change nothing.

use super::code::{Kernel, Op, Space};

/// How many times 64 bytes are looked after together: 256 KiB of memory.
pub(super) const PIECE: usize = 4096;

/// Bytes of 64, a bit for each, that may not be used so, and why.
pub(super) type Forbidden = (u64, &'static str);

/// What became of 64 bytes, a bit for each.
#[derive(Clone, Copy, Default)]
struct Stored {
    /// Stored by the block that runs.
    own: u64,
    /// Those of them that it has shown.
    shown: u64,
    /// Stored and shown by blocks that have ended.
    theirs: u64,
    /// Stored by them and never shown.
    hidden: u64,
    /// Stored by atomics, which need no order among each other.
    updated: u64,
}

/// Which 64 bytes: region, piece in it, place in the piece.
type Place = (usize, usize, usize);

/// Bytes of one place that a warp's lanes stored and that not all of them have fenced.
struct Open {
    place: Place,
    bits: u64,
    /// None: a barrier followed, so any thread's fence will do.
    warp: Option<usize>,
    lanes: u32,
}

/// What a launch's blocks have stored.
#[derive(Default)]
pub(super) struct Visible {
    /// A launch of one block has nobody to hide from.
    blocks: bool,
    /// Without atomics nothing is ever shown.
    atomics: bool,
    pieces: Vec<Vec<Option<Box<[Stored; PIECE]>>>>,
    open: Vec<Open>,
    /// Behind a fence: the next atomic shows them.
    fenced: Vec<(Place, u64)>,
    touched: Vec<Place>,
    /// Since the block began: an atomic; after it, a fence.
    met: bool,
    acquired: bool,
    /// The warp that runs.
    warp: usize,
}

impl Visible {
    pub fn new(blocks: u64, kernel: &Kernel) -> Self {
        let atomics = kernel.code.iter().any(|i| matches!(i.op, Op::Atomic(Space::Global, ..)));
        Self { blocks: blocks > 1, atomics, ..Self::default() }
    }

    /// The next block begins: nobody has yet read what the last one did not show, and nobody will.
    pub fn begin(&mut self) {
        for (region, piece, place) in self.touched.drain(..) {
            let stored = self.pieces[region][piece].as_mut().expect("it was touched");
            let Stored { own, shown, theirs, hidden, updated } = stored[place];
            let (theirs, hidden) = (theirs & !own | own & shown, hidden & !own | own & !shown);
            stored[place] = Stored { own: 0, shown: 0, theirs, hidden, updated };
        }
        self.open.clear();
        self.fenced.clear();
        (self.met, self.acquired) = (false, false);
    }

    pub fn runs(&mut self, warp: usize) {
        self.warp = warp;
    }

    /// The running warp reads the bytes of `bits` at `word`, in units of 64 bytes of a region; Err with those that another
    /// block has not shown it, and why.
    #[inline(always)]
    pub fn read(&self, region: usize, word: usize, bits: u64) -> Result<(), Forbidden> {
        match self.pieces.get(region).and_then(|pieces| pieces.get(word / PIECE)?.as_ref()) {
            Some(stored) => self.foreign(stored[word % PIECE], bits),
            None => Ok(()),
        }
    }

    fn foreign(&self, stored: Stored, bits: u64) -> Result<(), Forbidden> {
        let bits = bits & !stored.own;
        if bits & stored.hidden != 0 {
            return Err((
                bits & stored.hidden,
                "which another block of this launch has stored and not shown: a fence and then an atomic have to follow",
            ));
        }
        if bits & stored.theirs != 0 && !self.acquired {
            return Err((
                bits & stored.theirs,
                "which another block of this launch has stored: an atomic and then a fence have to come before",
            ));
        }
        Ok(())
    }

    /// Lanes of the running warp store the bytes of `bits`; Err as of `read`.
    pub fn store(&mut self, region: usize, word: usize, bits: u64, atomic: bool, lanes: u32) -> Result<(), Forbidden> {
        if !self.blocks {
            return Ok(());
        }
        let place @ (_, piece, word) = (region, word / PIECE, word % PIECE);
        if region >= self.pieces.len() {
            self.pieces.resize_with(region + 1, Vec::new);
        }
        if piece >= self.pieces[region].len() {
            self.pieces[region].resize_with(piece + 1, || None);
        }
        let stored = self.pieces[region][piece].get_or_insert_with(|| Box::new([Stored::default(); PIECE]))[word];
        let updated = stored.updated | if atomic { bits } else { 0 };
        self.foreign(stored, bits & !updated)?;
        if stored.own == 0 {
            self.touched.push(place);
        }
        if stored.own & bits != 0 {
            // What was fenced is not what lies there now.
            self.fenced.iter_mut().filter(|(at, _)| *at == place).for_each(|(_, fenced)| *fenced &= !bits);
        }
        let now = Stored { own: stored.own | bits, shown: stored.shown & !bits, updated, ..stored };
        self.pieces[region][piece].as_mut().expect("made above")[word] = now;
        if self.atomics {
            self.open.push(Open { place, bits, warp: Some(self.warp), lanes });
        }
        Ok(())
    }

    /// Lanes of the warp that runs execute a fence.
    pub fn fence(&mut self, mask: u32) {
        self.acquired |= self.met;
        let (warp, fenced) = (self.warp, &mut self.fenced);
        self.open.retain_mut(|open| {
            match open.warp {
                Some(other) if other != warp => return true,
                Some(_) => open.lanes &= !mask,
                None => open.lanes = 0,
            }
            if open.lanes == 0 {
                fenced.push((open.place, open.bits));
            }
            open.lanes != 0
        });
    }

    /// All threads of the block have met.
    pub fn barrier(&mut self) {
        self.open.iter_mut().for_each(|open| open.warp = None);
    }

    /// An atomic of global memory: what lies behind a fence is shown.
    pub fn atomic(&mut self) {
        self.met = true;
        for ((region, piece, word), bits) in self.fenced.drain(..) {
            self.pieces[region][piece].as_mut().expect("it was stored")[word].shown |= bits;
        }
    }
}
