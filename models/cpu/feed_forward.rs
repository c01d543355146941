//! The part of a layer after attention: one feed-forward for every token, or experts.

use qrun_quant::cpu::{Activations, Gated, Job, matmul, matmul_gated, multiplies_gated};

use super::{
    Scratch, ops,
    step::{Step, finish, project, tap},
};
use crate::{
    ForwardError,
    experts::{Choice, route},
    layer::{ExpertPlan, FeedForwardPlan},
    spec::FeedForward,
    tensors::Role::{self, *},
    weights::{Layer, Linear},
};

/// Buffers of layers with experts.
#[derive(Default)]
pub struct Routed {
    /// Logits of the router, `[tokens][n_expert]`.
    logits: Vec<f32>,
    /// `[tokens][n_used]`.
    choices: Vec<Choice>,
    /// Places in `choices`, by expert: the order of the rows below.
    order: Vec<usize>,
    /// The tokens of one expert, `[rows][n_embd]`.
    x: Vec<f32>,
    /// What the experts give, `[tokens · n_used][n_embd]`.
    y: Vec<f32>,
    /// Their sum for each token while the shared expert runs, `[tokens][n_embd]`.
    sum: Vec<f32>,
    /// What a feed-forward beside them gave, `[tokens][n_embd]`.
    beside: Vec<f32>,
    /// What they take and give where they do not see the residual stream, `[tokens][latent]`.
    latent: Vec<f32>,
}

