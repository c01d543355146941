//! Layers without attention: which they are, and their sizes.

use qrun_quant::Result;

use super::keys::Keys;
use crate::{
    layer::{DeltaPlan, MambaPlan, Mixer},
    spec::{ArchSpec, DeltaHeads, Recurrent},
};

/// What each block looks back with if it does; `n_head_kv` has an element for each of them.
///
/// # Errors
/// A size of the recurrent layers is missing or out of range, heads do not divide it, or `attention.recurrent_layers`
/// is not as long as there are blocks.
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
        Recurrent::Mamba2 => {
            let plan = mamba(keys)?;
            let of_block = |(il, &n): (usize, &usize)| match n {
                0 => {
                    let bias = keys.g.tensor(&format!("blk.{il}.ssm_conv1d.bias")).is_some();
                    Mixer::Mamba2(MambaPlan { bias, ..plan })
                }
                _ => Mixer::Attention,
            };
            Ok(n_head_kv.iter().enumerate().map(of_block).collect())
        }
    }
}

fn mamba(keys: &Keys) -> Result<MambaPlan> {
    let (n_group, n_head) = (keys.size("ssm.group_count")?, keys.size("ssm.time_step_rank")?);
    if !n_head.is_multiple_of(n_group) {
        let expected = format!("a multiple of {n_group} groups (ssm.group_count)");
        return Err(keys.error("ssm.time_step_rank", &expected, n_head));
    }
    Ok(MambaPlan {
        n_group,
        n_head,
        head_dim: value_dim(keys, n_head)?,
        n_state: state_size(keys)?,
        taps: taps(keys, "ssm.conv_kernel")?,
        bias: false,
    })
}

fn delta_net(keys: &Keys, heads: DeltaHeads) -> Result<DeltaPlan> {
    let (n_head_k, n_head_v) = (keys.size("ssm.group_count")?, keys.size("ssm.time_step_rank")?);
    if !n_head_v.is_multiple_of(n_head_k) {
        let expected = format!("a multiple of {n_head_k} key heads (ssm.group_count)");
        return Err(keys.error("ssm.time_step_rank", &expected, n_head_v));
    }
    let (dim_k, dim_v) = (state_size(keys)?, value_dim(keys, n_head_v)?);
    Ok(DeltaPlan { n_head_k, n_head_v, dim_k, dim_v, taps: taps(keys, "ssm.conv_kernel")?, heads })
}

/// Elements of a key.
fn state_size(keys: &Keys) -> Result<usize> {
    match keys.size("ssm.state_size")? {
        n @ 1..=1024 => Ok(n),
        n => Err(keys.error("ssm.state_size", "at most 1024", n)),
    }
}

/// Elements of a value.
fn value_dim(keys: &Keys, n_head: usize) -> Result<usize> {
    let inner = keys.size("ssm.inner_size")?;
    if !inner.is_multiple_of(n_head) || inner / n_head > 1024 {
        let expected = format!("a multiple of {n_head} heads (ssm.time_step_rank), of 1024 elements at most");
        return Err(keys.error("ssm.inner_size", &expected, inner));
    }
    Ok(inner / n_head)
}

fn taps(keys: &Keys, key: &str) -> Result<usize> {
    match keys.size(key)? {
        n @ 2..=16 => Ok(n),
        n => Err(keys.error(key, "a number from 2 to 16", n)),
    }
}
