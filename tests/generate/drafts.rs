//! Speculative decoding: guesses change how many steps an answer takes, and nothing else.

use std::ops::ControlFlow;

use qrun::{
    generate::{Drafter, Finish, HeadDrafter, NGramDrafter, Reply, Request, Scheduler, Wanted},
    sampler::SamplerParams,
};
use qrun_models::{Forward, Options};

use super::{Random, alone, arrivals, engine, reply, run, scheduler};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::{
    card::{self, Place},
    tiny::Tiny,
};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use qrun_models::GpuDecoder;

/// Guesses from the right texts, with a mistake now and then.
#[derive(Clone)]
struct Replay {
    /// Prompts with their answers.
    texts: Vec<Vec<u32>>,
    /// One of so many guesses is wrong; 0: none is.
    odds: usize,
    drawn: u64,
}

impl Replay {
    fn of(jobs: &[(Request, SamplerParams)], replies: &[Reply], odds: usize) -> Self {
        let texts = jobs.iter().zip(replies).map(|((request, _), reply)| [&request.prompt[..], &reply.tokens].concat());
        Self { texts: texts.collect(), odds, drawn: 1 }
    }
}

impl Drafter for Replay {
    fn draft(&mut self, _: &mut dyn Forward, wanted: &[Wanted]) -> Vec<Vec<u32>> {
        let mut random = Random(self.drawn);
        let of = |w: &Wanted| {
            let text = self.texts.iter().find(|text| text.starts_with(w.tokens));
            let right = text.map_or(&[][..], |text| &text[w.tokens.len()..]);
            // Behind the end of the text too.
            let guess = |i: usize| match right.get(i) {
                Some(&token) if self.odds == 0 || random.below(self.odds) > 0 => token,
                other => other.map_or(7, |token| token ^ 1),
            };
            (0..w.most).map(guess).collect()
        };
        let drafts = wanted.iter().map(of).collect();
        self.drawn = random.0;
        drafts
    }
}

fn options(n_seq: usize, n_kv: usize, n_draft: usize) -> Options {
    Options { n_ctx: 168, n_seq, n_kv, n_ubatch: 64, n_draft, threads: 2, ..Options::default() }
}

/// Prompts that end around the ends of pages; answers that are long, run into the end of the context, or into a stop text.
fn jobs(name: &str) -> (Vec<(Request, SamplerParams)>, Vec<Reply>) {
    let single = engine(name, options(1, 0, 0));
    let mut random = Random(11);
    let mut jobs = Vec::new();
    for (i, n) in [1, 60, 62, 63, 64, 65, 120, 127, 128, 150].into_iter().enumerate() {
        let prompt: Vec<u32> = (0..n).map(|_| 10 + random.below(400) as u32).collect();
        let params = SamplerParams {
            seed: i as u64,
            temperature: [0.0, 0.7, 1.3][i % 3],
            repeat_penalty: [1.0, 1.2][i % 2],
            presence_penalty: [0.0, 0.5][i / 2 % 2],
            ..SamplerParams::default()
        };
        let max_tokens = [Some(24), Some(40), Some(9), None, Some(16)][i % 5];
        let ignore_eos = max_tokens.is_none();
        jobs.push((Request { prompt, max_tokens, ignore_eos, ..Request::default() }, params));
    }
    let mut replies: Vec<Reply> = jobs.iter().map(|job| alone(&single, job)).collect();
    // A text out of the middle of an answer ends it.
    let long = (0..jobs.len()).filter(|&at| replies[at].text.chars().count() > 6).take(2).collect::<Vec<_>>();
    for at in long {
        let text: Vec<char> = replies[at].text.chars().collect();
        let stop = text[text.len() / 2..].iter().take(3).collect();
        let job = (Request { stops: vec![stop], ..jobs[at].0.clone() }, jobs[at].1.clone());
        replies.push(alone(&single, &job));
        assert!(matches!(replies.last(), Some(Reply { finish: Finish::Stop(_), .. })), "{name}");
        jobs.push(job);
    }
    assert!(jobs.len() > 10 && replies.iter().any(|reply| reply.finish == Finish::Context), "{name}");
    (jobs, replies)
}

