//! Recurrent layers on the device, in place of attention: from their projections to their output. One launch more than attention
//! has where one row has a delta net or Mamba-2.

use qrun_cuda::{
    Ptr, Result,
    ops::{
        activations::{self, QuantizedActivations},
        attention::Tiling,
        mamba::{self, GroupNorm, Mamba},
        recurrent::{self, DeltaNet, ShortConv, States},
    },
};

use super::{
    memory::{Layer, Recurrent, Weight},
    step::{Guesses, Residual, Step, segment},
};
use crate::{
    LayerPlan,
    layer::{DeltaPlan, MambaPlan, Mixer},
    tensors::Role::*,
};

/// Why the kernels do not take a layer; attention is none of theirs.
pub fn refused(l: &LayerPlan) -> Option<&'static str> {
    let taken = match l.mixer {
        Mixer::Attention | Mixer::None => true,
        Mixer::DeltaNet(d) => recurrent::takes([d.dim_k, d.dim_v, d.taps]),
        Mixer::ShortConv { taps, .. } => taps <= recurrent::MAX_TAPS,
        Mixer::Mamba2(m) => recurrent::takes([m.n_state, m.head_dim, m.taps]) && m.n_head.is_multiple_of(4),
    };
    (!taken).then_some("recurrent layers of these sizes")
}

