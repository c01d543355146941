//! The plan of each layer, from the architecture's row, the keys and the tensors that are there.

use std::ops::Range;

use qrun_quant::Result;

use super::{experts, keys::Keys, latent::Latent, recurrent, rope};
use crate::{
    layer::{FeedForwardPlan, HeadNorm, KvSource, LayerPlan, Mixer, Rope},
    spec::{ArchSpec, AttentionScale, Mask, PlaceInPeriod, QkNorm, Recurrent, Residual, RopeLayers, Values, Window},
};

/// What global layers have in common, and what sliding ones.
#[derive(Clone, Copy)]
pub struct Reach {
    pub window: Option<usize>,
    pub head_dim: usize,
    pub rope: Rope,
}

/// The plans of some of `n_block` blocks, of which the first `n_layer` are layers; those behind them attend.
///
/// # Errors
/// A key is missing, has a wrong type or is out of range, or two layers that share a cache differ; the error names the
/// key.
pub fn plans(
    keys: &Keys,
    spec: &ArchSpec,
    [n_embd, n_block, n_layer]: [usize; 3],
    blocks: Range<usize>,
) -> Result<Vec<LayerPlan>> {
    let sizes = |name: &str| keys.optional_sizes(name, n_block);
    let n_head = sizes("attention.head_count")?.ok_or_else(|| keys.absent("attention.head_count"))?;
    let experts = experts::Reader::new(keys, spec, n_block)?;
    if spec.latent {
        let latent = Latent::read(keys, spec)?;
        return blocks.map(|il| Ok(latent.layer(n_head[il], experts.feed_forward(il)?))).collect();
    }
    // Layers without attention may have 0 of them.
    let least = match spec.recurrent {
        Recurrent::None | Recurrent::DeltaNet { .. } => 1,
        Recurrent::ShortConv | Recurrent::Mamba2 => 0,
    };
    let n_head_kv = keys.sizes_from(least, "attention.head_count_kv", n_block)?.unwrap_or_else(|| n_head.clone());
    let mut mixers = recurrent::mixers(keys, spec, n_embd, &n_head_kv)?;
    mixers[n_layer..].fill(Mixer::Attention);
    let scale = keys.f32("attention.scale")?.filter(|&s| s != 0.0);
    let global = global(keys, spec, n_embd, &n_head)?;
    let (sliding, slides) = match spec.window {
        Window::Periodic { period, global: place, default_size } => match window(keys, default_size)? {
            Some(size) => (sliding(keys, spec, size, &global)?, slides(keys, (period, place), n_block)?),
            None => (global, vec![false; n_block]),
        },
        Window::None => (global, vec![false; n_block]),
    };
    let rope_layers = rope_layers(keys, spec)?;
    let n_own = own_kv(keys, n_layer)?;
    let n_embd_per_layer = n_embd_per_layer(keys)?;
    let mask = mask(keys, spec)?;
    let plan = |il: usize| {
        let (mixer, feed_forward) = match spec.residual {
            Residual::Single if n_head_kv[il] > 0 => (Mixer::Attention, FeedForwardPlan::None),
            Residual::Single => match experts.feed_forward(il)? {
                FeedForwardPlan::Dense { n_ff: 0 } => (mixers[il], FeedForwardPlan::None),
                feed_forward => (Mixer::None, feed_forward),
            },
            Residual::PreNorm
            | Residual::PrePostNorm
            | Residual::PostNorm
            | Residual::Parallel
            | Residual::NormedSum => (mixers[il], experts.feed_forward(il)?),
        };
        if mixer != Mixer::Attention {
            return Ok(LayerPlan::without_attention(mixer, feed_forward));
        }
        let (n_head, n_head_kv) = (n_head[il], n_head_kv[il]);
        if !n_head.is_multiple_of(n_head_kv) {
            let expected = format!("a divisor of {n_head} heads in layer {il}");
            return Err(keys.error("attention.head_count_kv", &expected, n_head_kv));
        }
        let Reach { window, head_dim, mut rope } = if slides[il] { sliding } else { global };
        if !rope_layers.contains(il, &slides) {
            rope = Rope::NONE;
        }
        let divisor = match spec.attention_scale {
            AttentionScale::One => 1,
            AttentionScale::EmbdPerHead { n_layer: wide } if wide == n_layer => n_embd / n_head,
            AttentionScale::EmbdPerHead { .. } | AttentionScale::HeadDim => head_dim,
        };
        let mut attention_scale = scale.unwrap_or(1.0 / (divisor as f32).sqrt());
        if rope.n_rot == head_dim {
            attention_scale *= rope.magnitude * rope.magnitude;
            rope.magnitude = 1.0;
        }
        let has = |part: &str| keys.g.tensor(&format!("blk.{il}.{part}.weight")).is_some();
        let qk_norm = match spec.qk_norm {
            QkNorm::IfPresent if has("attn_q_norm") => HeadNorm::Head,
            QkNorm::None | QkNorm::IfPresent => HeadNorm::None,
            QkNorm::Head => HeadNorm::Head,
            QkNorm::Whole => HeadNorm::Whole,
        };
        let v_norm = match spec.values {
            Values::Projected => false,
            Values::Normed => true,
        };
        let kv = if (n_own..n_layer).contains(&il) {
            let source = (0..n_own).rev().find(|&earlier| slides[earlier] == slides[il]);
            let expected = || format!("a layer of the kind of layer {il} before those that share");
            KvSource::Layer(
                source.ok_or_else(|| keys.error("attention.shared_kv_layers", &expected(), n_layer - n_own))?,
            )
        } else if v_norm && !has("attn_v") && !has("attn_qkv") {
            KvSource::Keys
        } else {
            KvSource::Projections
        };
        Ok(LayerPlan {
            mixer,
            is_normed: spec.is_normed(il),
            n_head,
            n_head_kv,
            head_dim,
            attention_scale,
            mask,
            window,
            rope,
            qk_norm,
            kv,
            v_norm,
            feed_forward,
            n_embd_per_layer,
            output_scale: has("layer_output_scale"),
        })
    };
    let plans = blocks.clone().map(plan).collect::<Result<Vec<_>>>()?;
    for (il, plan) in blocks.clone().zip(&plans) {
        let source = &plans[plan.kv.layer(il) - blocks.start];
        if source.n_head_kv != plan.n_head_kv {
            let expected = format!("the {} heads of layer {} in layer {il}", source.n_head_kv, plan.kv.layer(il));
            return Err(keys.error("attention.head_count_kv", &expected, plan.n_head_kv));
        }
    }
    Ok(plans)
}

