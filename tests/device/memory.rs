//! What is planned is what is taken; a step neither allocates nor waits.

use qrun_cuda::Gpu;
use qrun_emulator::Config;
use qrun_models::{Forward, GpuDecoder, Options};

use super::{Device, greedy, has_states, models, options, request, sm};
use crate::{
    card::{self, Place},
    tiny::{DELTA, prompt},
};

#[test]
fn the_plan_is_what_is_taken() {
    if card::is_real() {
        return crate::skip("only the emulator counts memory to the byte");
    }
    for tiny in models() {
        let model = tiny.model();
        for (n_ctx, n_seq, n_ubatch, n_draft) in
            [(200, 1, 512, 0), (256, 4, 16, 0), (64, 16, 64, 3), (64, 17, 16, 0), (1, 1, 1, 0), (200, 2, 64, 15)]
        {
            let o = Options { n_ctx, n_seq, n_ubatch, n_draft, ..options() };
            let machine = card::machine(Config::default());
            let _entered = machine.enter();
            let gpu = Gpu::open(0).unwrap();
            let plan = GpuDecoder::plan(&model, &o);
            // The code of the kernels that loading launches comes with their first launch, and stays.
            drop(GpuDecoder::new(&gpu, &model, &o).unwrap());
            let before = gpu.free_memory().unwrap();
            let decoder = GpuDecoder::new(&gpu, &model, &o).unwrap();
            assert_eq!(decoder.memory_plan(), plan);
            assert_eq!(decoder.arena().1, plan.total());
            let taken = before - gpu.free_memory().unwrap();
            assert!((plan.total()..plan.total() + (2 << 20)).contains(&taken), "{taken} bytes taken of the device");
            drop(decoder);
            assert_eq!(gpu.free_memory().unwrap(), before, "all of it comes back");
        }
    }
}

#[test]
fn loading_says_how_far_it_is() {
    let tiny = models().next().unwrap();
    let (_place, mut heard) = (Place::new(Config::default()), Vec::new());
    let model = tiny.model();
    let decoder = GpuDecoder::load(&card::gpu(), &model, &options(), &mut |done, total| heard.push((done, total)));
    let planned = decoder.unwrap().memory_plan();
    assert!(!heard.is_empty() && heard.is_sorted() && heard.iter().all(|&(_, total)| total == heard[0].1), "{heard:?}");
    let (done, total) = heard[heard.len() - 1];
    // Norms and small tables are uploaded too; on the device matrices are padded.
    let file = model.weights.bytes();
    assert!(done == total && (file..file + (64 << 10)).contains(&total), "{done} of {total}: {file}, {planned:?}");
}

#[test]
fn too_little_memory_is_said_with_the_numbers() {
    if card::is_real() {
        return crate::skip("only an emulated GPU has 1 MiB");
    }
    let tiny = models().next().unwrap();
    let machine = card::machine(Config { memory: 1 << 20, ..Config::default() });
    let _entered = machine.enter();
    let gpu = Gpu::open(0).unwrap();
    let Err(error) = GpuDecoder::new(&gpu, &tiny.model(), &options()) else { panic!("1 MiB is enough") };
    let wanted = GpuDecoder::plan(&tiny.model(), &options()).total();
    assert!(error.to_string().contains(&wanted.to_string()), "{error}");
}

#[test]
fn a_step_neither_allocates_nor_waits_and_launches_little() {
    for tiny in models() {
        let tokens = prompt("steps", 20, tiny.n_vocab);
        let mut device = Device::new(&tiny.model(), &options(), sm(80));
        device.logits(&tokens, 0, 0);
        let history: Vec<u32> = tokens.iter().copied().chain([5]).collect();
        assert!(device.set_sampling(0, &request(&greedy(), &history)).unwrap());
        let mut token = device.next(5, 20).unwrap().token();
        let Some(machine) = device.machine() else { return crate::skip("only the emulator counts calls") };
        machine.reset_counters();
        for pos in 21..31 {
            token = device.next(token, pos).unwrap().token();
        }
        let counters = device.machine().expect("looked at above").counters();
        // With recurrent layers and with embeddings for each layer no step runs ahead: each is waited for.
        let syncs = match tiny.n_embd_per_layer {
            0 if has_states(&tiny) => 20,
            0 => 0,
            // So is the copy of what the host looks up.
            _ => 30,
        };
        assert_eq!((counters.syncs, counters.allocations), (syncs, 0), "{}", tiny.arch);
        let launches: u64 = counters.launches.values().sum();
        // Two more where attention and feed-forward take what a LayerNorm gives, and another one where v, of every other layer, is in
        // a format of its own then; two of norms over all heads.
        let norms = |il: usize| match tiny.arch {
            "olmo2" => 2,
            "cohere2" => 2 + u64::from(il.is_multiple_of(2)),
            _ => 0,
        };
        // One more where heads that are no whole blocks of 32 make rows that are: these are quantized afterwards.
        let of_layer = |il| {
            // Gate and up, and down; of experts norm with router and choice, gate and up, down, sum, and two of a shared one. Where
            // there is no gate the activation besides.
            let feed_forward = match tiny.feeds_forward(il) {
                false => 0,
                true if tiny.has_experts(il) => 4 + 2 * u64::from(tiny.experts[3] > 0),
                true => 2 + u64::from(tiny.arch == "nemotron_h"),
            };
            if !tiny.looks_back(il) {
                return feed_forward;
            }
            if !tiny.attends(il) {
                return feed_forward
                    + match tiny.arch {
                        // A second launch for four matrices, and heads that are no whole blocks of 32 here.
                        "qwen35" | "qwen35moe" => 4 + u64::from(!DELTA[3].is_multiple_of(32)),
                        // A norm over heads.
                        "nemotron_h" => 4,
                        _ => 3,
                    };
            }
            // A launch less where queries are made of the stream.
            if tiny.latent[0] > 0 {
                return feed_forward + 5 + u64::from(tiny.latent[1] > 0);
            }
            let ([n_head, ..], [head_dim, _]) = (tiny.layer(il), tiny.head(il));
            let per_layer = if tiny.n_embd_per_layer > 0 { 3 } else { 0 };
            let late = u64::from(!head_dim.is_multiple_of(32) && (n_head * head_dim).is_multiple_of(32));
            feed_forward + norms(il) + 3 + per_layer + late
        };
        for il in 0..tiny.n_layer {
            let most = 8 + 4 * u64::from(tiny.has_experts(il)) + 3 * u64::from(!tiny.attends(il));
            assert!(of_layer(il) <= most, "{}, layer {il}: {} launches", tiny.arch, of_layer(il));
        }
        let layers: u64 = (0..tiny.n_layer).map(of_layer).sum();
        // Embedding, norm, head, sampler; embeddings for each layer, and the rows of each head.
        let others = if tiny.n_embd_per_layer > 0 { 7 } else { 4 } + u64::from(tiny.latent[0] > 0);
        assert_eq!(launches, 10 * (layers + others), "{}: {:?}", tiny.arch, counters.launches);
    }
}
