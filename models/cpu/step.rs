//! One chunk of tokens through all layers.

use qrun_quant::cpu::{Activations, Job, matmul};

use super::{Scratch, attention, ops, rope};
use crate::{
    Entry, ForwardError, Model, Output, Tap,
    kv::KvCache,
    layer::{HeadNorm, Mixer},
    spec::{AttentionGate, EmbeddingScale, Residual},
    tensors::Role::{self, *},
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
        self.embed();
        tap(self.tap, None, "inp_embd", &self.s.x);
        self.rope.set_positions(self.chunk);
        let weights = self.weights;
        for (il, layer) in weights.layers.iter().enumerate() {
            self.layer(il, layer)?;
            tap(self.tap, Some(il), "l_out", &self.s.x);
        }
        self.go_on()?;
        self.head(logits);
        Ok(())
    }

    /// Asked several times in a layer: one layer of a chunk can take a second.
    pub(super) fn go_on(&self) -> Result<(), ForwardError> {
        if (self.cancelled)() { Err(ForwardError::Cancelled) } else { Ok(()) }
    }

    fn embed(&mut self) {
        let c = &self.model.config;
        self.s.x.resize(self.chunk.len() * c.n_embd, 0.0);
        for (e, x) in self.chunk.iter().zip(self.s.x.chunks_exact_mut(c.n_embd)) {
            self.weights.token_embd.row(e.token as usize, x);
            x.iter_mut().for_each(|x| *x *= c.embedding_scale);
        }
        match c.arch.embedding_scale {
            EmbeddingScale::RmsNorm => ops::rms_norm_in_place(&mut self.s.x, &vec![1.0; c.n_embd], c.norm_eps),
            EmbeddingScale::One | EmbeddingScale::SqrtEmbd | EmbeddingScale::Key => {}
        }
    }

    fn layer(&mut self, il: usize, w: &Layer) -> Result<(), ForwardError> {
        self.go_on()?;
        self.norm(w, AttnNorm);
        tap(self.tap, Some(il), "attn_norm", &self.s.h);
        match self.model.config.layers[il].mixer {
            Mixer::Attention => self.attention(il, w),
            Mixer::DeltaNet(_) | Mixer::ShortConv { .. } => self.recurrent(il, w),
        }
        self.join(il, "attn_out", w, PostAttentionNorm);
        self.go_on()?;
        if self.model.config.arch.residual != Residual::Parallel {
            self.norm(w, FfnNorm);
        }
        tap(self.tap, Some(il), "ffn_norm", &self.s.h);
        self.feed_forward(il, w)?;
        self.join(il, "ffn_out", w, PostFfwNorm);
        Ok(())
    }

    /// The residual stream as attention or feed-forward takes it: normed where there is such a norm.
    fn norm(&mut self, w: &Layer, role: Role) {
        let (c, s) = (&self.model.config, &mut *self.s);
        match w.vectors.get(role) {
            Some(weight) => ops::norm(c.arch.norm, &s.x, weight, c.norm_eps, &mut s.h),
            None => s.h.clone_from(&s.x),
        }
    }

    /// What attention or feed-forward gave joins the residual stream.
    fn join(&mut self, il: usize, name: &'static str, w: &Layer, post_norm: Role) {
        let (c, s) = (&self.model.config, &mut *self.s);
        if let Some(norm) = w.vectors.get(post_norm) {
            ops::rms_norm_in_place(&mut s.out, norm, c.post_norm_eps);
        }
        tap(self.tap, Some(il), name, &s.out);
        ops::scale(&mut s.out, c.residual_scale);
        ops::add(&mut s.x, &s.out);
    }

    /// From `h` to `out`.
    fn attention(&mut self, il: usize, w: &Layer) {
        let (c, t) = (&self.model.config, self.chunk.len());
        let (l, norms, matrices) = (&c.layers[il], &w.vectors, &w.matrices);
        let s = &mut *self.s;
        s.q.resize(t * l.q_dim(), 0.0);
        s.k.resize(t * l.kv_dim(), 0.0);
        s.v.resize(t * l.kv_dim(), 0.0);
        let [q, k, v] = [AttnQ, AttnK, AttnV].map(|role| &matrices[role]);
        if c.arch.attention_gate == AttentionGate::InQuery {
            s.up.resize(2 * t * l.q_dim(), 0.0);
            s.gate.resize(t * l.q_dim(), 0.0);
            project(&mut s.prepared, &s.h, [(q, &mut s.up), (k, &mut s.k), (v, &mut s.v)]);
            let heads = s.q.chunks_exact_mut(l.head_dim).zip(s.gate.chunks_exact_mut(l.head_dim));
            for (both, (q, gate)) in s.up.chunks_exact(2 * l.head_dim).zip(heads) {
                q.copy_from_slice(&both[..l.head_dim]);
                gate.copy_from_slice(&both[l.head_dim..]);
            }
        } else {
            project(&mut s.prepared, &s.h, [(q, &mut s.q), (k, &mut s.k), (v, &mut s.v)]);
        }
        if l.qk_norm != HeadNorm::None {
            ops::rms_norm_in_place(&mut s.q, &norms[AttnQNorm], c.norm_eps);
            ops::rms_norm_in_place(&mut s.k, &norms[AttnKNorm], c.norm_eps);
        }
        let table = self.rope.of(il);
        rope::apply(&mut s.q, l.head_dim, c.arch.rope, table);
        rope::apply(&mut s.k, l.head_dim, c.arch.rope, table);
        if let Some(temperature) = c.q_temperature {
            for (e, q) in self.chunk.iter().zip(s.q.chunks_exact_mut(l.q_dim())) {
                ops::scale(q, temperature.at(e.pos as usize));
            }
        }
        tap(self.tap, Some(il), "Qcur", &s.q);
        tap(self.tap, Some(il), "Kcur", &s.k);
        tap(self.tap, Some(il), "Vcur", &s.v);
        for (i, e) in self.chunk.iter().enumerate() {
            let row = i * l.kv_dim()..(i + 1) * l.kv_dim();
            self.kv.store(e.seq as usize, il, e.pos as usize, (&s.k[row.clone()], &s.v[row]));
        }
        s.attention.resize(t * l.q_dim(), 0.0);
        let sinks = norms.get(AttnSinks).map(Vec::as_slice);
        let attend = attention::Attend { c, kv: self.kv, il, chunk: self.chunk, q: &s.q, sinks };
        attention::attend(&attend, &mut s.attention);
        if c.arch.attention_gate == AttentionGate::Own {
            s.gate.resize(t * l.q_dim(), 0.0);
            project(&mut s.prepared, &s.h, [(&matrices[AttnGate], &mut s.gate)]);
        }
        if c.arch.attention_gate != AttentionGate::None {
            ops::sigmoid_gate(&mut s.attention, &s.gate);
        }
        tap(self.tap, Some(il), "kqv_out", &s.attention);
        s.out.resize(t * c.n_embd, 0.0);
        project(&mut s.prepared, &s.attention, [(&matrices[AttnOutput], &mut s.out)]);
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
        ops::norm(c.arch.norm, &s.x, &self.weights.output_norm, c.norm_eps, &mut s.h);
        tap(self.tap, None, "result_norm", &s.h);
        let start = logits.len();
        logits.resize(start + marked * c.n_vocab, 0.0);
        let out = &mut logits[start..];
        matmul(&mut s.prepared, &s.h, &mut [Job { w: self.weights.head(), y: out }]);
        if let Some(bias) = self.weights.output.as_ref().and_then(|o| o.bias.as_ref()) {
            out.chunks_exact_mut(c.n_vocab).for_each(|row| ops::add(row, bias));
        }
        ops::scale(out, c.logit_scale);
        if let Some(cap) = c.logit_softcap {
            ops::softcap(out, cap);
        }
        tap(self.tap, None, "result_output", out);
    }
}

/// Products of the same input with several matrices, and their biases.
pub(super) fn project<const N: usize>(
    prepared: &mut Activations,
    x: &[f32],
    mut outputs: [(&Linear, &mut Vec<f32>); N],
) {
    let mut jobs = outputs.each_mut().map(|(linear, y)| Job { w: &linear.w, y: y.as_mut_slice() });
    matmul(prepared, x, &mut jobs);
    for (linear, y) in outputs {
        if let Some(bias) = &linear.bias {
            y.chunks_exact_mut(bias.len()).for_each(|row| ops::add(row, bias));
        }
    }
}

pub(super) fn tap(tap: &mut Option<Tap>, il: Option<usize>, name: &'static str, values: &[f32]) {
    if let Some(tap) = tap {
        tap(il, name, values);
    }
}
