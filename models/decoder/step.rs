//! The forward pass on the device, once for all architectures: some rows through all layers.
//!
//! Eight launches per layer for one row, and every grid depends on the number of rows alone, so what is recorded
//! once serves every position.

use qrun_cuda::{
    Ptr, Result, Stream,
    ops::{
        activations::{self, QuantizedActivations},
        attention::{self, Attention, Tiling},
        embed::{self, EmbedParams},
        gemm::{self, GluActParams},
        matmul::{self, GluParams, MatmulParams, Segment},
        norm::{self, RmsNorm},
        rope_kv::{self, Pairs, RopeKv},
    },
};

use super::{
    memory::{Layer, Memory, Operand, Rows, Weight},
    tap::Probe,
};
use crate::{
    Config,
    spec::{Activation, FeedForward, Norm, RopeLayout},
};

/// Sequences up to which the products of a decoding step go through the matrix-vector kernels. A prompt never does:
/// its bits do not depend on how it is cut.
const FEW: usize = 4;

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
    /// Who wants to see what is in between.
    pub probe: Option<&'a Probe>,
}

/// What joins the residual stream: an output, and the norm before that. Null where there is none.
#[derive(Clone, Copy)]
struct Residual {
    add: Ptr<f32>,
    post: Ptr<f32>,
}

