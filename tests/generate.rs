//! The scheduler: each request gets the text it would get alone, whatever runs beside it.

mod drafts;
mod gap;
mod histories;
mod logits;
mod paper;
mod restart;
mod rows;
mod shared;

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use qrun::{
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{Chunk, Event, Finish, GenerateError, Generator, Reply, Request, RequestId, Scheduler},
    sampler::SamplerParams,
    tools::quantize::FileType,
    tools::synth,
};
use qrun_models::{GpuDecoder, Options};
use qrun_quant::{Bytes, Gguf};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::card::{self, Place};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use qrun_emulator::{Config, Streams};

/// A tiny model whose weights are quantized: there a token's bits depend on nothing but its own sequence.
fn engine(name: &str, options: Options) -> Arc<Engine> {
    let shape = synth::find(name).expect("a tiny model");
    let bytes = synth::shape_bytes(shape, FileType::Q8_0, 3).expect("its bytes");
    let gguf = Gguf::from_bytes(name, Bytes::new(bytes)).expect("a model");
    let options = EngineOptions { options, template: None, device: DevicePreference::Cpu };
    Arc::new(Engine::open(gguf, options).expect("an engine"))
}

fn scheduler(engine: &Arc<Engine>) -> Scheduler {
    Scheduler::open(engine.clone(), Box::new(|_| ())).expect("a decoder")
}

