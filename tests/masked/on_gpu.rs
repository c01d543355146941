//! Masks on a GPU, which samples under them itself.

use std::sync::Arc;

use qrun::{
    generate::{Finish, Request, Scheduler},
    sampler::{SamplerParams, TokenMask},
};
use qrun_emulator::Counters;
use qrun_models::{Forward, GpuDecoder, Model, Options};
use qrun_quant::{Bytes, Gguf};

use super::{Broken, Ended, engine, obeys, requests, run};
use crate::card::{self, Place};

/// Requests, run on a GPU of their own, and what it did for them. `scheduler` makes one of a decoder.
fn on_gpu(
    (model, options): (&Model, Options),
    scheduler: impl FnOnce(Box<dyn Forward>) -> Scheduler,
    jobs: &[(Request, SamplerParams)],
) -> (Vec<Ended>, Option<Counters>) {
    let place = Place::new(crate::device::sm(80));
    let mut scheduler = scheduler(Box::new(GpuDecoder::new(&card::gpu(), model, &options).expect("a decoder")));
    place.machine.iter().for_each(|machine| machine.reset_counters());
    let ended = run(&mut scheduler, jobs);
    (ended, place.machine.as_ref().map(|machine| machine.counters()))
}

/// A tiny model without a tokenizer, two sequences at once.
fn on_tiny(jobs: &[(Request, SamplerParams)]) -> (Vec<Ended>, Option<Counters>) {
    let tiny = crate::device::models().next().expect("a tiny model");
    let options = Options { n_ctx: 192, n_seq: 2, n_ubatch: 64, threads: 2, ..Options::default() };
    on_gpu((&tiny.model(), options), Scheduler::of_tokens, jobs)
}

fn words() -> Vec<u32> {
    let tiny = crate::device::models().next().expect("a tiny model");
    vec![0x5555_5555; tiny.n_vocab.div_ceil(32)]
}

fn request(mask: Option<Broken>) -> (Request, SamplerParams) {
    let mask = mask.map(|mask| TokenMask(Box::new(mask)));
    let request = Request { prompt: vec![3, 4, 5], mask, max_tokens: Some(6), fresh: true, ..Request::default() };
    (request, SamplerParams { temperature: 0.0, ..SamplerParams::default() })
}

fn tokens(ended: Vec<Ended>) -> Vec<Vec<u32>> {
    ended.into_iter().map(|reply| reply.expect("a reply").tokens).collect()
}

#[test]
fn masked_sequences_stay_on_the_gpu_beside_others() {
    let masked = || request(Some(Broken { left: 99, error: None, words: words() }));
    let free = || request(None);
    let one = |job| tokens(on_tiny(&[job]).0).remove(0);
    let (alone, under_mask) = (one(free()), one(masked()));
    assert!(under_mask.iter().all(|token| token % 2 == 0), "{under_mask:?}");
    assert_ne!(alone, under_mask);
    // Behind a free one on the same sequence the mask holds too, and behind a masked one there is none.
    let (ended, counters) = on_tiny(&[free(), masked(), masked(), free()]);
    assert_eq!(tokens(ended), [&alone, &under_mask, &under_mask, &alone].map(Vec::clone));
    if let Some(counters) = counters {
        assert_eq!(counters.bytes_out, 0, "no logits are copied");
        let launches = counters.launches.get("sample_mask").copied().unwrap_or(0);
        assert!((6..=12).contains(&launches), "{launches} launches for six tokens of two answers");
    }
}

#[test]
fn a_mask_that_fails_on_a_gpu_ends_its_request_and_no_other() {
    let broken = |left, error| request(Some(Broken { left, error, words: words() }));
    let (alone, _) = on_tiny(&[request(None)]);
    let (ended, _) = on_tiny(&[request(None), broken(3, Some("no fuel")), broken(0, None), request(None)]);
    let error = |ended: &Ended| ended.as_ref().expect_err("an error").to_string();
    assert_eq!(error(&ended[1]), "grammar: no fuel");
    assert_eq!(error(&ended[2]), "grammar: no token of the vocabulary can continue the text");
    let [first, _, _, last] = ended.try_into().unwrap_or_else(|_| panic!("four requests"));
    let free = tokens(alone).remove(0);
    assert_eq!(tokens(vec![first, last]), [free.clone(), free]);
}

/// Grammars over the demo model's vocabulary: the same texts whoever samples, and logits stay where the GPU does.
#[test]
fn texts_under_grammars_are_those_that_the_host_samples() {
    let bytes = qrun::embedded::model().expect("a model").to_vec();
    let model = Model::load(&Gguf::from_bytes("demo", Bytes::new(bytes)).expect("a model")).expect("a model");
    let engine = engine(4, 0);
    // A JSON schema, GBNF, JSON and a lazy one, greedy and sampled, with penalties and a bias; the fourth has no mask.
    let jobs: Vec<_> = requests(&engine, 7)
        .into_iter()
        .map(|(request, params)| (Request { max_tokens: Some(16), ..request }, params))
        .collect();
    let run = |jobs: &[(Request, SamplerParams)]| {
        let options = Options { n_ctx: 512, n_seq: 4, n_ubatch: 64, threads: 2, ..Options::default() };
        let (ended, counters) = on_gpu((&model, options), |decoder| Scheduler::new(Arc::clone(&engine), decoder), jobs);
        let replies: Vec<_> = ended.into_iter().map(|ended| ended.expect("a reply")).collect();
        (replies, counters)
    };
    let (replies, counters) = run(&jobs);
    // Who wants scores leaves the choice to the host.
    let scored: Vec<_> = jobs
        .iter()
        .map(|(request, params)| (Request { n_probs: Some(0), ..request.clone() }, params.clone()))
        .collect();
    let (want, by_host) = run(&scored);
    for ((reply, want), (request, params)) in replies.iter().zip(&want).zip(&jobs) {
        assert_eq!((&reply.tokens, &reply.text), (&want.tokens, &want.text), "{params:?}");
        assert!(matches!(reply.finish, Finish::Eos | Finish::Limit), "{:?}", reply.finish);
        if let Some(mask) = &request.mask {
            obeys(mask, reply);
        }
    }
    if let (Some(counters), Some(by_host)) = (counters, by_host) {
        assert_eq!(counters.bytes_out, 0, "no logits are copied");
        assert!(by_host.bytes_out > 0 && !by_host.launches.contains_key("sample_mask"), "the host samples");
    }
}
