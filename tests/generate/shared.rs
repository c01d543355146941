//! What many begin with is computed once, on models with windows too, and the numbers that say so.

use std::{ops::ControlFlow, time::Duration};

use qrun::{
    generate::{Chunk, Event, Generator, Reply, Request, RequestState, Scheduler},
    sampler::SamplerParams,
};
use qrun_models::Options;

use super::{alone, engine, options, run, scheduler};

/// Models without and with a sliding window.
const MODELS: [&str; 2] = ["tiny-llama", "tiny-gemma3"];

fn greedy() -> SamplerParams {
    SamplerParams { temperature: 0.0, ..SamplerParams::default() }
}

/// `shared` tokens that are the same for all, and 100 of one's own.
fn request(shared: u32, own: u32) -> Request {
    let prompt = (0..shared).map(|i| 10 + i * i % 307).chain((0..100).map(|i| 10 + (i * 3 + own * 71) % 311)).collect();
    Request { prompt, max_tokens: Some(3), ..Request::default() }
}

/// Runs to the end; the prompt rows that were computed, and the replies in the order of their ids.
fn finish(scheduler: &mut Scheduler) -> (usize, Vec<Reply>) {
    let before = scheduler.stats().prompt_rows;
    run(scheduler);
    let mut finished: Vec<_> = std::iter::from_fn(|| scheduler.finished()).collect();
    finished.sort_by_key(|f| f.id);
    let replies = finished.into_iter().map(|f| f.result.expect("a reply")).collect();
    ((scheduler.stats().prompt_rows - before) as usize, replies)
}

#[test]
fn four_with_one_beginning_compute_it_once() {
    for name in MODELS {
        let engine = engine(name, Options { n_ctx: 1536, ..options(4, 0) });
        let mut scheduler = scheduler(&engine);
        for own in 0..4 {
            scheduler.submit(request(1000, own), greedy()).expect("a good request");
        }
        let (computed, replies) = finish(&mut scheduler);
        assert_eq!(computed, 1000 + 4 * 100, "{name}");
        for (own, reply) in (0..).zip(replies) {
            assert_eq!(reply.tokens, alone(&engine, &(request(1000, own), greedy())).tokens, "{name}");
        }
        let stats = scheduler.stats();
        assert_eq!((stats.prefix_queries, stats.prefix_hits), (4400, 3000), "{name}");
    }
}

#[test]
fn a_miss_teaches_where_windows_are_to_be_kept() {
    // The second finds what all layers but the sliding ones hold, and leaves their pages for those that follow. Whole
    // pages are left: 15 of them.
    for (name, computed) in MODELS.into_iter().zip([[1100, 100, 100, 100], [1100, 1100, 140, 140]]) {
        let engine = engine(name, Options { n_ctx: 1536, ..options(2, 8192) });
        let mut scheduler = scheduler(&engine);
        for (own, expected) in (0..).zip(computed) {
            scheduler.submit(request(1000, own), greedy()).expect("a good request");
            let (computed, replies) = finish(&mut scheduler);
            assert_eq!(computed, expected, "{name}, request {own}");
            assert_eq!(replies[0].tokens, alone(&engine, &(request(1000, own), greedy())).tokens, "{name}");
        }
    }
}

#[test]
fn behind_a_system_message_the_second_goes_on() {
    // Whole pages are kept; layers that see everything have the rest, too.
    for (name, computed) in [("tiny-llama", 100), ("tiny-gemma3", 140), ("tiny-lfm2", 140)] {
        let engine = engine(name, Options { n_ctx: 1536, n_ubatch: 100, ..options(2, 8192) });
        let mut scheduler = scheduler(&engine);
        for (own, expected) in (0..).zip([1100, computed, computed]) {
            let request = Request { mark: 1000, ..request(1000, own) };
            scheduler.submit(request.clone(), greedy()).expect("a good request");
            let (computed, replies) = finish(&mut scheduler);
            assert_eq!(computed, expected, "{name}, request {own}");
            let alone = alone(&engine, &(Request { mark: 0, ..request }, greedy()));
            assert_eq!(replies[0].tokens, alone.tokens, "{name}");
        }
    }
}

