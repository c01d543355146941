//! Layers without attention: which they are, and their sizes.

use qrun_quant::Result;

use super::keys::Keys;
use crate::{
    layer::{DeltaPlan, Mixer},
    spec::{ArchSpec, DeltaHeads, Recurrent},
};

/// What each block looks back with; `n_head_kv` has an element for each of them.
pub fn mixers(keys: &Keys, spec: &ArchSpec, n_embd: usize, n_head_kv: &[usize]) -> Result<Vec<Mixer>> {
    let n_block = n_head_kv.len();
    match spec.recurrent {
        Recurrent::None => Ok(vec![Mixer::Attention; n_block]),
        Recurrent::DeltaNet { heads } => {
            let delta = Mixer::DeltaNet(delta_net(keys, heads)?);
            let recurrent = match keys.numbers("attention.recurrent_layers", n_block)? {
                Some(layers) => layers.iter().map(|&l| l != 0.0).collect(),
                None => {
                    let every = keys.optional_size("full_attention_interval")?.unwrap_or(4);
                    (0..n_block).map(|il| !(il + 1).is_multiple_of(every)).collect::<Vec<_>>()
                }
            };
            Ok(recurrent.into_iter().map(|r| if r { delta } else { Mixer::Attention }).collect())
        }
        Recurrent::ShortConv => {
            let conv = Mixer::ShortConv { taps: taps(keys, "shortconv.l_cache")?, channels: n_embd };
            Ok(n_head_kv.iter().map(|&n| if n == 0 { conv } else { Mixer::Attention }).collect())
        }
    }
}

fn delta_net(keys: &Keys, heads: DeltaHeads) -> Result<DeltaPlan> {
    let (n_head_k, n_head_v) = (keys.size("ssm.group_count")?, keys.size("ssm.time_step_rank")?);
    if !n_head_v.is_multiple_of(n_head_k) {
        let expected = format!("a multiple of {n_head_k} key heads (ssm.group_count)");
        return Err(keys.error("ssm.time_step_rank", &expected, n_head_v));
    }
    let (dim_k, inner) = (keys.size("ssm.state_size")?, keys.size("ssm.inner_size")?);
    if dim_k > 1024 {
        return Err(keys.error("ssm.state_size", "at most 1024", dim_k));
    }
    if !inner.is_multiple_of(n_head_v) || inner / n_head_v > 1024 {
        let expected = format!("a multiple of {n_head_v} heads (ssm.time_step_rank), of 1024 elements at most");
        return Err(keys.error("ssm.inner_size", &expected, inner));
    }
    Ok(DeltaPlan { n_head_k, n_head_v, dim_k, dim_v: inner / n_head_v, taps: taps(keys, "ssm.conv_kernel")?, heads })
}

fn taps(keys: &Keys, key: &str) -> Result<usize> {
    match keys.size(key)? {
        n @ 2..=16 => Ok(n),
        n => Err(keys.error(key, "a number from 2 to 16", n)),
    }
}
