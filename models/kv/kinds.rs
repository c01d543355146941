//! Kinds of layers: layers with the same reach share their page tables.

use super::PAGE;
use crate::{Config, Options};

/// Layers that keep the same positions. A block of 64 tokens of a sequence has one page id per kind, which is valid in
/// all layers of that kind.
///
/// A recurrent layer is one with a window of two tokens: a page holds its state after the last token that was stored in the
/// page's block. A sequence goes on from there alone, or from the end of a block. Blocks that a chunk passes at once share a page:
/// of them no state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Sliding window in tokens, the current one included; `None`: everything is kept.
    pub window: Option<usize>,
    /// Whether pages hold states of recurrent layers.
    pub recurrent: bool,
    /// Most blocks that a sequence holds at once, in the middle of a chunk: `block % slots` tells them apart.
    pub slots: usize,
    /// Pages for all sequences and the prefix cache.
    pub pages: usize,
}

impl Kind {
    /// First position that position `pos` sees.
    pub(super) fn oldest_seen(&self, pos: usize) -> usize {
        self.window.map_or(0, |window| (pos + 1).saturating_sub(window))
    }

    /// First block that a sequence of `len` tokens keeps: what its current block's first position sees. Whatever the
    /// length, a sequence that stops there leaves whole blocks behind which another can go on.
    pub(super) fn first_kept(&self, len: usize) -> usize {
        self.oldest_seen(len / PAGE * PAGE) / PAGE
    }
}

/// The kinds of a model's layers in the order of their first layers, and the kind of each layer. At most `chunk` tokens
/// go through the layers together.
///
/// Pages of layers that see everything: for [`Options::n_kv`] tokens, and one sequence of `n_ctx` tokens at least. Of
/// those with a window: for every sequence its window and a chunk, and one window more, so that the prefix cache can
/// keep a place per sequence at which another can go on.
pub fn kinds(c: &Config, o: &Options, chunk: usize) -> (Vec<Kind>, Vec<usize>) {
    let all = o.n_ctx.div_ceil(PAGE);
    let mut kinds: Vec<Kind> = Vec::new();
    let of_layers = c.layers.iter().map(|l| {
        let recurrent = l.state_len() > 0;
        // Where it limits what is kept.
        let window = if recurrent { Some(2) } else { l.kept_window().filter(|_| !o.swa_full) };
        kinds.iter().position(|kind| (kind.window, kind.recurrent) == (window, recurrent)).unwrap_or_else(|| {
            let (slots, mut pages) = sizes(window, o, chunk);
            if recurrent {
                // Two blocks before a chunk and two behind it, in place of all.
                pages -= o.n_seq * slots.saturating_sub(4);
            }
            kinds.push(Kind { window, recurrent, slots, pages });
            kinds.len() - 1
        })
    });
    let of_layers = of_layers.collect();
    debug_assert!(kinds.iter().all(|kind| kind.slots <= all && (kind.recurrent || kind.slots <= kind.pages)));
    (kinds, of_layers)
}

/// Slots of a sequence and pages in all.
fn sizes(window: Option<usize>, o: &Options, chunk: usize) -> (usize, usize) {
    let all = o.n_ctx.div_ceil(PAGE);
    let Some(window) = window else {
        let pages = if o.n_kv == 0 { o.n_seq * all } else { o.n_kv.div_ceil(PAGE).max(all) };
        return (all, pages);
    };
    // What the first position of a block sees begins anywhere in a page; so does a chunk.
    let before = window.saturating_sub(1).div_ceil(PAGE);
    let slots = all.min(before + 1 + chunk.min(o.n_ctx).saturating_add(PAGE - 2) / PAGE);
    (slots, o.n_seq * (slots + all.min(before + 1)))
}
