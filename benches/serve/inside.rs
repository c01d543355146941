//! What can only be seen from inside of qrun: the same requests without HTTP, and how long a token takes to its client.

use std::{
    io::{self, Read, Write},
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use qrun::{
    bench::{median, percentile},
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{Chunk, Generator, Request, Scheduler},
    sampler::SamplerParams,
    server::{self, Loaded, ServerOptions},
};
use qrun_models::{Batch, Cached, EventHandler, Forward, ForwardError, Options, PageCount, Rows, Salt};
use qrun_quant::{Gguf, cpu::par::Pool};
use serde_json::{Value, json};

use super::{
    Args,
    client::{Answer, Client, ms, together},
    loads,
    servers::Room,
};

/// The engine as `qrun serve` opens it.
fn open(args: &Args, file: &Path, room: Room) -> Result<Arc<Engine>> {
    let options = Options {
        n_ctx: room.tokens,
        n_seq: room.requests,
        n_kv: room.tokens * room.requests,
        threads: args.threads,
        ..Options::default()
    };
    let options = EngineOptions { options, template: None, device: DevicePreference::Cpu };
    Ok(Arc::new(Engine::open(Gguf::open(file)?, options)?))
}

fn greedy() -> SamplerParams {
    SamplerParams { temperature: 0.0, ..SamplerParams::default() }
}

/// `n` requests at once, as `loads::decode` asks them.
pub fn decode(args: &Args, file: &Path, n: usize) -> Result<Value> {
    let engine = open(args, file, Room { requests: n, tokens: 512 })?;
    let generator = Generator::start(Scheduler::open(engine, Box::new(|_| ()))?)?;
    ask(&generator, vec![loads::prompt(1 << 20, 32)], 2)?;
    Ok(json!({ "tps": together(&ask(&generator, loads::prompts(n), args.tokens)?)? }))
}

/// The answers to some prompts, stamped as the generator's thread hands their tokens out.
fn ask(generator: &Generator, prompts: Vec<Vec<u32>>, tokens: usize) -> Result<Vec<Answer>> {
    let (sender, receiver) = channel();
    let sent = Instant::now();
    let n = prompts.len();
    for (i, prompt) in prompts.into_iter().enumerate() {
        let request = Request { prompt, max_tokens: Some(tokens), ignore_eos: true, ..Request::default() };
        generator.submit_to(request, greedy(), sink(i, sender.clone()));
    }
    drop(sender);
    let mut events = vec![Vec::new(); n];
    for (i, at, chunk) in receiver {
        match chunk {
            Chunk::Token { .. } => {
                let tokens = events[i].len() + 1;
                events[i].push((at, tokens));
            }
            Chunk::End(reply) => drop(reply?),
            _ => {}
        }
    }
    let answer = |events| Answer { status: 200, sent, events, ended: Instant::now(), timings: Value::Null };
    Ok(events.into_iter().map(answer).collect())
}

fn sink(i: usize, sender: Sender<(usize, Instant, Chunk)>) -> qrun::generate::Sink {
    Box::new(move |chunk| match sender.send((i, Instant::now(), chunk)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    })
}

/// From the end of a step through the layers to the token's event at a client, and how much of that is choosing the token:
/// a server in this process, which stays until the process ends, and the same requests without it.
pub fn bytes(args: &Args, file: &Path) -> Result<Value> {
    let steps = Steps::default();
    let (engine, generator) = stamped(args, file, &steps)?;
    ask(&generator, loads::prompts(1), 4)?;
    let chosen = [1, 4].map(|n| steps.until(|| ask(&generator, loads::prompts(n), args.tokens)));
    drop((engine, generator));
    let (engine, generator) = stamped(args, file, &steps)?;
    let loaded = Loaded {
        engine,
        generator,
        params: greedy(),
        seed_said: false,
        max_tokens: None,
        template_kwargs: serde_json::Map::new(),
    };
    let (sender, lines) = channel();
    let sender = Mutex::new(sender);
    let log: server::Log = Arc::new(move |line| {
        let _ = sender.lock().map(|sender| sender.send(line.to_owned()));
    });
    let options = ServerOptions { port: 0, ..ServerOptions::default() };
    let serve = move || {
        server::serve(
            options,
            move |opened| {
                opened();
                Some(loaded)
            },
            log,
        )
    };
    std::thread::spawn(serve);
    let mut url = None;
    for line in lines {
        url = url.or_else(|| line.split_once("http://").map(|(_, address)| format!("http://{address}")));
        if line == "ready" {
            break;
        }
    }
    let client = Client::new(url.context("the server did not begin")?);
    client.streams(&loads::prompts(1), 4)?;
    let mut rows = Vec::new();
    for (n, chosen) in [1, 4].into_iter().zip(chosen) {
        let chosen = chosen?;
        let heard = steps.until(|| client.streams(&loads::prompts(n), args.tokens))?;
        ensure!(heard.len() >= n * args.tokens, "{} events", heard.len());
        let (chosen, median, p99) = (median(&chosen), median(&heard), percentile(&heard, 99.0));
        rows.push(json!({ "streams": n, "median_ms": median, "p99_ms": p99, "chosen_ms": chosen, "sent_ms": median - chosen }));
    }
    Ok(json!(rows))
}

fn stamped(args: &Args, file: &Path, steps: &Steps) -> Result<(Arc<Engine>, Generator)> {
    let engine = open(args, file, Room { requests: 4, tokens: 1024 })?;
    let mut quiet: EventHandler = Box::new(|_| ());
    let forward = Stamped { forward: engine.decoder(&mut quiet)?.forward, steps: steps.clone() };
    let generator = Generator::start(Scheduler::new(engine.clone(), Box::new(forward)))?;
    Ok((engine, generator))
}

/// When steps have ended.
#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Vec<Instant>>>);

impl Steps {
    /// Milliseconds from the end of a step to each of its tokens, of some answers.
    fn until(&self, answers: impl FnOnce() -> Result<Vec<Answer>>) -> Result<Vec<f64>> {
        self.0.lock().expect("no step panics").clear();
        let answers = answers()?;
        let steps = self.0.lock().expect("no step panics").clone();
        // Steps take far longer than what is measured: the last one before a token is its own.
        let of = |at: Instant| steps.iter().rev().find(|step| **step < at).map(|step| ms(at - *step));
        let events = answers.iter().flat_map(|answer| &answer.events);
        events.map(|(at, _)| of(*at).context("an event before any step")).collect()
    }
}

/// A decoder that notes when its steps end.
struct Stamped {
    forward: Box<dyn Forward>,
    steps: Steps,
}

impl Forward for Stamped {
    fn n_vocab(&self) -> usize {
        self.forward.n_vocab()
    }
    fn n_ctx(&self) -> usize {
        self.forward.n_ctx()
    }
    fn n_seq(&self) -> usize {
        self.forward.n_seq()
    }
    fn step(&mut self, batch: &Batch) -> Result<Rows<'_>, ForwardError> {
        let rows = self.forward.step(batch);
        self.steps.0.lock().expect("no client panics").push(Instant::now());
        rows
    }
    fn rows(&self) -> Rows<'_> {
        self.forward.rows()
    }
    fn len(&self, seq: u32) -> u32 {
        self.forward.len(seq)
    }
    fn rewind(&mut self, seq: u32, pos: u32) -> u32 {
        self.forward.rewind(seq, pos)
    }
    fn attach(&mut self, seq: u32, tokens: &[u32]) -> u32 {
        self.forward.attach(seq, tokens)
    }
    fn cached(&self, salt: &Salt, tokens: &[u32]) -> Cached {
        self.forward.cached(salt, tokens)
    }
    fn share(&mut self, seq: u32, tokens: &[u32]) {
        self.forward.share(seq, tokens);
    }
    fn release(&mut self, seq: u32, tokens: &[u32]) {
        self.forward.release(seq, tokens);
    }
    fn pages(&self) -> PageCount {
        self.forward.pages()
    }
    fn pool(&self) -> Option<&Pool> {
        self.forward.pool()
    }
    fn row_multiple(&self) -> usize {
        self.forward.row_multiple()
    }
    fn bytes_per_token(&self) -> u64 {
        self.forward.bytes_per_token()
    }
    fn kv_bytes(&self) -> u64 {
        self.forward.kv_bytes()
    }
    fn save(&self, seq: u32, out: &mut dyn Write) -> io::Result<()> {
        self.forward.save(seq, out)
    }
    fn load(&mut self, seq: u32, input: &mut dyn Read) -> io::Result<()> {
        self.forward.load(seq, input)
    }
}
