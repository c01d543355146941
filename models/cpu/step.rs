//! One chunk of tokens through all layers.

use qrun_quant::cpu::{Activations, Job, matmul};

use super::{Scratch, attention, ops, rope};
use crate::{
    Entry, ForwardError, Model, Output, Tap,
    kv::KvCache,
    spec::{FeedForward, Norm},
    tensors::Role::*,
    weights::{Layer, Linear, Weights},
};

/// One chunk on its way through the layers.
pub(super) struct Step<'a> {
    pub model: &'a Model,
    pub weights: &'a Weights,
    pub kv: &'a mut KvCache,
    pub rope: &'a mut rope::Tables,
    pub s: &'a mut Scratch,
    pub chunk: &'a [Entry],
    pub tap: &'a mut Option<Tap>,
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Step<'_> {
    pub fn run(&mut self, logits: &mut Vec<f32>) -> Result<(), ForwardError> {
        let c = &self.model.config;
        // All norms below are of this kind.
        let Norm::Rms = c.arch.norm;
        self.s.x.resize(self.chunk.len() * c.n_embd, 0.0);
        for (e, x) in self.chunk.iter().zip(self.s.x.chunks_exact_mut(c.n_embd)) {
            self.weights.token_embd.row(e.token as usize, x);
            x.iter_mut().for_each(|x| *x *= c.embedding_scale);
        }
        tap(self.tap, None, "inp_embd", &self.s.x);
        self.rope.set_positions(self.chunk);
        let weights = self.weights;
        for (il, layer) in weights.layers.iter().enumerate() {
            self.go_on()?;
            self.attention(il, layer);
            self.go_on()?;
            self.feed_forward(il, layer)?;
            tap(self.tap, Some(il), "l_out", &self.s.x);
        }
        self.go_on()?;
        self.head(logits);
        Ok(())
    }

    /// Asked several times in a layer: one layer of a chunk can take a second.
    fn go_on(&self) -> Result<(), ForwardError> {
        if (self.cancelled)() { Err(ForwardError::Cancelled) } else { Ok(()) }
    }

    fn attention(&mut self, il: usize, w: &Layer) {
        let (c, t) = (&self.model.config, self.chunk.len());
        let (l, norms, matrices) = (&c.layers[il], &w.vectors, &w.matrices);
        let s = &mut *self.s;
        ops::rms_norm(&s.x, &norms[AttnNorm], c.norm_eps, &mut s.h);
        tap(self.tap, Some(il), "attn_norm", &s.h);
        s.q.resize(t * l.q_dim(), 0.0);
        s.k.resize(t * l.kv_dim(), 0.0);
        s.v.resize(t * l.kv_dim(), 0.0);
        let [q, k, v] = [AttnQ, AttnK, AttnV].map(|role| &matrices[role]);
        project(&mut s.prepared, &s.h, [(q, &mut s.q), (k, &mut s.k), (v, &mut s.v)]);
        if let Some(norm) = norms.get(AttnQNorm) {
            ops::rms_norm_in_place(&mut s.q, norm, c.norm_eps);
        }
        if let Some(norm) = norms.get(AttnKNorm) {
            ops::rms_norm_in_place(&mut s.k, norm, c.norm_eps);
        }
        let table = self.rope.of(il);
        rope::apply(&mut s.q, l.head_dim, c.arch.rope, table);
        rope::apply(&mut s.k, l.head_dim, c.arch.rope, table);
        tap(self.tap, Some(il), "Qcur", &s.q);
        tap(self.tap, Some(il), "Kcur", &s.k);
        tap(self.tap, Some(il), "Vcur", &s.v);
        for (i, e) in self.chunk.iter().enumerate() {
            let row = i * l.kv_dim()..(i + 1) * l.kv_dim();
            self.kv.store(e.seq as usize, il, e.pos as usize, (&s.k[row.clone()], &s.v[row]));
        }
        s.attention.resize(t * l.q_dim(), 0.0);
        attention::attend(&attention::Attend { c, kv: self.kv, il, chunk: self.chunk, q: &s.q }, &mut s.attention);
        tap(self.tap, Some(il), "kqv_out", &s.attention);
        s.h.resize(t * c.n_embd, 0.0);
        project(&mut s.prepared, &s.attention, [(&matrices[AttnOutput], &mut s.h)]);
        if let Some(norm) = norms.get(PostAttentionNorm) {
            ops::rms_norm_in_place(&mut s.h, norm, c.norm_eps);
        }
        tap(self.tap, Some(il), "attn_out", &s.h);
        ops::add(&mut s.x, &s.h);
    }

    fn feed_forward(&mut self, il: usize, w: &Layer) -> Result<(), ForwardError> {
        let (c, t) = (&self.model.config, self.chunk.len());
        let (n_ff, norms, matrices) = (c.layers[il].n_ff, &w.vectors, &w.matrices);
        let s = &mut *self.s;
        ops::rms_norm(&s.x, &norms[FfnNorm], c.norm_eps, &mut s.h);
        tap(self.tap, Some(il), "ffn_norm", &s.h);
        s.gate.resize(t * n_ff, 0.0);
        s.up.resize(t * n_ff, 0.0);
        let [gate, up] = [FfnGate, FfnUp].map(|role| &matrices[role]);
        project(&mut s.prepared, &s.h, [(gate, &mut s.gate), (up, &mut s.up)]);
        let FeedForward::Gated(activation) = c.arch.feed_forward;
        ops::gate(&mut s.gate, &s.up, activation);
        tap(self.tap, Some(il), "ffn_act", &s.gate);
        self.go_on()?;
        let s = &mut *self.s;
        project(&mut s.prepared, &s.gate, [(&matrices[FfnDown], &mut s.h)]);
        if let Some(norm) = norms.get(PostFfwNorm) {
            ops::rms_norm_in_place(&mut s.h, norm, c.norm_eps);
        }
        tap(self.tap, Some(il), "ffn_out", &s.h);
        ops::add(&mut s.x, &s.h);
        Ok(())
    }

    fn head(&mut self, logits: &mut Vec<f32>) {
        let c = &self.model.config;
        let s = &mut *self.s;
        // The marked rows move to the front: only they go through the head.
        let mut marked = 0;
        for (i, _) in self.chunk.iter().enumerate().filter(|(_, e)| e.output != Output::None) {
            s.x.copy_within(i * c.n_embd..(i + 1) * c.n_embd, marked * c.n_embd);
            marked += 1;
        }
        if marked == 0 {
            return;
        }
        s.x.truncate(marked * c.n_embd);
        ops::rms_norm(&s.x, &self.weights.output_norm, c.norm_eps, &mut s.h);
        tap(self.tap, None, "result_norm", &s.h);
        let start = logits.len();
        logits.resize(start + marked * c.n_vocab, 0.0);
        let out = &mut logits[start..];
        matmul(&mut s.prepared, &s.h, &mut [Job { w: self.weights.head(), y: out }]);
        if let Some(bias) = self.weights.output.as_ref().and_then(|o| o.bias.as_ref()) {
            out.chunks_exact_mut(c.n_vocab).for_each(|row| ops::add(row, bias));
        }
        if let Some(cap) = c.logit_softcap {
            ops::softcap(out, cap);
        }
        tap(self.tap, None, "result_output", out);
    }
}

/// Products of the same input with several matrices, and their biases.
fn project<const N: usize>(prepared: &mut Activations, x: &[f32], mut outputs: [(&Linear, &mut Vec<f32>); N]) {
    let mut jobs = outputs.each_mut().map(|(linear, y)| Job { w: &linear.w, y: y.as_mut_slice() });
    matmul(prepared, x, &mut jobs);
    for (linear, y) in outputs {
        if let Some(bias) = &linear.bias {
            y.chunks_exact_mut(bias.len()).for_each(|row| ops::add(row, bias));
        }
    }
}

fn tap(tap: &mut Option<Tap>, il: Option<usize>, name: &'static str, values: &[f32]) {
    if let Some(tap) = tap {
        tap(il, name, values);
    }
}
