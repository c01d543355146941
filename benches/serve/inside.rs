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
use qrun_models::{Batch, Cached, EventHandler, Forward, ForwardError, Options, PageCount, Rows};
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
    let ask = |prompts: Vec<Vec<u32>>, tokens| -> Result<Vec<Answer>> {
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
    };
    ask(vec![loads::prompt(1 << 20, 32)], 2)?;
    Ok(json!({ "tps": together(&ask(loads::prompts(n), args.tokens)?)? }))
}

fn sink(i: usize, sender: Sender<(usize, Instant, Chunk)>) -> qrun::generate::Sink {
    Box::new(move |chunk| match sender.send((i, Instant::now(), chunk)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    })
}

/// From the end of a step through the layers, before its token is chosen, to the token's event at a client: one stream of a
/// server in this process, which stays until the process ends.
pub fn bytes(args: &Args, file: &Path) -> Result<Value> {
    let engine = open(args, file, Room { requests: 4, tokens: 1024 })?;
    let steps = Arc::new(Mutex::new(Vec::new()));
    let mut quiet: EventHandler = Box::new(|_| ());
    let forward = Stamped { forward: engine.bare_decoder(&mut quiet)?.forward, steps: steps.clone() };
    let generator = Generator::start(Scheduler::new(engine.clone(), Box::new(forward)))?;
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
    let options = ServerOptions { port: 0, parallel: 4, ..ServerOptions::default() };
    std::thread::spawn(move || server::serve(options, move || Some(loaded), log));
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
    for streams in [1, 4] {
        let mut times = Vec::new();
        for _ in 0..args.rounds {
            steps.lock().expect("no step panics").clear();
            let answers = client.streams(&loads::prompts(streams), args.tokens)?;
            let steps = steps.lock().expect("no step panics").clone();
            for (at, _) in answers.iter().flat_map(|answer| &answer.events) {
                // Steps take far longer than what is measured: the last one before is the token's own.
                let step = steps.iter().rev().find(|step| *step < at).context("an event before any step")?;
                times.push(ms(*at - *step));
            }
        }
        ensure!(times.len() >= streams * args.tokens, "{} events", times.len());
        rows.push(json!({ "streams": streams, "median_ms": median(&times), "p99_ms": percentile(&times, 99.0) }));
    }
    Ok(json!(rows))
}

/// A decoder that notes when its steps end.
struct Stamped {
    forward: Box<dyn Forward>,
    steps: Arc<Mutex<Vec<Instant>>>,
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
        self.steps.lock().expect("no client panics").push(Instant::now());
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
    fn cached(&self, tokens: &[u32]) -> Cached {
        self.forward.cached(tokens)
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