impl Step<'_> {
    /// From the stream to what joins it.
    pub(super) fn recurrent(&self, il: usize, layer: &Layer, mixer: Mixer, residual: Residual) -> Result<()> {
        match mixer {
            Mixer::Attention | Mixer::None => Ok(()),
            Mixer::DeltaNet(plan) => self.delta_net(il, layer, &plan, residual),
            Mixer::Mamba2(plan) => self.mamba(il, layer, &plan, residual),
            Mixer::ShortConv { taps, channels } => self.short_conv(il, layer, [taps, channels], residual),
        }
    }

    /// The states of a layer, and the rows of this step: a prompt's in turn, those of a step of decoding each for itself.
    pub(super) fn states(&self, layer: &Layer) -> States {
        let alone = self.tiling == Tiling::Rows && self.guesses == Guesses::None;
        let (sequences, keeps) =
            (if alone { 0 } else { self.sequences as i32 }, i32::from(self.guesses == Guesses::New));
        States { pos: self.at.pos, seq: self.at.seq, rows: self.rows as i32, sequences, keeps, ..layer.states }
    }

    /// Where projections go. Those of a step with guesses stay in a place of the layer's own.
    fn projected(&self, layer: &Layer) -> Recurrent {
        let shared = self.m.activations.recurrent;
        match self.guesses {
            Guesses::None => shared,
            Guesses::New | Guesses::Accepted => Recurrent { z: shared.z, ..layer.guessed },
        }
    }

    /// Takes guesses that were right into the states, of what their projections have left. What heads give for them is given once
    /// more, and nobody looks.
    ///
    /// # Errors
    /// The driver refuses a launch, or an earlier one has failed.
    pub fn accept_guesses(&self) -> Result<()> {
        for (plan, layer) in self.c.layers.iter().zip(self.m.own_layers()) {
            match plan.mixer {
                Mixer::Attention | Mixer::None => {}
                Mixer::DeltaNet(d) => drop(self.delta_heads(layer, &d)?),
                Mixer::Mamba2(m) => self.mamba_heads(layer, &m)?,
                Mixer::ShortConv { taps, channels } => drop(self.convolve(layer, [taps, channels])?),
            }
        }
        self.accept_hidden()
    }

    fn delta_net(&self, il: usize, layer: &Layer, d: &DeltaPlan, residual: Residual) -> Result<()> {
        let (r, a) = (self.projected(layer), &self.m.activations);
        let [qkv, z, out] = layer.matrices([AttnQkv, AttnGate, SsmOut]);
        let mut products = vec![segment(&qkv, r.input), segment(&z, r.z)];
        let mut consumers = vec![qkv, z];
        let mut add = |w: Weight, y: Ptr<f32>| {
            products.push(segment(&w, y));
            consumers.push(w);
        };
        if d.heads.are_grouped() {
            add(layer.matrices([SsmBa])[0], r.alpha);
        } else {
            let [alpha, beta] = layer.matrices([SsmAlpha, SsmBeta]);
            add(alpha, r.alpha);
            add(beta, r.beta);
        }
        self.project(il, layer, &consumers, &products, residual)?;
        let late = self.delta_heads(layer, d)?;
        self.late_image(late, d.inner())?;
        self.matmul(self.product(&a.attended, d.inner()), &[segment(&out, a.out)])
    }

    /// From projections to what heads give; whether its image has to be made afterwards.
    fn delta_heads(&self, layer: &Layer, d: &DeltaPlan) -> Result<bool> {
        let (r, grouped, [out]) = (self.projected(layer), d.heads.are_grouped(), layer.matrices([SsmOut]));
        let (alpha, beta) = if grouped { (r.alpha.add(d.n_head_v / d.n_head_k), r.alpha) } else { (r.alpha, r.beta) };
        let (y, image, late) = self.given(&out, d.dim_v);
        let delta = DeltaNet {
            state: self.states(layer),
            input: r.input,
            z: r.z,
            alpha,
            beta,
            conv: layer.vector(SsmConv1d),
            dt: layer.vector(SsmDt),
            a: layer.vector(SsmA),
            norm: layer.vector(SsmNorm),
            y,
            image,
            n_head_k: d.n_head_k as i32,
            n_head_v: d.n_head_v as i32,
            dim_k: d.dim_k as i32,
            dim_v: d.dim_v as i32,
            taps: d.taps as i32,
            grouped: i32::from(grouped),
            eps: self.c.norm_eps,
            pad: 0,
        };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { recurrent::delta_net(self.stream, &delta)? };
        Ok(late)
    }

    fn mamba(&self, il: usize, layer: &Layer, m: &MambaPlan, residual: Residual) -> Result<()> {
        let (r, a, rows) = (self.projected(layer), &self.m.activations, &self.at);
        let [input, out] = layer.matrices([SsmIn, SsmOut]);
        self.project(il, layer, &[input], &[segment(&input, r.input)], residual)?;
        self.mamba_heads(layer, m)?;
        let n = m.inner() / m.n_group;
        let (y, image, late) = self.given(&out, n);
        let (weight, eps) = (layer.vector(SsmNorm), self.c.norm_eps);
        let norm = GroupNorm { x: r.z, weight, seq: rows.seq, y, image, n: n as i32, eps };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { mamba::group_norm(self.stream, [self.rows, m.n_group], &norm)? };
        self.late_image(late, m.inner())?;
        self.matmul(self.product(&a.attended, m.inner()), &[segment(&out, a.out)])
    }

    /// From projections to what heads give before its norm.
    fn mamba_heads(&self, layer: &Layer, m: &MambaPlan) -> Result<()> {
        let r = self.projected(layer);
        let heads = Mamba {
            state: self.states(layer),
            input: r.input,
            conv: layer.vector(SsmConv1d),
            bias: layer.vector(SsmConv1dBias),
            dt: layer.vector(SsmDt),
            a: layer.vector(SsmA),
            d: layer.vector(SsmD),
            y: r.z,
            n_group: m.n_group as i32,
            n_head: m.n_head as i32,
            dim_k: m.n_state as i32,
            dim_v: m.head_dim as i32,
            taps: m.taps as i32,
            stride: m.projected() as i32,
        };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { mamba::mamba(self.stream, &heads) }
    }

    fn short_conv(&self, il: usize, layer: &Layer, [taps, channels]: [usize; 2], residual: Residual) -> Result<()> {
        let (r, a) = (self.projected(layer), &self.m.activations);
        let [input, out] = layer.matrices([ShortconvInProj, ShortconvOutProj]);
        self.project(il, layer, &[input], &[segment(&input, r.input)], residual)?;
        let late = self.convolve(layer, [taps, channels])?;
        self.late_image(late, channels)?;
        self.matmul(self.product(&a.attended, channels), &[segment(&out, a.out)])
    }

    /// From the projection to what its convolution gives; whether its image has to be made afterwards.
    fn convolve(&self, layer: &Layer, [taps, channels]: [usize; 2]) -> Result<bool> {
        let [out] = layer.matrices([ShortconvOutProj]);
        let (y, image, late) = self.given(&out, channels);
        let conv = ShortConv {
            state: self.states(layer),
            input: self.projected(layer).input,
            conv: layer.vector(ShortconvConv),
            y,
            image,
            channels: channels as i32,
            taps: taps as i32,
        };
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { recurrent::short_conv(self.stream, &conv)? };
        Ok(late)
    }

    /// Where heads of so many elements go for their last projection: numbers, an image, and whether that has to be made
    /// afterwards, row by row, because heads are not whole blocks of 32.
    pub(super) fn given(&self, consumer: &Weight, width: usize) -> (Ptr<f32>, QuantizedActivations, bool) {
        let a = &self.m.activations;
        let (y, image) = self.wanted(&a.attended, &[*consumer]);
        match !image.q.is_null() && !width.is_multiple_of(32) {
            true => (a.attended.values, QuantizedActivations::default(), true),
            false => (y, image, false),
        }
    }

    /// The image of `k` elements of each row that [`Step::given`] has left to be made afterwards.
    pub(super) fn late_image(&self, late: bool, k: usize) -> Result<()> {
        if !late {
            return Ok(());
        }
        let x = &self.m.activations.attended;
        // SAFETY: parts of the arena with room for the step's rows (see `decoder`).
        unsafe { activations::quantize(self.stream, x.values, x.image, [self.rows, k]) }
    }
}
