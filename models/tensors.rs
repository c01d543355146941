//! The tensors of a layer: the one list that loading, uploading, counting and making models walk.

use std::ops::{Index, Range};

use crate::{
    layer::LayerPlan,
    spec::{ArchSpec, Residual},
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

            /// Its name in files, between `blk.N.` and `.weight`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$role => $name,)+
                }
            }
        }
    };
}

roles! {
    /// RMSNorm before attention.
    AttnNorm = "attn_norm",
    /// Query projection.
    AttnQ = "attn_q",
    /// Key projection.
    AttnK = "attn_k",
    /// Value projection.
    AttnV = "attn_v",
    /// RMSNorm of each query head.
    AttnQNorm = "attn_q_norm",
    /// RMSNorm of each key head.
    AttnKNorm = "attn_k_norm",
    /// From the heads to the residual stream.
    AttnOutput = "attn_output",
    /// RMSNorm of the attention output.
    PostAttentionNorm = "post_attention_norm",
    /// RMSNorm before the feed-forward.
    FfnNorm = "ffn_norm",
    /// What decides how much of `ffn_up` passes.
    FfnGate = "ffn_gate",
    /// Up projection of the feed-forward: what the gate multiplies.
    FfnUp = "ffn_up",
    /// Back to the residual stream.
    FfnDown = "ffn_down",
    /// RMSNorm of the feed-forward output.
    PostFfwNorm = "post_ffw_norm",
}

/// Size of a tensor in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dims {
    /// `[n]`.
    Vector(usize),
    /// `[rows][cols]`: outputs, inputs. May have a bias `[rows]`.
    Matrix(usize, usize),
}

impl Dims {
    /// Outputs: those of a matrix, the elements of a vector.
    pub fn rows(self) -> usize {
        match self {
            Self::Vector(n) | Self::Matrix(n, _) => n,
        }
    }
}

/// The tensors of a layer, in the order of their roles.
#[rustfmt::skip]
pub fn of_layer(spec: &ArchSpec, n_embd: usize, l: &LayerPlan) -> Vec<(Role, Dims)> {
    use Dims::{Matrix, Vector};
    let (d, q, kv, f) = (n_embd, l.q_dim(), l.kv_dim(), l.n_ff);
    let post_norm = match spec.residual {
        Residual::PreNorm => false,
        Residual::PrePostNorm => true,
    };
    let list = [
        (Role::AttnNorm,          Vector(d),          true),
        (Role::AttnQ,             Matrix(q, d),       true),
        (Role::AttnK,             Matrix(kv, d),      true),
        (Role::AttnV,             Matrix(kv, d),      true),
        (Role::AttnQNorm,         Vector(l.head_dim), spec.qk_norm),
        (Role::AttnKNorm,         Vector(l.head_dim), spec.qk_norm),
        (Role::AttnOutput,        Matrix(d, q),       true),
        (Role::PostAttentionNorm, Vector(d),          post_norm),
        (Role::FfnNorm,           Vector(d),          true),
        (Role::FfnGate,           Matrix(f, d),       true),
        (Role::FfnUp,             Matrix(f, d),       true),
        (Role::FfnDown,           Matrix(d, f),       true),
        (Role::PostFfwNorm,       Vector(d),          post_norm),
    ];
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
