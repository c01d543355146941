//! States of recurrent layers: what a step changes in place and may have to bring back, and their form in files.
//!
//! A page of a block of 64 positions has the state after the last token that was stored there. Tokens within a block change it in
//! place. A step of one launch fails before it or not at all; where there are several, the states that all but the last one
//! write to are kept.

use qrun_cuda::{Ptr, Result, ops::recurrent::head_len};

use super::GpuDecoder;
use crate::{LayerPlan, kv::PAGE, layer::Mixer};

/// By sequence: after how many tokens the state is that was kept in this step.
pub struct Kept(Vec<Option<usize>>);

impl Kept {
    pub fn new(n_seq: usize) -> Self {
        Self(vec![None; n_seq])
    }
}

impl GpuDecoder {
    /// Keeps the states of some sequences, of those that are inside of a block.
    pub(super) fn keep_states(&mut self, sequences: impl Iterator<Item = u32>) -> Result<()> {
        for seq in sequences.map(|seq| seq as usize) {
            let len = self.pages.tables.len(seq);
            if len.is_multiple_of(PAGE) || self.kept.0[seq] == Some(len) {
                continue;
            }
            // SAFETY: both are places of a state in the arena, in different parts (see `decoder`).
            self.each_state(seq, |[page, before], n| unsafe { self.stream.copy_within(before, page, n) })?;
            self.kept.0[seq] = Some(len);
        }
        Ok(())
    }

    /// A step has come to its end.
    pub(super) fn forget_states(&mut self) {
        self.kept.0.fill(None);
    }

    /// Brings the states of a sequence back whose step was taken back.
    pub(super) fn bring_states_back(&mut self, seq: usize) -> Result<()> {
        if self.kept.0[seq].take() != Some(self.pages.tables.len(seq)) {
            return Ok(());
        }
        // SAFETY: as in `keep_states`.
        self.each_state(seq, |[page, before], n| unsafe { self.stream.copy_within(page, before, n) })
    }

    /// The state of a sequence in each layer, in the page that it is in, and the room to keep it.
    fn each_state(&self, seq: usize, copy: impl Fn([Ptr<f32>; 2], usize) -> Result<()>) -> Result<()> {
        let (tables, memory) = (&self.pages.tables, &self.memory);
        for (layer, &kind) in memory.layers.iter().zip(&memory.kind_of_layer).filter(|(layer, _)| layer.states.len > 0)
        {
            let (block, len) = (tables.len(seq) / PAGE, layer.states.len as usize);
            let page = layer.states.pages.add(tables.page(kind, seq, block) as usize * len);
            copy([page, layer.before.add(seq * len)], len)?;
        }
        Ok(())
    }
}

/// Where elements of a state lie in a file, which has it as the CPU does: `each(element in the file, element on the device)`.
/// Inputs of keys that heads share lie on the device several times.
pub fn each_element(l: &LayerPlan, mut each: impl FnMut(usize, usize)) {
    match l.mixer {
        Mixer::Attention | Mixer::None => {}
        Mixer::ShortConv { .. } => (0..l.state_len()).for_each(|i| each(i, i)),
        Mixer::DeltaNet(d) => {
            let keys = d.n_head_k * d.dim_k;
            let sizes = Sizes { dim_k: d.dim_k, dim_v: d.dim_v, taps: d.taps, channels: d.channels() };
            for head in 0..d.n_head_v {
                let key = d.key_head(head) * d.dim_k;
                sizes.each_of_head(head, [key, keys + key, 2 * keys + head * d.dim_v], &mut each);
            }
        }
        Mixer::Mamba2(m) => {
            let sizes = Sizes { dim_k: m.n_state, dim_v: m.head_dim, taps: m.taps, channels: m.channels() };
            for head in 0..m.n_head {
                let b = m.inner() + head / (m.n_head / m.n_group) * m.n_state;
                sizes.each_of_head(head, [b + m.n_group * m.n_state, b, head * m.head_dim], &mut each);
            }
        }
    }
}

/// Heads with a matrix.
struct Sizes {
    dim_k: usize,
    dim_v: usize,
    taps: usize,
    /// Of the convolution.
    channels: usize,
}

impl Sizes {
    /// The device has of each head its matrix `[dim_v][dim_k]`, then its inputs; a file the inputs of all, then the matrices
    /// `[dim_k][dim_v]`. `first`: the first channels of its query, key and value.
    fn each_of_head(&self, head: usize, first: [usize; 3], each: &mut impl FnMut(usize, usize)) {
        let (matrix, width) = (self.dim_k * self.dim_v, 2 * self.dim_k + self.dim_v);
        let (start, inputs) = (head * head_len([self.dim_k, self.dim_v, self.taps]), (self.taps - 1) * self.channels);
        for i in 0..matrix {
            each(inputs + head * matrix + i % self.dim_k * self.dim_v + i / self.dim_k, start + i);
        }
        for i in 0..(self.taps - 1) * width {
            let which = (i % width / self.dim_k).min(2);
            let channel = first[which] + i % width - which * self.dim_k;
            each(i / width * self.channels + channel, start + matrix + i);
        }
    }
}
