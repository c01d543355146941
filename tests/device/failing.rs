//! A device that fails: at load a clear error, in the middle the CPU goes on with the same tokens.

use std::sync::{Arc, Mutex};

use qrun_cuda::Gpu;
use qrun_emulator::{Config, Failure, Machine};
use qrun_models::{CpuDecoder, Drawing, Entry, Fallback, Forward, ForwardError, GpuDecoder};

use super::{models, options};
use crate::tiny::{entries, prompt};

/// CUDA_ERROR_LAUNCH_FAILED.
const CODE: i32 = 719;

/// Loads, runs a prompt, decodes and draws; the tokens, and what was said on the way.
fn run(fail_at: Option<u64>) -> (Result<Vec<u32>, String>, Vec<String>, bool) {
    let tiny = models().last().unwrap();
    let model = tiny.model();
    let machine = Machine::new(Config::default());
    let _entered = machine.enter();
    if let Some(nth) = fail_at {
        machine.fail(Failure { call: None, nth, code: CODE });
    }
    let said = Arc::new(Mutex::new(Vec::new()));
    let hear = said.clone();
    let loaded = Gpu::open(0).and_then(|gpu| GpuDecoder::new(&gpu, &model, &options()));
    let decoder = match loaded {
        Ok(decoder) => decoder,
        Err(error) => return (Err(error.to_string()), Vec::new(), false),
    };
    let notice = Box::new(move |line: &str| hear.lock().unwrap().push(line.to_owned()));
    let mut d = Fallback::new(Box::new(decoder), model, options(), notice);
    let tokens = prompt("failing", 30, tiny.n_vocab);
    let result = (|| -> Result<Vec<u32>, ForwardError> {
        let greedy =
            |logits: &[f32]| (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32;
        let mut batch = entries(&tokens, 0, 0);
        batch.iter_mut().for_each(|e| e.logits = e.pos == 29);
        let mut token = greedy(d.forward(&batch)?);
        let mut out = vec![token];
        let history = tokens.iter().copied().chain([token]).collect();
        let sampling = qrun_cuda::ops::sample::Sampling { position: 31, ..Default::default() };
        d.begin_drawing(0, &Drawing { sampling, bias: Vec::new(), history })?;
        for pos in 30..40 {
            token = match d.draw(token)? {
                Some(drawn) => drawn.token(),
                None => greedy(d.forward(&[Entry { token, pos, seq: 0, logits: true }])?),
            };
            out.push(token);
        }
        d.end_drawing()?;
        assert_eq!(d.len(0), 40);
        Ok(out)
    })();
    let said = said.lock().unwrap().clone();
    (result.map_err(|e| e.to_string()), said, true)
}

#[test]
fn every_driver_call_may_fail() {
    if std::env::var_os("QRUN_GPU").is_some() {
        return;
    }
    let (want, said, _) = run(None);
    let want = want.expect("nothing fails");
    assert!(said.is_empty());
    let (mut at_load, mut later, mut n) = (0, 0, 1);
    loop {
        let (result, said, loaded) = run(Some(n));
        match (&result, loaded) {
            (Err(error), false) => {
                at_load += 1;
                assert!(error.len() > 10 && !error.contains('\n'), "one clear line: {error}");
            }
            (Ok(tokens), true) => {
                // The CPU's arithmetic is another, but these models are sure of their tokens.
                assert_eq!(tokens, &want, "call {n}");
                assert!(said.len() <= 1, "{said:?}");
                if said.is_empty() {
                    break; // Past the last call.
                }
                later += 1;
                assert!(said[0].contains("the CPU goes on"), "{said:?}");
            }
            other => panic!("call {n}: {other:?}"),
        }
        n += 1;
    }
    assert!(at_load > 30 && later > 10, "{at_load} calls failed at load, {later} later");
    println!(
        "{at_load} calls that fail at load end in one line each, {later} later ones in the same tokens from the CPU"
    );
}

#[test]
fn a_failing_device_without_a_spare_says_so() {
    if std::env::var_os("QRUN_GPU").is_some() {
        return;
    }
    let tiny = models().next().unwrap();
    let machine = Machine::new(Config::default());
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
