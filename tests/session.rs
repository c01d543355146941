//! Sessions through the library: reuse of the cache, interruptions, what is kept.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use qrun::{
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{Event, Finish, GenerateError, Request, Session},
    sampler::SamplerParams,
    tools::quantize::FileType,
    tools::synth,
};
use qrun_models::{EventHandler, LoadEvent, Options};
use qrun_quant::{Bytes, Gguf};

/// A session with a tiny model and exact arithmetic.
fn session(name: &str, n_ctx: usize, n_ubatch: usize) -> Session {
    let shape = synth::find(name).expect("a tiny model");
    let bytes = synth::shape_bytes(shape, FileType::F32, 3).expect("its bytes");
    let gguf = Gguf::from_bytes(name, Bytes::new(bytes)).expect("a model");
    let options = Options { n_ctx, n_ubatch, threads: 1, ..Options::exact() };
    let engine = Arc::new(
        Engine::open(gguf, EngineOptions { options, template: None, device: DevicePreference::Cpu })
            .expect("an engine"),
    );
    let params = SamplerParams { seed: 11, ..SamplerParams::default() };
    Session::open(engine, params, Box::new(|_| ())).expect("a decoder")
}

#[test]
fn loading_says_how_far_it_is() {
    let shape = synth::find("tiny-qwen3").expect("a tiny model");
    let bytes = synth::shape_bytes(shape, FileType::Q8_0, 3).expect("its bytes");
    let gguf = Gguf::from_bytes("tiny", Bytes::new(bytes)).expect("a model");
    let options = EngineOptions { device: DevicePreference::Cpu, ..EngineOptions::default() };
    let engine = Arc::new(Engine::open(gguf, options).expect("an engine"));
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = events.clone();
    let mut on_event: EventHandler = Box::new(move |event: LoadEvent| match event {
        LoadEvent::Loading { done, total } => sink.lock().expect("one thread").push((done, total)),
        LoadEvent::FellBack(reason) => panic!("{reason}"),
    });
    engine.decoder(&mut on_event).expect("a decoder");
    let events = events.lock().expect("one thread");
    assert!(
        events.len() > 2 && events.is_sorted() && events.iter().all(|&(_, total)| total == events[0].1),
        "{events:?}"
    );
    assert_eq!(events[0].0, 0);
    assert_eq!(events[events.len() - 1].0, events[0].1, "all of it");
}

fn request(prompt: &[u32], limit: usize) -> Request {
    Request { prompt: prompt.to_vec(), max_tokens: Some(limit), ..Request::default() }
}

fn watch(_: Event) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn prompt(n: u32) -> Vec<u32> {
    (0..n).map(|i| 10 + i * 7 % 400).collect()
}

#[test]
fn what_the_cache_holds_is_not_computed_again_and_changes_nothing() {
    for name in ["tiny-llama", "tiny-gemma3"] {
        let mut s = session(name, 512, 16);
        let first = s.generate(&request(&prompt(60), 10), &mut watch).expect("a reply");
        assert_eq!((first.timings.cache_n, first.timings.prompt_n, first.tokens.len()), (0, 60, 10));
        // The conversation goes on: all but the last token of the answer is cached.
        let longer = [prompt(60), first.tokens.clone(), vec![5, 6, 7]].concat();
        let second = s.generate(&request(&longer, 10), &mut watch).expect("a reply");
        assert_eq!(second.timings.cache_n, 69, "{name}");
        let fresh = session(name, 512, 64).generate(&request(&longer, 10), &mut watch).expect("a reply");
        assert_eq!(second.tokens, fresh.tokens, "{name}");
        // The same again: only the last token is computed, or all where a window has moved on.
        let again = s.generate(&request(&longer, 10), &mut watch).expect("a reply");
        assert_eq!(again.tokens, fresh.tokens, "{name}");
        assert!([0, longer.len() - 1].contains(&again.timings.cache_n), "{name}: {}", again.timings.cache_n);
    }
}

