//! Rotary embeddings: of layers that see everything, and of those with a window.

use qrun_quant::Result;

use super::keys::Keys;
use crate::{
    layer::{Rope, RopeFactors, RopeScaling, Yarn},
    spec::{ArchSpec, LocalRope},
};

/// That of layers that see everything.
///
/// # Errors
/// A key of the scaling has a wrong type, is negative or is missing, or the number of elements that turn is odd or
/// above `head_dim`.
pub fn global(keys: &Keys, spec: &ArchSpec, head_dim: usize) -> Result<Rope> {
    let factor = match keys.positive("rope.scaling.factor")? {
        Some(f) => f,
        None => keys.positive("rope.scale_linear")?.unwrap_or(1.0),
    };
    let kind = keys.g.str(&keys.key("rope.scaling.type"))?;
    let scaling = match kind {
        // Frequencies are scaled by the divisors alone.
        Some("none" | "longrope") => RopeScaling::None,
        Some("yarn") => RopeScaling::Yarn(yarn(keys, factor, spec.yarn_rounds)?),
        _ => RopeScaling::Linear(factor),
    };
    let has = |name: &str| keys.g.tensor(name).is_some();
    let factors = if has("rope_factors_long.weight") || has("rope_factors_short.weight") {
        RopeFactors::ByContext { original: keys.size("rope.scaling.original_context_length")? }
    } else if has("rope_freqs.weight") {
        RopeFactors::Freqs
    } else {
        RopeFactors::None
    };
    Ok(Rope {
        n_rot: n_rot(keys, "", head_dim, head_dim)?,
        base: keys.positive("rope.freq_base")?.unwrap_or(10_000.0),
        scaling,
        factors,
        magnitude: magnitude(keys, spec, scaling)?,
    })
}

/// That of layers that see a window: as the global one but for what has keys of its own.
///
/// # Errors
/// The base is no positive number, or the number of elements that turn is odd or above `head_dim`.
pub fn sliding(keys: &Keys, spec: &ArchSpec, head_dim: usize, global: &Rope) -> Result<Rope> {
    let default_rot = keys.optional_size("rope.dimension_count")?.unwrap_or(head_dim);
    let n_rot = n_rot(keys, "_swa", head_dim, default_rot)?;
    let base = keys.positive("rope.freq_base_swa")?;
    let unscaled = |base| Rope { n_rot, base, scaling: RopeScaling::None, factors: RopeFactors::None, magnitude: 1.0 };
    Ok(match spec.rope_local {
        LocalRope::Same => {
            // Divisors are of as many pairs as turn in global layers.
            let factors = if n_rot == global.n_rot { global.factors } else { RopeFactors::None };
            Rope { n_rot, base: base.unwrap_or(global.base), factors, ..*global }
        }
        LocalRope::Unscaled => unscaled(base.unwrap_or(global.base)),
        LocalRope::Base(default) => unscaled(base.unwrap_or(default)),
    })
}

fn yarn(keys: &Keys, factor: f32, rounds: bool) -> Result<Yarn> {
    Ok(Yarn {
        factor,
        original: keys.size("rope.scaling.original_context_length")?,
        beta_fast: keys.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
        beta_slow: keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        rounds,
    })
}

/// What cosines and sines are multiplied by: YaRN sharpens attention as it stretches positions.
fn magnitude(keys: &Keys, spec: &ArchSpec, scaling: RopeScaling) -> Result<f32> {
    let own = keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let RopeScaling::Yarn(yarn) = scaling else { return Ok(own) };
    Ok(match keys.positive("rope.scaling.yarn_log_multiplier")? {
        None => own * yarn.sharper(1.0),
        // Of models with latent attention it is the dividend too, and scores are sharpened by it: see `sharper`.
        Some(_) if spec.latent => own,
        Some(multiplier) => own * yarn.sharper(1.0) / yarn.sharper(multiplier),
    })
}

/// What queries and keys of latent attention are multiplied by, also those of their elements that do not turn.
///
/// # Errors
/// `rope.scaling.yarn_log_multiplier` is there and no number, or negative.
pub fn sharper(keys: &Keys, rope: &Rope) -> Result<f32> {
    let multiplier = keys.positive("rope.scaling.yarn_log_multiplier")?;
    match (rope.scaling, multiplier) {
        // Files of these models have a tenth of it.
        (RopeScaling::Yarn(yarn), Some(multiplier)) => Ok(yarn.sharper(10.0 * multiplier)),
        _ => Ok(1.0),
    }
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
