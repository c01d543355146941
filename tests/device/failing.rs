//! A device that fails: at load a clear error, in the middle the CPU goes on with the same tokens.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use qrun::generate::{Request, Scheduler};
use qrun_cuda::{DeviceError, Gpu};
use qrun_emulator::{Config, Failure};
use qrun_models::{CpuDecoder, Forward, ForwardError, GpuDecoder};

use super::{greedy, models, options};
use crate::tiny::{entries, prompt};

/// CUDA_ERROR_LAUNCH_FAILED.
const CODE: i32 = 719;

/// What became of a run.
struct Run {
    tokens: Result<Vec<u32>, String>,
    /// Why a device was given up.
    failed: Vec<String>,
    /// Whether the model was loaded.
    loaded: bool,
    /// Driver calls until it was loaded, and in all.
    calls: [u64; 2],
}

/// Loads, runs a prompt and decodes, sampled on the device while it works.
fn run(failure: Option<Failure>) -> Run {
    let tiny = models().last().unwrap();
    let model = tiny.model();
    let machine = crate::card::machine(Config::default());
    let _entered = machine.enter();
    if let Some(failure) = failure {
        machine.fail(failure);
    }
    let loaded = Gpu::open(0).and_then(|gpu| {
        gpu.set_launch_limit(Duration::from_millis(50));
        GpuDecoder::new(&gpu, &model, &options())
    });
    let decoder = match loaded {
        Ok(decoder) => decoder,
        Err(error) => return Run { tokens: Err(error.to_string()), failed: Vec::new(), loaded: false, calls: [0; 2] },
    };
    let calls = || machine.counters().driver_calls.values().sum();
    let load_calls = calls();
    let mut scheduler = Scheduler::of_tokens(Box::new(decoder));
    let failed = Arc::new(Mutex::new(Vec::new()));
    let errors = failed.clone();
    scheduler.set_recover(Box::new(move |error: &DeviceError| {
        errors.lock().unwrap().push(error.to_string());
        Some(Box::new(CpuDecoder::new(model.clone(), options()).expect("threads")))
    }));
    let prompt = prompt("failing", 30, tiny.n_vocab);
    let request = Request { prompt, max_tokens: Some(11), ..Request::default() };
    scheduler.submit(request, greedy()).expect("a good request");
    let finished = loop {
        scheduler.step(&mut |_, _| ControlFlow::Continue(()));
        if let Some(finished) = scheduler.finished() {
            break finished;
        }
    };
    drop(scheduler);
    let tokens = finished.result.map(|reply| reply.tokens).map_err(|error| error.to_string());
    let failed = failed.lock().unwrap().clone();
    Run { tokens, failed, loaded: true, calls: [load_calls, calls()] }
}

#[test]
fn every_driver_call_may_fail() {
    if crate::card::is_real() {
        return crate::skip("only the emulator fails when it is told to");
    }
    let whole = run(None);
    let want = whole.tokens.expect("nothing fails");
    assert!(whole.failed.is_empty());
    let (mut at_load, mut later, mut unnoticed) = (0, 0, 0);
    let [load, all] = whole.calls;
    // The weights are one loop of the same calls: some of them stand for all.
    for n in (1..30).chain((30..load).step_by(17)).chain(load..=all) {
        let run = run(Some(Failure { call: None, nth: n, code: CODE }));
        match (&run.tokens, run.loaded) {
            (Err(error), false) => {
                at_load += 1;
                assert!(error.len() > 10 && !error.contains('\n'), "one clear line: {error}");
            }
            // The CPU's arithmetic is another, but this model is sure of its tokens.
            (Ok(tokens), true) => {
                assert_eq!(tokens, &want, "call {n}");
                match &run.failed[..] {
                    // Something could not be freed.
                    [] => unnoticed += 1,
                    [_] => later += 1,
                    more => panic!("{more:?}"),
                }
            }
            (other, loaded) => panic!("call {n}, loaded: {loaded}: {other:?}"),
        }
    }
    assert!(at_load > 30 && later > 10, "{at_load} calls failed at load, {later} later, {unnoticed} without harm");
    println!(
        "{at_load} calls that fail at load end in a line each, {later} later ones in the same tokens from the CPU"
    );
}

#[test]
fn a_launch_that_never_ends_is_an_error_like_any_other() {
    if crate::card::is_real() {
        return crate::skip("no kernel on a card runs for ever");
    }
    let want = run(None).tokens.expect("nothing fails");
    // In the prompt, in a step that runs as it is, in recorded ones; first, in the middle and last of a step.
    for kernel in ["rms_norm", "attention_rows_f16_64", "sample_scan"] {
        for nth in [1, 2, 3, 5, 8] {
            let run = run(Some(Failure { call: Some(kernel), nth, code: 600 }));
            assert_eq!(run.tokens.as_ref(), Ok(&want), "{kernel} {nth}");
            let named = |line: &String| line.contains("launches from ") || line.contains(kernel);
            let said = run.failed.first().filter(|line| named(line) && line.contains("has not ended after"));
            assert!(run.failed.len() == 1 && said.is_some(), "{kernel} {nth}: {:?}", run.failed);
        }
    }
}

#[test]
fn a_failing_device_without_a_spare_says_so() {
    if crate::card::is_real() {
        return crate::skip("only the emulator fails when it is told to");
    }
    let tiny = models().next().unwrap();
    let machine = crate::card::machine(Config::default());
    let _entered = machine.enter();
    let gpu = Gpu::open(0).unwrap();
    let mut d = GpuDecoder::new(&gpu, &tiny.model(), &options()).unwrap();
    machine.fail(Failure { call: Some("cuStreamSynchronize"), nth: 1, code: CODE });
    let Err(ForwardError::Device(error)) = d.forward(&entries(&[3, 4, 5], 0, 0)) else { panic!("a failure") };
    assert!(error.to_string().contains("cuStreamSynchronize"), "{error}");
    assert_eq!(d.len(0), 0, "nothing was added");
    // The CPU is none the wiser.
    let mut cpu = CpuDecoder::new(tiny.model(), options()).unwrap();
    assert!(cpu.forward(&entries(&[3, 4, 5], 0, 0)).is_ok());
}
