//! The forward pass on the device, once for all architectures: some rows through all layers.
//!
//! Five launches per layer of attention for one row of quantized weights: norm and q, k, v; attention from the norms of heads to the image of
//! its output; its projection; norm, gate and up; down. Every grid depends on the number of rows alone, so what is recorded once
//! serves every position.

use qrun_cuda::{
    Ptr, Result, Stream,
    ops::{
        activations::QuantizedActivations,
        attention::{self, Attention, Tiling},
        embed::{self, EmbedParams},
        gemm,
        matmul::{self, MatmulParams, Segment},
        norm::NormParams,
        product,
        rope_kv::{self, RopeKv},
    },
};

use super::{
    memory::{Layer, Memory, NormWeight, Operand, Rows, Weight},
    tap::Probe,
};
use crate::{
    Config, Gives, LayerPlan,
    layer::{FeedForwardPlan, HeadNorm, KvSource, Mixer},
    spec::{AttentionGate, EmbeddingScale},
    tensors::Role::*,
};

/// Sequences up to which the products of dense weights of a decoding step go through the matrix-vector kernels. A prompt never
/// does: its bits do not depend on how it is cut. Quantized weights have one arithmetic for any number of rows.
pub const FEW: usize = 4;

/// Rows that follow one which is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guesses {
    /// There are none: each row is of another sequence.
    None,
    /// Nobody knows yet which are right: states stay before them.
    New,
    /// These were right, and change the states now.
    Accepted,
}

/// Some rows on their way.
pub struct Step<'a> {
    pub stream: &'a Stream,
    pub c: &'a Config,
    pub m: &'a Memory,
    /// Where the device finds what the rows are.
    pub at: Rows,
    /// Rows of this step; those with a sequence below 0 are idle.
    pub rows: usize,
    /// Whether rows are of different sequences, or consecutive ones of a prompt.
    pub tiling: Tiling,
    /// What the rows behind the first one of a sequence are, where that is not a prompt.
    pub guesses: Guesses,
    /// Numbers of sequences are below this one.
    pub sequences: usize,
    /// Whether products go through the matrix-vector kernels; those of the head, too, of however many rows it is.
    pub narrow: bool,
    /// What the head gives.
    pub gives: Gives,
    /// Who wants to see what is in between.
    pub probe: Option<&'a Probe>,
}

/// The residual stream and what joins it: an output, and the norm before that, null where there is none; where the sum goes, and
/// a factor on it; or a norm of the sum, which then is the stream.
#[derive(Clone, Copy)]
pub struct Residual {
    pub x: Ptr<f32>,
    pub add: Ptr<f32>,
    pub post: Ptr<f32>,
    pub x_out: Ptr<f32>,
    pub x_scale: f32,
    pub norm: NormWeight,
}

impl Residual {
    /// The stream as it is, which stays where it is.
    pub fn stream(x: Ptr<f32>) -> Self {
        Self { x, add: Ptr::NULL, post: Ptr::NULL, x_out: Ptr::NULL, x_scale: 1.0, norm: NormWeight::NONE }
    }
}

