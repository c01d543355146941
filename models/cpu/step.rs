//! One chunk of tokens through all layers.

use std::f32::consts::FRAC_1_SQRT_2;

use qrun_quant::cpu::{Activations, Job, matmul};

use super::{Scratch, attention, ops, rope};
use crate::{
    Entry, ForwardError, Gives, Model, Output, Tap,
    kv::KvCache,
    layer::{FeedForwardPlan, HeadNorm, KvSource, Mixer},
    spec::{AttentionGate, EmbeddingScale},
    tensors::Role::{self, *},
    weights::{Finish, Layer, Linear, Weights},
};

/// One chunk on its way through the layers.
pub(super) struct Step<'a> {
    pub model: &'a Model,
    pub weights: &'a Weights,
    pub gives: Gives,
    pub kv: &'a mut KvCache,
    pub rope: &'a mut rope::Tables,
    pub s: &'a mut Scratch,
    pub chunk: &'a [Entry],
    pub tap: &'a mut Option<Tap>,
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Step<'_> {
    /// Takes the chunk through all layers. Rows that are wanted join `logits`, `[rows][n_vocab]`, or as hidden states
    /// `[rows][n_embd]`.
    ///
    /// # Errors
    /// [`ForwardError::Cancelled`]: the caller wants the step no more.
    pub fn run(&mut self, logits: &mut Vec<f32>) -> Result<(), ForwardError> {
        self.embed();
        tap(self.tap, None, "inp_embd", &self.s.x);
        self.embed_per_layer();
        self.rope.set_positions(self.chunk);
        let weights = self.weights;
        for (il, layer) in weights.layers.iter().enumerate() {
            self.layer(il, layer)?;
            tap(self.tap, Some(il), "l_out", &self.s.x);
        }
        self.go_on()?;
        self.keep_hidden();
        self.head(logits);
        self.feed_draft_head();
        Ok(())
    }

    /// Asked several times in a layer: one layer of a chunk can take a second.
    ///
    /// # Errors
    /// [`ForwardError::Cancelled`] where the caller wants the step no more.
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
        self.embed_more();
    }

    /// What joins the embeddings of tokens.
    fn embed_more(&mut self) {
        let (c, s, input) = (&self.model.config, &mut *self.s, &self.weights.input);
        if let Some(token_type) = &input.token_type {
            ops::add_rows(&mut s.x, token_type);
        }
        if let Some(positions) = &input.positions {
            s.h.resize(c.n_embd, 0.0);
            for (e, x) in self.chunk.iter().zip(s.x.chunks_exact_mut(c.n_embd)) {
                positions.row(e.pos as usize, &mut s.h);
                ops::add(x, &s.h);
            }
        }
        if let Some(norm) = &input.norm {
            s.h.clone_from(&s.x);
            let weights = (norm.weight.as_slice(), norm.bias.as_deref());
            ops::norm(c.arch.norm, &s.h, weights, c.norm_eps, &mut s.x);
        }
    }

    /// The embeddings of tokens for each layer: half from the token, half from its embedding.
    fn embed_per_layer(&mut self) {
        let (c, s) = (&self.model.config, &mut *self.s);
        let Some(p) = &self.weights.per_layer else { return };
        let width = p.model_proj.w.rows();
        s.per_layer.resize(self.chunk.len() * width, 0.0);
        project(&mut s.prepared, &s.x, [(&p.model_proj, &mut s.per_layer)]);
        ops::scale(&mut s.per_layer, 1.0 / (c.n_embd as f32).sqrt());
        ops::rms_norm_in_place(&mut s.per_layer, &p.proj_norm, c.norm_eps);
        let scale = (c.n_embd_per_layer as f32).sqrt();
        s.up.resize(width, 0.0);
        for (e, both) in self.chunk.iter().zip(s.per_layer.chunks_exact_mut(width)) {
            p.token_embd.row(e.token as usize, &mut s.up);
            for (both, token) in both.iter_mut().zip(&s.up) {
                *both = (*both + token * scale) * FRAC_1_SQRT_2;
            }
        }
        tap(self.tap, None, "inp_per_layer", &s.per_layer);
    }

    pub(super) fn layer(&mut self, il: usize, w: &Layer) -> Result<(), ForwardError> {
        let plan = &self.model.config.layers[il];
        self.go_on()?;
        if plan.mixer != Mixer::None {
            self.norm(w, AttnNorm);
            tap(self.tap, Some(il), "attn_norm", &self.s.h);
            match plan.mixer {
                Mixer::Attention => self.attention(il, w),
                mixer => self.recurrent(il, w, mixer),
            }
            self.join(il, "attn_out", w, PostAttentionNorm);
            self.go_on()?;
        }
        self.norm_sum(w, AttnOutputNorm);
        if plan.feed_forward != FeedForwardPlan::None {
            if !self.model.config.arch.residual.is_parallel() {
                self.norm(w, FfnNorm);
            }
            tap(self.tap, Some(il), "ffn_norm", &self.s.h);
            self.feed_forward(il, w)?;
            self.join(il, "ffn_out", w, PostFfwNorm);
        }
        self.norm_sum(w, LayerOutputNorm);
        self.per_layer(il, w);
        if let Some(scale) = w.vectors.get(LayerOutputScale) {
            ops::scale(&mut self.s.x, scale[0]);
        }
        Ok(())
    }

    /// The token's embedding for this layer, as far as the residual stream lets it pass.
    fn per_layer(&mut self, il: usize, w: &Layer) {
        let (c, t) = (&self.model.config, self.chunk.len());
        let (s, n) = (&mut *self.s, c.n_embd_per_layer);
        let Some(gate) = w.matrices.get(InpGate) else { return };
        s.gate.resize(t * n, 0.0);
        project(&mut s.prepared, &s.x, [(gate, &mut s.gate)]);
        s.up.clear();
        let rows = s.per_layer.chunks_exact(n * self.weights.layers.len());
        rows.for_each(|row| s.up.extend_from_slice(&row[il * n..(il + 1) * n]));
        s.activate(c.arch.feed_forward);
        s.out.resize(t * c.n_embd, 0.0);
        project(&mut s.prepared, &s.gate, [(&w.matrices[Proj], &mut s.out)]);
        self.join(il, "per_layer_embd_out", w, PostNorm);
    }

    /// The residual stream as attention or feed-forward takes it: normed where there is such a norm.
    pub(super) fn norm(&mut self, w: &Layer, role: Role) {
        let (c, s) = (&self.model.config, &mut *self.s);
        match w.vectors.get(role) {
            Some(_) => ops::norm(c.arch.norm, &s.x, norm_weights(w, role), c.norm_eps, &mut s.h),
            None => s.h.clone_from(&s.x),
        }
    }

    /// Norms the residual stream in place, where there is such a norm.
    fn norm_sum(&mut self, w: &Layer, role: Role) {
        let (c, s) = (&self.model.config, &mut *self.s);
        if w.vectors.get(role).is_some() {
            std::mem::swap(&mut s.x, &mut s.h);
            ops::norm(c.arch.norm, &s.h, norm_weights(w, role), c.norm_eps, &mut s.x);
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
        let l = &c.layers[il];
        match l.kv {
            KvSource::Latent(plan) => self.latent(il, w, &plan),
            KvSource::Projections | KvSource::Keys | KvSource::Layer(_) => self.queries(il, w),
        }
        let s = &mut *self.s;
        s.attention.resize(t * l.n_head * l.value_dim(), 0.0);
        let sinks = w.vectors.get(AttnSinks).map(Vec::as_slice);
        let visible = &attention::visible(l, self.chunk);
        let attend = attention::Attend { c, kv: self.kv, il, chunk: self.chunk, q: &s.q, visible, sinks };
        attention::attend(&attend, &mut s.attention);
        if let KvSource::Latent(plan) = l.kv {
            self.latent_values(l.n_head, w, &plan);
        }
        let s = &mut *self.s;
        match c.arch.attention_gate {
            AttentionGate::None => {}
            // It came with the queries.
            AttentionGate::InQuery => ops::sigmoid_gate(&mut s.attention, &s.gate),
            AttentionGate::Own => {
                s.gate.resize(t * l.q_dim(), 0.0);
                project(&mut s.prepared, &s.h, [(&w.matrices[AttnGate], &mut s.gate)]);
                ops::sigmoid_gate(&mut s.attention, &s.gate);
            }
        }
        tap(self.tap, Some(il), "kqv_out", &s.attention);
        s.out.resize(t * c.n_embd, 0.0);
        project(&mut s.prepared, &s.attention, [(&w.matrices[AttnOutput], &mut s.out)]);
    }

    /// From `h` to the queries; keys and values go into the cache.
    fn queries(&mut self, il: usize, w: &Layer) {
        let (c, t) = (&self.model.config, self.chunk.len());
        let (l, matrices) = (&c.layers[il], &w.matrices);
        let s = &mut *self.s;
        s.q.resize(t * l.q_dim(), 0.0);
        s.k.resize(t * l.kv_dim(), 0.0);
        s.v.resize(t * l.kv_dim(), 0.0);
        let in_query = match c.arch.attention_gate {
            AttentionGate::InQuery => true,
            AttentionGate::None | AttentionGate::Own => false,
        };
        let query = if in_query { &mut s.up } else { &mut s.q };
        if in_query {
            query.resize(2 * t * l.q_dim(), 0.0);
        }
        let q = (&matrices[AttnQ], query);
        match (matrices.get(AttnK), matrices.get(AttnV)) {
            (Some(k), Some(v)) => project(&mut s.prepared, &s.h, [q, (k, &mut s.k), (v, &mut s.v)]),
            (Some(k), None) => {
                project(&mut s.prepared, &s.h, [q, (k, &mut s.k)]);
                s.v.copy_from_slice(&s.k);
            }
            (None, _) => project(&mut s.prepared, &s.h, [q]),
        }
        if in_query {
            s.gate.resize(t * l.q_dim(), 0.0);
            let heads = s.q.chunks_exact_mut(l.head_dim).zip(s.gate.chunks_exact_mut(l.head_dim));
            for (both, (q, gate)) in s.up.chunks_exact(2 * l.head_dim).zip(heads) {
                q.copy_from_slice(&both[..l.head_dim]);
                gate.copy_from_slice(&both[l.head_dim..]);
            }
        }
        if l.qk_norm != HeadNorm::None {
            ops::rms_norm_in_place(&mut s.q, &w.vectors[AttnQNorm], c.norm_eps);
        }
        self.turn_queries(il, 0);
        if l.kv.is_own() {
            self.keys_and_values(il, w);
        }
    }

    /// Turns queries, from element `first` of each head on, and scales them by their positions.
    pub(super) fn turn_queries(&mut self, il: usize, first: usize) {
        let (c, s) = (&self.model.config, &mut *self.s);
        let l = &c.layers[il];
        rope::apply(&mut s.q, [l.head_dim, first], c.arch.rope, self.rope.of(il));
        if let Some(temperature) = c.q_temperature {
            for (e, q) in self.chunk.iter().zip(s.q.chunks_exact_mut(l.q_dim())) {
                ops::scale(q, temperature.at(e.pos as usize));
            }
        }
        tap(self.tap, Some(il), "Qcur", &s.q);
    }

    /// Projected keys and values go into the cache.
    pub(super) fn keys_and_values(&mut self, il: usize, w: &Layer) {
        let c = &self.model.config;
        let (l, s) = (&c.layers[il], &mut *self.s);
        if l.qk_norm != HeadNorm::None {
            ops::rms_norm_in_place(&mut s.k, &w.vectors[AttnKNorm], c.norm_eps);
        }
        rope::apply(&mut s.k, [l.head_dim, 0], c.arch.rope, self.rope.of(il));
        tap(self.tap, Some(il), "Kcur", &s.k);
        tap(self.tap, Some(il), "Vcur", &s.v);
        if l.v_norm {
            ops::rms_norm_in_place(&mut s.v, &vec![1.0; l.head_dim], c.norm_eps);
        }
        for (i, e) in self.chunk.iter().enumerate() {
            let row = i * l.kv_dim()..(i + 1) * l.kv_dim();
            self.kv.store(e.seq as usize, il, e.pos as usize, (&s.k[row.clone()], &s.v[row]));
        }
    }

    /// The logits of the tokens that want them, or their hidden states.
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
        self.norm_output(None);
        tap(self.tap, None, "result_norm", &self.s.h);
        if self.gives == Gives::Hidden {
            logits.extend_from_slice(&self.s.h);
            return;
        }
        let start = logits.len();
        self.unembed(self.weights.output.as_ref(), logits);
        tap(self.tap, None, "result_output", &logits[start..]);
    }

    /// The residual stream as a head takes it: normed with these weights, or with those before the model's head.
    pub(super) fn norm_output(&mut self, own: Option<&[f32]>) {
        let (c, s) = (&self.model.config, &mut *self.s);
        let weights = self.weights.output_norm.as_ref();
        match own.map(|own| (own, None)).or(weights.map(|norm| (norm.weight.as_slice(), norm.bias.as_deref()))) {
            Some(weights) => ops::norm(c.arch.norm, &s.x, weights, c.norm_eps, &mut s.h),
            None => s.h.clone_from(&s.x),
        }
    }

    /// The logits of what was normed, which join others; `output` is the head where it is not the embedding.
    pub(super) fn unembed(&mut self, output: Option<&Linear>, logits: &mut Vec<f32>) {
        let (c, s) = (&self.model.config, &mut *self.s);
        let start = logits.len();
        logits.resize(start + s.h.len() / c.n_embd * c.n_vocab, 0.0);
        let out = &mut logits[start..];
        let w = output.map_or(&self.weights.token_embd, |output| &output.w);
        matmul(&mut s.prepared, &s.h, &mut [Job { w, y: out }]);
        if let Some(output) = output {
            finish(out, output.finish());
        }
        ops::scale(out, c.logit_scale);
        if let Some(cap) = c.logit_softcap {
            ops::softcap(out, cap);
        }
    }
}