#[test]
fn an_interrupted_prompt_is_gone_on_with() {
    let mut s = session("tiny-gemma3", 512, 8);
    let wanted = s.generate(&request(&prompt(100), 5), &mut watch).expect("a reply").tokens;
    let mut s = session("tiny-gemma3", 512, 8);
    let mut stop = |event: Event| match event {
        Event::Prompt { done: 48.., .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let cut = s.generate(&request(&prompt(100), 5), &mut stop).expect("no failure");
    assert_eq!((cut.finish, cut.tokens.len(), s.cached().len()), (Finish::Interrupted, 0, 48));
    let whole = s.generate(&request(&prompt(100), 5), &mut watch).expect("a reply");
    assert_eq!((whole.timings.cache_n, whole.tokens), (48, wanted));
}

#[test]
fn the_watcher_sees_every_token_and_its_text_is_the_reply() {
    let mut s = session("tiny-llama", 256, 64);
    let (mut ids, mut seen) = (Vec::new(), String::new());
    let reply = s.generate(&request(&prompt(9), 40), &mut |event| {
        match event {
            Event::Token { id, text, .. } => {
                ids.push(id);
                seen.push_str(text);
            }
            Event::Flush { text, .. } => seen.push_str(text),
            Event::Prompt { .. } | Event::Logits { .. } => {}
        }
        if ids.len() == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let reply = reply.expect("a reply");
    assert_eq!((&reply.tokens, &reply.text), (&ids, &seen));
    assert!(reply.finish == Finish::Interrupted || reply.finish == Finish::Eos);
}

#[test]
fn the_context_is_used_to_the_last_cell() {
    let mut s = session("tiny-llama", 64, 64);
    s.params_mut().forbid(&(0..1).collect::<Vec<_>>());
    let eog: Vec<u32> = s.engine().tokenizer().eog().collect();
    s.params_mut().forbid(&eog);
    let endless = Request { prompt: prompt(63), ..Request::default() };
    let reply = s.generate(&endless, &mut watch).expect("a reply");
    assert_eq!((reply.finish, reply.tokens.len(), s.cached().len()), (Finish::Context, 2, 64));
    let error = s.generate(&request(&prompt(64), 1), &mut watch).expect_err("no room for an answer");
    assert_eq!(error, GenerateError::PromptTooLong { tokens: 64, max: 63 });
    let error = s.generate(&request(&[], 1), &mut watch).expect_err("nothing to continue");
    assert_eq!(error, GenerateError::EmptyPrompt);
}

#[test]
fn a_session_that_is_cleared_or_prepared_goes_on_as_a_fresh_one() {
    for name in ["tiny-llama", "tiny-gemma3"] {
        let fresh = session(name, 512, 16).generate(&request(&prompt(90), 8), &mut watch).expect("a reply");
        let mut s = session(name, 512, 16);
        s.generate(&request(&prompt(200), 20), &mut watch).expect("a reply");
        s.clear();
        assert!(s.cached().is_empty());
        let cleared = s.generate(&request(&prompt(90), 8), &mut watch).expect("a reply");
        assert_eq!((cleared.timings.cache_n, &cleared.tokens), (0, &fresh.tokens), "{name}");
        // Also where more, less, or something else was cached before.
        for before in [prompt(150), prompt(20), vec![3; 70]] {
            s.clear();
            s.generate(&request(&before, 4), &mut watch).expect("a reply");
            s.prepare(&prompt(70)).expect("room for 70 tokens");
            assert_eq!(s.cached(), prompt(70), "{name}");
            let prepared = s.generate(&request(&prompt(90), 8), &mut watch).expect("a reply");
            assert_eq!((prepared.timings.cache_n, &prepared.tokens), (70, &fresh.tokens), "{name}");
        }
        assert!(s.prepare(&prompt(513)).is_err(), "{name}: more than the context holds");
    }
}

#[test]
fn an_answer_of_fixed_length_goes_past_its_end() {
    let mut s = session("tiny-llama", 256, 16);
    let eog = s.engine().tokenizer().eog().next().expect("a token that ends turns");
    // Nothing but the end of a turn can be chosen.
    s.params_mut().logit_bias = vec![(eog, 1e9)];
    let mut wanted = request(&prompt(5), 6);
    let ended = s.generate(&wanted, &mut watch).expect("a reply");
    assert_eq!((ended.finish, ended.tokens), (Finish::Eos, vec![eog]));
    wanted.ignore_eos = true;
    let whole = s.generate(&wanted, &mut watch).expect("a reply");
    assert_eq!((whole.finish, whole.tokens, whole.text.as_str()), (Finish::Limit, vec![eog; 6], ""));
}
