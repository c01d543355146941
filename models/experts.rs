//! Which experts a token takes, from the logits of a router.

use crate::{
    layer::{ExpertPlan, Groups},
    spec::Gating,
};

/// An expert that a token takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Its number, below [`ExpertPlan::n_expert`].
    pub expert: u32,
    /// What its output is multiplied by.
    pub weight: f32,
}

/// Weights of chosen experts are divided by their sum, or by this where that is smaller.
const SMALLEST_SUM: f32 = 6.103_515_6e-5;

/// The choices of one token, [`ExpertPlan::n_used`], best first; of equal ones the lower number. `logits` and `bias`
/// have an element for each expert.
pub fn route(plan: &ExpertPlan, logits: &[f32], bias: Option<&[f32]>, out: &mut Vec<Choice>) {
    let p: Vec<f32> = match plan.gating {
        Gating::Softmax => softmax(logits),
        Gating::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
        Gating::SoftmaxOfChosen => logits.to_vec(),
    };
    let mut scores = p.clone();
    for (score, bias) in scores.iter_mut().zip(bias.unwrap_or_default()) {
        *score += bias;
    }
    if let Some(groups) = plan.groups {
        keep_best_groups(&mut scores, groups);
    }
    let chosen = best(&scores, plan.n_used);
    let mut weights: Vec<f32> = chosen.iter().map(|&expert| p[expert]).collect();
    match plan.gating {
        Gating::Softmax | Gating::Sigmoid => {}
        Gating::SoftmaxOfChosen => weights = softmax(&weights),
    }
    if plan.norm {
        let sum = weights.iter().sum::<f32>().max(SMALLEST_SUM);
        weights.iter_mut().for_each(|w| *w /= sum);
    }
    let choice = |(&expert, weight): (&usize, f32)| Choice { expert: expert as u32, weight: weight * plan.scale };
    out.extend(chosen.iter().zip(weights).map(choice));
}

/// The places of the `n` largest, largest first; of equal ones the first. A NaN is smaller than all others.
fn best(scores: &[f32], n: usize) -> Vec<usize> {
    // Adding 0 makes one zero of two.
    let key = |&i: &usize| if scores[i].is_nan() { f32::NEG_INFINITY } else { scores[i] + 0.0 };
    let order = |a: &usize, b: &usize| key(b).total_cmp(&key(a)).then(a.cmp(b));
    let mut places: Vec<usize> = (0..scores.len()).collect();
    if n < places.len() {
        places.select_nth_unstable_by(n, order);
        places.truncate(n);
    }
    places.sort_unstable_by(order);
    places
}

/// Leaves the groups whose best scores have the largest sum.
fn keep_best_groups(scores: &mut [f32], groups: Groups) {
    let size = scores.len() / groups.count;
    let sum_of_best = |group: &[f32]| best(group, groups.best).iter().map(|&i| group[i]).sum::<f32>();
    let sums: Vec<f32> = scores.chunks_exact(size).map(sum_of_best).collect();
    let kept = best(&sums, groups.used);
    for (i, group) in scores.chunks_exact_mut(size).enumerate() {
        if !kept.contains(&i) {
            group.fill(f32::NEG_INFINITY);
        }
    }
}

fn softmax(x: &[f32]) -> Vec<f32> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f32> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f32 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}
