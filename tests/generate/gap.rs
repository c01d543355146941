//! How long streams stand still while a long prompt comes, and what that costs the prompt.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use qrun::{
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{Event, Request, RequestId, Scheduler},
    sampler::SamplerParams,
};
use qrun_models::Options;
use qrun_quant::Gguf;

const PROMPT: u32 = 2000;

fn submit(scheduler: &mut Scheduler, n: u32, seed: u32, max_tokens: usize) -> RequestId {
    let prompt = (0..n).map(|i| 100 + (i * 7919 + seed * 104_729) % 900).collect();
    let request = Request { prompt, max_tokens: Some(max_tokens), ignore_eos: true, ..Request::default() };
    let greedy = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    scheduler.submit(request, greedy).expect("a good request")
}

/// Milliseconds until the first token of a long prompt beside `streams` others, and the longest time between two tokens of
/// one of these meanwhile.
fn measure(engine: &Arc<Engine>, streams: u32, step_ms: f64) -> (f64, f64) {
    let mut scheduler = Scheduler::open(engine.clone(), Box::new(|_| ())).expect("a decoder");
    scheduler.set_step_ms(step_ms);
    let ids: Vec<RequestId> = (0..streams).map(|i| submit(&mut scheduler, 100, i + 1, 3000)).collect();
    for _ in 0..20 * streams {
        scheduler.step(&mut |_, _| ControlFlow::Continue(()));
    }
    let long = submit(&mut scheduler, PROMPT, 77, 1);
    let (started, mut first, mut longest) = (Instant::now(), None, 0.0f64);
    let mut last = vec![started; ids.len()];
    while first.is_none() {
        scheduler.step(&mut |id, event| {
            if let Event::Token { .. } = event {
                if id == long {
                    first = Some(started.elapsed().as_secs_f64() * 1e3);
                } else if let Some(at) = ids.iter().position(|of| *of == id) {
                    longest = longest.max(last[at].elapsed().as_secs_f64() * 1e3);
                    last[at] = Instant::now();
                }
            }
            ControlFlow::Continue(())
        });
    }
    (first.expect("a token"), longest)
}

#[test]
#[ignore = "reads a model file named by QRUN_GAP_MODEL and takes a minute; says what it measures, asserts nothing on time"]
fn streams_beside_a_long_prompt() {
    let path = std::env::var("QRUN_GAP_MODEL").expect("QRUN_GAP_MODEL names a model file");
    let options = Options { n_ctx: 4096, n_seq: 4, ..Options::default() };
    let options = EngineOptions { options, template: None, device: DevicePreference::Cpu };
    let engine = Arc::new(Engine::open(Gguf::open(path.as_ref()).expect("a model"), options).expect("an engine"));
    let (alone, _) = measure(&engine, 0, 200.0);
    println!("{PROMPT} tokens alone: {alone:.0} ms");
    for step_ms in [50.0, 100.0, 200.0, 1e9] {
        let (first, longest) = measure(&engine, 3, step_ms);
        println!(
            "beside 3 streams, {step_ms} ms a step: {first:.0} ms ({:.0} %), longest gap {longest:.0} ms",
            100.0 * alone / first
        );
        assert!(longest > 0.0, "the streams went on");
    }
}
