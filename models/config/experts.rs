//! The experts of each layer, from keys and from the tensors that are there.

use qrun_quant::Result;

use super::keys::{Keys, LIMIT};
use crate::{
    layer::{ExpertPlan, FeedForwardPlan, Groups, SharedExpert},
    spec::{ArchSpec, Gating, GroupScore},
};

/// What all layers with experts have in common, and the widths of the others.
pub struct Reader<'a> {
    keys: &'a Keys<'a>,
    experts: Option<ExpertPlan>,
    /// Width of each block's feed-forward, where the file says; 0 where it has none.
    n_ff: Option<Vec<usize>>,
    /// Width of one expert of each block.
    n_ff_expert: Option<Vec<usize>>,
}

impl<'a> Reader<'a> {
    /// Reads the keys of `n_block` blocks.
    ///
    /// # Errors
    /// A key has a wrong type or is out of range: more experts used than there are, groups that do not divide them, a
    /// gating that is none of 1 to 3.
    pub fn new(keys: &'a Keys, spec: &ArchSpec, n_block: usize) -> Result<Self> {
        let least = if spec.residual.is_single() { 0 } else { 1 };
        let n_ff = keys.sizes_from(least, "feed_forward_length", n_block)?;
        let n_ff_expert = match keys.optional_sizes("expert_feed_forward_length", n_block)? {
            Some(sizes) => Some(sizes),
            None => n_ff.clone(),
        };
        Ok(Self { keys, experts: common(keys, spec, n_block)?, n_ff, n_ff_expert })
    }

    /// What follows attention in block `il`.
    ///
    /// # Errors
    /// The file does not say how wide the feed-forward, or one expert, of the block is.
    pub fn feed_forward(&self, il: usize) -> Result<FeedForwardPlan> {
        match self.plan(il)? {
            Some(experts) => Ok(FeedForwardPlan::Experts(experts)),
            None => Ok(FeedForwardPlan::Dense { n_ff: self.dense(il)? }),
        }
    }

    /// The experts of block `il`; `None` where it has no router.
    fn plan(&self, il: usize) -> Result<Option<ExpertPlan>> {
        let rows = |part: &str| self.keys.g.tensor(&format!("blk.{il}.{part}.weight")).map(|t| t.rows());
        let Some(experts) = self.experts.filter(|_| rows("ffn_gate_inp").is_some()) else { return Ok(None) };
        let n_ff = self.n_ff_expert.as_ref().ok_or_else(|| self.keys.absent("expert_feed_forward_length"))?[il];
        let gated = rows("ffn_gate_inp_shexp").is_some();
        let shared = rows("ffn_up_shexp").filter(|&n| n <= LIMIT).map(|n_ff| SharedExpert { n_ff, gated });
        let has = |name: &str| self.keys.g.tensor(&format!("blk.{il}.{name}")).is_some();
        let beside = if has("pre_ffw_norm_2.weight") { Some(self.dense(il)?) } else { None };
        Ok(Some(ExpertPlan {
            n_ff,
            shared,
            bias: has("exp_probs_b.bias"),
            beside,
            fused: has("ffn_gate_up_exps.weight"),
            latent: rows("ffn_latent_down").filter(|&n| n <= LIMIT),
            ..experts
        }))
    }

    /// The width of block `il`, which has none of them.
    ///
    /// # Errors
    /// There is no key `feed_forward_length`.
    pub fn dense(&self, il: usize) -> Result<usize> {
        Ok(self.n_ff.as_ref().ok_or_else(|| self.keys.absent("feed_forward_length"))?[il])
    }
}

/// Numbers of experts and the way they are chosen; `None` for a dense model.
fn common(keys: &Keys, spec: &ArchSpec, n_block: usize) -> Result<Option<ExpertPlan>> {
    let count = |name: &str| keys.g.u64(&keys.key(name));
    let Some(n_expert) = count("expert_count")?.filter(|&n| n > 0) else { return Ok(None) };
    if n_expert > 4096 {
        return Err(keys.error("expert_count", "at most 4096 experts", n_expert));
    }
    let n_used = keys.size("expert_used_count")?;
    if n_used as u64 > n_expert {
        return Err(keys.error("expert_used_count", &format!("at most the {n_expert} experts"), n_used));
    }
    let gating = match count("expert_gating_func")? {
        None | Some(0) => {
            let n_vocab = keys.g.tensor("token_embd.weight").map_or(0, |embedding| embedding.rows());
            let sigmoid = spec.sigmoid_sizes.contains(&[n_block, n_vocab]);
            if sigmoid { Gating::Sigmoid } else { spec.routing.gating }
        }
        Some(1) => Gating::Softmax,
        Some(2) => Gating::Sigmoid,
        Some(3) => Gating::SoftmaxOfChosen,
        Some(other) => {
            let expected = "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)";
            return Err(keys.error("expert_gating_func", expected, other));
        }
    };
    let groups = match count("expert_group_count")?.filter(|&n| n > 1) {
        Some(n) if !n_expert.is_multiple_of(n) || n_expert / n < 2 => {
            let expected = format!("a divisor of the {n_expert} experts, two or more in each group");
            return Err(keys.error("expert_group_count", &expected, n));
        }
        Some(n) => {
            let used = keys.size("expert_group_used_count")?;
            if used as u64 > n || n_used as u64 > used as u64 * (n_expert / n) {
                let expected = format!("enough of the {n} groups for {n_used} experts");
                return Err(keys.error("expert_group_used_count", &expected, used));
            }
            let best = match (spec.group_score, gating) {
                (GroupScore::BestOfSoftmax, Gating::Softmax) => 1,
                (GroupScore::BestOfSoftmax, Gating::Sigmoid | Gating::SoftmaxOfChosen) | (GroupScore::TwoBest, _) => 2,
            };
            Some(Groups { count: n as usize, used, best })
        }
        None => None,
    };
    Ok(Some(ExpertPlan {
        n_expert: n_expert as usize,
        n_used,
        n_ff: 0,
        gating,
        norm: keys.g.bool(&keys.key("expert_weights_norm"))?.unwrap_or(spec.routing.norm),
        scale: keys.f32("expert_weights_scale")?.filter(|&s| s != 0.0).unwrap_or(1.0),
        bias: false,
        groups,
        shared: None,
        beside: None,
        fused: false,
        latent: None,
    }))
}
