//! The tensors of a layer: the one list that loading, uploading, counting and making models walk.

use std::ops::{Index, Range};

use crate::{
    layer::{FeedForwardPlan, HeadNorm, KvSource, LayerPlan, Mixer},
    spec::{ArchSpec, AttentionGate, Norm},
};

/// Names each role once: its variant, its place in [`Role::ALL`] and its name in files.
macro_rules! roles {
    ($($(#[$doc:meta])+ $role:ident = $name:literal,)+) => {
        /// What a tensor does in its layer, in the order in which files and devices have them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Role {
            $($(#[$doc])+ $role,)+
        }

        impl Role {
            /// Every role, in the order of the table below.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$role),+];

            /// Its name, in files between `blk.N.` and `.weight`; see [`Role::of_file`] for how it is written there.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$role => $name,)+
                }
            }
        }
    };
}

roles! {
    /// Norm before attention.
    AttnNorm = "attn_norm",
    /// Query projection.
    AttnQ = "attn_q",
    /// To what queries of latent attention are made of.
    AttnQA = "attn_q_a",
    /// RMSNorm of that.
    AttnQANorm = "attn_q_a_norm",
    /// From there to the queries.
    AttnQB = "attn_q_b",
    /// To the vector that all heads share, and the part of their keys that turns.
    AttnKvAMqa = "attn_kv_a_mqa",
    /// RMSNorm of that vector.
    AttnKvANorm = "attn_kv_a_norm",
    /// Takes the part of each head's query that does not turn to where that vector is.
    AttnKB = "attn_k_b",
    /// Makes each head's value of it.
    AttnVB = "attn_v_b",
    /// Key projection.
    AttnK = "attn_k",
    /// Value projection.
    AttnV = "attn_v",
    /// RMSNorm of each query head, or of all of them.
    AttnQNorm = "attn_q_norm",
    /// RMSNorm of each key head, or of all of them.
    AttnKNorm = "attn_k_norm",
    /// One more logit for the softmax of each query head.
    AttnSinks = "attn_sinks",
    /// What decides how much of each element of attention passes.
    AttnGate = "attn_gate",
    /// From the heads to the residual stream.
    AttnOutput = "attn_output",
    /// Queries, keys and values of a delta net, before its convolution.
    AttnQkv = "attn_qkv",
    /// How far each head forgets.
    SsmAlpha = "ssm_alpha",
    /// How far each head takes a new value.
    SsmBeta = "ssm_beta",
    /// Both, key head by key head: first how far its value heads take new values.
    SsmBa = "ssm_ba",
    /// Of Mamba-2: the gate of its output, the inputs of its convolution, and the time step of each head.
    SsmIn = "ssm_in",
    /// Added to what `ssm_alpha` gives, or to time steps.
    SsmDt = "ssm_dt",
    /// Rate at which each head forgets, negative.
    SsmA = "ssm_a",
    /// How much of its input each head of Mamba-2 gives as it is.
    SsmD = "ssm_d",
    /// Taps of each channel, the newest last.
    SsmConv1d = "ssm_conv1d",
    /// Added to what the convolution gives.
    SsmConv1dBias = "ssm_conv1d.bias",
    /// RMSNorm of what each head of a delta net gives, or each group of heads of Mamba-2.
    SsmNorm = "ssm_norm",
    /// From these heads to the residual stream.
    SsmOut = "ssm_out",
    /// Two gates and the input of a short convolution.
    ShortconvInProj = "shortconv.in_proj",
    /// Taps of each channel, the newest last.
    ShortconvConv = "shortconv.conv",
    /// From a short convolution to the residual stream.
    ShortconvOutProj = "shortconv.out_proj",
    /// Norm of the residual stream that attention has joined.
    AttnOutputNorm = "attn_output_norm",
    /// RMSNorm of the attention output.
    PostAttentionNorm = "post_attention_norm",
    /// Norm before the feed-forward.
    FfnNorm = "ffn_norm",
    /// The router: a logit for each expert.
    FfnGateInp = "ffn_gate_inp",
    /// What the router's input is multiplied by.
    FfnGateInpScale = "ffn_gate_inp.scale",
    /// Added to the probabilities of experts where they are chosen.
    ExpProbsB = "exp_probs_b",
    /// Norm before experts beside a feed-forward.
    PreFfwNorm2 = "pre_ffw_norm_2",
    /// From the residual stream to what experts take.
    FfnLatentDown = "ffn_latent_down",
    /// Gates of all experts, each followed by its up projection.
    FfnGateUpExps = "ffn_gate_up_exps",
    /// Gates of all experts.
    FfnGateExps = "ffn_gate_exps",
    /// Up projections of all experts.
    FfnUpExps = "ffn_up_exps",
    /// The way back from all experts.
    FfnDownExps = "ffn_down_exps",
    /// From what experts give to the residual stream.
    FfnLatentUp = "ffn_latent_up",
    /// RMSNorm of what a feed-forward beside experts gives.
    PostFfwNorm1 = "post_ffw_norm_1",
    /// RMSNorm of what these experts give.
    PostFfwNorm2 = "post_ffw_norm_2",
    /// How much of the shared expert passes: one number for a token.
    FfnGateInpShexp = "ffn_gate_inp_shexp",
    /// Gate of the expert that every token takes.
    FfnGateShexp = "ffn_gate_shexp",
    /// Its up projection.
    FfnUpShexp = "ffn_up_shexp",
    /// The way back from it.
    FfnDownShexp = "ffn_down_shexp",
    /// What decides how much of `ffn_up` passes.
    FfnGate = "ffn_gate",
    /// Up projection of the feed-forward: what the gate multiplies.
    FfnUp = "ffn_up",
    /// Back to the residual stream.
    FfnDown = "ffn_down",
    /// Norm of the residual stream that the feed-forward has joined.
    LayerOutputNorm = "layer_output_norm",
    /// RMSNorm of the feed-forward output.
    PostFfwNorm = "post_ffw_norm",
    /// What decides how much of the token's embedding for the layer passes.
    InpGate = "inp_gate",
    /// From that embedding to the residual stream.
    Proj = "proj",
    /// RMSNorm of what it gives.
    PostNorm = "post_norm",
    /// What the layer's output is multiplied by.
    LayerOutputScale = "layer_output_scale",
}

impl Role {
    /// What stands behind `blk.N.` for this role in files of an architecture; of a matrix without its `.weight`, beside
    /// which there may be a `.scale` and a `.bias`.
    pub fn of_file(self, spec: &ArchSpec, dims: Dims) -> String {
        match (self, dims) {
            (Self::FfnNorm, _) => format!("{}.weight", spec.ffn_norm),
            (Self::ExpProbsB | Self::SsmDt, _) => format!("{}.bias", self.name()),
            (Self::SsmA | Self::SsmD | Self::SsmConv1dBias | Self::FfnGateInpScale, _) => self.name().to_owned(),
            (_, Dims::Vector(_) | Dims::Biased(_) | Dims::Table(..)) => format!("{}.weight", self.name()),
            _ => self.name().to_owned(),
        }
    }
}

/// Size of a tensor in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dims {
    /// `[n]`.
    Vector(usize),
    /// `[n]`, and a bias of as many.
    Biased(usize),
    /// `[rows][cols]`: outputs, inputs. May have a scale `[1]` and a bias `[rows]`.
    Matrix(usize, usize),
    /// `[rows][cols]` numbers that no product takes: taps of channels, weights of norms by group.
    Table(usize, usize),
    /// `[experts][rows][cols]`. May have scales `[experts]` and a bias `[experts][rows]`.
    Experts(usize, usize, usize),
    /// `[heads][rows][cols]`.
    Heads(usize, usize, usize),
}

