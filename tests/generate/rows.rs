//! How many rows prompts get beside those who decode, and who waits for a sequence of its own.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use qrun::{
    generate::{Event, Request, RequestId, Scheduler},
    sampler::SamplerParams,
};

use super::{
    Random,
    paper::{N_VOCAB, Paper, Size, Wires},
};

/// A slow machine: a step of decoding takes 100 ms, and each row of a prompt 10. 16 rows are too many for steps of 200 ms.
fn slow(n_seq: usize) -> Scheduler {
    let size = Size { n_ctx: 1024, n_seq, n_ubatch: 64, pages: 100, windows: vec![None], us: [100_000, 10_000, 0] };
    let wires = Arc::new(Mutex::new(Wires::default()));
    let mut scheduler = Scheduler::of_tokens(Box::new(Paper::new(&size, wires.clone())));
    scheduler.set_ubatch(size.n_ubatch);
    scheduler.set_step_ms(200.0);
    scheduler.set_clock(Paper::clock(&wires));
    scheduler
}

fn submit(scheduler: &mut Scheduler, request: Request) -> RequestId {
    let greedy = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    scheduler.submit(Request { fresh: true, ..request }, greedy).expect("a good request")
}

/// Steps until each of some requests has its first token, and the longest of them.
fn first_tokens(scheduler: &mut Scheduler, mut wanted: Vec<RequestId>) -> (usize, Duration) {
    let (mut steps, mut longest) = (0, Duration::ZERO);
    while !wanted.is_empty() {
        scheduler.step(&mut |id, event| {
            wanted.retain(|of| *of != id || !matches!(event, Event::Token { .. }));
            ControlFlow::Continue(())
        });
        steps += 1;
        longest = longest.max(scheduler.stats().last_step);
    }
    (steps, longest)
}

#[test]
fn one_prompt_leaves_streams_their_time_and_of_many_none_starves() {
    let (mut scheduler, mut random) = (slow(17), Random(3));
    let mut ask = |n: usize, max_tokens: usize| {
        let prompt = (0..n).map(|_| random.below(N_VOCAB) as u32).collect();
        Request { prompt, max_tokens: Some(max_tokens), ..Request::default() }
    };
    submit(&mut scheduler, ask(30, 500));
    for _ in 0..10 {
        scheduler.step(&mut |_, _| ControlFlow::Continue(()));
    }
    let long = submit(&mut scheduler, ask(320, 1));
    assert_eq!(first_tokens(&mut scheduler, vec![long]), (40, Duration::from_millis(180)), "8 rows a step");
    let short = (0..16).map(|_| submit(&mut scheduler, ask(30, 1))).collect();
    // 480 rows, 16 in each step until one prompt is left.
    assert_eq!(first_tokens(&mut scheduler, short), (31, Duration::from_millis(260)));
    // What was learned of steps of 8 rows is not forgotten.
    let long = submit(&mut scheduler, ask(320, 1));
    assert_eq!(first_tokens(&mut scheduler, vec![long]), (40, Duration::from_millis(180)));
}

#[test]
fn who_asks_for_a_sequence_waits_for_it_and_is_in_nobodys_way() {
    let mut scheduler = slow(2);
    let mut ask = |slot: Option<usize>, max_tokens: usize| {
        let request = Request { prompt: vec![1, 2, 3], max_tokens: Some(max_tokens), slot, ..Request::default() };
        submit(&mut scheduler, request)
    };
    let (runs, waits) = (ask(Some(1), 60), ask(Some(1), 3));
    // More than may pass another one that waits.
    let others: Vec<RequestId> = [None, None, Some(9), None, None, Some(0), None].map(|slot| ask(slot, 3)).into();
    super::run(&mut scheduler);
    let ended = std::iter::from_fn(|| scheduler.finished()).map(|f| (f.id, f.result.expect("a reply").slot));
    let expected = others.into_iter().map(|id| (id, Some(0))).chain([(runs, Some(1)), (waits, Some(1))]);
    assert_eq!(ended.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
