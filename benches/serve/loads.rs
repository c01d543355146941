//! What is asked of a server, each a turn: JSON of what was seen.

use std::{
    io::{Read, Write},
    net::TcpStream,
    ops::ControlFlow,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{scope, sleep},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use qrun::bench::{mean, median, percentile};
use serde_json::{Value, json};

use super::{
    Args,
    client::{Answer, ms, together},
    servers::{Room, Server},
};

/// Tokens of the short prompts.
const SHORT: usize = 32;

/// A prompt that no other of `which` begins like.
pub fn prompt(which: usize, n: usize) -> Vec<u32> {
    (0..n).map(|pos| 100 + ((which + 1) * 104_729 + pos * 7919 + pos * pos % 97) as u32 % 30_000).collect()
}

/// Prompts of `n` requests.
pub fn prompts(n: usize) -> Vec<Vec<u32>> {
    (0..n).map(|which| prompt(which, SHORT)).collect()
}

/// `n` requests at once: tokens per second while all of them decode, and memory.
pub fn decode(name: &str, args: &Args, file: &Path, n: usize) -> Result<Value> {
    let server = Server::start(name, args, file, Room { requests: n, tokens: 512 })?;
    server.client.streams(&[prompt(1 << 20, SHORT)], 2)?;
    let answers = server.client.streams(&prompts(n), args.tokens)?;
    Ok(json!({ "tps": together(&answers)?, "rss": server.memory("VmRSS")?, "peak": server.memory("VmHWM")? }))
}

/// Three streams run, then a prompt of 2,000 tokens comes: their longest gap until its first token, and how fast the
/// prompt is beside how fast it is alone.
pub fn gap(name: &str, args: &Args, file: &Path) -> Result<Value> {
    const PROMPT: usize = 2000;
    let server = Server::start(name, args, file, Room { requests: 4, tokens: 4096 })?;
    let client = &server.client;
    client.streams(&[prompt(1 << 20, SHORT)], 2)?;
    let alone = client.streams(&[prompt(1 << 10, PROMPT)], 1)?[0].first()?;
    let (done, begun) = (AtomicBool::new(false), [const { AtomicBool::new(false) }; 3]);
    let (streams, long) = scope(|scope| -> Result<_> {
        let run = |i: usize| {
            let (done, begun) = (&done, &begun[i]);
            scope.spawn(move || {
                client.stream((&prompt(i, SHORT), true), 3000, |tokens| {
                    begun.store(tokens >= 16, Relaxed);
                    if done.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
            })
        };
        let streams: Vec<_> = (0..3).map(run).collect();
        while !begun.iter().all(|begun| begun.load(Relaxed)) && !streams.iter().any(|stream| stream.is_finished()) {
            sleep(Duration::from_millis(5));
        }
        let long = client.stream((&prompt(1 << 11, PROMPT), true), 1, |_| ControlFlow::Break(()));
        // Until each of them has had a token again.
        sleep(Duration::from_millis(500));
        done.store(true, Relaxed);
        let streams = streams.into_iter().map(|stream| stream.join().expect("a client does not panic"));
        Ok((streams.collect::<Result<Vec<_>>>()?, long?))
    })?;
    let (from, took) = (long.sent, long.first()?);
    let gaps: Vec<f64> = streams.iter().flat_map(|stream| stream.gaps(from, from + took)).collect();
    let before: Vec<f64> = streams.iter().flat_map(|stream| stream.gaps(stream.sent, from)).collect();
    Ok(json!({
        "longest_ms": percentile(&gaps, 100.0), "median_ms": median(&gaps), "before_ms": median(&before),
        "gaps": gaps.len(), "alone_ms": ms(alone), "prompt_ms": ms(took),
        "of_alone": alone.as_secs_f64() / took.as_secs_f64(),
    }))
}

/// Four at once that begin with the same 1,000 tokens, which a request before them has brought, and go on with 4 of their
/// own: times to the first token, and how many tokens of their prompts were computed. The same with 16 of their own, and
/// with a beginning that is new.
pub fn prefix(name: &str, args: &Args, file: &Path) -> Result<Value> {
    const PREFIX: usize = 1000;
    let server = Server::start(name, args, file, Room { requests: 4, tokens: 2048 })?;
    let four = |prefix: usize, own: usize| -> Result<Value> {
        // No two lengths go on alike.
        let ask = |i| [prompt(prefix, PREFIX), prompt(i + 4 * own, own)].concat();
        let answers = server.client.streams(&[ask(1), ask(2), ask(3), ask(4)], 4)?;
        let first: Vec<f64> = answers.iter().map(|answer| answer.first().map(ms)).collect::<Result<_>>()?;
        let computed: u64 = answers.iter().filter_map(|answer| answer.timings["prompt_n"].as_u64()).sum();
        Ok(json!({ "median_ms": median(&first), "last_ms": percentile(&first, 100.0), "computed": computed }))
    };
    server.client.streams(&[[prompt(1 << 10, PREFIX), prompt(0, 16)].concat()], 1)?;
    let (cached, cached_16) = (four(1 << 10, 4)?, four(1 << 10, 16)?);
    Ok(json!({ "cached": cached, "cached_16": cached_16, "new": four(1 << 12, 16)? }))
}

/// Sixteen clients find out what the server can carry; then requests come at four times that rate, whatever becomes of
/// those before them.
pub fn overload(name: &str, args: &Args, file: &Path) -> Result<Value> {
    const CLIENTS: usize = 16;
    let n = 16;
    let server = Server::start(name, args, file, Room { requests: CLIENTS, tokens: 512 })?;
    let client = &server.client;
    client.streams(&[prompt(1 << 20, SHORT)], 2)?;
    let answers = Mutex::new(Vec::new());
    let (started, time) = (Instant::now(), Duration::from_secs(args.seconds) / 2);
    let keep = |answer: Result<Answer>| answers.lock().expect("no client panics").push(answer);
    let whole = |_| ControlFlow::Continue(());
    scope(|scope| {
        for i in 0..CLIENTS {
            let keep = &keep;
            scope.spawn(move || {
                for round in 0.. {
                    if started.elapsed() >= time {
                        break;
                    }
                    keep(client.stream((&prompt(i + CLIENTS * round, SHORT), false), n, whole));
                }
            });
        }
    });
    let full: Vec<Answer> =
        std::mem::take(&mut *answers.lock().expect("no client panics")).into_iter().collect::<Result<_>>()?;
    let (carried, full_gaps) = (full.len() as f64 / started.elapsed().as_secs_f64(), inner_gaps(&full));
    let before = server.memory("VmRSS")?;
    let (started, time) = (Instant::now(), Duration::from_secs(args.seconds));
    scope(|scope| {
        for i in 0.. {
            let due = Duration::from_secs_f64(i as f64 / (4.0 * carried));
            if due >= time {
                break;
            }
            sleep(due.saturating_sub(started.elapsed()));
            let keep = &keep;
            scope.spawn(move || keep(client.stream((&prompt(100_000 + i, SHORT), false), n, whole)));
        }
    });
    let all: Vec<Answer> =
        std::mem::take(&mut *answers.lock().expect("no client panics")).into_iter().collect::<Result<_>>()?;
    let (admitted, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(|answer| answer.status == 200);
    let odd: Vec<u16> = refused.iter().map(|answer| answer.status).filter(|status| *status != 503).collect();
    ensure!(odd.is_empty(), "statuses other than 200 and 503: {odd:?}");
    // Those who were let in and then waited in vain are told so after a minute.
    let took = refused.iter().map(|answer| ms(answer.ended - answer.sent));
    let (refusals, waits): (Vec<f64>, Vec<f64>) = took.partition(|ms| *ms < 10_000.0);
    let over = inner_gaps(&admitted);
    Ok(json!({
        "carried_per_s": carried, "admitted": admitted.len(), "refused": refusals.len(), "waited_in_vain": waits.len(),
        "refusal_p50_ms": median(&refusals), "refusal_p99_ms": percentile(&refusals, 99.0),
        "gap_full_ms": median(&full_gaps), "gap_over_ms": median(&over),
        "gap_full_mean_ms": mean(&full_gaps), "gap_over_mean_ms": mean(&over),
        "rss_before": before, "rss_after": server.memory("VmRSS")?,
    }))
}

/// Times between the tokens of answers.
fn inner_gaps(answers: &[Answer]) -> Vec<f64> {
    answers.iter().flat_map(|answer| answer.events.windows(2).map(|pair| ms(pair[1].0 - pair[0].0))).collect()
}

/// Connections that have asked once and now say nothing: what they cost, and how `/health` answers beside them.
pub fn idle(name: &str, args: &Args, file: &Path) -> Result<Value> {
    let server = Server::start(name, args, file, Room { requests: 4, tokens: 512 })?;
    let before = server.memory("VmRSS")?;
    let ask = |stream: &mut TcpStream| -> Result<f64> {
        let sent = Instant::now();
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let n = stream.read(&mut [0; 4096])?;
        ensure!(n > 0, "the server has closed the connection");
        Ok(ms(sent.elapsed()))
    };
    let mut connections = Vec::new();
    for i in 0..args.connections {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).with_context(|| format!("connection {i}"))?;
        stream.set_read_timeout(Some(Duration::from_secs(args.limit)))?;
        ask(&mut stream).with_context(|| format!("connection {i}"))?;
        connections.push(stream);
    }
    let mut one = TcpStream::connect(("127.0.0.1", server.port))?;
    let health: Vec<f64> = (0..1000).map(|_| ask(&mut one)).collect::<Result<_>>()?;
    let after = server.memory("VmRSS")?;
    Ok(json!({
        "connections": connections.len(), "bytes": after.saturating_sub(before),
        "health_p50_ms": median(&health), "health_p99_ms": percentile(&health, 99.0),
    }))
}