/// Which layers have a rotary embedding, as the file has it.
fn rope_layers(keys: &Keys, spec: &ArchSpec) -> Result<RopeLayers> {
    let finetuned = keys.g.bool(&keys.key("rope.scaling.finetuned"))?;
    match spec.rope_layers {
        RopeLayers::Finetuned if finetuned == Some(false) => Ok(RopeLayers::None),
        others => Ok(others),
    }
}

/// Which tokens of a text attention sees.
///
/// # Errors
/// `attention.causal` is there and no bool.
pub fn mask(keys: &Keys, spec: &ArchSpec) -> Result<Mask> {
    Ok(match keys.g.bool(&keys.key("attention.causal"))? {
        None => spec.mask,
        Some(true) => Mask::Causal,
        Some(false) => Mask::None,
    })
}

/// How many layers have keys and values of their own; those behind them attend to caches of these.
fn own_kv(keys: &Keys, n_layer: usize) -> Result<usize> {
    let key = "attention.shared_kv_layers";
    match keys.g.u64(&keys.key(key))?.unwrap_or(0) {
        shared if shared < n_layer as u64 => Ok(n_layer - shared as usize),
        shared => Err(keys.error(key, &format!("fewer than the {n_layer} layers"), shared)),
    }
}

/// Elements of an embedding that a token has for each layer; 0: it has none.
///
/// # Errors
/// The key is there and no unsigned integer, or too large.
pub fn n_embd_per_layer(keys: &Keys) -> Result<usize> {
    let key = "embedding_length_per_layer_input";
    if keys.g.u64(&keys.key(key))? == Some(0) { Ok(0) } else { Ok(keys.optional_size(key)?.unwrap_or(0)) }
}

/// Size of the sliding window. Zero means "no window" where the architecture does without one; elsewhere it is refused,
/// as the architecture is defined by its window.
fn window(keys: &Keys, default_size: Option<usize>) -> Result<Option<usize>> {
    let key = "attention.sliding_window";
    if default_size.is_none() && keys.g.u64(&keys.key(key))? == Some(0) {
        return Ok(None);
    }
    Ok(keys.optional_size(key)?.or(default_size))
}

/// Layers that see everything.
fn global(keys: &Keys, spec: &ArchSpec, n_embd: usize, n_head: &[usize]) -> Result<Reach> {
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
    Ok(Reach { window: None, head_dim, rope: rope::global(keys, spec, head_dim)? })
}

/// Layers that see a window: as global ones but for what has keys of its own.
fn sliding(keys: &Keys, spec: &ArchSpec, size: usize, global: &Reach) -> Result<Reach> {
    let head_dim = head_dim(keys, "_swa", || Ok(global.head_dim))?;
    Ok(Reach { window: Some(size), head_dim, rope: rope::sliding(keys, spec, head_dim, &global.rope)? })
}

/// Which of `n_block` blocks slide: the pattern of the file, block by block or as a period, else `period`.
fn slides(keys: &Keys, (mut period, global): (usize, PlaceInPeriod), n_block: usize) -> Result<Vec<bool>> {
    let key = "attention.sliding_window_pattern";
    if let Some(pattern) = keys.numbers(key, n_block)? {
        return Ok(pattern.into_iter().map(|v| v != 0.0).collect());
    }
    if let Some(n) = keys.optional_size(key)? {
        period = n;
    }
    Ok((0..n_block).map(|il| !global.contains(il, period)).collect())
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
