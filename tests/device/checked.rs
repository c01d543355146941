//! The whole decoder on checked machines: every access inside its part of the arena, no race, nothing read before
//! it was written; and the same bits in every order of threads and blocks.

use qrun::sampler::SamplerParams;
use qrun_emulator::{Config, Order};
use qrun_models::Forward;

use super::{Device, models, options, request};
use crate::tiny::{Tiny, prompt};

#[test]
fn a_checked_device_finds_nothing_and_no_order_matters() {
    if crate::card::is_real() {
        return crate::skip("only the emulator checks");
    }
    for (i, tiny) in models().enumerate() {
        let tiny = Tiny { n_vocab: 300, ..tiny };
        let model = tiny.model();
        let tokens = prompt("checked", 70, tiny.n_vocab);
        let run = |order| {
            // From SM 9.0 on kernels start before those before them have ended.
            let config = Config { sm: [75, 90][i % 2], order, ..Config::checked() };
            let mut device = Device::new(&model, &options(), config);
            let mut out = device.logits(&tokens[..66], 0, 0);
            out.extend(device.logits(&tokens[66..], 66, 0));
            let history: Vec<u32> = tokens.iter().copied().chain([5]).collect();
            let params = SamplerParams { top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplerParams::default() };
            assert!(device.set_sampling(0, &request(&params, &history)).unwrap());
            let mut token = 5;
            for pos in 70..73 {
                token = device.next(token, pos).unwrap_or_else(|e| panic!("{e}")).token();
                out.push(token as f32);
            }
            out
        };
        let forward = run(Order::Forward);
        // Models have most kernels in common: one of the other orders for each.
        let order = [Order::Reverse, Order::Random(7)][i / 2 % 2];
        let same = run(order).iter().zip(&forward).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{}: {order:?}", tiny.arch);
    }
}
