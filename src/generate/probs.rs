//! How probable tokens are, for those who ask beside the text.

use super::TokenProbs;

impl TokenProbs {
    /// Of `token` and of the `n` likeliest ones (equal ones by id), from logits `[n_vocab]`. Summed in f64, in order.
    pub fn of(logits: &[f32], token: u32, n: usize) -> Self {
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = logits.iter().map(|&logit| f64::from(logit - best).exp()).sum();
        let log_total = total.ln();
        let logprob = |id: u32| (f64::from(logits[id as usize] - best) - log_total) as f32;
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        let likelier = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        let n = n.min(ids.len());
        if n < ids.len() {
            ids.select_nth_unstable_by(n, likelier);
            ids.truncate(n);
        }
        ids.sort_unstable_by(likelier);
        Self { logprob: logprob(token), top: ids.into_iter().map(|id| (id, logprob(id))).collect() }
    }

    /// Of `token` and of the first `n` of what a sampler draws from: tokens and probabilities, the likeliest first.
    pub fn drawn(distribution: &[(u32, f64)], token: u32, n: usize) -> Self {
        let possible = distribution.iter().filter(|(_, p)| *p > 0.0).map(|&(id, p)| (id, p.ln() as f32));
        let logprob = possible.clone().find(|&(id, _)| id == token).map_or(f32::NEG_INFINITY, |(_, p)| p);
        Self { logprob, top: possible.take(n).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sampler_draws_from() {
        let distribution = [(7, 0.5), (2, 0.375), (9, 0.125), (4, 0.0)];
        for (token, n, p, top) in [(2, 2, 0.375, vec![7, 2]), (9, 8, 0.125, vec![7, 2, 9]), (7, 0, 0.5, vec![])] {
            let probs = TokenProbs::drawn(&distribution, token, n);
            assert!((probs.logprob.exp() - p).abs() < 1e-6, "{probs:?}");
            assert_eq!(probs.top.iter().map(|t| t.0).collect::<Vec<_>>(), top);
        }
    }

    #[test]
    fn log_softmax_of_the_logits_with_the_likeliest_first() {
        let logits = [1.0_f32, 3.0, 2.0, 3.0, -5.0];
        let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        let expected = |id: usize| (f64::from(logits[id]) - total.ln()) as f32;
        for (token, n, top) in [(2, 3, vec![1, 3, 2]), (4, 0, vec![]), (1, 9, vec![1, 3, 2, 0, 4])] {
            let probs = TokenProbs::of(&logits, token, n);
            assert!((probs.logprob - expected(token as usize)).abs() < 1e-6, "{probs:?}");
            assert_eq!(probs.top.iter().map(|t| t.0).collect::<Vec<_>>(), top);
            assert!(probs.top.iter().all(|&(id, p)| (p - expected(id as usize)).abs() < 1e-6), "{probs:?}");
        }
    }
}