#[test]
fn guesses_change_no_text() {
    for name in ["tiny-qwen35-mtp", "tiny-qwen35moe-mtp", "tiny-lfm2", "tiny-gemma3", "tiny-granitehybrid"] {
        let (jobs, expected) = jobs(name);
        for (n_draft, n_seq, n_kv, odds) in [(1, 3, 0, 2), (3, 1, 0, 4), (7, 12, 384, 9), (63, 2, 0, 40)] {
            let replay = Replay::of(&jobs, &expected, odds);
            let n_grams = NGramDrafter { size_n: 1, size_m: n_draft };
            let mut drafters: Vec<(Box<dyn Drafter>, bool)> =
                vec![(Box::new(replay), false), (Box::new(n_grams), false)];
            if name.ends_with("-mtp") {
                drafters.push((Box::new(HeadDrafter::default()), true));
            }
            for (drafter, by_head) in drafters {
                let options = Options { draft_head: by_head, ..options(n_seq, n_kv, n_draft) };
                let mut scheduler = scheduler(&engine(name, options));
                scheduler.set_drafter(drafter);
                let what = format!("{name}, {n_draft} guesses, {n_seq} sequences, head: {by_head}");
                arrivals(&what, &mut scheduler, &jobs, &expected, (n_draft as u64, 200));
                let stats = scheduler.stats();
                assert!(stats.drafted > 0 && stats.accepted < stats.drafted, "{what}: {stats:?}");
                let pages = scheduler.forward().pages();
                scheduler.forget(&[]);
                assert_eq!(scheduler.forward().pages().free, pages.total, "{what}: no page is lost");
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn guesses_change_no_text_on_a_gpu() {
    // Pages of windows, and states of both kinds.
    for (tiny, i) in crate::device::named(&["gemma3", "qwen35", "nemotron_h"]).map(crate::device::in_k_quants).zip(0..)
    {
        // As many tokens as one that is wrong by a bit is still one.
        let tiny = Tiny { n_vocab: 62, ..tiny };
        let _place = Place::new(crate::device::sm([75, 80][i % 2]));
        let (gpu, model) = (card::gpu(), tiny.model());
        let on_gpu = |n_seq: usize, n_kv: usize, n_draft: usize| {
            let options = Options { n_ctx: 144, ..options(n_seq, n_kv, n_draft) };
            Scheduler::of_tokens(Box::new(GpuDecoder::new(&gpu, &model, &options).expect("a decoder")))
        };
        let mut random = Random(i as u64);
        let mut job = |i: usize| {
            let prompt = (0..[1, 50, 63, 64, 100][i % 5]).map(|_| random.below(tiny.n_vocab) as u32).collect();
            let params = SamplerParams {
                seed: i as u64,
                temperature: [0.0, 0.9][i % 2],
                repeat_penalty: [1.0, 1.0, 1.3][i % 3],
                ..SamplerParams::default()
            };
            let max_tokens = [Some(14), Some(9), Some(16), Some(11), None][i % 5];
            (Request { prompt, max_tokens, ..Request::default() }, params)
        };
        let jobs: Vec<_> = (0..6).map(&mut job).collect();
        let mut single = on_gpu(1, 0, 0);
        let expected: Vec<Reply> = jobs.iter().map(|job| reply(&mut single, job)).collect();
        drop(single);
        let mut wrong = 0;
        let drafters: [Box<dyn Drafter>; 2] =
            [Box::new(Replay::of(&jobs, &expected, 5)), Box::new(NGramDrafter { size_n: 1, size_m: 3 })];
        for (drafter, [n_draft, n_seq, n_kv]) in drafters.into_iter().zip([[7, 4, 192], [3, 1, 0]]) {
            let mut scheduler = on_gpu(n_seq, n_kv, n_draft);
            scheduler.set_drafter(drafter);
            let what = format!("{}, {n_draft} guesses, {n_seq} sequences", tiny.arch);
            arrivals(&what, &mut scheduler, &jobs, &expected, (n_draft as u64, 200));
            let stats = scheduler.stats();
            wrong += stats.drafted - stats.accepted;
            assert!(stats.drafted > 0, "{what}: {stats:?}");
            let pages = scheduler.forward().pages();
            scheduler.forget(&[]);
            assert_eq!(scheduler.forward().pages().free, pages.total, "{what}: no page is lost");
        }
        assert!(wrong > 0, "{}: all guesses were right", tiny.arch);
    }
}

#[test]
fn right_guesses_save_steps_and_are_counted() {
    let (jobs, expected) = jobs("tiny-qwen35-mtp");
    let mut scheduler = scheduler(&engine("tiny-qwen35-mtp", options(1, 0, 3)));
    scheduler.set_drafter(Box::new(Replay::of(&jobs, &expected, 0)));
    for (job, want) in jobs.iter().zip(&expected) {
        let before = scheduler.stats();
        let found = reply(&mut scheduler, job);
        assert_eq!((&found.tokens, &found.text, &found.finish), (&want.tokens, &want.text, &want.finish));
        let stats = scheduler.stats();
        assert_eq!(stats.drafts > before.drafts, stats.drafted > before.drafted);
        let (drafted, accepted) = (stats.drafted - before.drafted, stats.accepted - before.accepted);
        assert_eq!([drafted, accepted], [found.timings.draft_n as u64, found.timings.draft_n_accepted as u64]);
        // The first token comes out of the prompt; each step gives four more, but for those beyond the end.
        let n = found.tokens.len() as u64 - 1;
        assert_eq!(stats.decode_rows - before.decode_rows, n - accepted + drafted);
        assert!(n - accepted <= n.div_ceil(4), "{accepted} of {n} tokens were guessed");
        let json = serde_json::to_value(found.timings).expect("numbers");
        assert_eq!(json.get("draft_n").is_some(), drafted > 0, "{json}");
    }
    // What is put into the prefix cache afterwards is the text, no more: a turn that follows finds all of it.
    let (mut request, params) = jobs[1].clone();
    request.prompt.extend(&expected[1].tokens);
    request.prompt.truncate(150);
    let next = (Request { max_tokens: Some(8), ..request }, params);
    let single = engine("tiny-qwen35-mtp", options(1, 0, 0));
    assert_eq!(reply(&mut scheduler, &next).tokens, alone(&single, &next).tokens);
}

#[test]
fn short_and_improbable_drafts_are_not_used() {
    let options = Options { draft_head: true, ..options(1, 0, 3) };
    let engine = engine("tiny-qwen35-mtp", options);
    let job = (Request { prompt: vec![5, 6, 7], max_tokens: Some(20), ..Request::default() }, SamplerParams::default());
    for (head, drafts) in [
        (HeadDrafter { n_min: 3, p_min: 0.0 }, true),
        (HeadDrafter { n_min: 4, p_min: 0.0 }, false),
        (HeadDrafter { n_min: 0, p_min: 1.0 }, false),
    ] {
        let mut scheduler = scheduler(&engine);
        scheduler.set_drafter(Box::new(head));
        let timings = reply(&mut scheduler, &job).timings;
        assert_eq!(timings.draft_n > 0, drafts, "{head:?}");
    }
}

#[test]
fn a_caller_who_leaves_between_two_right_guesses_leaves_a_beginning() {
    let (jobs, expected) = jobs("tiny-lfm2");
    let mut scheduler: Scheduler = scheduler(&engine("tiny-lfm2", options(1, 0, 7)));
    scheduler.set_drafter(Box::new(Replay::of(&jobs, &expected, 0)));
    for leaves in [2, 3, 6] {
        let (request, params) = jobs[0].clone();
        scheduler.submit(request, params).expect("a good request");
        let mut tokens = 0;
        while !scheduler.is_idle() {
            scheduler.step(&mut |_, event| {
                tokens += usize::from(matches!(event, qrun::generate::Event::Token { .. }));
                if tokens >= leaves { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
        let finished = scheduler.finished().expect("an end");
        let reply = finished.result.expect("a reply");
        assert_eq!((reply.finish, &reply.tokens[..]), (Finish::Interrupted, &expected[0].tokens[..leaves]));
        assert_eq!(finished.held.len(), jobs[0].0.prompt.len() + leaves - 1, "the last token is not in the cache");
        run(&mut scheduler);
    }
}
