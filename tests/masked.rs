//! Requests with a mask: their text obeys it, and is what it would be alone.

use std::{ops::ControlFlow, sync::Arc};

use qrun::{
    embedded,
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{Event, Finish, GenerateError, NGramDrafter, Reply, Request, RequestId, Scheduler},
    sampler::{Mask, SamplerParams, TokenMask},
    text::chat::{ChatRequest, Delta, Tool, ToolChoice, prepare},
    text::grammar::{GrammarSpec, Trigger},
    text::template::Message,
};
use qrun_models::Options;
use qrun_quant::{Bytes, Gguf};
use serde_json::{Value, json};

fn engine(n_seq: usize, n_kv: usize) -> Arc<Engine> {
    let model = Gguf::from_bytes("demo", Bytes::new(embedded::model().expect("a model").to_vec())).expect("a model");
    let options = Options { n_ctx: 512, n_seq, n_kv, n_ubatch: 64, n_draft: 4, threads: 2, ..Options::default() };
    let options = EngineOptions { options, template: None, device: DevicePreference::Cpu };
    Arc::new(Engine::open(model, options).expect("an engine"))
}

fn scheduler(engine: &Arc<Engine>) -> Scheduler {
    Scheduler::open(engine.clone(), Box::new(|_| ())).expect("a decoder")
}