/// Weight and bias of a norm that the layer has.
fn norm_weights(w: &Layer, role: Role) -> (&[f32], Option<&[f32]>) {
    (&w.vectors[role], w.norm_biases.get(role).map(Vec::as_slice))
}

/// Products of the same input with several matrices, with their scales and biases.
pub(super) fn project<const N: usize>(
    prepared: &mut Activations,
    x: &[f32],
    mut outputs: [(&Linear, &mut Vec<f32>); N],
) {
    let mut jobs = outputs.each_mut().map(|(linear, y)| Job { w: &linear.w, y: y.as_mut_slice() });
    matmul(prepared, x, &mut jobs);
    for (linear, y) in outputs {
        finish(y, linear.finish());
    }
}

/// What is done to the products of a matrix, rows of as many elements as the bias has.
pub(super) fn finish(y: &mut [f32], finish: Finish) {
    if let Some(scale) = finish.scale {
        ops::scale(y, scale);
    }
    if let Some(bias) = finish.bias {
        y.chunks_exact_mut(bias.len()).for_each(|row| ops::add(row, bias));
    }
}

pub(super) fn tap(tap: &mut Option<Tap>, il: Option<usize>, name: &'static str, values: &[f32]) {
    if let Some(tap) = tap {
        tap(il, name, values);
    }
}
