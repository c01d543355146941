//! Layers with latent attention.

use qrun_quant::Result;

use super::{keys::Keys, rope};
use crate::{
    layer::{FeedForwardPlan, HeadNorm, KvSource, LatentPlan, LayerPlan, Mixer, Rope},
    spec::{ArchSpec, Mask},
};

/// What all layers of a model have in common.
pub struct Latent {
    plan: LatentPlan,
    rope: Rope,
    attention_scale: f32,
}

impl Latent {
    /// Reads the keys that all layers share.
    ///
    /// # Errors
    /// A key is missing, has a wrong type or is out of range: a rank that is no multiple of 16, more than 1024 elements
    /// of the cache, keys of a head that are no longer than what turns of them.
    pub fn read(keys: &Keys, spec: &ArchSpec) -> Result<Self> {
        let n_rot = keys.size("rope.dimension_count")?;
        let rope = rope::global(keys, spec, n_rot)?;
        let rank_key = "attention.kv_lora_rank";
        let rank = keys.size(rank_key)?;
        if !rank.is_multiple_of(16) || rank + n_rot > 1024 {
            let expected = format!("a multiple of 16, up to 1024 with the {n_rot} elements that turn");
            return Err(keys.error(rank_key, &expected, rank));
        }
        // Where both are there one is of what the cache has. Files of before 2025-04 have only the other.
        let key = length(keys, "key", rank + n_rot)?;
        let n_value = length(keys, "value", rank)?;
        let Some(n_nope) = key.checked_sub(n_rot).filter(|&n| n > 0) else {
            let expected = format!("more than the {n_rot} elements that turn");
            return Err(keys.error("attention.key_length_mla", &expected, key));
        };
        let q_rank_key = "attention.q_lora_rank";
        let q_rank = match keys.g.u64(&keys.key(q_rank_key))? {
            Some(0) => None,
            _ => keys.optional_size(q_rank_key)?,
        };
        let scale = keys.f32("attention.scale")?.filter(|&s| s != 0.0).unwrap_or(1.0 / (key as f32).sqrt());
        let sharper = rope::sharper(keys, &rope)?;
        let plan = LatentPlan { rank, q_rank, n_nope, n_value };
        Ok(Self { plan, rope, attention_scale: scale * sharper * sharper })
    }

    pub fn layer(&self, n_head: usize, feed_forward: FeedForwardPlan) -> LayerPlan {
        LayerPlan {
            mixer: Mixer::Attention,
            is_normed: false,
            n_head,
            n_head_kv: 1,
            head_dim: self.plan.rank + self.rope.n_rot,
            attention_scale: self.attention_scale,
            mask: Mask::Causal,
            window: None,
            rope: self.rope,
            qk_norm: HeadNorm::None,
            kv: KvSource::Latent(self.plan),
            v_norm: false,
            feed_forward,
            n_embd_per_layer: 0,
            output_scale: false,
        }
    }
}

/// Elements of a head's key or value before the cache has them as `cached` elements for all heads.
fn length(keys: &Keys, part: &str, cached: usize) -> Result<usize> {
    let (whole, own) = (format!("attention.{part}_length"), format!("attention.{part}_length_mla"));
    let Some(length) = keys.optional_size(&own)? else { return keys.size(&whole) };
    match keys.optional_size(&whole)? {
        Some(other) if other != cached => {
            Err(keys.error(&whole, &format!("the {cached} elements of the cache"), other))
        }
        _ => Ok(length),
    }
}
