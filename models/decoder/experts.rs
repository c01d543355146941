//! Layers with experts on the device: six launches after attention for one row (norm, router, choice, gate and up, down, sum), one more
//! for several, another one for many; and two of a shared expert, or six of a feed-forward beside them.

use qrun_cuda::{
    Ptr, Result,
    ops::{
        activations::QuantizedActivations,
        experts::{self, Join, MAX_CHOICES, MAX_EXPERTS, Route},
        matmul::{self, MatmulParams, Segment},
        norm::{NormKind, NormParams},
        product,
        upload::bytes_on_device,
    },
};
use qrun_quant::GgmlType;

use super::{
    memory::{Layer, Weight},
    step::{Residual, Step, segment},
};
use crate::{Model, layer::ExpertPlan, spec::Gating, tensors::Role::*, weights};

/// Why the kernels do not take the experts of a model.
pub fn without_kernels(model: &Model) -> Option<&'static str> {
    let mut layers = model.config.layers.iter().zip(&model.weights.layers);
    layers.find_map(|(plan, w)| refused(plan.experts()?, w))
}

fn refused(e: &ExpertPlan, w: &weights::Layer) -> Option<&'static str> {
    let of_experts = [FfnGateExps, FfnUpExps, FfnGateUpExps, FfnDownExps];
    let formats = of_experts.into_iter().filter_map(|role| w.matrices.get(role)).map(|linear| linear.w.ty());
    let down = w.matrices.get(FfnDownExps).map_or(0, |down| down.w.rows() / e.n_expert);
    let parts = [
        (formats.into_iter().any(|ty| ty.format().block == 1), "experts with dense weights"),
        (e.groups.is_some(), "experts in groups"),
        (e.latent.is_some(), "experts that take less than the residual stream"),
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
    Segment { w: w.at.add(bytes), bias, y, rows, y_stride: rows, format: w.ty as i32, expert_rows: each as i32 }
}

impl Step<'_> {
    /// From the stream to what joins it.
    pub(super) fn experts(&self, il: usize, layer: &Layer, plan: &ExpertPlan, residual: Residual) -> Result<()> {
        let (c, a, e) = (self.c, &self.m.activations, &self.m.activations.experts);
        let [router, down] = layer.matrices([FfnGateInp, FfnDownExps]);
        let (gate, up) = self.gate_and_up(layer, plan);
        let shared = plan.shared.map(|s| (s, layer.matrices([FfnGateShexp, FfnUpShexp, FfnDownShexp])));
        let beside = plan.beside.map(|n_ff| (n_ff, layer.matrices([FfnGate, FfnUp, FfnDown])));
        let mut consumers = vec![router, gate.0, up.0];
        consumers.extend(shared.iter().flat_map(|(_, matrices)| matrices[..2].to_vec()));
        consumers.extend(beside.iter().flat_map(|(_, matrices)| matrices[..2].to_vec()));
        self.norm(&self.norm_of(residual, layer.vector(FfnNorm)), &consumers)?;
        self.tap(Some(il), "ffn_norm", a.normed.values, c.n_embd)?;
        let stream = Residual::stream(residual.x_out);
        if let Some((n_ff, matrices)) = beside {
            self.dense(il, matrices, n_ff, None, e.shared)?;
            self.norm(&self.norm_of(stream, layer.vector(FfnGateInpScale)), &[router])?;
        }

        let normed = self.product(&a.normed, c.n_embd);
        let shared_gate = layer.vector(FfnGateInpShexp);
        let passes = Segment {
            w: shared_gate.cast(),
            y: e.shared_gate,
            rows: 1,
            y_stride: 1,
            format: GgmlType::F32 as i32,
            ..Segment::default()
        };
        let routes = [segment(&router, e.logits), passes];
        // Of any number of rows: a choice must not depend on it.
        let routes = &routes[..if shared_gate.is_null() { 1 } else { 2 }];
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { matmul::gemv(self.stream, &normed.with(routes))? };
        self.tap(Some(il), "ffn_moe_logits", e.logits, plan.n_expert)?;
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
            ..Route::default()
        };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { experts::route(self.stream, &route)? };
        if beside.is_some() {
            self.norm(&self.norm_of(stream, layer.vector(PreFfwNorm2)), &[gate.0, up.0])?;
        }
        let (y, image) = self.wanted(&a.gated, &[down]);
        self.chosen(plan, &route, normed, [gate.1, up.1], (y, image))?;
        self.tap(Some(il), "ffn_act", y, plan.n_used * plan.n_ff)?;
        let of_choices = MatmulParams { k: plan.n_ff as i32, image, ..MatmulParams::default() };
        self.matmul(route.of_choices(of_choices), &[part(&down, plan, [0, c.n_embd], e.given)])?;

        let mut join = Join {
            x: e.given,
            weights: e.choices.weights,
            seq: self.at.seq,
            y: a.out,
            n_used: plan.n_used as i32,
            n: c.n_embd as i32,
            ..Join::default()
        };
        if let Some((shared, matrices)) = shared {
            self.dense(il, matrices, shared.n_ff, None, e.shared)?;
            join.shared = e.shared;
            join.gate = if shared_gate.is_null() { Ptr::NULL } else { e.shared_gate };
        }
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { experts::join(self.stream, self.rows, &join)? };
        if beside.is_none() {
            return Ok(());
        }
        self.norm_in_place(e.shared, layer.vector(PostFfwNorm1), c.n_embd)?;
        let sum = Residual { x: e.shared, add: a.out, post: layer.vector(PostFfwNorm2), x_out: a.out, x_scale: 1.0 };
        let sum = NormParams { scale: 1.0, post_eps: c.norm_eps, ..self.norm_of(sum, Ptr::NULL) };
        self.launch_norm(self.rows, NormKind::None, &sum)
    }

    /// Gate and up, each with what multiplies it; in one matrix or two.
    fn gate_and_up(&self, layer: &Layer, plan: &ExpertPlan) -> ((Weight, Segment), (Weight, Segment)) {
        let (a, n_ff) = (&self.m.activations, plan.n_ff);
        let [gate, up] = if plan.fused {
            layer.matrices([FfnGateUpExps, FfnGateUpExps])
        } else {
            layer.matrices([FfnGateExps, FfnUpExps])
        };
        let behind = if plan.fused { n_ff } else { 0 };
        ((gate, part(&gate, plan, [0, n_ff], a.gate)), (up, part(&up, plan, [behind, n_ff], a.up)))
    }

    /// Gate and up of the experts that rows have chosen, by choice, and the gate.
    fn chosen(
        &self,
        plan: &ExpertPlan,
        route: &Route,
        normed: MatmulParams,
        [gate, up]: [Segment; 2],
        (y, out): (Ptr<f32>, QuantizedActivations),
    ) -> Result<()> {
        let (a, product) = (&self.m.activations, route.of_rows(normed));
        if product.columns as usize <= product::MOST_COLUMNS && gate.format == up.format {
            let gated = MatmulParams { gated: 1, activation: self.activation(), out, ..product };
            let segments = [Segment { y, ..gate }, Segment { y: Ptr::NULL, ..up }];
            // SAFETY: parts of the arena with room for the choices of the step's rows (see `decoder`).
            return unsafe { product::product(self.stream, &gated.with(&segments)) };
        }
        self.matmul(product, &[gate, up])?;
        let choices = [plan.n_ff, self.rows * plan.n_used];
        self.gate(choices, (a.up, plan.n_ff), a.experts.choices.chosen, (y, out))
    }
}
