//! Layers with experts on the device: four launches after attention for one row (norm, logits and choice; gate and up; down; sum), seven
//! for several, one more without a gate or of dense weights; and two of a shared expert, or five of a feed-forward beside
//! them; and two where they see less than the stream, or three where a shared one joins them.

use qrun_cuda::{
    Ptr, Result,
    ops::{
        activations::QuantizedActivations,
        experts::{self, Join, MAX_CHOICES, MAX_EXPERTS, MAX_GROUPS, Route},
        gemm,
        matmul::{self, MatmulParams, Segment},
        norm::{NormKind, NormParams},
        params::GELU,
        upload::bytes_on_device,
    },
};
use qrun_quant::GgmlType;

use super::{
    blocks,
    memory::{Layer, NormWeight, Weight},
    step::{Residual, Step, segment},
};
use crate::{Model, layer::ExpertPlan, spec::Gating, tensors::Role::*, weights};

/// Why the kernels do not take the experts of a model.
pub fn without_kernels(model: &Model) -> Option<&'static str> {
    blocks(model).find_map(|(plan, w)| refused(plan.experts()?, w))
}

fn refused(e: &ExpertPlan, w: &weights::Layer) -> Option<&'static str> {
    let down = w.matrices.get(FfnDownExps).map_or(0, |down| down.w.rows() / e.n_expert);
    let parts = [
        (e.groups.is_some_and(|groups| groups.count > MAX_GROUPS), "so many groups of experts"),
        (
            e.latent.is_some() && e.shared.is_some_and(|shared| shared.gated),
            "a gated expert beside those that take less",
        ),
        (e.n_expert > MAX_EXPERTS || e.n_used > MAX_CHOICES, "so many experts"),
        (!e.n_ff.is_multiple_of(32) || !down.is_multiple_of(16), "experts of these sizes"),
    ];
    parts.into_iter().find(|(present, _)| *present).map(|(_, part)| part)
}

/// Some rows of the matrix of each expert, from row `first` on.
fn part(w: &Weight, e: &ExpertPlan, [first, rows]: [usize; 2], y: Ptr<f32>) -> Segment {
    let (each, bytes) = (w.rows / e.n_expert, bytes_on_device(w.ty, [first, w.cols]));
    let bias = if w.bias.is_null() { w.bias } else { w.bias.add(first) };
    let rows = rows as i32;
    Segment { w: w.at.add(bytes), bias, rows, y_stride: rows, expert_rows: each as i32, ..segment(w, y) }
}

