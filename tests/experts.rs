//! The router of experts: its choices and weights beside a short reference, and what must hold of any.
//!
//! That the product over tokens sorted by expert neither loses nor doubles one is in `decoder::equivalence`: a prompt in one
//! batch gives the bits of its tokens one by one, for every architecture.

use std::cmp::Reverse;

use qrun_models::{
    experts::{Choice, route},
    layer::{ExpertPlan, Groups},
    spec::Gating,
};

use crate::tiny::Rng;

const GATINGS: [Gating; 3] = [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfChosen];
/// `(n_expert, n_used, [groups, groups used, best experts that say how good one is])`.
const SIZES: [(usize, usize, Option<[usize; 3]>); 9] = [
    (1, 1, None),
    (5, 5, None),
    (8, 2, None),
    (64, 6, None),
    (257, 8, None),
    (12, 4, Some([4, 2, 2])),
    (32, 3, Some([8, 1, 2])),
    (30, 10, Some([3, 3, 2])),
    (24, 4, Some([6, 2, 1])),
];

/// Every gating, size, norm and scale.
fn plans() -> impl Iterator<Item = ExpertPlan> {
    let sizes = GATINGS.into_iter().flat_map(|gating| SIZES.map(|size| (gating, size)));
    sizes.flat_map(|(gating, (n_expert, n_used, groups))| {
        [(false, 1.0), (false, 2.5), (true, 1.0), (true, 0.5)].map(|(norm, scale)| {
            let (n_ff, shared, beside) = (32, None, None);
            let (bias, fused, latent) = (false, false, None);
            let groups = groups.map(|[count, used, best]| Groups { count, used, best });
            ExpertPlan { n_expert, n_used, n_ff, gating, norm, scale, bias, groups, shared, beside, fused, latent }
        })
    })
}

/// Multiples of `step` up to `8 · step` on both sides of 0: many are the same.
fn some(rng: &mut Rng, n: usize, step: f32) -> Vec<f32> {
    (0..n).map(|_| (rng.below(17) as f32 - 8.0) * step).collect()
}

fn routed(plan: &ExpertPlan, logits: &[f32], bias: Option<&[f32]>) -> Vec<Choice> {
    let mut out = Vec::new();
    route(plan, logits, bias, &mut out);
    out
}

fn softmax(x: &[f32]) -> Vec<f32> {
    let max = x.iter().copied().fold(f32::MIN, f32::max);
    let sum: f32 = x.iter().map(|x| (x - max).exp()).sum();
    x.iter().map(|x| (x - max).exp() / sum).collect()
}

/// What experts weigh before any norm: the probabilities, or of some gatings those among the chosen.
fn probabilities(plan: &ExpertPlan, logits: &[f32]) -> Vec<f32> {
    match plan.gating {
        Gating::Softmax => softmax(logits),
        Gating::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
        Gating::SoftmaxOfChosen => logits.to_vec(),
    }
}

/// The places of the `n` largest: the first of the largest, then the first of the rest, …
fn largest(x: &[f32], n: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..x.len()).collect();
    places.sort_by(|&a, &b| x[b].partial_cmp(&x[a]).unwrap());
    places[..n].to_vec()
}

fn reference(plan: &ExpertPlan, logits: &[f32], bias: Option<&[f32]>) -> Vec<(usize, f32)> {
    let p = probabilities(plan, logits);
    let mut scores: Vec<f32> = p.iter().enumerate().map(|(i, p)| p + bias.map_or(0.0, |bias| bias[i])).collect();
    if let Some(Groups { count, used, best }) = plan.groups {
        let size = plan.n_expert / count;
        let sum = |g: &[f32]| largest(g, best).iter().map(|&i| g[i]).sum::<f32>();
        let kept = largest(&scores.chunks(size).map(sum).collect::<Vec<_>>(), used);
        (0..plan.n_expert).filter(|i| !kept.contains(&(i / size))).for_each(|i| scores[i] = f32::NEG_INFINITY);
    }
    let chosen = largest(&scores, plan.n_used);
    let mut weights: Vec<f32> = chosen.iter().map(|&i| p[i]).collect();
    if plan.gating == Gating::SoftmaxOfChosen {
        weights = softmax(&weights);
    }
    let sum = if plan.norm { weights.iter().sum::<f32>() } else { 1.0 };
    chosen.into_iter().zip(weights).map(|(i, w)| (i, w / sum * plan.scale)).collect()
}

