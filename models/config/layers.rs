//! The plan of each layer, from the architecture's row, the keys and the tensors that are there.

use qrun_quant::Result;

use super::keys::Keys;
use crate::{
    layer::{LayerPlan, Rope, RopeScaling},
    spec::{ArchSpec, AttentionScale, Window},
};

/// What global layers have in common, and what sliding ones.
#[derive(Clone, Copy)]
struct Reach {
    window: Option<usize>,
    head_dim: usize,
    rope: Rope,
}

/// The plans of the first `n_layer` of `n_block` blocks: what comes behind them in the file does not run.
pub fn plans(keys: &Keys, spec: &ArchSpec, [n_embd, n_block, n_layer]: [usize; 3]) -> Result<Vec<LayerPlan>> {
    let sizes = |name: &str| keys.optional_sizes(name, n_block);
    let n_head = sizes("attention.head_count")?.ok_or_else(|| keys.absent("attention.head_count"))?;
    let n_head_kv = sizes("attention.head_count_kv")?.unwrap_or_else(|| n_head.clone());
    let n_ff = sizes("feed_forward_length")?.ok_or_else(|| keys.absent("feed_forward_length"))?;
    let scale = keys.f32("attention.scale")?.filter(|&s| s != 0.0);
    let global = global(keys, n_embd, &n_head)?;
    let (sliding, slides) = match spec.window {
        Window::None => (global, vec![false; n_block]),
        Window::Periodic { period, default_size } => {
            (sliding(keys, spec, default_size, &global)?, slides(keys, period, n_block)?)
        }
    };
    let plan = |il: usize| {
        let (n_head, n_head_kv) = (n_head[il], n_head_kv[il]);
        if !n_head.is_multiple_of(n_head_kv) {
            let expected = format!("a divisor of {n_head} heads in layer {il}");
            return Err(keys.error("attention.head_count_kv", &expected, n_head_kv));
        }
        let Reach { window, head_dim, rope } = if slides[il] { sliding } else { global };
        let rope = if spec.rope_layers.contains(il) { rope } else { Rope::NONE };
        let divisor = match spec.attention_scale {
            AttentionScale::EmbdPerHead { n_layer: wide } if wide == n_layer => n_embd / n_head,
            AttentionScale::EmbdPerHead { .. } | AttentionScale::HeadDim => head_dim,
        };
        let attention_scale = scale.unwrap_or(1.0 / (divisor as f32).sqrt());
        Ok(LayerPlan { n_head, n_head_kv, head_dim, attention_scale, window, rope, n_ff: n_ff[il] })
    };
    (0..n_layer).map(plan).collect()
}

/// Layers that see everything.
fn global(keys: &Keys, n_embd: usize, n_head: &[usize]) -> Result<Reach> {
    let default = || match n_head {
        [first, rest @ ..] if rest.iter().any(|n| n != first) => {
            Err(keys.error("attention.key_length", "a value, as layers differ in heads", "no such key"))
        }
        [n, ..] if !n_embd.is_multiple_of(*n) => {
            Err(keys.error("embedding_length", &format!("a multiple of {n} heads"), n_embd))
        }
        heads => Ok(n_embd / heads[0]),
    };
    let head_dim = head_dim(keys, "", default)?;
    let factor = match keys.positive("rope.scaling.factor")? {
        Some(f) => f,
        None => keys.positive("rope.scale_linear")?.unwrap_or(1.0),
    };
    let scaling = match keys.g.str(&keys.key("rope.scaling.type"))? {
        Some("none") => RopeScaling::None,
        _ => RopeScaling::Linear(factor),
    };
    let rope = Rope {
        n_rot: n_rot(keys, "", head_dim, head_dim)?,
        base: keys.positive("rope.freq_base")?.unwrap_or(10_000.0),
        scaling,
        factors: keys.g.tensor("rope_freqs.weight").is_some(),
    };
    Ok(Reach { window: None, head_dim, rope })
}

/// Layers that see a window: as global ones but for what has keys of its own.
fn sliding(keys: &Keys, spec: &ArchSpec, default_size: usize, global: &Reach) -> Result<Reach> {
    // Zero means "no window" in files that carry the key without using it: refused, as the architecture is defined by
    // its window.
    let size = keys.optional_size("attention.sliding_window")?.unwrap_or(default_size);
    let head_dim = head_dim(keys, "_swa", || Ok(global.head_dim))?;
    let default_rot = keys.optional_size("rope.dimension_count")?.unwrap_or(head_dim);
    // A local base goes with local frequencies that are not stretched (Gemma 3 4B and larger).
    let (base, scaling) = match spec.rope_base_local {
        Some(base) => (keys.positive("rope.freq_base_swa")?.unwrap_or(base), RopeScaling::None),
        None => (global.rope.base, global.rope.scaling),
    };
    let rope = Rope { n_rot: n_rot(keys, "_swa", head_dim, default_rot)?, base, scaling, factors: false };
    Ok(Reach { window: Some(size), head_dim, rope })
}

/// Which of `n_block` blocks slide: the pattern of the file, block by block or as a period, else `period`.
fn slides(keys: &Keys, mut period: usize, n_block: usize) -> Result<Vec<bool>> {
    let key = "attention.sliding_window_pattern";
    if let Some(pattern) = keys.numbers(key, n_block)? {
        return Ok(pattern.into_iter().map(|v| v != 0.0).collect());
    }
    if let Some(n) = keys.optional_size(key)? {
        period = n;
    }
    Ok((0..n_block).map(|il| il % period < period - 1).collect())
}

/// Elements of a head in layers whose keys end in `suffix`: of keys, and of values as many.
fn head_dim(keys: &Keys, suffix: &str, default: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let [k, v] = ["key", "value"].map(|part| format!("attention.{part}_length{suffix}"));
    let head_dim = keys.optional_size(&k)?.map_or_else(default, Ok)?;
    let value_length = keys.optional_size(&v)?.unwrap_or(head_dim);
    if value_length != head_dim {
        return Err(keys.error(&v, &format!("the key length {head_dim}"), value_length));
    }
    if head_dim > 1024 || !head_dim.is_multiple_of(16) {
        return Err(keys.error(&k, "a multiple of 16 up to 1024", head_dim));
    }
    Ok(head_dim)
}

/// Elements of a head that turn, in layers whose keys end in `suffix`.
fn n_rot(keys: &Keys, suffix: &str, head_dim: usize, default: usize) -> Result<usize> {
    let key = format!("rope.dimension_count{suffix}");
    let n_rot = keys.optional_size(&key)?.unwrap_or(default);
    if n_rot > head_dim || !n_rot.is_multiple_of(2) {
        return Err(keys.error(&key, &format!("an even number up to {head_dim}"), n_rot));
    }
    Ok(n_rot)
}