impl Step<'_> {
    /// Tokens to the output of the last layer, which joins the residual stream in [`Step::head`].
    ///
    /// # Errors
    /// The driver refuses a launch, or an earlier one has failed.
    pub fn layers(&self) -> Result<()> {
        let layers = self.m.own_layers();
        let [x, x_out] = self.places_of_stream(&self.c.layers[..layers.len()]);
        self.embed(x)?;
        self.tap(None, "inp_embd", x, self.c.n_embd)?;
        self.embed_per_layer(x)?;
        let mut residual = Residual { x_out, ..Residual::stream(x) };
        for (il, layer) in layers.iter().enumerate() {
            residual = self.layer(il, layer, residual)?;
            self.tap_layer(il, residual)?;
        }
        self.feed_draft_head(residual)
    }

    /// From the stream and what joins it to the same behind a layer.
    pub(super) fn layer(&self, il: usize, layer: &Layer, mut residual: Residual) -> Result<Residual> {
        let (plan, a) = (&self.c.layers[il], &self.m.activations);
        let Residual { mut x, mut x_out, .. } = residual;
        if plan.mixer != Mixer::None {
            match plan.mixer {
                Mixer::Attention => self.attention(il, layer, residual)?,
                mixer => self.recurrent(il, layer, mixer, residual)?,
            }
            self.tap_out(il, "attn_out", layer.vector(PostAttentionNorm))?;
            (x, x_out) = (x_out, x);
            let given = Residual { add: a.out, ..Residual::stream(x) };
            let (post, norm) = (layer.vector(PostAttentionNorm), layer.norm(AttnOutputNorm));
            residual = Residual { post, norm, x_out, ..given };
        }
        if plan.feed_forward != FeedForwardPlan::None {
            self.feed_forward(il, layer, residual)?;
            self.tap_out(il, "ffn_out", layer.vector(PostFfwNorm))?;
            (x, x_out) = (x_out, x);
            residual = Residual { x, x_out, ..self.given_by_layer(layer) };
        }
        if self.m.per_layer.is_some() {
            let given = Residual { add: a.out, post: layer.vector(PostFfwNorm), x_out, ..Residual::stream(x) };
            self.per_layer(il, layer, given)?;
            residual = Residual { x: x_out, x_out: x, ..residual };
        }
        Ok(residual)
    }

    /// Where the residual stream begins, and where its first part leaves it: the last one leaves it in `x`. Of a product whose
    /// blocks all norm the only row, some still read the stream when it is written.
    pub(super) fn places_of_stream(&self, layers: &[LayerPlan]) -> [Ptr<f32>; 2] {
        let a = &self.m.activations;
        let x = self.stream_of_rows();
        if self.rows > 1 || self.c.arch.residual.norms_sums() {
            return [x; 2];
        }
        let parts = |l: &LayerPlan| {
            let both = [l.mixer != Mixer::None, l.feed_forward != FeedForwardPlan::None];
            both.into_iter().chain([self.m.per_layer.is_some()]).filter(|part| *part).count()
        };
        let even = layers.iter().map(parts).sum::<usize>().is_multiple_of(2);
        if even { [x, a.x_next] } else { [a.x_next, x] }
    }

    /// Where the layers leave the residual stream: what is normed is the stream itself where sums are.
    fn stream_of_rows(&self) -> Ptr<f32> {
        let a = &self.m.activations;
        if self.c.arch.residual.norms_sums() { a.normed.values } else { a.x }
    }

    /// What joins the stream after a layer.
    fn given_by_layer(&self, layer: &Layer) -> Residual {
        let a = &self.m.activations;
        let post = layer.vector(if self.m.per_layer.is_some() { PostNorm } else { PostFfwNorm });
        let norm = layer.norm(LayerOutputNorm);
        Residual { add: a.out, post, x_scale: layer.output_scale, norm, ..Residual::stream(self.stream_of_rows()) }
    }

    /// Logits, `[count][n_vocab]`, or hidden states, `[count][n_embd]`, of `count` rows: those that `index` names, the first ones
    /// where it is null.
    ///
    /// # Errors
    /// The driver refuses a launch, or an earlier one has failed.
    pub fn head(&self, index: Ptr<i32>, count: usize) -> Result<()> {
        let (m, a) = (self.m, &self.m.activations);
        let residual =
            m.own_layers().last().map_or(Residual::stream(self.stream_of_rows()), |layer| self.given_by_layer(layer));
        let seq = if index.is_null() { self.at.seq } else { Ptr::NULL };
        let (y, image) = match self.gives {
            Gives::Logits => self.wanted(&a.normed, &[m.head]),
            Gives::Hidden => (a.logits, QuantizedActivations::default()),
        };
        let norm = NormParams { index, seq, y, image, ..self.norm_of(residual, m.output_norm) };
        self.launch_norm(count, self.norm_kind(&norm), &norm)?;
        let head = Step { rows: count, ..*self };
        if self.gives == Gives::Hidden {
            return head.tap(None, "result_norm", y, self.c.n_embd);
        }
        head.tap_times(1.0 / self.c.logit_scale, None, "result_norm", y, self.c.n_embd)?;
        let product = MatmulParams {
            seq,
            softcap: self.c.logit_softcap.unwrap_or(0.0),
            ..head.product(&a.normed, self.c.n_embd)
        };
        head.matmul(product, &[segment(&m.head, a.logits)])?;
        head.tap(None, "result_output", a.logits, self.c.n_vocab)
    }

    /// The rows of a table that the tokens name, times the model's scale.
    pub(super) fn embeddings(&self, w: &Weight, y: Ptr<f32>) -> EmbedParams {
        EmbedParams {
            w: w.at,
            token: self.at.token,
            seq: self.at.seq,
            y,
            rows: self.rows as i32,
            k: w.cols as i32,
            format: w.ty as i32,
            scale: self.c.embedding_scale,
            ..EmbedParams::default()
        }
    }

    fn embed(&self, y: Ptr<f32>) -> Result<()> {
        let w = &self.m.token_embd;
        let params = EmbedParams { add: self.m.input.token_type, ..self.embeddings(w, y) };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { embed::embed(self.stream, &params)? };
        match self.c.arch.embedding_scale {
            EmbeddingScale::RmsNorm => self.norm_in_place(y, self.m.embedding_norm, w.cols)?,
            EmbeddingScale::One | EmbeddingScale::SqrtEmbd | EmbeddingScale::Key => {}
        }
        self.embed_more(&params)
    }

    /// What joins the embeddings of tokens that `params` has made, and the norm of the sum.
    fn embed_more(&self, params: &EmbedParams) -> Result<()> {
        let (input, rows) = (&self.m.input, &self.at);
        let mut add = Ptr::NULL;
        if let Some(w) = &input.positions {
            add = self.m.activations.out;
            let (at, format) = (w.at, w.ty as i32);
            let places = EmbedParams { w: at, format, token: rows.pos, y: add, scale: 1.0, add: Ptr::NULL, ..*params };
            // SAFETY: as above; there is a row for each position of a context.
            unsafe { embed::embed(self.stream, &places)? };
        }
        if input.norm.weight.is_null() {
            return Ok(());
        }
        let sum = Residual { add, norm: input.norm, ..Residual::stream(params.y) };
        let norm = NormParams { scale: 1.0, ..self.norm_of(sum, NormWeight::NONE) };
        self.launch_norm(self.rows, self.norm_kind(&norm), &norm)
    }

    /// The normed stream times matrices; `products` are those of `consumers`.
    pub(super) fn project(
        &self,
        il: usize,
        layer: &Layer,
        consumers: &[Weight],
        products: &[Segment],
        residual: Residual,
    ) -> Result<()> {
        let a = &self.m.activations;
        let norm = self.norm_of(residual, layer.norm(AttnNorm));
        let product = self.product(&a.normed, self.c.n_embd);
        let launches = products.chunks(product.segment.len());
        if self.norms_itself(&norm, consumers) {
            // What the first launch has joined is there for the others.
            let again = self.norm_of(Residual::stream(norm.x_out), layer.norm(AttnNorm));
            let norms = std::iter::once(norm).chain(std::iter::repeat(again));
            return launches.zip(norms).try_for_each(|(segments, norm)| {
                // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
                unsafe { product::norm_product(self.stream, &product.with(segments), &norm) }
            });
        }
        self.norm(&norm, consumers)?;
        self.tap(Some(il), "attn_norm", a.normed.values, self.c.n_embd)?;
        launches.into_iter().try_for_each(|segments| self.matmul(product, segments))
    }

    fn attention(&self, il: usize, layer: &Layer, residual: Residual) -> Result<()> {
        let (c, l, a) = (self.c, &self.c.layers[il], &self.m.activations);
        let (own, k_to, v_to): (&[_], _, _) = match l.kv {
            KvSource::Latent(plan) => return self.latent(il, layer, &plan, residual),
            KvSource::Projections => (&[(AttnK, a.k), (AttnV, a.v)], a.k, a.v),
            KvSource::Keys => (&[(AttnK, a.k)], a.k, a.k),
            KvSource::Layer(_) => (&[], Ptr::NULL, Ptr::NULL),
        };
        let (mut consumers, mut products) = (Vec::new(), Vec::new());
        for &(role, to) in [(AttnQ, a.queries)].iter().chain(own) {
            let [w] = layer.matrices([role]);
            products.push(segment(&w, to));
            consumers.push(w);
        }
        let (mut gate, mut q_step) = (Ptr::NULL, l.head_dim);
        match c.arch.attention_gate {
            AttentionGate::None => {}
            // That of a head lies behind its query.
            AttentionGate::InQuery => (gate, q_step) = (a.queries.add(l.head_dim), 2 * l.head_dim),
            AttentionGate::Own => {
                let [w] = layer.matrices([AttnGate]);
                gate = a.attention_gate;
                products.push(segment(&w, gate));
                consumers.push(w);
            }
        }
        if self.is_parallel() {
            let (gate, [up, _]) = layer.feed_forward([FfnGate, FfnUp, FfnDown]);
            consumers.extend(gate.into_iter().chain([up]));
        }
        self.project(il, layer, &consumers, &products, residual)?;
        let mut norms = [AttnQNorm, AttnKNorm].map(|role| layer.vector(role));
        if l.qk_norm == HeadNorm::Whole {
            self.norm_in_place(a.queries, norms[0], l.q_dim())?;
            if l.kv.is_own() {
                self.norm_in_place(a.k, norms[1], l.kv_dim())?;
            }
            norms = [Ptr::NULL; 2];
        }
        let turn = RopeKv {
            q: a.queries,
            k: k_to,
            v: v_to,
            q_norm: norms[0],
            k_norm: norms[1],
            q_step: q_step as i32,
            v_norm: i32::from(l.v_norm),
            ..self.turn(il, layer)
        };
        let alone = self.turns_in_attention();
        if !alone {
            // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
            unsafe { rope_kv::rope_kv(self.stream, self.rows as u32, &turn)? };
            self.tap_projections(il, &turn)?;
        }
        let [output] = layer.matrices([AttnOutput]);
        let (out, image, late) = self.given(&output, l.head_dim);
        let rope = alone.then_some(turn);
        let attend = Attention { out, image, rope, gate, gate_step: q_step, ..self.attend(il, layer) };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { attention::attention(self.stream, &attend)? };
        self.late_image(late, l.q_dim())?;
        self.tap(Some(il), "kqv_out", a.attended.values, l.q_dim())?;
        self.matmul(self.product(&a.attended, l.q_dim()), &[segment(&output, a.out)])
    }

    /// Rows of different sequences are turned by attention itself; those of one sequence see each other.
    pub(super) fn turns_in_attention(&self) -> bool {
        self.tiling == Tiling::Rows && self.guesses == Guesses::None && self.probe.is_none()
    }

    /// What turns queries and keys of a layer, and where keys and values go.
    pub(super) fn turn(&self, il: usize, layer: &Layer) -> RopeKv {
        let (c, l, rows) = (self.c, &self.c.layers[il], &self.at);
        RopeKv {
            q_out: self.m.activations.q,
            frequency: layer.frequencies,
            pos: rows.pos,
            seq: rows.seq,
            cache: self.m.layers[l.kv.layer(il)].cache,
            n_head: l.n_head as i32,
            n_head_kv: l.n_head_kv as i32,
            head_dim: l.head_dim as i32,
            n_rot: l.rope.n_rot as i32,
            pairs: super::pairs(c.arch.rope),
            eps: c.norm_eps,
            magnitude: l.rope.magnitude,
            ..RopeKv::default()
        }
    }

    /// Attention of queries that are turned.
    pub(super) fn attend(&self, il: usize, layer: &Layer) -> Attention {
        let (c, l, a, rows) = (self.c, &self.c.layers[il], &self.m.activations, &self.at);
        Attention {
            q: a.q,
            pos: rows.pos,
            seq: rows.seq,
            end: if l.mask.is_causal() { Ptr::NULL } else { rows.end },
            cache: self.m.layers[l.kv.layer(il)].cache,
            scratch: a.parts,
            tiling: self.tiling,
            rows: self.rows,
            n_head: l.n_head,
            n_head_kv: l.n_head_kv,
            head_dim: l.head_dim,
            window: l.window.unwrap_or(0),
            scale: l.attention_scale,
            softcap: c.attention_softcap.unwrap_or(0.0),
            growth: c.q_temperature.map_or(0.0, |t| t.scale),
            grows_every: c.q_temperature.map_or(1, |t| t.original),
            sinks: layer.vector(AttnSinks),
            ..Attention::default()
        }
    }

    /// The forms of an operand that its consumers multiply, and the numbers where somebody listens; the other is null.
    pub(super) fn wanted(&self, x: &Operand, consumers: &[Weight]) -> (Ptr<f32>, QuantizedActivations) {
        let dense = |w: &Weight| w.ty.format().block == 1;
        let values = if self.probe.is_some() || consumers.iter().any(dense) { x.values } else { Ptr::NULL };
        let image = if consumers.iter().all(dense) { QuantizedActivations::default() } else { x.image };
        (values, image)
    }

    /// A product of all rows of an operand of `k` elements each, no segments yet.
    pub(super) fn product(&self, x: &Operand, k: usize) -> MatmulParams {
        MatmulParams {
            k: k as i32,
            columns: self.rows as i32,
            image: x.image,
            x: x.values,
            seq: self.at.seq,
            terms: self.m.activations.terms,
            ..MatmulParams::default()
        }
    }

    /// Products of one operand with several matrices: one launch per format.
    pub(super) fn matmul(&self, product: MatmulParams, segments: &[Segment]) -> Result<()> {
        let launch = |of: &[Segment]| {
            let product = product.with(of);
            let multiply = if self.narrow || !gemm::takes(&product) { matmul::gemv } else { gemm::gemm };
            // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
            unsafe { multiply(self.stream, &product) }
        };
        if self.narrow {
            return launch(segments);
        }
        let mut rest = segments.to_vec();
        while let Some(first) = rest.first() {
            let format = first.format;
            let (same, other) = rest.iter().partition::<Vec<Segment>, _>(|s| s.format == format);
            launch(&same)?;
            rest = other;
        }
        Ok(())
    }
}

