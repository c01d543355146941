//! Tokens that the device draws are those that the host would draw from its logits.

use qrun::sampler::{Sampler, SamplerParams};
use qrun_models::{Entry, Forward, Output, SamplingRequest};

use super::{Device, models, options, sm};
use crate::tiny::prompt;

fn params() -> Vec<SamplerParams> {
    let base = SamplerParams { seed: 7, ..SamplerParams::default() };
    vec![
        SamplerParams { temperature: 0.0, ..base.clone() },
        base.clone(),
        SamplerParams { temperature: 2.5, top_k: 0, top_p: 1.0, min_p: 0.0, ..base.clone() },
        SamplerParams { repeat_penalty: 1.3, frequency_penalty: 0.2, repeat_last_n: 8, ..base.clone() },
        SamplerParams { presence_penalty: 0.7, repeat_last_n: -1, logit_bias: vec![(9, f32::NEG_INFINITY)], ..base },
    ]
}

#[test]
fn the_device_draws_what_the_host_draws() {
    for tiny in models() {
        let model = tiny.model();
        let tokens = prompt("draws", 40, tiny.n_vocab);
        let (mut host, mut device) = (Device::new(&model, &options(), sm(80)), Device::new(&model, &options(), sm(80)));
        for params in params() {
            host.rewind(0, 0);
            device.rewind(0, 0);
            let mut sampler = Sampler::new(params.clone(), tiny.n_vocab).unwrap();
            sampler.reset(&tokens);
            let last = |all: Vec<f32>| all[all.len() - tiny.n_vocab..].to_vec();
            let mut token = sampler.sample(&last(host.logits(&tokens, 0, 0))).unwrap();
            device.logits(&tokens, 0, 0);
            sampler.accept(token);
            let history: Vec<u32> = tokens.iter().copied().chain([token]).collect();
            let sampling = params.on_device(sampler.position()).unwrap();
            let drawing = SamplingRequest { sampling, bias: params.logit_bias.clone(), history };
            assert!(device.begin_drawing(0, &drawing).unwrap());
            for pos in 40..70 {
                let entry = Entry { token, pos, seq: 0, output: Output::Logits };
                let want = sampler.sample(host.forward(&[entry]).unwrap()).unwrap();
                let drawn = device.draw(token).unwrap().expect("the device draws");
                assert_eq!(Sampler::outcome(&drawn).unwrap(), want, "{} {params} at {pos}", tiny.arch);
                assert_eq!(device.len(0), pos + 1);
                token = want;
                sampler.accept(token);
            }
            // What ran ahead is forgotten: the host goes on from here.
            device.end_drawing().unwrap();
            let entry = [Entry { token, pos: 70, seq: 0, output: Output::Logits }];
            let (a, b) = (device.forward(&entry).unwrap().to_vec(), host.forward(&entry).unwrap().to_vec());
            assert_eq!(a, b, "{}", tiny.arch);
        }
    }
}

#[test]
fn drawing_ends_with_the_context() {
    let tiny = models().next().unwrap();
    let mut device = Device::new(&tiny.model(), &options(), sm(80));
    let tokens = prompt("full", 254, tiny.n_vocab);
    device.logits(&tokens, 0, 0);
    let sampling = SamplerParams { temperature: 0.0, ..SamplerParams::default() }.on_device(255).unwrap();
    let history = tokens.iter().copied().chain([5]).collect();
    assert!(device.begin_drawing(0, &SamplingRequest { sampling, bias: Vec::new(), history }).unwrap());
    let token = device.draw(5).unwrap().unwrap().token();
    let token = device.draw(token).unwrap().unwrap().token();
    assert!(device.draw(token).is_err(), "256 positions are 256");
}
