//! What distinguishes the attention of one architecture from that of another.

/// Which tokens of a text a token sees (`attention.causal`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// Those up to itself; a window reaches back only.
    Causal,
    /// All of them, so that a text goes through the layers whole; half of a window reaches back, half forward.
    None,
}

impl Mask {
    /// Whether a token sees those up to itself alone.
    pub fn is_causal(self) -> bool {
        match self {
            Self::Causal => true,
            Self::None => false,
        }
    }
}

/// Norms of queries and keys before they turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// They turn as they are projected.
    None,
    /// Of each head.
    Head,
    /// Of all heads together.
    Whole,
    /// Of each head where the file has the tensors.
    IfPresent,
}

/// What attention sums up, weighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// As `attn_v` projects them.
    Projected,
    /// Each head is normed, without a weight. Where a layer has no `attn_v` they are its keys before norm and rotation.
    Normed,
}

/// Where the gate of attention comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionGate {
    /// There is none.
    None,
    /// `attn_q` gives it, behind each head's query.
    InQuery,
    /// A matrix of its own, `attn_gate`.
    Own,
}

/// What `q·k` is divided by: the square root of a number of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionScale {
    /// 1: the norms of queries and keys scale them.
    One,
    /// `sqrt(head_dim)`, as in most models.
    HeadDim,
    /// `n_embd / n_head` in the one size with this many layers (the 27B Gemmas), else `head_dim`. No key tells them apart.
    EmbdPerHead {
        /// Layers of that size.
        n_layer: usize,
    },
}

/// Pair layout of a rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Adjacent pairs `(2i, 2i+1)`; llama's GGUF rows are permuted for it.
    Interleaved,
    /// Half-split pairs `(i, i + n_rot/2)`, "NEOX".
    Halves,
}

/// Layers with a rotary embedding; the others see no positions but by the causal mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayers {
    /// Every layer.
    All,
    /// No layer.
    None,
    /// All but the last of every `n` layers.
    AllButEvery(usize),
    /// Sliding layers; all of them where none slides.
    Sliding,
    /// Every layer, unless the file says with `rope.scaling.finetuned` that there are none.
    Finetuned,
}

impl RopeLayers {
    /// Whether layer `il` is one of them; `slides` says which layers have a sliding window.
    pub fn contains(self, il: usize, slides: &[bool]) -> bool {
        match self {
            Self::All | Self::Finetuned => true,
            Self::None => false,
            Self::AllButEvery(n) => !(il + 1).is_multiple_of(n),
            Self::Sliding => slides[il] || !slides.contains(&true),
        }
    }
}

/// Rotary embedding of sliding layers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LocalRope {
    /// As that of global layers; the base is theirs unless the file says otherwise.
    Same,
    /// Never scaled; the base is that of global layers unless the file says otherwise.
    Unscaled,
    /// Never scaled; this base where `rope.freq_base_swa` is absent.
    Base(f32),
}

/// Which layers attend to a sliding window only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// All layers see everything.
    None,
    /// All layers but one of each period; the size is a key of the file.
    Periodic {
        /// Length of the pattern, unless the file says otherwise.
        period: usize,
        /// The one that sees everything.
        global: PlaceInPeriod,
        /// Size in tokens when the key is absent; `None`: no layer slides then.
        default_size: Option<usize>,
    },
}

/// A layer of each `period` layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceInPeriod {
    /// `il % period == 0`.
    First,
    /// `il % period == period - 1`.
    Last,
}

impl PlaceInPeriod {
    /// Whether layer `il` is it.
    pub fn contains(self, il: usize, period: usize) -> bool {
        match self {
            Self::First => il.is_multiple_of(period),
            Self::Last => (il + 1).is_multiple_of(period),
        }
    }
}
