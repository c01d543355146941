//! The device's side of the page tables: where pages lie, and tables on the device that follow the book-keeping.
//!
//! [`PageTables`] says which page holds which tokens. The device reads `[sequence][slot]` tables of page numbers, one per
//! kind of layer; before a launch the numbers of pages that its sequences got since are written there, in the same stream
//! and with the call itself. What was launched before it still finds the table as it was, and a page that was returned is
//! only written again by what is launched later: neither needs a synchronisation.

use qrun_cuda::{Ptr, Result, ops::cache};

use super::{
    GpuDecoder,
    memory::{Layer, Memory},
};
use crate::{
    Entry, ForwardError, LayerPlan,
    forward::ends,
    kv::{OutOfPages, PAGE, PageCopy, PageId, PageTables},
    layer::KvSource,
};

// One size of page for the book-keeping and for the kernels, whose headers have it too.
const _: () = assert!(PAGE == cache::PAGE);

/// Of a slot that was never written.
const UNKNOWN: i32 = -1;

/// What lies in the pages, and what the device knows of it.
pub struct Pages {
    pub tables: PageTables,
    /// By kind of layer, `[n_seq][slots]`: the device's tables, as far as they were ever written.
    mirrors: Vec<Vec<i32>>,
    /// [`PageTables::changes`] of each sequence when its rows were last compared.
    seen: Vec<u64>,
}

impl Pages {
    pub fn new(memory: &Memory, n_seq: usize) -> Self {
        let mirrors = memory.kinds.iter().map(|kind| vec![UNKNOWN; n_seq * kind.slots]).collect();
        Self { tables: PageTables::new(&memory.kinds, n_seq), mirrors, seen: vec![0; n_seq] }
    }

    /// Blocks of a sequence whose page the device does not know yet: `(kind, place in the mirror, page)`.
    fn unknown(&self, seq: usize) -> Vec<(usize, usize, i32)> {
        let mut unknown = Vec::new();
        for (kind, mirror) in self.mirrors.iter().enumerate() {
            let slots = self.tables.kinds()[kind].slots;
            let places = self
                .tables
                .blocks(kind, seq)
                .map(|block| (kind, seq * slots + block % slots, self.tables.page(kind, seq, block) as i32));
            unknown.extend(places.filter(|&(_, at, page)| mirror[at] != page));
        }
        unknown
    }
}

/// One plane of a layer's cache: its start, and the bytes of a page there.
pub type Plane = (Ptr<u8>, usize);

/// Keys, values, and where there are some their scales; or a state alone.
pub fn planes(layer: &Layer, l: &LayerPlan) -> [Plane; 4] {
    let (cache, states) = (&layer.cache, &layer.states);
    if states.len > 0 {
        let none = (Ptr::NULL, 0);
        return [(states.pages.cast(), size_of::<f32>() * states.len as usize), none, none, none];
    }
    let (elements, scales) = cache.kind.page_bytes(l.head_dim);
    let heads = if l.kv.is_own() { l.n_head_kv } else { 0 };
    let (elements, scales) = (heads * elements, heads * scales);
    let (k_scale, v_scale) = (cache.k_scale.cast(), cache.v_scale.cast());
    let of_values = usize::from(!matches!(l.kv, KvSource::Latent(_)));
    [(cache.k, elements), (cache.v, of_values * elements), (k_scale, scales), (v_scale, of_values * scales)]
}

impl GpuDecoder {
    /// Makes the rows of a launch writable: takes their pages, copies those that are shared, tells the device.
    ///
    /// # Errors
    /// No pages left (nothing has changed then); the device's.
    pub(super) fn reserve<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a Entry>,
    ) -> std::result::Result<(), ForwardError> {
        self.reserve_until(&ends(entries))?;
        Ok(())
    }

    /// The same for positions up to an end per sequence, before rows that nobody has asked for; `false` where no pages
    /// are left.
    pub(super) fn reserve_ahead(&mut self, ends: &[(usize, usize)]) -> Result<bool> {
        match self.reserve_until(ends) {
            Ok(()) => Ok(true),
            Err(Failed::Pages(_)) => Ok(false),
            Err(Failed::Device(error)) => Err(error),
        }
    }

    fn reserve_until(&mut self, ends: &[(usize, usize)]) -> std::result::Result<(), Failed> {
        let copies = self.pages.tables.reserve(ends).map_err(Failed::Pages)?;
        self.copy_pages(&copies).and_then(|()| self.update_tables(ends)).map_err(Failed::Device)
    }

    /// Copies whole pages, in all layers of their kind.
    pub(super) fn copy_pages(&mut self, copies: &[PageCopy]) -> Result<()> {
        for copy in copies {
            let layers = self.config.layers.iter().zip(&self.memory.layers).zip(&self.memory.kind_of_layer);
            for ((plan, layer), _) in layers.filter(|(_, kind)| **kind == copy.kind) {
                for (start, bytes) in planes(layer, plan).into_iter().filter(|(_, bytes)| *bytes > 0) {
                    let at = |id: PageId| start.add(id as usize * bytes);
                    // SAFETY: two pages that exist, of a plane of the arena (see `decoder`).
                    unsafe { self.stream.copy_within(at(copy.to), at(copy.from), bytes)? };
                }
            }
        }
        Ok(())
    }

    /// Brings the device's tables of some sequences up to date.
    fn update_tables(&mut self, ends: &[(usize, usize)]) -> Result<()> {
        let changed = |&(seq, _): &(usize, usize)| {
            let now = self.pages.tables.changes(seq);
            (std::mem::replace(&mut self.pages.seen[seq], now) != now).then_some(seq)
        };
        let changed: Vec<usize> = ends.iter().filter_map(changed).collect();
        let unknown: Vec<_> = changed.into_iter().flat_map(|seq| self.pages.unknown(seq)).collect();
        for (kind, at, page) in unknown {
            // SAFETY: the arena's table of this kind has as many places as its mirror (see `decoder`).
            unsafe { self.stream.fill(self.memory.tables[kind].add(at), page, 1)? };
            self.pages.mirrors[kind][at] = page;
        }
        Ok(())
    }
}

/// Why positions are not writable.
enum Failed {
    Pages(OutOfPages),
    Device(qrun_cuda::DeviceError),
}

impl From<Failed> for ForwardError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Pages(pages) => pages.into(),
            Failed::Device(error) => error.into(),
        }
    }
}