impl Step<'_> {
    /// From the stream to what joins it.
    pub(super) fn experts(&self, il: usize, layer: &Layer, plan: &ExpertPlan, residual: Residual) -> Result<()> {
        let (c, a, e) = (self.c, &self.m.activations, &self.m.activations.experts);
        let [down] = layer.matrices([FfnDownExps]);
        let (inputs, segments) = self.inputs_of_experts(layer, plan);
        let shared = plan.shared.map(|s| (s, layer.feed_forward([FfnGateShexp, FfnUpShexp, FfnDownShexp])));
        let beside = plan.beside.map(|n_ff| (n_ff, layer.feed_forward([FfnGate, FfnUp, FfnDown])));
        let mut consumers = Vec::new();
        match plan.latent {
            Some(_) => consumers.extend(layer.matrices([FfnLatentDown])),
            None => consumers.extend(&inputs),
        }
        if let Some((_, (gate, [up, _]))) = shared {
            consumers.extend(gate.into_iter().chain([up]));
        }
        let norm = self.norm_of(residual, layer.norm(FfnNorm));
        let stream = Residual::stream(residual.x_out);
        let route = if let Some((n_ff, matrices)) = beside {
            self.dense(il, matrices, n_ff, Some(&norm), e.shared)?;
            self.choose(il, layer, plan, (&self.norm_of(stream, layer.norm(FfnGateInpScale)), &[]))?
        } else {
            self.choose(il, layer, plan, (&norm, &consumers))?
        };
        let (normed, shared_gate) = (self.product(&a.normed, c.n_embd), layer.vector(FfnGateInpShexp));
        if beside.is_some() {
            self.norm(&self.norm_of(stream, layer.norm(PreFfwNorm2)), &inputs)?;
        }
        let (y, image) = self.wanted(&a.gated, &[down]);
        let given = match plan.latent {
            Some(width) => self.narrow_to_latent(layer, width)?,
            None => normed,
        };
        let given = (inputs[0].ty, route.of_rows(given));
        self.chosen(plan, given, &segments, (y, image))?;
        self.tap(Some(il), "ffn_act", y, plan.n_used * plan.n_ff)?;
        let of_choices = MatmulParams { k: plan.n_ff as i32, image, x: y, ..MatmulParams::default() };
        let width = plan.latent.unwrap_or(c.n_embd);
        self.matmul(route.of_choices(of_choices), &[part(&down, plan, [0, width], e.given)])?;

        let mut join = Join {
            x: e.given,
            weights: e.choices.weights,
            seq: self.at.seq,
            y: if plan.latent.is_some() { e.latent.values } else { a.out },
            n_used: plan.n_used as i32,
            n: width as i32,
            ..Join::default()
        };
        if let Some((shared, matrices)) = shared {
            self.dense(il, matrices, shared.n_ff, None, e.shared)?;
            if plan.latent.is_none() {
                join.shared = e.shared;
                join.gate = if shared_gate.is_null() { Ptr::NULL } else { e.shared_gate };
            }
        }
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { experts::join(self.stream, self.rows, &join)? };
        if plan.latent.is_some() {
            self.widen_from_latent(layer, width)?;
        }
        let joins_shared = plan.latent.is_some() && plan.shared.is_some();
        if beside.is_some() {
            self.norm_in_place(e.shared, layer.vector(PostFfwNorm1), c.n_embd)?;
        } else if !joins_shared {
            return Ok(());
        }
        // What the experts gave, in the width of the stream, joins what stands beside them.
        let post = layer.vector(PostFfwNorm2);
        let sum = Residual { add: a.out, post, x_out: a.out, ..Residual::stream(e.shared) };
        let sum = NormParams { scale: 1.0, post_eps: c.norm_eps, ..self.norm_of(sum, NormWeight::NONE) };
        self.launch_norm(self.rows, NormKind::None, &sum)
    }

    /// The experts of each row, by its normed stream; the norm is for `consumers` too.
    fn choose(
        &self,
        il: usize,
        layer: &Layer,
        plan: &ExpertPlan,
        (norm, consumers): (&NormParams, &[Weight]),
    ) -> Result<Route> {
        let (n_embd, a, e) = (self.c.n_embd, &self.m.activations, &self.m.activations.experts);
        let [router] = layer.matrices([FfnGateInp]);
        let passes = Segment {
            w: layer.vector(FfnGateInpShexp).cast(),
            y: e.shared_gate,
            rows: 1,
            y_stride: 1,
            format: GgmlType::F32 as i32,
            ..Segment::default()
        };
        let segments = [segment(&router, e.logits), passes];
        let segments = &segments[..if passes.w.is_null() { 1 } else { 2 }];
        let route = Route {
            logits: e.logits,
            bias: layer.vector(ExpProbsB),
            factor: layer.choice_scale,
            seq: self.at.seq,
            choices: e.choices,
            rows: self.rows as i32,
            n_expert: plan.n_expert as i32,
            n_used: plan.n_used as i32,
            gating: match plan.gating {
                Gating::Softmax => experts::SOFTMAX,
                Gating::Sigmoid => experts::SIGMOID,
                Gating::SoftmaxOfChosen => experts::SOFTMAX_OF_CHOSEN,
            },
            norm: i32::from(plan.norm),
            scale: plan.scale,
            groups: plan.groups.map_or(0, |groups| groups.count as i32),
            groups_used: plan.groups.map_or(0, |groups| groups.used as i32),
            best_of_group: plan.groups.map_or(0, |groups| groups.best as i32),
            ..Route::default()
        };
        let takes = experts::norm_route_takes(n_embd, router.ty) && self.norm_kind(norm) == NormKind::Rms;
        if self.rows == 1 && takes && norm.y.is_null() && self.probe.is_none() {
            let (y, image) = self.wanted(&a.normed, consumers);
            let norm = NormParams { y, image, ..*norm };
            // SAFETY: parts of the arena with room for a row (see `decoder`).
            unsafe { experts::norm_route(self.stream, &norm, segments, &route, e.ticket)? };
            return Ok(route);
        }
        self.norm(norm, &[&[router], consumers].concat())?;
        if plan.beside.is_none() {
            self.tap(Some(il), "ffn_norm", a.normed.values, n_embd)?;
        }
        // Of any number of rows: a choice must not depend on it.
        let product = self.product(&a.normed, n_embd).with(segments);
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { matmul::gemv(self.stream, &product)? };
        self.tap(Some(il), "ffn_moe_logits", e.logits, plan.n_expert)?;
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { experts::route(self.stream, &route)? };
        Ok(route)
    }

    /// The normed stream as experts take it that see less, not quantized yet.
    fn narrow_to_latent(&self, layer: &Layer, width: usize) -> Result<MatmulParams> {
        let (a, latent) = (&self.m.activations, &self.m.activations.experts.latent);
        let [down] = layer.matrices([FfnLatentDown]);
        self.matmul(self.product(&a.normed, self.c.n_embd), &[segment(&down, latent.values)])?;
        Ok(self.product(latent, width))
    }

    /// From what these gave together to the width of the stream.
    fn widen_from_latent(&self, layer: &Layer, width: usize) -> Result<()> {
        let (a, latent) = (&self.m.activations, &self.m.activations.experts.latent);
        let [up] = layer.matrices([FfnLatentUp]);
        let (product, to) = (self.product(latent, width), segment(&up, a.out));
        self.quantize_and_multiply(up.ty, self.rows, &product.with(&[to]))
    }

    /// Gate and up in one matrix or two, or up alone; and what multiplies each.
    fn inputs_of_experts(&self, layer: &Layer, plan: &ExpertPlan) -> (Vec<Weight>, Vec<Segment>) {
        let (a, n_ff) = (&self.m.activations, plan.n_ff);
        if !self.c.arch.feed_forward.is_gated() {
            let [up] = layer.matrices([FfnUpExps]);
            return (vec![up], vec![part(&up, plan, [0, n_ff], a.gate)]);
        }
        let roles = if plan.fused { [FfnGateUpExps; 2] } else { [FfnGateExps, FfnUpExps] };
        let [gate, up] = layer.matrices(roles);
        let behind = if plan.fused { n_ff } else { 0 };
        let segments = [part(&gate, plan, [0, n_ff], a.gate), part(&up, plan, [behind, n_ff], a.up)];
        (vec![gate, up], segments.to_vec())
    }

    /// Gate and up of the experts that rows have chosen, or up alone, by choice; and the gate or the activation.
    fn chosen(
        &self,
        plan: &ExpertPlan,
        (format, product): (GgmlType, MatmulParams),
        segments: &[Segment],
        (y, out): (Ptr<f32>, QuantizedActivations),
    ) -> Result<()> {
        let a = &self.m.activations;
        let choices = [plan.n_ff, self.rows * plan.n_used];
        let mut up_of_gate = Ptr::NULL;
        if plan.latent.is_some() {
            if let &[up] = segments {
                self.quantize_and_multiply(format, self.rows, &product.with(&[up]))?;
                return self.gate(choices, (up_of_gate, plan.n_ff), a.experts.choices.chosen, (y, out));
            }
            self.quantize(format, self.rows, &product)?;
        }
        if let &[gate, up] = segments {
            let quantized = format.format().block > 1;
            if quantized && gate.format == up.format && self.activation() != GELU {
                let gated = MatmulParams { gated: 1, activation: self.activation(), out, ..product };
                let segments = [Segment { y, ..gate }, Segment { y: Ptr::NULL, ..up }];
                // SAFETY: parts of the arena with room for the choices of the step's rows (see `decoder`).
                return unsafe { gemm::gemm(self.stream, &gated.with(&segments)) };
            }
            up_of_gate = a.up;
        }
        self.matmul(product, segments)?;
        self.gate(choices, (up_of_gate, plan.n_ff), a.experts.choices.chosen, (y, out))
    }
}