/// What is launched besides where somebody listens.
impl Step<'_> {
    /// Hands `[rows][width]` values on, where somebody listens.
    pub(super) fn tap(&self, il: Option<usize>, name: &'static str, at: Ptr<f32>, width: usize) -> Result<()> {
        self.tap_times(1.0, il, name, at, width)
    }

    fn tap_times(&self, factor: f32, il: Option<usize>, name: &'static str, at: Ptr<f32>, width: usize) -> Result<()> {
        let values = (at, self.rows * width, factor);
        self.probe.map_or(Ok(()), |probe| probe.hand_on(il, name, self.stream, values))
    }

    /// Queries, keys and values of a layer. Keys go into the cache as they are turned: where somebody listens they are
    /// turned once more, as if they were queries.
    fn tap_projections(&self, il: usize, turn: &RopeKv) -> Result<()> {
        if self.probe.is_none() {
            return Ok(());
        }
        let (l, a) = (&self.c.layers[il], &self.m.activations);
        self.tap(Some(il), "Qcur", turn.q_out, l.q_dim())?;
        if turn.k.is_null() {
            return Ok(());
        }
        let (k, to) = (turn.k, a.attended.values);
        let keys =
            RopeKv { q: k, q_out: to, q_norm: turn.k_norm, n_head: turn.n_head_kv, q_step: turn.head_dim, ..*turn };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { rope_kv::rope_kv(self.stream, self.rows as u32, &keys)? };
        self.tap(Some(il), "Kcur", keys.q_out, l.kv_dim())?;
        self.tap(Some(il), "Vcur", turn.v, l.kv_dim())
    }

    /// What joins the residual stream: the output of attention or feed-forward after its own norm, which otherwise
    /// happens as a part of the next norm.
    pub(super) fn tap_out(&self, il: usize, name: &'static str, post: Ptr<f32>) -> Result<()> {
        if self.probe.is_none() {
            return Ok(());
        }
        self.tap(Some(il), name, self.joining(post)?, self.c.n_embd)
    }

    /// The residual stream after a layer, of what was handed on last and times a factor. The sum itself is a part of the next
    /// norm, so it is made on the host.
    fn tap_layer(&self, il: usize, residual: Residual) -> Result<()> {
        if self.probe.is_some() && !residual.norm.weight.is_null() {
            // The stream has yet to become that, and lies elsewhere.
            let y = self.m.activations.x;
            let norm = NormParams { y, ..self.norm_of(residual, NormWeight::NONE) };
            self.launch_norm(self.rows, self.norm_kind(&norm), &norm)?;
            return self.tap(Some(il), "l_out", y, self.c.n_embd);
        }
        let len = self.rows * self.c.n_embd;
        let factors = [self.c.residual_scale, residual.x_scale];
        self.probe.map_or(Ok(()), |probe| probe.hand_on_sum(il, "l_out", self.stream, (residual.x, len, factors)))
    }
}

/// A matrix as a part of a product that writes `y`.
pub(super) fn segment(w: &Weight, y: Ptr<f32>) -> Segment {
    Segment {
        w: w.at,
        bias: w.bias,
        y,
        rows: w.rows as i32,
        y_stride: w.rows as i32,
        format: w.ty as i32,
        expert_rows: 0,
        scale: w.scale,
    }
}