impl Step<'_> {
    /// Tokens to the output of the last layer, which joins the residual stream in [`Step::head`].
    pub fn layers(&self) -> Result<()> {
        let a = &self.m.activations;
        // All norms below are of this kind.
        let Norm::Rms = self.c.arch.norm;
        self.embed()?;
        self.tap(None, "inp_embd", a.x, self.c.n_embd)?;
        let mut residual = Residual { add: Ptr::NULL, post: Ptr::NULL };
        for (il, layer) in self.m.layers.iter().enumerate() {
            self.norm(residual, layer.attn_norm, &[layer.attn_q, layer.attn_k, layer.attn_v])?;
            self.tap(Some(il), "attn_norm", a.normed.values, self.c.n_embd)?;
            self.attention(il, layer)?;
            self.tap_out(il, "attn_out", layer.post_attention_norm)?;
            residual = Residual { add: a.out, post: layer.post_attention_norm };
            self.norm(residual, layer.ffn_norm, &[layer.ffn_gate, layer.ffn_up])?;
            self.tap(Some(il), "ffn_norm", a.normed.values, self.c.n_embd)?;
            self.feed_forward(il, layer)?;
            self.tap_layer(il, layer)?;
            residual = Residual { add: a.out, post: layer.post_ffw_norm };
        }
        Ok(())
    }

    /// Logits of `count` rows: those that `index` names, the first ones where it is null.
    pub fn head(&self, index: Ptr<i32>, count: usize) -> Result<()> {
        let (m, a) = (self.m, &self.m.activations);
        let residual = m.layers.last().map(|l| Residual { add: a.out, post: l.post_ffw_norm });
        let residual = residual.unwrap_or(Residual { add: Ptr::NULL, post: Ptr::NULL });
        let seq = if index.is_null() { self.at.seq } else { Ptr::NULL };
        let norm = RmsNorm { index, seq, ..self.norm_of(residual, m.output_norm, &[m.head]) };
        norm::rms_norm(self.stream, count as u32, &norm)?;
        let head = Step { rows: count, ..*self };
        head.tap(None, "result_norm", a.normed.values, self.c.n_embd)?;
        let product = MatmulParams { seq, softcap: self.c.logit_softcap.unwrap_or(0.0), ..head.product(&a.normed) };
        head.matmul(product, &[segment(&m.head, a.logits)])?;
        head.tap(None, "result_output", a.logits, self.c.n_vocab)
    }

    fn embed(&self) -> Result<()> {
        let (w, rows) = (&self.m.token_embd, &self.at);
        let params = EmbedParams {
            w: w.at,
            token: rows.token,
            seq: rows.seq,
            y: self.m.activations.x,
            rows: self.rows as i32,
            k: w.cols as i32,
            format: w.ty as i32,
            scale: self.c.embedding_scale,
        };
        embed::embed(self.stream, &params)
    }

    /// Joins the stream and norms it for what `consumers` multiply.
    fn norm(&self, residual: Residual, weight: Ptr<f32>, consumers: &[Weight]) -> Result<()> {
        norm::rms_norm(self.stream, self.rows as u32, &self.norm_of(residual, weight, consumers))
    }

    fn norm_of(&self, residual: Residual, weight: Ptr<f32>, consumers: &[Weight]) -> RmsNorm {
        let a = &self.m.activations;
        let (y, image) = self.wanted(&a.normed, consumers);
        RmsNorm {
            x: a.x,
            add: residual.add,
            post: residual.post,
            weight,
            seq: self.at.seq,
            index: Ptr::NULL,
            y,
            image,
            n: self.c.n_embd as i32,
            eps: self.c.norm_eps,
        }
    }

    fn attention(&self, il: usize, layer: &Layer) -> Result<()> {
        let (c, a, rows) = (self.c, &self.m.activations, &self.at);
        let projections = [segment(&layer.attn_q, a.q), segment(&layer.attn_k, a.k), segment(&layer.attn_v, a.v)];
        self.matmul(self.product(&a.normed), &projections)?;
        let turn = RopeKv {
            q: a.q,
            q_out: a.q,
            k: a.k,
            v: a.v,
            q_norm: layer.attn_q_norm,
            k_norm: layer.attn_k_norm,
            frequency: layer.frequencies,
            pos: rows.pos,
            seq: rows.seq,
            cache: layer.cache,
            n_head: c.n_head as i32,
            n_head_kv: c.n_head_kv as i32,
            head_dim: c.head_dim as i32,
            n_rot: c.n_rot as i32,
            pairs: match c.arch.rope {
                RopeLayout::Interleaved => Pairs::Interleaved,
                RopeLayout::Halves => Pairs::Halves,
            },
            eps: c.norm_eps,
        };
        rope_kv::rope_kv(self.stream, self.rows as u32, &turn)?;
        self.tap_projections(il, &turn)?;
        // Heads that are not whole blocks of 32 are quantized row by row, afterwards.
        let (mut out, mut image) = self.wanted(&a.attended, &[layer.attn_output]);
        let late = (!image.q.is_null() && !c.head_dim.is_multiple_of(32)).then_some(image);
        if late.is_some() {
            (out, image) = (a.attended.values, QuantizedActivations::default());
        }
        let attend = Attention {
            q: a.q,
            pos: rows.pos,
            seq: rows.seq,
            cache: layer.cache,
            out,
            image,
            scratch: a.splits,
            tiling: self.tiling,
            rows: self.rows,
            n_head: c.n_head,
            n_head_kv: c.n_head_kv,
            head_dim: c.head_dim,
            window: c.layers[il].window.unwrap_or(0),
            scale: c.attention_scale,
            softcap: c.attention_softcap.unwrap_or(0.0),
        };
        attention::attention(self.stream, &attend)?;
        if let Some(image) = late {
            activations::quantize(self.stream, out, image, [self.rows, c.q_dim()])?;
        }
        self.tap(Some(il), "kqv_out", a.attended.values, c.q_dim())?;
        self.matmul(self.product(&a.attended), &[segment(&layer.attn_output, a.out)])
    }

    fn feed_forward(&self, il: usize, layer: &Layer) -> Result<()> {
        let (c, a) = (self.c, &self.m.activations);
        let (y, out) = self.wanted(&a.gated, &[layer.ffn_down]);
        let FeedForward::Gated(activation) = c.arch.feed_forward;
        let activation = match activation {
            Activation::Silu => 0,
            Activation::GeluTanh => 1,
        };
        let product = self.product(&a.normed);
        // The matrix-vector kernel makes whole blocks of gated outputs; the many-column one leaves gate and up.
        let fused = self.is_narrow();
        if fused {
            let gated = GluParams {
                gate: segment(&layer.ffn_gate, Ptr::NULL),
                up: segment(&layer.ffn_up, Ptr::NULL),
                k: product.k,
                columns: product.columns,
                activation,
                y_stride: c.n_ff as i32,
                image: product.image,
                x: product.x,
                seq: product.seq,
                y,
                out,
            };
            matmul::glu(self.stream, &gated)?;
        } else {
            self.matmul(product, &[segment(&layer.ffn_gate, a.gate), segment(&layer.ffn_up, a.up)])?;
            let act = GluActParams {
                gate: a.gate,
                up: a.up,
                stride: c.n_ff as i32,
                rows: c.n_ff as i32,
                columns: product.columns,
                activation,
                y,
                y_stride: c.n_ff as i32,
                pad: 0,
                out,
                seq: product.seq,
            };
            gemm::glu_act(self.stream, &act)?;
        }
        self.tap(Some(il), "ffn_act", a.gated.values, c.n_ff)?;
        self.matmul(self.product(&a.gated), &[segment(&layer.ffn_down, a.out)])
    }

    /// Whether products go through the matrix-vector kernels.
    fn is_narrow(&self) -> bool {
        self.tiling == Tiling::Rows && self.rows <= FEW
    }

    /// The forms of an operand that its consumers multiply, and the numbers where somebody listens; the other is null.
    fn wanted(&self, x: &Operand, consumers: &[Weight]) -> (Ptr<f32>, QuantizedActivations) {
        let dense = |w: &Weight| w.ty.format().block == 1;
        let values = if self.probe.is_some() || consumers.iter().any(dense) { x.values } else { Ptr::NULL };
        let image = if consumers.iter().all(dense) { QuantizedActivations::default() } else { x.image };
        (values, image)
    }

    /// A product of all rows of an operand, no segments yet.
    fn product(&self, x: &Operand) -> MatmulParams {
        MatmulParams {
            k: x.width as i32,
            columns: self.rows as i32,
            image: x.image,
            x: x.values,
            seq: self.at.seq,
            ..MatmulParams::default()
        }
    }

    /// ComputeType of one operand with several matrices: one launch for few rows, one per format for many.
    fn matmul(&self, product: MatmulParams, segments: &[Segment]) -> Result<()> {
        let launch = |of: &[Segment]| {
            let product = product.with(of);
            if self.is_narrow() || !gemm::takes(product.k as usize) {
                matmul::gemv(self.stream, &product)
            } else {
                gemm::gemm(self.stream, &product)
            }
        };
        if self.is_narrow() {
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
    fn tap(&self, il: Option<usize>, name: &'static str, at: Ptr<f32>, width: usize) -> Result<()> {
        self.probe.map_or(Ok(()), |probe| probe.hand_on(il, name, self.stream, (at, self.rows * width)))
    }

    /// Queries, keys and values of a layer. Keys go into the cache as they are turned: where somebody listens they are
    /// turned once more, as if they were queries.
    fn tap_projections(&self, il: usize, turn: &RopeKv) -> Result<()> {
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
    fn tap_out(&self, il: usize, name: &'static str, post: Ptr<f32>) -> Result<()> {
        if self.probe.is_none() {
            return Ok(());
        }
        self.tap(Some(il), name, self.joining(post)?, self.c.n_embd)
    }

    /// The residual stream after a layer. The sum itself is a part of the next norm, so it is made on the host.
    fn tap_layer(&self, il: usize, layer: &Layer) -> Result<()> {
        let Some(probe) = self.probe else { return Ok(()) };
        self.tap_out(il, "ffn_out", layer.post_ffw_norm)?;
        probe.hand_on_sum(il, "l_out", self.stream, (self.m.activations.x, self.rows * self.c.n_embd))
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

/// A matrix as a part of a product that writes `y`.
fn segment(w: &Weight, y: Ptr<f32>) -> Segment {
    Segment { w: w.at, bias: w.bias, y, rows: w.rows as i32, y_stride: w.rows as i32, format: w.ty as i32, pad: 0 }
}
