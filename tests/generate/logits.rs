//! What a caller gets of the logits, and what it does to them.

use std::sync::{Arc, Mutex};

use qrun::{
    generate::{Chunk, Draft, GenerateError, Generator, Request, Saved},
    sampler::{LogitsProcessor, SamplerParams},
};
use serde_json::json;

use super::{engine, options, run, scheduler};

fn greedy() -> SamplerParams {
    SamplerParams { temperature: 0.0, ..SamplerParams::default() }
}

fn best(logits: &[f32]) -> u32 {
    let rank = |a: &usize, b: &usize| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a));
    (0..logits.len()).max_by(rank).expect("a vocabulary") as u32
}

#[test]
fn whole_logits_are_those_that_the_sampler_sees() {
    let engine = engine("tiny-llama", options(1, 0));
    let generator = Generator::start(scheduler(&engine)).expect("a thread");
    let prompt: Vec<u32> = (0..20).map(|i| 10 + i * 7).collect();
    let request = Request {
        prompt: prompt.clone(),
        max_tokens: Some(0),
        logits: Some(5..20),
        whole_logits: true,
        fresh: true,
        ..Request::default()
    };
    let chunks: Vec<Chunk> = generator.submit(request, greedy()).collect();
    let logits: Vec<(usize, &Vec<f32>)> = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::Logits { pos, logits } => Some((*pos, logits)),
            _ => None,
        })
        .collect();
    assert_eq!(logits.iter().map(|row| row.0).collect::<Vec<_>>(), (5..20).collect::<Vec<_>>());
    let request = Request { prompt, max_tokens: Some(1), ..Request::default() };
    let reply = generator.submit(request, greedy()).find_map(|chunk| match chunk {
        Chunk::End(reply) => Some(reply.expect("a reply")),
        _ => None,
    });
    assert_eq!(reply.expect("an end").tokens, [best(logits[14].1)]);
}

#[test]
fn a_processor_sees_all_tokens_and_has_its_way() {
    let engine = engine("tiny-llama", options(1, 0));
    let mut scheduler = scheduler(&engine);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = seen.clone();
    let process = move |tokens: &[u32], logits: &mut [f32]| {
        heard.lock().expect("no panic").push(tokens.to_vec());
        if tokens.len() == 6 {
            return Err("enough".to_owned());
        }
        logits.fill(f32::NEG_INFINITY);
        logits[40 + tokens.len()] = 0.0;
        Ok(())
    };
    let processor = Some(LogitsProcessor(Arc::new(process)));
    let request = Request { prompt: vec![10, 11, 12], ignore_eos: true, processor, ..Request::default() };
    scheduler.submit(request, SamplerParams::default()).expect("a good request");
    run(&mut scheduler);
    let result = scheduler.finished().expect("an end").result;
    assert!(matches!(&result, Err(GenerateError::Processor(why)) if why == "enough"), "{result:?}");
    let last = [10, 11, 12, 43, 44, 45];
    let expected: Vec<Vec<u32>> = (3..=6).map(|n| last[..n].to_vec()).collect();
    assert_eq!(*seen.lock().expect("no panic"), expected);
}

#[test]
fn tokens_are_saved_with_notes_and_not_computed_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, notes) = (folder.path().join("session"), json!({ "messages": ["one"] }));
    let engine = engine("tiny-llama", options(2, 0));
    let request = Request { prompt: (0..80).map(|i| 10 + i).collect(), max_tokens: Some(4), ..Request::default() };
    let mut first = scheduler(&engine);
    first.submit(request.clone(), greedy()).expect("a good request");
    run(&mut first);
    let finished = first.finished().expect("an end");
    let expected = finished.result.expect("a reply").tokens;
    let mut draft = Draft::new(&path, folder.path().join("part")).expect("a file");
    // More than was computed may be named, and any free sequence does it.
    let named = [&finished.held[..], &[9, 9]].concat();
    let (held, _) =
        first.save_tokens(1, &None, &named, (&mut draft, engine.fingerprint(), &notes)).expect("it is written");
    draft.finish().expect("it gets its name");
    assert_eq!(held, finished.held.len());
    let Saved { tokens, notes: found, mut cache, .. } = Saved::open(&path).expect("a session");
    assert_eq!((&tokens, found), (&finished.held, notes));
    let mut other = scheduler(&engine);
    other.restore_slot(0, None, (tokens, &mut cache)).expect("it fits");
    other.submit(request, greedy()).expect("a good request");
    run(&mut other);
    let reply = other.finished().expect("an end").result.expect("a reply");
    assert_eq!((reply.tokens, reply.timings.cache_n), (expected, 79));
}
