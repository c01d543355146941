//! Intermediate results on their way to the host: after each named stage the stream is waited for and the values are
//! copied out. For finding the first tensor that differs, not for speed.

use std::cell::RefCell;

use qrun_cuda::{
    Gpu, Pinned, Ptr, Result, Stream,
    ops::{
        norm::{self, RmsNorm},
        rope_kv::{self, RopeKv},
    },
};

use super::step::Step;
use crate::{Tap, decoder::memory::Layer};

/// Who listens, and page-locked memory for the largest result so far.
pub struct Probe(RefCell<Listener>);

struct Listener {
    tap: Tap,
    values: Pinned<f32>,
}

impl Probe {
    pub fn new(gpu: &std::sync::Arc<Gpu>, tap: Tap) -> Result<Self> {
        Ok(Self(RefCell::new(Listener { tap, values: Pinned::new(gpu, 0)? })))
    }
}

impl Listener {
    fn fetch(&mut self, stream: &Stream, at: Ptr<f32>, len: usize) -> Result<()> {
        if self.values.len() < len {
            self.values = Pinned::new(stream.gpu(), len)?;
        }
        stream.copy_out(&mut self.values, at, len)?;
        stream.synchronize()
    }
}

impl Step<'_> {
    /// Hands `[rows][width]` values on, where somebody listens.
    pub(super) fn tap(&self, il: Option<usize>, name: &'static str, at: Ptr<f32>, width: usize) -> Result<()> {
        let Some(Probe(listener)) = self.probe else { return Ok(()) };
        let (mut listener, len) = (listener.borrow_mut(), self.rows * width);
        listener.fetch(self.stream, at, len)?;
        let Listener { tap, values } = &mut *listener;
        tap(il, name, &values[..len]);
        Ok(())
    }

    /// Queries, keys and values of a layer. Keys go into the cache as they are turned: where somebody listens they are
    /// turned once more, as if they were queries.
    pub(super) fn tap_projections(&self, il: usize, turn: &RopeKv) -> Result<()> {
        if self.probe.is_none() {
            return Ok(());
        }
        let (c, a) = (self.c, &self.m.activations);
        let keys = RopeKv { q: turn.k, q_out: a.attended.values, q_norm: turn.k_norm, n_head: turn.n_head_kv, ..*turn };
        rope_kv::rope_kv(self.stream, self.rows as u32, &keys)?;
        self.tap(Some(il), "Qcur", turn.q_out, c.q_dim())?;
        self.tap(Some(il), "Kcur", keys.q_out, c.kv_dim())?;
        self.tap(Some(il), "Vcur", turn.v, c.kv_dim())
    }

    /// What joins the residual stream: the output of attention or feed-forward after its own norm, which otherwise
    /// happens as a part of the next norm.
    pub(super) fn tap_out(&self, il: usize, name: &'static str, post: Ptr<f32>) -> Result<()> {
        if self.probe.is_none() {
            return Ok(());
        }
        self.tap(Some(il), name, self.joining(post)?, self.c.n_embd)
    }

    /// The residual stream after a layer. The sum itself is a part of the next norm, so it is made on the host.
    pub(super) fn tap_layer(&self, il: usize, layer: &Layer) -> Result<()> {
        let Some(Probe(listener)) = self.probe else { return Ok(()) };
        self.tap_out(il, "ffn_out", layer.post_ffw_norm)?;
        let (mut listener, len) = (listener.borrow_mut(), self.rows * self.c.n_embd);
        let out = listener.values[..len].to_vec();
        listener.fetch(self.stream, self.m.activations.x, len)?;
        let sum: Vec<f32> = listener.values[..len].iter().zip(out).map(|(x, out)| x + out).collect();
        (listener.tap)(Some(il), "l_out", &sum);
        Ok(())
    }

    fn joining(&self, post: Ptr<f32>) -> Result<Ptr<f32>> {
        let a = &self.m.activations;
        if post.is_null() {
            return Ok(a.out);
        }
        // The next norm has yet to write there.
        let y = a.normed.values;
        let (n, eps) = (self.c.n_embd as i32, self.c.norm_eps);
        let norm = RmsNorm { x: a.out, weight: post, seq: self.at.seq, y, n, eps, ..RmsNorm::default() };
        norm::rms_norm(self.stream, self.rows as u32, &norm)?;
        Ok(y)
    }
}
