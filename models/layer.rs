//! What one layer does: decided once when a file is read, from the architecture's row, the keys and the tensors that
//! are there. Whoever needs a size of a layer asks its plan; whoever needs the largest of all layers asks
//! [`crate::Config::widest`].

/// What one layer does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerPlan {
    /// Query heads.
    pub n_head: usize,
    /// Key/value heads, each for [`LayerPlan::group`] query heads; divides `n_head`.
    pub n_head_kv: usize,
    /// Elements per head of q, k and v.
    pub head_dim: usize,
    /// Factor on the dot products of queries and keys.
    pub attention_scale: f32,
    /// Sliding window in tokens, the current one included; `None`: sees everything.
    pub window: Option<usize>,
    /// Rotary embedding of q and k.
    pub rope: Rope,
    /// Width of the feed-forward.
    pub n_ff: usize,
}

impl LayerPlan {
    /// Elements of all query heads, and of all that attention gives for a token.
    pub fn q_dim(&self) -> usize {
        self.n_head * self.head_dim
    }
    /// Elements of all key (or value) heads.
    pub fn kv_dim(&self) -> usize {
        self.n_head_kv * self.head_dim
    }
    /// Query heads that share a key/value head.
    pub fn group(&self) -> usize {
        self.n_head / self.n_head_kv
    }
    /// How many positions the token at `pos` sees, its own included.
    pub fn seen(&self, pos: usize) -> usize {
        self.window.map_or(pos + 1, |window| window.min(pos + 1))
    }
}

/// A rotary embedding: angle `= pos / scale · base^(-2i/n_rot) / factor_i`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// Elements of a head that turn, from the front; even. 0: the layer has no rotary embedding.
    pub n_rot: usize,
    /// `rope.freq_base`.
    pub base: f32,
    /// How positions beyond those of the training are brought near.
    pub scaling: RopeScaling,
    /// Whether the divisors of `rope_freqs.weight` apply.
    pub factors: bool,
}

impl Rope {
    /// No rotary embedding: no element turns.
    pub const NONE: Self = Self { n_rot: 0, base: 1.0, scaling: RopeScaling::None, factors: false };
}

/// `rope.scaling.type`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Positions as they are.
    None,
    /// Positions are divided by this factor.
    Linear(f32),
}

impl Rope {
    /// Angle per position of each pair, `[n_rot / 2]`; `factors` are those of `rope_freqs.weight`, as many. In f64:
    /// theirs is the only error that grows with the position.
    pub fn frequencies(&self, factors: Option<&[f32]>) -> Vec<f64> {
        let factors = factors.filter(|_| self.factors);
        let frequency = |i: usize| {
            let scale = match self.scaling {
                RopeScaling::None => 1.0,
                RopeScaling::Linear(factor) => f64::from(factor),
            };
            let power = -2.0 * i as f64 / self.n_rot as f64;
            let factor = factors.map_or(1.0, |f| f64::from(f[i]));
            f64::from(self.base).powf(power) / scale / factor
        };
        (0..self.n_rot / 2).map(frequency).collect()
    }
}