fn specs() -> Vec<GrammarSpec> {
    let gbnf = |text: &str| GrammarSpec::Gbnf(text.into());
    vec![
        GrammarSpec::JsonSchema(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": false})),
        gbnf("root ::= \"yes\" | \"no\""),
        gbnf("root ::= \"(\" root \")\" | [a-z ]{3,60}"),
        GrammarSpec::JsonObject,
        gbnf("root ::= ([a-z]+ \"-\"){5,40} \"end\""),
        GrammarSpec::Lazy {
            grammar: Box::new(gbnf("root ::= \"e\" [0-9]{9}")),
            triggers: vec![Trigger::Word("e".into())],
            thoughts: None,
        },
    ]
}

/// Requests with long prompts, each with a mask, greedy and sampled, with and without penalties; every fourth has none.
fn requests(engine: &Engine, n: usize) -> Vec<(Request, SamplerParams)> {
    let specs = specs();
    let one = |i: usize| {
        let mask = (i % 4 != 3).then(|| engine.grammars().and_then(|g| g.compile(&specs[i % specs.len()])));
        let mask = mask.map(|mask| mask.expect("a grammar"));
        let prompt = (0..40 + 13 * i as u32).map(|t| 300 + (t * 17 + i as u32 * 5) % 1500).collect();
        let params = SamplerParams {
            seed: i as u64,
            temperature: [0.0, 0.8, 1.5][i % 3],
            repeat_penalty: [1.0, 1.2][i % 2],
            logit_bias: if i.is_multiple_of(5) {
                vec![(engine.tokenizer().eog().next().expect("one"), 50.0)]
            } else {
                Vec::new()
            },
            ..SamplerParams::default()
        };
        (Request { prompt, mask, max_tokens: Some(60), ..Request::default() }, params)
    };
    (0..n).map(one).collect()
}

type Ended = Result<Reply, GenerateError>;

fn run(scheduler: &mut Scheduler, jobs: &[(Request, SamplerParams)]) -> Vec<Ended> {
    let submit = |(request, params): &(Request, SamplerParams)| {
        let request = Request { cancel: Default::default(), ..request.clone() };
        scheduler.submit(request, params.clone()).expect("a good request")
    };
    let ids: Vec<RequestId> = jobs.iter().map(submit).collect();
    let mut ended: Vec<Option<Ended>> = ids.iter().map(|_| None).collect();
    while !scheduler.is_idle() {
        scheduler.step(&mut |_, _: Event| ControlFlow::Continue(()));
        while let Some(finished) = scheduler.finished() {
            let at = ids.iter().position(|id| *id == finished.id).expect("its request");
            ended[at] = Some(finished.result);
        }
    }
    ended.into_iter().map(|reply| reply.expect("an end")).collect()
}

/// Every token of the answer is one that the mask allows there.
fn obeys(mask: &TokenMask, reply: &Reply) {
    let mut mask = mask.clone();
    for &token in &reply.tokens {
        let allowed = mask.allowed().expect("a mask")[token as usize / 32] >> (token % 32) & 1 == 1;
        assert!(allowed, "token {token} in {:?}", reply.text);
        mask.accept(token).expect("allowed");
    }
}

#[test]
fn masked_texts_obey_and_are_the_same_in_any_company() {
    let single = engine(1, 0);
    let jobs = requests(&single, 14);
    let mut alone = Vec::new();
    for job in &jobs {
        let reply = run(&mut scheduler(&single), std::slice::from_ref(job)).remove(0).expect("a reply");
        if let Some(mask) = &job.0.mask {
            obeys(mask, &reply);
        }
        alone.push(reply);
    }
    let ended = alone.iter().zip(&jobs).filter(|(reply, job)| reply.finish == Finish::Eos && job.0.mask.is_some());
    assert!(ended.count() >= 4, "some texts come to their end");
    let free = requests(&single, 14).into_iter().map(|(request, params)| (Request { mask: None, ..request }, params));
    for ((job, reply), free) in jobs.iter().zip(&alone).zip(free).filter(|((job, _), _)| job.0.mask.is_some()) {
        let other = run(&mut scheduler(&single), &[free]).remove(0).expect("a reply");
        let lazy =
            job.0.mask.as_ref().is_some_and(|mask| mask.clone().allowed().expect("words").iter().all(|w| *w == !0));
        assert!(
            lazy || other.tokens != reply.tokens,
            "without its mask the model says something else: {:?}",
            reply.text
        );
    }
    for (n_seq, n_kv, guesses) in [(4, 0, false), (16, 0, false), (8, 640, false), (3, 0, true)] {
        let many = engine(n_seq, n_kv);
        let mut scheduler = scheduler(&many);
        if guesses {
            scheduler.set_drafter(Box::new(NGramDrafter { size_n: 1, size_m: 4 }));
        }
        // Twice: the second time their prompts are in the cache.
        for round in 0..2 {
            for (at, (reply, want)) in run(&mut scheduler, &jobs).into_iter().zip(&alone).enumerate() {
                let reply = reply.expect("a reply");
                let what = format!("{n_seq} sequences, {n_kv} tokens of pages, round {round}, request {at}");
                assert_eq!(
                    (&reply.tokens, &reply.text, &reply.finish),
                    (&want.tokens, &want.text, &want.finish),
                    "{what}"
                );
            }
        }
        assert_eq!(scheduler.stats().preempted > 0, n_kv > 0, "{n_seq} sequences, {n_kv} tokens of pages");
        assert_eq!(scheduler.stats().accepted > 0, guesses);
    }
}

/// What the demo model, which knows no tools, is made to say where it has to call one.
#[test]
fn a_call_that_is_required_comes() {
    let template = "{# <tool_call> #}{% for m in messages %}{{ m.content }}{% endfor %}";
    let model = Gguf::from_bytes("demo", Bytes::new(embedded::model().expect("a model").to_vec())).expect("a model");
    let options = Options { n_ctx: 512, n_seq: 4, threads: 2, ..Options::default() };
    let options = EngineOptions { options, template: Some(template.into()), device: DevicePreference::Cpu };
    let engine = Arc::new(Engine::open(model, options).expect("an engine"));
    let parameters = json!({"type": "object", "required": ["city", "days"], "additionalProperties": false,
        "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}});
    let chat = ChatRequest {
        messages: vec![Message::new("user", "What is the weather?")],
        tools: vec![Tool { name: "weather".into(), description: None, parameters }],
        tool_choice: ToolChoice::Required,
        parallel_tool_calls: false,
        ..ChatRequest::default()
    };
    let prepared = prepare(&engine, &chat).expect("a chat");
    let prompt = engine.prompt(&prepared.prompt).expect("tokens");
    let job = |seed: u64| {
        let (mask, marks) = (prepared.mask.clone(), prepared.marks.clone());
        let params = SamplerParams { seed, temperature: 1.0, ..SamplerParams::default() };
        (Request { prompt: prompt.clone(), mask, marks, max_tokens: Some(400), ..Request::default() }, params)
    };
    for ended in run(&mut scheduler(&engine), &[job(1), job(2), job(3), job(4)]) {
        let reply = ended.expect("a reply");
        let mut parser = prepared.parser.clone();
        let mut deltas = parser.push(&reply.text);
        deltas.extend(parser.finish());
        let arguments: String = deltas
            .iter()
            .filter_map(|d| if let Delta::Arguments { text, .. } = d { Some(&**text) } else { None })
            .collect();
        let named = |d: &Delta| matches!(d, Delta::ToolCall { index: 0, name, .. } if name == "weather");
        assert_eq!(deltas.iter().filter(|d| named(d)).count(), 1, "{:?}", reply.text);
        assert!(!deltas.iter().any(|d| matches!(d, Delta::Content(_))), "{deltas:?}");
        let arguments: Value = serde_json::from_str(&arguments).expect("JSON");
        assert!(arguments["city"].is_string() && (1..=9).contains(&arguments["days"].as_i64().expect("a number")));
        assert_eq!(reply.finish, Finish::Eos, "{:?}", reply.text);
    }
}

/// Allows nothing, or cannot tell, after some tokens.
#[derive(Clone)]
struct Broken {
    left: usize,
    error: Option<&'static str>,
    words: Vec<u32>,
}

impl Mask for Broken {
    fn allowed(&mut self) -> Result<&[u32], String> {
        match (self.left, self.error) {
            (0, Some(error)) => Err(error.into()),
            (0, None) => {
                self.words.fill(0);
                Ok(&self.words)
            }
            _ => Ok(&self.words),
        }
    }
    fn accept(&mut self, _token: u32) -> Result<(), String> {
        self.left -= 1;
        Ok(())
    }
    fn clone_box(&self) -> Box<dyn Mask> {
        Box::new(self.clone())
    }
}

#[test]
fn a_mask_that_fails_ends_its_request_and_no_other() {
    let engine = engine(4, 0);
    let words = vec![u32::MAX; engine.tokenizer().n_vocab().div_ceil(32)];
    let request = |mask: Option<Broken>| {
        let mask = mask.map(|mask| TokenMask(Box::new(mask)));
        let request =
            Request { prompt: vec![5, 6, 7], mask, max_tokens: Some(9), ignore_eos: true, ..Request::default() };
        (request, SamplerParams::default())
    };
    let broken = |left, error| Some(Broken { left, error, words: words.clone() });
    let jobs =
        [request(None), request(broken(3, Some("no fuel"))), request(broken(0, None)), request(broken(99, None))];
    let ended = run(&mut scheduler(&engine), &jobs);
    let error = |ended: &Ended| ended.as_ref().expect_err("an error").to_string();
    assert_eq!(ended[0].as_ref().expect("a reply").tokens.len(), 9);
    assert_eq!(error(&ended[1]), "grammar: no fuel");
    assert_eq!(error(&ended[2]), "grammar: no token of the vocabulary can continue the text");
    assert_eq!(ended[3].as_ref().expect("a reply").tokens, ended[0].as_ref().expect("a reply").tokens, "all may come");
}

/// Words of a mask, then what is left of the logits `1, 2, 3, 4`.
#[test]
fn a_forbidden_token_is_out_before_bias_and_penalties() {
    use qrun::sampler::{Sampler, SamplerError};
    let logits = [1.0, 2.0, 3.0, 4.0];
    let params = SamplerParams { temperature: 0.0, logit_bias: vec![(3, 1e30)], ..SamplerParams::default() };
    let mut sampler = Sampler::new(params, 4).expect("a sampler");
    assert_eq!(sampler.sample(&logits), Ok(3));
    for (words, best) in
        [(vec![0b0111], Ok(2)), (vec![0b0001], Ok(0)), (vec![0b1000], Ok(3)), (vec![], Err(SamplerError::NoToken))]
    {
        sampler.restrict(Some(&words));
        assert_eq!(sampler.sample(&logits), best, "{words:?}");
    }
    sampler.restrict(None);
    assert_eq!(sampler.sample(&logits), Ok(3));
    // What the model computed for a forbidden token still has to be a number.
    sampler.restrict(Some(&[1]));
    assert!(matches!(sampler.sample(&[1.0, f32::NAN, 0.0, 0.0]), Err(SamplerError::NotFinite { token: 1, .. })));
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod on_gpu;