#[test]
fn several_answers_to_one_prompt_compute_it_once() {
    for name in MODELS {
        for n_prompt in [2, 40, 64, 150] {
            let engine = engine(name, options(5, 0));
            let mut scheduler = scheduler(&engine);
            let job = |seed: u64| {
                let prompt = (0..n_prompt).map(|i| 20 + i * i % 200).collect();
                let params = SamplerParams { seed, temperature: 1.5, ..SamplerParams::default() };
                (Request { prompt, max_tokens: Some(20), ..Request::default() }, params)
            };
            for (request, params) in (0..5).map(job) {
                scheduler.submit(request, params).expect("a good request");
            }
            let (computed, replies) = finish(&mut scheduler);
            // The others only its last token, for the logits after it.
            assert_eq!(computed, n_prompt as usize + 4, "{name}, {n_prompt} tokens");
            for (seed, reply) in (0..).zip(&replies) {
                assert_eq!(reply.tokens, alone(&engine, &job(seed)).tokens, "{name}, {n_prompt} tokens");
            }
            assert!(replies.iter().any(|r| r.tokens != replies[0].tokens), "seeds are apart");
        }
    }
}

#[test]
fn a_short_prompt_passes_a_long_one_beside_those_who_decode() {
    let engine = engine("tiny-llama", Options { n_ctx: 2048, n_ubatch: 512, ..options(4, 0) });
    let mut scheduler = scheduler(&engine);
    // Steps of decoding take all the time there is: what is left to prompts is the least, 16 rows of two and 8 of one.
    let mut now = Duration::ZERO;
    scheduler.set_clock(Box::new(move || {
        now += Duration::from_millis(64);
        now
    }));
    scheduler.set_step_ms(64.0);
    let request = |n: u32, own: u32, max_tokens: usize| {
        let prompt = (0..n).map(|i| 10 + (i * 3 + own * 71) % 311).collect();
        let request = Request { prompt, max_tokens: Some(max_tokens), ignore_eos: true, ..Request::default() };
        (request, greedy())
    };
    let submit = |scheduler: &mut Scheduler, (request, params)| scheduler.submit(request, params).expect("good");
    let stream = submit(&mut scheduler, request(30, 9, 300));
    let (mut ids, mut tokens, mut steps) = (vec![stream], vec![0; 3], Vec::new());
    while tokens[1] == 0 {
        let before = tokens.clone();
        let rows = scheduler.step(&mut |id, event| {
            let at = ids.iter().position(|of| *of == id).expect("its request");
            tokens[at] += usize::from(matches!(event, Event::Token { .. }));
            ControlFlow::Continue(())
        });
        assert!(before[0] == 0 || tokens[0] == before[0] + 1, "who decodes goes on in every step");
        if ids.len() > 1 && tokens[1] == 0 {
            steps.push((rows.prompt, tokens[2]));
        }
        if tokens[0] == 3 {
            ids.extend([request(1600, 1, 1), request(10, 2, 3)].map(|job| submit(&mut scheduler, job)));
        }
    }
    assert_eq!(steps.len(), 200, "1594 rows behind the first step, 8 at a time: the last one gives the token");
    assert_eq!(steps[0], (16, 1), "the short one has its first token after a step");
    assert!(steps[1..].iter().all(|(rows, _)| *rows == 8), "{steps:?}");
}

#[test]
fn the_numbers_can_be_read_from_another_thread() {
    let engine = engine("tiny-llama", options(2, 0));
    let generator = Generator::start(scheduler(&engine)).expect("a thread");
    let endless = Request { max_tokens: None, ignore_eos: true, ..request(0, 1) };
    let mut stream = generator.submit(endless, greedy());
    let started = stream.by_ref().filter(|chunk| matches!(chunk, Chunk::Token { .. })).nth(3);
    assert!(started.is_some());
    let reader = generator.stats().clone();
    let states: Vec<RequestState> = reader.sequences().into_iter().flatten().collect();
    let [state] = states[..] else { panic!("one runs: {states:?}") };
    assert_eq!((state.n_prompt, state.n_prompt_cached, state.max_tokens), (100, 0, None));
    assert!(state.n_decoded >= 3);
    drop(stream);
    let mut other = generator.submit(request(0, 1), greedy());
    assert!(other.by_ref().any(|chunk| matches!(chunk, Chunk::End(Ok(_)))));
    drop(generator);
    let stats = reader.stats();
    assert_eq!((stats.running, stats.waiting, stats.tokens_in, stats.prefix_queries), (0, 0, 200, 200));
    assert_eq!(stats.prefix_hits, 99);
    assert_eq!(stats.prompt_rows, 101);
    assert!(stats.tokens_out >= 6 && stats.steps >= stats.decode_rows.min(4) && stats.pages.total > 0);
    assert!(stats.step_time >= stats.last_step && reader.sequences() == [None, None]);
}