impl Dims {
    /// Outputs: those of a matrix (of one expert or head), the elements of a vector.
    pub fn rows(self) -> usize {
        match self {
            Self::Vector(n) | Self::Biased(n) | Self::Matrix(n, _) | Self::Table(n, _) => n,
            Self::Experts(_, n, _) | Self::Heads(_, n, _) => n,
        }
    }
}

/// The tensors of a layer, in the order of their roles.
#[rustfmt::skip]
pub fn of_layer(spec: &ArchSpec, n_embd: usize, l: &LayerPlan) -> Vec<(Role, Dims)> {
    use Dims::{Biased, Experts, Heads, Matrix, Table, Vector};
    let (d, q, kv) = (n_embd, l.q_dim(), l.kv_dim());
    let (pre_norm, post_norm) = (spec.residual.pre_norm(), spec.residual.post_norm());
    let norm = match spec.norm {
        Norm::Rms | Norm::Layer => Vector(d),
        Norm::LayerBias => Biased(d),
    };
    let normed_sum = spec.residual.norms_sums();
    let mut list = vec![(Role::AttnNorm, norm, pre_norm && l.mixer != Mixer::None && !l.is_normed)];
    match l.mixer {
        Mixer::Attention => match l.kv {
            KvSource::Latent(p) => {
                let (h, r, rot) = (l.n_head, p.rank, l.rope.n_rot);
                let (q_rows, low) = (h * (p.n_nope + rot), p.q_rank.unwrap_or(0));
                list.extend([
                    (Role::AttnQ,       Matrix(q_rows, d),        p.q_rank.is_none()),
                    (Role::AttnQA,      Matrix(low, d),           p.q_rank.is_some()),
                    (Role::AttnQANorm,  Vector(low),              p.q_rank.is_some()),
                    (Role::AttnQB,      Matrix(q_rows, low),      p.q_rank.is_some()),
                    (Role::AttnKvAMqa,  Matrix(r + rot, d),       true),
                    (Role::AttnKvANorm, Vector(r),                true),
                    (Role::AttnKB,      Heads(h, r, p.n_nope),    true),
                    (Role::AttnVB,      Heads(h, p.n_value, r),   true),
                    (Role::AttnOutput,  Matrix(d, h * p.n_value), true),
                ]);
            }
            KvSource::Projections | KvSource::Keys | KvSource::Layer(_) => {
                let (q_norm, k_norm) = match l.qk_norm {
                    HeadNorm::None | HeadNorm::Head => (l.head_dim, l.head_dim),
                    HeadNorm::Whole => (q, kv),
                };
                let qk_norm = l.qk_norm != HeadNorm::None;
                let (own_gate, in_query) = match spec.attention_gate {
                    AttentionGate::None => (false, 0),
                    AttentionGate::InQuery => (false, q),
                    AttentionGate::Own => (true, 0),
                };
                list.extend([
                    (Role::AttnQ,      Matrix(q + in_query, d), true),
                    (Role::AttnK,      Matrix(kv, d),           l.kv.is_own()),
                    (Role::AttnV,      Matrix(kv, d),           l.kv == KvSource::Projections),
                    (Role::AttnQNorm,  Vector(q_norm),          qk_norm),
                    (Role::AttnKNorm,  Vector(k_norm),          qk_norm && l.kv.is_own()),
                    (Role::AttnSinks,  Vector(l.n_head),        spec.sinks),
                    (Role::AttnGate,   Matrix(q, d),            own_gate),
                    (Role::AttnOutput, Matrix(d, q),            true),
                ]);
            }
        },
        Mixer::DeltaNet(p) => {
            let (channels, inner, heads) = (p.channels(), p.inner(), p.n_head_v);
            let tiled = !p.heads.are_grouped();
            list.extend([
                (Role::AttnQkv,   Matrix(channels, d),     true),
                (Role::AttnGate,  Matrix(inner, d),        true),
                (Role::SsmAlpha,  Matrix(heads, d),        tiled),
                (Role::SsmBeta,   Matrix(heads, d),        tiled),
                (Role::SsmBa,     Matrix(2 * heads, d),    !tiled),
                (Role::SsmDt,     Vector(heads),           true),
                (Role::SsmA,      Vector(heads),           true),
                (Role::SsmConv1d, Table(channels, p.taps), true),
                (Role::SsmNorm,   Vector(p.dim_v),         true),
                (Role::SsmOut,    Matrix(d, inner),        true),
            ]);
        }
        Mixer::ShortConv { taps, .. } => list.extend([
            (Role::ShortconvInProj,  Matrix(3 * d, d), true),
            (Role::ShortconvConv,    Table(d, taps),   true),
            (Role::ShortconvOutProj, Matrix(d, d),     true),
        ]),
        Mixer::Mamba2(p) => {
            let (channels, inner, heads) = (p.channels(), p.inner(), p.n_head);
            list.extend([
                (Role::SsmIn,         Matrix(p.projected(), d),          true),
                (Role::SsmDt,         Vector(heads),                     true),
                (Role::SsmA,          Table(heads, 1),                   true),
                (Role::SsmD,          Table(heads, 1),                   true),
                (Role::SsmConv1d,     Table(channels, p.taps),           true),
                (Role::SsmConv1dBias, Vector(channels),                  p.bias),
                (Role::SsmNorm,       Table(p.n_group, inner / p.n_group), true),
                (Role::SsmOut,        Matrix(d, inner),                  true),
            ]);
        }
        Mixer::None => {}
    }
    let (gated, follows) = (spec.feed_forward.is_gated(), l.feed_forward != FeedForwardPlan::None);
    list.extend([
        (Role::AttnOutputNorm,    norm,      normed_sum),
        (Role::PostAttentionNorm, Vector(d), post_norm),
        (Role::FfnNorm,           norm,      pre_norm && follows && !spec.residual.is_parallel()),
    ]);
    match l.feed_forward {
        FeedForwardPlan::None => {}
        FeedForwardPlan::Dense { n_ff: f } => list.extend([
            (Role::FfnGate,         Matrix(f, d),     gated),
            (Role::FfnUp,           Matrix(f, d),     true),
            (Role::FfnDown,         Matrix(d, f),     true),
        ]),
        FeedForwardPlan::Experts(p) => {
            let (e, f) = (p.n_expert, p.n_ff);
            let (s, shared, shared_gate) = p.shared.map_or((0, false, false), |s| (s.n_ff, true, s.gated));
            let (b, beside) = (p.beside.unwrap_or(0), p.beside.is_some());
            let (x, latent) = (p.latent.unwrap_or(d), p.latent.is_some());
            list.extend([
                (Role::FfnGateInp,       Matrix(e, d),         true),
                (Role::FfnGateInpScale,  Vector(d),            beside),
                (Role::ExpProbsB,        Vector(e),            p.bias),
                (Role::PreFfwNorm2,      Vector(d),            beside),
                (Role::FfnLatentDown,    Matrix(x, d),         latent),
                (Role::FfnGateUpExps,    Experts(e, 2 * f, x), p.fused),
                (Role::FfnGateExps,      Experts(e, f, x),     gated && !p.fused),
                (Role::FfnUpExps,        Experts(e, f, x),     !p.fused),
                (Role::FfnDownExps,      Experts(e, x, f),     true),
                (Role::FfnLatentUp,      Matrix(d, x),         latent),
                (Role::PostFfwNorm1,     Vector(d),            beside),
                (Role::PostFfwNorm2,     Vector(d),            beside),
                (Role::FfnGateInpShexp,  Vector(d),            shared_gate),
                (Role::FfnGateShexp,     Matrix(s, d),         shared && gated),
                (Role::FfnUpShexp,       Matrix(s, d),         shared),
                (Role::FfnDownShexp,     Matrix(d, s),         shared),
                (Role::FfnGate,          Matrix(b, d),         beside),
                (Role::FfnUp,            Matrix(b, d),         beside),
                (Role::FfnDown,          Matrix(d, b),         beside),
            ]);
        }
    }
    let p = l.n_embd_per_layer;
    list.extend([
        (Role::LayerOutputNorm,  norm,         normed_sum),
        (Role::PostFfwNorm,      Vector(d),    post_norm),
        (Role::InpGate,          Matrix(p, d), p > 0),
        (Role::Proj,             Matrix(d, p), p > 0),
        (Role::PostNorm,         Vector(d),    p > 0),
        (Role::LayerOutputScale, Vector(1),    l.output_scale),
    ]);
    list.into_iter().filter(|&(_, _, present)| present).map(|(role, dims, _)| (role, dims)).collect()
}