impl Step<'_> {
    /// From `h` to `out`, both `[tokens][n_embd]`.
    ///
    /// # Errors
    /// [`ForwardError::Cancelled`], between two of its products.
    pub(super) fn feed_forward(&mut self, il: usize, w: &Layer) -> Result<(), ForwardError> {
        match self.model.config.layers[il].feed_forward {
            FeedForwardPlan::None => Ok(()),
            FeedForwardPlan::Dense { n_ff } => self.dense(il, w, n_ff, [FfnGate, FfnUp, FfnDown]),
            FeedForwardPlan::Experts(plan) => match plan.beside {
                None => self.experts(il, w, &plan),
                Some(n_ff) => self.both(il, w, &plan, n_ff),
            },
        }
    }

    /// A feed-forward and experts: each with a norm before it and one after.
    fn both(&mut self, il: usize, w: &Layer, plan: &ExpertPlan, n_ff: usize) -> Result<(), ForwardError> {
        let c = &self.model.config;
        self.dense(il, w, n_ff, [FfnGate, FfnUp, FfnDown])?;
        ops::rms_norm_in_place(&mut self.s.out, &w.vectors[PostFfwNorm1], c.norm_eps);
        std::mem::swap(&mut self.s.out, &mut self.s.routed.beside);
        self.experts(il, w, plan)?;
        let s = &mut *self.s;
        ops::rms_norm_in_place(&mut s.out, &w.vectors[PostFfwNorm2], c.norm_eps);
        ops::add(&mut s.out, &s.routed.beside);
        Ok(())
    }

    fn dense(&mut self, il: usize, w: &Layer, n_ff: usize, roles: [Role; 3]) -> Result<(), ForwardError> {
        let (c, t) = (&self.model.config, self.chunk.len());
        let (gate, [up, down]) = (w.matrices.get(roles[0]), [roles[1], roles[2]].map(|role| &w.matrices[role]));
        let s = &mut *self.s;
        s.gate.resize(t * n_ff, 0.0);
        match (gate, c.arch.feed_forward) {
            (Some(gate), FeedForward::Gated(activation))
                if multiplies_gated(&s.prepared, t) && gate.is_bare() && up.is_bare() =>
            {
                let activate = &|gate: &mut [f32], up: &[f32]| ops::gate_part(gate, up, activation);
                matmul_gated(&mut s.prepared, &s.h, Gated { gate: &gate.w, up: &up.w, y: &mut s.gate, activate });
            }
            (Some(gate), feed_forward) => {
                s.up.resize(t * n_ff, 0.0);
                project(&mut s.prepared, &s.h, [(gate, &mut s.gate), (up, &mut s.up)]);
                s.activate(feed_forward);
            }
            (None, feed_forward) => {
                project(&mut s.prepared, &s.h, [(up, &mut s.gate)]);
                s.activate(feed_forward);
            }
        }
        tap(self.tap, Some(il), "ffn_act", &s.gate);
        self.go_on()?;
        let s = &mut *self.s;
        s.out.resize(t * c.n_embd, 0.0);
        project(&mut s.prepared, &s.gate, [(down, &mut s.out)]);
        Ok(())
    }

    /// The experts that each token takes, and the one that all take. Tokens are sorted by expert, so that a prompt reads
    /// the weights of an expert once; each token adds what it gets in the order of its own choices.
    fn experts(&mut self, il: usize, w: &Layer, plan: &ExpertPlan) -> Result<(), ForwardError> {
        self.route(il, w, plan);
        let (c, n_ff) = (&self.model.config, plan.n_ff);
        let d = plan.latent.unwrap_or(c.n_embd);
        self.narrow(w, d);
        self.s.routed.y.resize(self.s.routed.choices.len() * d, 0.0);
        self.gate_and_up(w, plan)?;
        self.go_on()?;
        let down = &w.matrices[FfnDownExps];
        self.s.activate(c.arch.feed_forward);
        self.tap_choices(il, n_ff);
        self.each_expert(|s, expert, rows| {
            let x = &s.gate[rows.start * n_ff..rows.end * n_ff];
            products(&mut s.prepared, x, [(down, &mut s.routed.y[rows.start * d..rows.end * d])], expert);
        })?;
        self.sum(plan, d);
        self.widen(w);
        match plan.shared {
            None => Ok(()),
            Some(shared) => self.shared(il, w, shared.n_ff),
        }
    }

    /// What experts take in place of `h`, which waits for what does not see less.
    fn narrow(&mut self, w: &Layer, width: usize) {
        let Some(down) = w.matrices.get(FfnLatentDown) else { return };
        let Scratch { h, routed: r, prepared, .. } = &mut *self.s;
        r.latent.resize(self.chunk.len() * width, 0.0);
        project(prepared, h, [(down, &mut r.latent)]);
        std::mem::swap(h, &mut r.latent);
    }

    /// From what experts gave together to the width of the residual stream.
    fn widen(&mut self, w: &Layer) {
        let Some(up) = w.matrices.get(FfnLatentUp) else { return };
        let Scratch { h, out, routed: r, prepared, .. } = &mut *self.s;
        std::mem::swap(h, &mut r.latent);
        std::mem::swap(out, &mut r.latent);
        out.resize(self.chunk.len() * self.model.config.n_embd, 0.0);
        project(prepared, &r.latent, [(up, out)]);
    }

    /// What the experts' gates leave, by choice: `[tokens][n_used][n_ff]`.
    fn tap_choices(&mut self, il: usize, n_ff: usize) {
        if self.tap.is_none() {
            return;
        }
        let mut by_choice = vec![0.0; self.s.gate.len()];
        for (values, &choice) in self.s.gate.chunks_exact(n_ff).zip(&self.s.routed.order) {
            by_choice[choice * n_ff..][..n_ff].copy_from_slice(values);
        }
        tap(self.tap, Some(il), "ffn_act", &by_choice);
    }

    /// The choices of each token, and their order by expert.
    fn route(&mut self, il: usize, w: &Layer, plan: &ExpertPlan) {
        let c = &self.model.config;
        let Scratch { x, h, routed: r, prepared, .. } = &mut *self.s;
        if let Some(scale) = w.vectors.get(FfnGateInpScale) {
            ops::norm(c.arch.norm, x, (scale, None), c.norm_eps, h);
            ops::scale(h, 1.0 / (c.n_embd as f32).sqrt());
        }
        r.logits.resize(self.chunk.len() * plan.n_expert, 0.0);
        project(prepared, h, [(&w.matrices[FfnGateInp], &mut r.logits)]);
        tap(self.tap, Some(il), "ffn_moe_logits", &r.logits);
        r.choices.clear();
        let bias = w.vectors.get(ExpProbsB).map(Vec::as_slice);
        for logits in r.logits.chunks_exact(plan.n_expert) {
            route(plan, logits, bias, &mut r.choices);
        }
        if let Some(scale) = &w.choice_scale {
            r.choices.iter_mut().for_each(|choice| choice.weight *= scale[choice.expert as usize]);
        }
        if let Some(weight) = w.vectors.get(PreFfwNorm2) {
            ops::norm(c.arch.norm, x, (weight, None), c.norm_eps, h);
        }
        r.order.clear();
        r.order.extend(0..r.choices.len());
        r.order.sort_by_key(|&choice| r.choices[choice].expert);
    }

    /// Gate and up of the experts that were chosen, `[rows][n_ff]` each in the order by expert. Where there is no gate up
    /// stands in its place.
    fn gate_and_up(&mut self, w: &Layer, plan: &ExpertPlan) -> Result<(), ForwardError> {
        let [mut gate, mut up] = [&mut self.s.gate, &mut self.s.up].map(std::mem::take);
        let done = match [FfnGateUpExps, FfnGateExps].map(|role| w.matrices.get(role)) {
            [None, None] => self.of_experts(plan, [(&w.matrices[FfnUpExps], &mut gate)]),
            [None, Some(w_gate)] => self.of_experts(plan, [(w_gate, &mut gate), (&w.matrices[FfnUpExps], &mut up)]),
            [Some(both), _] => {
                let done = self.of_experts(plan, [(both, &mut up)]);
                gate.clear();
                for row in 0..up.len() / (2 * plan.n_ff) {
                    let start = row * 2 * plan.n_ff;
                    gate.extend_from_slice(&up[start..start + plan.n_ff]);
                    up.copy_within(start + plan.n_ff..start + 2 * plan.n_ff, row * plan.n_ff);
                }
                up.truncate(gate.len());
                done
            }
        };
        (self.s.gate, self.s.up) = (gate, up);
        done
    }

    /// Products of tokens with matrices of the experts that they have chosen, rows in the order by expert.
    fn of_experts<const N: usize>(
        &mut self,
        plan: &ExpertPlan,
        mut outputs: [(&Linear, &mut Vec<f32>); N],
    ) -> Result<(), ForwardError> {
        let (rows, d) = (self.s.routed.choices.len(), self.s.h.len() / self.chunk.len());
        for (linear, y) in &mut outputs {
            y.resize(rows * (linear.w.rows() / plan.n_expert), 0.0);
        }
        if self.chunk.len() == 1 {
            self.one_token(outputs);
            return Ok(());
        }
        self.each_expert(|s, expert, own| {
            let Scratch { h, routed, prepared, .. } = s;
            routed.x.clear();
            for &choice in &routed.order[own.clone()] {
                let token = choice / plan.n_used;
                routed.x.extend_from_slice(&h[token * d..(token + 1) * d]);
            }
            let outputs = outputs.each_mut().map(|(linear, y)| {
                let width = y.len() / rows;
                (*linear, &mut y[own.start * width..own.end * width])
            });
            products(prepared, &routed.x, outputs, expert);
        })
    }

    /// All experts of one token: products of the same vector, so they are one.
    fn one_token<const N: usize>(&mut self, outputs: [(&Linear, &mut Vec<f32>); N]) {
        let Scratch { h, routed, prepared, .. } = &mut *self.s;
        let experts = || routed.order.iter().map(|&choice| routed.choices[choice].expert as usize);
        let weights = outputs.each_ref().map(|(linear, _)| experts().map(|e| linear.expert(e)).collect::<Vec<_>>());
        let mut jobs = Vec::new();
        for ((_, y), weights) in outputs.into_iter().zip(&weights) {
            let width = y.len() / weights.len();
            jobs.extend(weights.iter().zip(y.chunks_exact_mut(width)).map(|((w, _), y)| Job { w, y }));
        }
        matmul(prepared, h, &mut jobs);
        for (job, (_, after)) in jobs.iter_mut().zip(weights.iter().flatten()) {
            finish(job.y, *after);
        }
    }

    /// Calls `f` for each expert that was chosen, with its rows in the order by expert.
    fn each_expert(
        &mut self,
        mut f: impl FnMut(&mut Scratch, usize, std::ops::Range<usize>),
    ) -> Result<(), ForwardError> {
        let mut start = 0;
        while let Some(&first) = self.s.routed.order.get(start) {
            self.go_on()?;
            let r = &self.s.routed;
            let expert = r.choices[first].expert;
            let n = r.order[start..].iter().take_while(|&&choice| r.choices[choice].expert == expert).count();
            f(self.s, expert as usize, start..start + n);
            start += n;
        }
        Ok(())
    }

    /// Adds up what each token's experts gave, best first.
    fn sum(&mut self, plan: &ExpertPlan, d: usize) {
        let Scratch { out, routed: r, .. } = &mut *self.s;
        let mut row_of = vec![0; r.order.len()];
        for (row, &choice) in r.order.iter().enumerate() {
            row_of[choice] = row;
        }
        out.clear();
        out.resize(self.chunk.len() * d, 0.0);
        let (choices, y, n) = (&r.choices, &r.y, plan.n_used);
        ops::for_rows(out, d, |token, out| {
            for (choice, row) in choices[token * n..][..n].iter().zip(&row_of[token * n..]) {
                for (out, y) in out.iter_mut().zip(&y[row * d..][..d]) {
                    *out += choice.weight * y;
                }
            }
        });
    }

    /// Adds the expert that every token takes.
    fn shared(&mut self, il: usize, w: &Layer, n_ff: usize) -> Result<(), ForwardError> {
        std::mem::swap(&mut self.s.out, &mut self.s.routed.sum);
        self.dense(il, w, n_ff, [FfnGateShexp, FfnUpShexp, FfnDownShexp])?;
        let s = &mut *self.s;
        if let Some(gate) = w.vectors.get(FfnGateInpShexp) {
            let dot = |h: &[f32]| h.iter().zip(gate).map(|(h, g)| f64::from(*h) * f64::from(*g)).sum::<f64>() as f32;
            let gates: Vec<f32> = s.h.chunks_exact(gate.len()).map(dot).collect();
            ops::sigmoid_gate(&mut s.out, &gates);
        }
        ops::add(&mut s.out, &s.routed.sum);
        Ok(())
    }
}

impl Scratch {
    /// What the gate leaves of up, in place of the gate; without one, what the activation makes of up, which is there.
    pub(super) fn activate(&mut self, feed_forward: FeedForward) {
        match feed_forward {
            FeedForward::Gated(activation) => ops::gate(&mut self.gate, &self.up, activation),
            FeedForward::Plain(activation) => ops::activate(&mut self.gate, activation),
        }
    }
}

/// Products of the same input with the matrices of one expert, with their scales and biases.
fn products<const N: usize>(x: &mut Activations, h: &[f32], outputs: [(&Linear, &mut [f32]); N], expert: usize) {
    let mut parts = outputs.map(|(linear, y)| (linear.expert(expert), y));
    let mut jobs = parts.each_mut().map(|((w, _), y)| Job { w, y });
    matmul(x, h, &mut jobs);
    for ((_, after), y) in parts {
        finish(y, after);
    }
}
