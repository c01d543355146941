//! A scheduler whose device fails: all that runs goes on from its own tokens on the CPU, with the same text.

use std::ops::ControlFlow;

use qrun::{
    generate::{GenerateError, Request, RequestId, Scheduler},
    sampler::SamplerParams,
};
use qrun_cuda::Gpu;
use qrun_emulator::{Config, Failure};
use qrun_models::{CpuDecoder, ForwardError, GpuDecoder, Options};

use super::{greedy, models, options};
use crate::tiny::prompt;

/// CUDA_ERROR_LAUNCH_FAILED.
const CODE: i32 = 719;

/// What became of the requests, how often a device was replaced, and driver calls until it was loaded and in all.
struct Run {
    answers: Vec<Result<Vec<u32>, GenerateError>>,
    recovered: u64,
    calls: [u64; 2],
}

/// Three requests on two sequences: one of them waits. A call counts from the end of loading.
fn run(failure: Option<(u64, Option<&'static str>)>, spare: bool) -> Run {
    let tiny = models().last().expect("a model");
    let (model, options) = (tiny.model(), Options { n_seq: 2, n_ubatch: 32, ..options() });
    let machine = crate::card::machine(Config::default());
    let _entered = machine.enter();
    let gpu = Gpu::open(0).expect("a device");
    let decoder = GpuDecoder::new(&gpu, &model, &options).expect("a decoder");
    let calls = || machine.counters().driver_calls.values().sum();
    let load = calls();
    if let Some((nth, call)) = failure {
        machine.fail(Failure { call, nth, code: CODE });
    }
    let mut scheduler = Scheduler::of_tokens(Box::new(decoder));
    if spare {
        let cpu = move || CpuDecoder::new(model.clone(), options.clone()).expect("threads");
        scheduler.set_recover(Box::new(move |_| Some(Box::new(cpu()))));
    }
    let submit = |i: usize| {
        let request =
            Request { prompt: prompt("failing", 9 + 8 * i, tiny.n_vocab), max_tokens: Some(4), ..Request::default() };
        // On the CPU the host samples: from the same penalties as the device would.
        let params = if i == 1 { SamplerParams { repeat_penalty: 1.1, ..greedy() } } else { greedy() };
        scheduler.submit(request, params).expect("a good request")
    };
    let ids: Vec<RequestId> = (0..3).map(submit).collect();
    let mut answers = vec![Err(GenerateError::EmptyPrompt); 3];
    while !scheduler.is_idle() {
        scheduler.step(&mut |_, _| ControlFlow::Continue(()));
        while let Some(finished) = scheduler.finished() {
            let at = ids.iter().position(|id| *id == finished.id).expect("its request");
            answers[at] = finished.result.map(|reply| reply.tokens);
        }
    }
    let recovered = scheduler.stats().recovered;
    drop(scheduler);
    Run { answers, recovered, calls: [load, calls()] }
}

#[test]
fn whichever_call_fails_each_text_is_the_same() {
    if crate::card::is_real() {
        return crate::skip("only the emulator fails when it is told to");
    }
    let whole = run(None, true);
    assert!(whole.recovered == 0 && whole.answers.iter().all(Result::is_ok));
    let [load, all] = whole.calls;
    let mut recovered = 0;
    // Those of the first steps, and some of all that follow.
    for nth in (1..40).chain((40..=all - load).step_by(29)) {
        let run = run(Some((nth, None)), true);
        assert_eq!(run.answers, whole.answers, "call {nth} after loading");
        recovered += run.recovered;
    }
    assert!(recovered > 30, "{recovered} of {} calls", all - load);
    println!("{recovered} failing ones of {} driver calls end in the same texts from the CPU", all - load);
}

#[test]
fn without_another_decoder_those_who_run_hear_why() {
    if crate::card::is_real() {
        return crate::skip("only the emulator fails when it is told to");
    }
    let run = run(Some((1, Some("cuStreamSynchronize"))), false);
    let device = |answer: &Result<_, _>| matches!(answer, Err(GenerateError::Forward(ForwardError::Device(_))));
    assert!(run.answers.iter().filter(|answer| device(answer)).count() >= 2, "{:?}", run.answers);
    assert!(run.answers.iter().all(|answer| answer.is_ok() || device(answer)), "{:?}", run.answers);
}