#[test]
fn choices_are_those_of_the_reference() {
    let mut rng = Rng::new("routes");
    for plan in plans() {
        for round in 0..200 {
            let logits = some(&mut rng, plan.n_expert, 0.5);
            let bias = (round % 2 == 1).then(|| some(&mut rng, plan.n_expert, 0.03125));
            let ours = routed(&plan, &logits, bias.as_deref());
            let theirs = reference(&plan, &logits, bias.as_deref());
            assert_eq!(ours.len(), plan.n_used);
            for (ours, (expert, weight)) in ours.iter().zip(&theirs) {
                let same = ours.expert as usize == *expert && (ours.weight - weight).abs() <= 1e-6 * weight.abs();
                assert!(same, "{ours:?}, not expert {expert} with weight {weight}: {plan:?} of {logits:?}, {bias:?}");
            }
        }
    }
}

#[test]
fn of_equal_experts_those_in_front_are_chosen() {
    for plan in plans() {
        for level in [0.0, -0.0, 3.0, -90.0] {
            let chosen: Vec<usize> =
                routed(&plan, &vec![level; plan.n_expert], None).iter().map(|c| c.expert as usize).collect();
            assert_eq!(chosen, (0..plan.n_used).collect::<Vec<_>>(), "{plan:?}");
        }
    }
}

#[test]
fn a_bias_changes_the_choice_and_no_weight() {
    let mut rng = Rng::new("biases");
    let mut changed = 0;
    for plan in plans().filter(|plan| !plan.norm) {
        for _ in 0..50 {
            let logits = some(&mut rng, plan.n_expert, 0.5);
            let bias = some(&mut rng, plan.n_expert, 0.5);
            let (without, with) = (routed(&plan, &logits, None), routed(&plan, &logits, Some(&bias)));
            let mut weights = probabilities(&plan, &logits);
            if plan.gating == Gating::SoftmaxOfChosen {
                let chosen: Vec<f32> = with.iter().map(|c| logits[c.expert as usize]).collect();
                with.iter().zip(softmax(&chosen)).for_each(|(c, w)| weights[c.expert as usize] = w);
            }
            for choice in &with {
                assert_eq!(
                    choice.weight,
                    weights[choice.expert as usize] * plan.scale,
                    "{plan:?} of {logits:?}, {bias:?}"
                );
            }
            changed += usize::from(without.iter().map(|c| c.expert).ne(with.iter().map(|c| c.expert)));
            // One that is the same for all changes nothing.
            assert_eq!(routed(&plan, &logits, Some(&vec![0.25; plan.n_expert])), without, "{plan:?} of {logits:?}");
        }
    }
    assert!(changed > 500, "biases changed {changed} choices only");
}

#[test]
fn numbers_that_are_none_do_not_panic() {
    let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0, 1.0];
    let mut rng = Rng::new("odd numbers");
    for plan in plans() {
        for round in 0..100 {
            let numbers = if round < odd.len() { &odd[round..=round] } else { &odd };
            let mut draw = || (0..plan.n_expert).map(|_| numbers[rng.below(numbers.len())]).collect::<Vec<_>>();
            let (logits, bias) = (draw(), draw());
            for bias in [None, Some(bias.as_slice())] {
                let mut chosen: Vec<u32> = routed(&plan, &logits, bias).iter().map(|c| c.expert).collect();
                chosen.sort_unstable_by_key(|&expert| Reverse(expert));
                chosen.dedup();
                let in_range = chosen.iter().all(|&expert| (expert as usize) < plan.n_expert);
                assert!(in_range && chosen.len() == plan.n_used, "{chosen:?} of {logits:?}, {bias:?}: {plan:?}");
            }
        }
    }
}

#[test]
fn a_nan_is_chosen_last() {
    for gating in [Gating::Sigmoid, Gating::SoftmaxOfChosen] {
        let plan = ExpertPlan { gating, n_expert: 5, n_used: 3, groups: None, ..plans().next().unwrap() };
        let choices = routed(&plan, &[f32::NAN, -3.0, f32::NAN, 2.0, 0.0], None);
        assert_eq!(choices.iter().map(|c| c.expert).collect::<Vec<_>>(), [3, 4, 1], "{gating:?}");
    }
}
