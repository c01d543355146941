//! A scheduler that panics: who runs there hears of it, and another one goes on.

use std::sync::{Arc, Mutex};

use qrun::{
    generate::{Chunk, GenerateError, Generator, Reply, Request, Scheduler},
    sampler::SamplerParams,
};

use super::paper::{Paper, Size, Wires, answer};

/// How a request ends; `None`: without a word.
fn end(generator: &Generator, prompt: &[u32]) -> Option<Result<Reply, GenerateError>> {
    let request = Request { prompt: prompt.to_vec(), max_tokens: Some(8), ..Request::default() };
    let greedy = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    generator.submit(request, greedy).find_map(|chunk| match chunk {
        Chunk::End(end) => Some(end),
        _ => None,
    })
}

#[test]
fn after_a_panic_another_scheduler_goes_on() {
    let wires = Arc::new(Mutex::new(Wires::default()));
    let of = wires.clone();
    let open = move || {
        let size = Size { n_ctx: 400, n_seq: 2, n_ubatch: 64, pages: 16, windows: vec![None], us: [1000, 0, 0] };
        Scheduler::of_tokens(Box::new(Paper::new(&size, of.clone())))
    };
    let panics = || wires.lock().expect("nobody panics with it").panics = true;
    let prompt: Vec<u32> = (0..100).map(|i| i % 7).collect();
    let want = answer(&[None], &prompt, 8);
    let answers = |generator: &Generator| {
        let reply = end(generator, &prompt).expect("an end").expect("a reply");
        assert_eq!((&reply.tokens, reply.timings.cache_n), (&want, 0));
    };
    let (first, alone) = (open(), open());
    let generator = Generator::start_with(first, Some(Box::new(move || Some(open())))).expect("a thread");
    answers(&generator);
    panics();
    assert_eq!(end(&generator, &prompt).expect("an end").err(), Some(GenerateError::Panicked));
    // With an empty cache.
    answers(&generator);
    let stats = generator.stats().stats();
    assert_eq!((stats.recovered, stats.tokens_out, stats.running), (1, 16, 0));
    assert!(generator.step_age().is_some());
    // Where there is no other one the thread ends.
    let generator = Generator::start(alone).expect("a thread");
    panics();
    assert!(end(&generator, &prompt).is_none());
}