fn options(n_seq: usize, n_kv: usize) -> Options {
    Options { n_ctx: 512, n_seq, n_kv, n_ubatch: 64, threads: 2, ..Options::default() }
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Prompts of one to a few hundred tokens, many with beginnings in common; greedy and sampled, with and without penalties.
fn requests(n: usize, seed: u64) -> Vec<(Request, SamplerParams)> {
    let mut random = Random(seed);
    let systems: Vec<Vec<u32>> =
        (0..3).map(|s| (0..90 + 70 * s).map(|i| 10 + (i * 7 + s * 31) % 400).collect()).collect();
    let one = |i: usize| {
        let mut prompt = if random.below(3) > 0 { systems[random.below(3)].clone() } else { Vec::new() };
        prompt.extend((0..1 + random.below(80)).map(|_| 10 + random.below(400) as u32));
        let params = SamplerParams {
            seed: i as u64,
            temperature: [0.0, 0.7, 1.3][random.below(3)],
            repeat_penalty: [1.0, 1.2][random.below(2)],
            ..SamplerParams::default()
        };
        let request = Request { prompt, max_tokens: Some(random.below(30)), ..Request::default() };
        (request, params)
    };
    (0..n).map(one).collect()
}

/// Runs one request by itself.
fn alone(engine: &Arc<Engine>, job: &(Request, SamplerParams)) -> Reply {
    reply(&mut scheduler(engine), job)
}

/// Runs one request while no other one does.
fn reply(scheduler: &mut Scheduler, (request, params): &(Request, SamplerParams)) -> Reply {
    let request = Request { cancel: Default::default(), ..request.clone() };
    scheduler.submit(request, params.clone()).expect("a good request");
    run(scheduler);
    scheduler.finished().expect("an end").result.expect("a reply")
}

fn run(scheduler: &mut Scheduler) {
    while !scheduler.is_idle() {
        scheduler.step(&mut |_, _| ControlFlow::Continue(()));
    }
}

/// Runs requests that come at random moments, a few of them cancelled, one in `odds` at each of its events: each text is the
/// expected one, or the beginning of it. Says how many were cancelled.
fn arrivals(
    what: &str,
    scheduler: &mut Scheduler,
    requests: &[(Request, SamplerParams)],
    expected: &[Reply],
    (seed, odds): (u64, usize),
) -> usize {
    // Where time stands still a step has all the rows that it may.
    scheduler.set_clock(Box::new(|| Duration::ZERO));
    let mut random = Random(seed);
    let mut ids: Vec<RequestId> = Vec::new();
    let (mut cancelled, mut ended, mut interrupted) = (Vec::new(), 0, 0);
    while ended < requests.len() {
        while ids.len() < requests.len() && (scheduler.is_idle() || random.below(3) == 0) {
            let (request, params) = requests[ids.len()].clone();
            let request = Request { cancel: Default::default(), ..request };
            ids.push(scheduler.submit(request, params).expect("a good request"));
        }
        scheduler.step(&mut |id, event| {
            let breaks = matches!(event, Event::Token { .. } | Event::Prompt { .. }) && random.below(odds) == 0;
            if breaks {
                cancelled.push(id);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        while let Some(finished) = scheduler.finished() {
            ended += 1;
            let at = ids.iter().position(|id| *id == finished.id).expect("its request");
            let what = format!("{what}, request {at}");
            let reply = finished.result.unwrap_or_else(|error| panic!("{what}: {error}"));
            let want = &expected[at];
            if reply.finish == Finish::Interrupted {
                interrupted += 1;
                assert!(cancelled.contains(&finished.id), "{what}");
                assert!(want.tokens.starts_with(&reply.tokens), "{what}: the beginning of its answer");
            } else {
                assert_eq!(
                    (&reply.tokens, &reply.text, &reply.finish),
                    (&want.tokens, &want.text, &want.finish),
                    "{what}"
                );
            }
        }
    }
    assert!(scheduler.is_idle());
    interrupted
}

#[test]
fn random_arrivals_and_cancels_change_no_text() {
    for name in ["tiny-llama", "tiny-gemma3"] {
        let single = engine(name, options(1, 0));
        let requests = requests(40, 5);
        let expected: Vec<Reply> = requests.iter().map(|request| alone(&single, request)).collect();
        // Pools from plenty down to what two long requests need.
        for (n_seq, n_kv, seed) in [(1, 0, 1), (4, 0, 2), (4, 1024, 3), (16, 1024, 4), (16, 512, 5)] {
            let many = engine(name, options(n_seq, n_kv));
            let mut scheduler = scheduler(&many);
            let what = format!("{name}, {n_seq} sequences, {n_kv} tokens of pages");
            arrivals(&what, &mut scheduler, &requests, &expected, (seed, 150));
            if n_kv == 512 {
                assert!(scheduler.stats().preempted > 0, "{name}: eight pages are too few for sixteen sequences");
            }
        }
    }
}

#[test]
fn what_was_computed_before_is_not_computed_again() {
    let engine = engine("tiny-llama", options(4, 0));
    let mut scheduler = scheduler(&engine);
    let prompt = |tail: u32| -> Vec<u32> { (0..200).map(|i| 10 + i % 300).chain([400 + tail; 9]).collect() };
    let request = |tail| Request { prompt: prompt(tail), max_tokens: Some(4), ..Request::default() };
    // Four at once: the first computes what all have in common, the others wait for it.
    for tail in 0..4 {
        scheduler.submit(request(tail), SamplerParams::default()).expect("a good request");
    }
    let mut computed = 0;
    while !scheduler.is_idle() {
        computed += scheduler.step(&mut |_, _| ControlFlow::Continue(())).prompt;
    }
    let cached: Vec<usize> =
        std::iter::from_fn(|| scheduler.finished()).map(|f| f.result.expect("a reply").timings.cache_n).collect();
    assert_eq!(cached.iter().filter(|&&n| n >= 192).count(), 3, "{cached:?}");
    assert!(computed <= 209 + 3 * (209 - 192), "{computed} tokens of four prompts were computed");
    // A conversation that goes on from the first answer finds all of it, to the token.
    scheduler.submit(request(0), SamplerParams::default()).expect("a good request");
    run(&mut scheduler);
    assert_eq!(scheduler.finished().expect("an end").result.expect("a reply").timings.cache_n, 208);
}

#[test]
fn a_bad_request_is_refused_and_the_others_go_on() {
    let engine = engine("tiny-llama", options(2, 0));
    let mut scheduler = scheduler(&engine);
    let submit = |scheduler: &mut Scheduler, prompt: Vec<u32>, params: SamplerParams| {
        scheduler.submit(Request { prompt, max_tokens: Some(3), ..Request::default() }, params)
    };
    let good = submit(&mut scheduler, vec![5, 6, 7], SamplerParams::default()).expect("a good request");
    assert_eq!(submit(&mut scheduler, vec![], SamplerParams::default()), Err(GenerateError::EmptyPrompt));
    let long = submit(&mut scheduler, vec![5; 512], SamplerParams::default());
    assert_eq!(long, Err(GenerateError::PromptTooLong { tokens: 512, max: 511 }));
    let outside = submit(&mut scheduler, vec![u32::MAX], SamplerParams::default());
    assert!(matches!(outside, Err(GenerateError::Forward(_))), "{outside:?}");
    let bad = SamplerParams { top_p: -1.0, ..SamplerParams::default() };
    assert!(matches!(submit(&mut scheduler, vec![5], bad), Err(GenerateError::Sampler(_))));
    run(&mut scheduler);
    let finished = scheduler.finished().expect("an end");
    assert_eq!((finished.id, finished.result.expect("a reply").tokens.len()), (good, 3));
    assert!(scheduler.finished().is_none());
}

#[test]
fn callers_on_other_threads_get_their_own_text_and_may_leave() {
    let engine = engine("tiny-llama", options(3, 0));
    let requests = requests(12, 9);
    let expected: Vec<Reply> = requests.iter().map(|request| alone(&engine, request)).collect();
    let generator = Generator::start(scheduler(&engine)).expect("a thread");
    // One who leaves at once, and one who cancels; neither disturbs the rest.
    let endless = || Request { prompt: vec![7; 50], ignore_eos: true, ..Request::default() };
    drop(generator.submit(endless(), SamplerParams::default()));
    let mut stopped = generator.submit(endless(), SamplerParams::default());
    stopped.cancel();
    std::thread::scope(|scope| {
        for ((request, params), want) in requests.iter().cloned().zip(&expected) {
            let stream = generator.submit(Request { cancel: Default::default(), ..request }, params);
            scope.spawn(move || {
                let (mut tokens, mut text, mut reply) = (Vec::new(), String::new(), None);
                for chunk in stream {
                    match chunk {
                        Chunk::Prompt { .. } | Chunk::Score { .. } | Chunk::Logits { .. } => {}
                        Chunk::Token { id, text: more, .. } => {
                            tokens.push(id);
                            text.push_str(&more);
                        }
                        Chunk::Text(more) => text.push_str(&more),
                        Chunk::End(end) => reply = Some(end.expect("a reply")),
                    }
                }
                let reply = reply.expect("an end");
                assert_eq!((&tokens, &text), (&want.tokens, &want.text));
                assert_eq!((reply.tokens, reply.text), (tokens, text));
            });
        }
    });
    let end = loop {
        if let Chunk::End(end) = stopped.next_within(Duration::from_secs(60)).expect("an end") {
            break end;
        }
    };
    assert_eq!(end.expect("a reply").finish, Finish::Interrupted);
    assert!(stopped.next().is_none());
}

/// The same on an emulated GPU, which samples by itself and runs a step ahead.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn random_arrivals_and_cancels_change_no_text_on_a_gpu() {
    let tiny = crate::device::models().next().expect("a tiny model");
    let _place = Place::new(Config { streams: Streams::Delayed, ..crate::device::sm(80) });
    let (gpu, model) = (card::gpu(), tiny.model());
    let on_gpu = |n_seq: usize, n_kv: usize| {
        let options = Options { n_ctx: 192, n_seq, n_kv, n_ubatch: 64, threads: 2, ..Options::default() };
        Scheduler::of_tokens(Box::new(GpuDecoder::new(&gpu, &model, &options).expect("a decoder")))
    };
    let mut random = Random(6);
    // Each begins in its first page and ends in its second one; some begin alike.
    let mut job = |i: usize| {
        let (stem, tail) = (random.below(2), 16 + random.below(7));
        let mut prompt: Vec<u32> = (0..40).map(|t| ((t * 7 + stem * 31) % tiny.n_vocab) as u32).collect();
        prompt.extend((0..tail).map(|_| random.below(tiny.n_vocab) as u32));
        let params = SamplerParams {
            seed: i as u64,
            temperature: [0.0, 0.9][i % 2],
            repeat_penalty: [1.0, 1.0, 1.3][i % 3],
            ..SamplerParams::default()
        };
        (Request { prompt, max_tokens: Some(12 + random.below(8)), ..Request::default() }, params)
    };
    let requests: Vec<_> = (0..8).map(&mut job).collect();
    let mut single = on_gpu(1, 0);
    let of_one = |(request, params): &(Request, SamplerParams)| {
        reply(&mut single, &(Request { fresh: true, ..request.clone() }, params.clone()))
    };
    let expected: Vec<Reply> = requests.iter().map(of_one).collect();
    let (mut put_back, mut cancelled) = (0, 0);
    for seed in [38, 50] {
        let mut scheduler = on_gpu(4, 320);
        cancelled += arrivals(&format!("seed {seed}"), &mut scheduler, &requests, &expected, (seed, 60));
        put_back += scheduler.stats().preempted;
    }
    assert!(put_back > 0, "five pages are too few for three sequences of two");
    assert!(cancelled > 0, "one in 60 of some 200 events");
}

/// Requests that come at once to one, four and seven sequences of an emulated GPU.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn a_gpu_samples_each_of_its_sequences_as_it_would_alone() {
    let tiny = crate::device::models().next().expect("a tiny model");
    let on_gpu = |n_seq: usize, jobs: &[(Request, SamplerParams)]| -> Vec<Vec<u32>> {
        let _place = Place::new(crate::device::sm(80));
        let options = Options { n_ctx: 192, n_seq, n_ubatch: 64, threads: 2, ..Options::default() };
        let decoder = GpuDecoder::new(&card::gpu(), &tiny.model(), &options).expect("a decoder");
        let mut scheduler = Scheduler::of_tokens(Box::new(decoder));
        let ids: Vec<RequestId> = jobs
            .iter()
            .map(|(request, params)| scheduler.submit(request.clone(), params.clone()).expect("a good request"))
            .collect();
        let mut replies = vec![Vec::new(); jobs.len()];
        while !scheduler.is_idle() {
            scheduler.step(&mut |_, _| ControlFlow::Continue(()));
            while let Some(finished) = scheduler.finished() {
                let at = ids.iter().position(|id| *id == finished.id).expect("its request");
                replies[at] = finished.result.expect("a reply").tokens;
            }
        }
        replies
    };
    let n_vocab = tiny.n_vocab as u32;
    let job = |i: u32| {
        let params = SamplerParams {
            seed: i.into(),
            temperature: [0.0, 0.9][i as usize % 2],
            repeat_penalty: [1.0, 1.0, 1.3][i as usize % 3],
            ..SamplerParams::default()
        };
        let prompt = (0..5 + 17 * i).map(|t| (t * 7 + i) % n_vocab).collect();
        (Request { prompt, max_tokens: Some(4 + i as usize), fresh: true, ..Request::default() }, params)
    };
    let jobs: Vec<_> = (0..7).map(job).collect();
    let alone: Vec<Vec<u32>> = jobs.iter().flat_map(|job| on_gpu(1, std::slice::from_ref(job))).collect();
    assert_eq!(on_gpu(4, &jobs), alone);
    assert_eq!(on_gpu(7, &jobs), alone);
}
