//! A program that embeds the library: an allocator of its own, no command line, no plots. It opens the embedded model and
//! generates a few tokens. `.ci/run` builds and runs it.

#![allow(clippy::print_stdout)] // It is a program, and says what it did.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, ensure};
use qrun::{
    embedded,
    engine::{Engine, EngineOptions},
    generate::{Request, Session},
    sampler::SamplerParams,
    text::template::{Message, Render},
    text::tokenizer::Encode,
};
use qrun_quant::{Bytes, Gguf};

/// Counts what is allocated: what a program with plans of its own for memory might do.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on unchanged to `System`, which keeps the contract; counting touches an atomic only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about `block` and `layout`; blocks come from `System` alone.
        unsafe { System.dealloc(block, layout) }
    }
}

fn main() -> anyhow::Result<()> {
    let file = Bytes::new(embedded::model().context("the library has no embedded model")?);
    let engine = Arc::new(Engine::open(Gguf::from_bytes("the embedded model", file)?, EngineOptions::default())?);
    let text = engine.render(&[Message::new("user", "What is qrun?")], &Render::default());
    let prompt = engine
        .tokenizer()
        .encode(&text.context("a chat template")??, Encode { add_special: false, parse_special: true })?;
    let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    let mut session = Session::open(engine, params, Box::new(|_| {}))?;
    let request = Request { prompt, max_tokens: Some(8), ..Request::default() };
    let reply = session.generate(&request, &mut |_| ControlFlow::Continue(()))?;
    ensure!(reply.tokens.len() == 8, "8 tokens expected, {} generated", reply.tokens.len());
    ensure!(ALLOCATED.load(Ordering::Relaxed) > 0, "the program's own allocator was not used");
    println!("{:?} ({} tokens)", reply.text, reply.tokens.len());
    Ok(())
}
