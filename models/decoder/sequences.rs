//! What the device's caches hold of each sequence: lengths, and how far back sliding layers reach.

use crate::{Config, Options, decoder::memory, kv::PAGE};

/// Pages of a layer: all of the context, or a ring that a sliding window needs.
pub struct Ring;

impl Ring {
    /// The window of a layer, where it limits what is kept.
    pub fn window(c: &Config, o: &Options, il: usize) -> Option<usize> {
        c.layers[il].window.filter(|_| !o.swa_full)
    }

    /// Pages of a sequence in a layer. A chunk is written whole before its first row looks back, so a ring holds
    /// the window and the chunk, and one page more, as both begin anywhere in a page.
    pub fn pages(c: &Config, o: &Options, il: usize) -> usize {
        let all = o.n_ctx.div_ceil(PAGE);
        Self::window(c, o, il).map_or(all, |w| all.min((w + memory::rows(o)).div_ceil(PAGE) + 1))
    }
}

/// The sequences of a decoder.
pub struct Sequences {
    held: Vec<Held>,
    /// The smallest ring and the widest window of the sliding layers; `None` without such layers.
    ring: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Default)]
struct Held {
    len: usize,
    /// Positions written since the sequence was last empty: what is beyond `len` has taken its place in the rings.
    written: usize,
    /// First position that was ever there in sliding layers.
    from: usize,
}

impl Sequences {
    pub fn new(c: &Config, o: &Options) -> Self {
        let sliding = (0..c.n_layer).filter_map(|il| Some((Ring::pages(c, o, il), Ring::window(c, o, il)?)));
        let ring = sliding.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        Self { held: vec![Held::default(); o.n_seq], ring }
    }

    pub fn count(&self) -> usize {
        self.held.len()
    }

    pub fn len(&self, seq: usize) -> usize {
        self.held[seq].len
    }

    /// Positions up to `len` are written and valid.
    pub fn set_len(&mut self, seq: usize, len: usize) {
        let held = &mut self.held[seq];
        held.len = len;
        held.written = held.written.max(len);
    }

    /// Positions up to `end` are being written, whether or not they will be kept.
    pub fn note_written(&mut self, seq: usize, end: usize) {
        let held = &mut self.held[seq];
        held.written = held.written.max(end);
    }

    /// A sequence that was loaded: `len` positions, of which sliding layers hold those from `from` on.
    pub fn loaded(&mut self, seq: usize, len: usize, from: usize) {
        self.held[seq] = Held { len, written: len, from };
    }

    /// First position that every sliding layer still holds.
    pub fn oldest(&self, seq: usize) -> usize {
        let last_page = self.held[seq].written.saturating_sub(1) / PAGE;
        self.ring.map_or(0, |(pages, _)| self.held[seq].from.max((last_page + 1).saturating_sub(pages) * PAGE))
    }

    /// Forgets positions from `pos` on; `pos`, or 0 where a ring has let go of what position `pos` would look at.
    pub fn rewind(&mut self, seq: usize, pos: usize) -> usize {
        let pos = pos.min(self.len(seq));
        let needed = self.ring.map_or(0, |(_, window)| (pos + 1).saturating_sub(window));
        if pos == 0 || self.oldest(seq) > needed {
            self.held[seq] = Held::default();
            return 0;
        }
        self.held[seq].len = pos;
        pos
    }
}