/// A tensor that a file may have in place of several: their rows, one after the other.
#[derive(Debug)]
pub struct Fused {
    /// Its name in files, between `blk.N.` and `.weight`.
    pub name: &'static str,
    /// What it is made of, in the order of the rows.
    pub parts: &'static [Role],
}

/// Tensors that hold several roles, one behind the other.
static FUSED: [Fused; 2] = [
    Fused { name: "attn_qkv", parts: &[Role::AttnQ, Role::AttnK, Role::AttnV] },
    Fused { name: "ffn_up", parts: &[Role::FfnGate, Role::FfnUp] },
];

impl Fused {
    /// The one that may have this role's tensor in it.
    pub fn of(role: Role) -> Option<&'static Self> {
        FUSED.iter().find(|fused| fused.parts.contains(&role))
    }

    /// Which of its rows are those of a role, and how many it has in a layer of these tensors.
    pub fn rows(&self, role: Role, list: &[(Role, Dims)]) -> (Range<usize>, usize) {
        let (mut own, mut all) = (0..0, 0);
        for (part, dims) in list.iter().filter(|(part, _)| self.parts.contains(part)) {
            if *part == role {
                own = all..all + dims.rows();
            }
            all += dims.rows();
        }
        (own, all)
    }
}

/// One value for each role that a layer has.
#[derive(Debug, Clone)]
pub struct ByRole<T>([Option<T>; Role::ALL.len()]);

impl<T> Default for ByRole<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| None))
    }
}

impl<T> ByRole<T> {
    /// Gives a role its value.
    pub fn set(&mut self, role: Role, value: T) {
        self.0[role as usize] = Some(value);
    }
    /// The value of a role; `None` where the layer has no such tensor.
    pub fn get(&self, role: Role) -> Option<&T> {
        self.0[role as usize].as_ref()
    }
    /// The values in the order of the roles.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}

/// The value of a role that every layer has.
impl<T> Index<Role> for ByRole<T> {
    type Output = T;
    fn index(&self, role: Role) -> &T {
        self.get(role).unwrap_or_else(|| panic!("a layer without {}", role.name()))
    }
}
