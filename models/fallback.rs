//! A decoder that survives its device: when the GPU fails, the CPU goes on with the same tokens.

use std::io::{self, Read, Write};

use qrun_quant::cpu::par::Pool;

use crate::{
    Batch, Cached, CpuDecoder, Entry, EventHandler, Forward, ForwardError, LoadEvent, Model, Options, Output,
    PageCount, Rows, Salt, Tap, forward::SamplingRequest,
};

/// A decoder, and what it takes to start over on the CPU.
pub struct Fallback {
    active: Box<dyn Forward>,
    /// Where to go on; taken when it is used.
    spare: Option<Spare>,
    /// What the active decoder holds of each sequence.
    held: Vec<Held>,
}

/// How the cache of a sequence came about: loaded, if it was, and then fed.
#[derive(Clone, Default)]
struct Held {
    /// What was loaded, and how many of its tokens are still kept.
    loaded: Vec<u8>,
    kept: u32,
    fed: Vec<u32>,
}

struct Spare {
    model: Model,
    options: Options,
    on_event: EventHandler,
}

impl Fallback {
    /// Runs on `device` while that works, then on the CPU with the same model and options.
    pub fn new(device: Box<dyn Forward>, model: Model, options: Options, on_event: EventHandler) -> Self {
        let held = vec![Held::default(); options.n_seq];
        Self { active: device, spare: Some(Spare { model, options, on_event }), held }
    }

    /// Moves to the CPU after a device error and brings its cache to where the device's was. Other errors,
    /// and a second failure, are returned as they are.
    fn give_up(&mut self, error: ForwardError) -> Result<(), ForwardError> {
        let ForwardError::Device(reason) = &error else { return Err(error) };
        let Some(mut spare) = self.spare.take() else { return Err(error) };
        (spare.on_event)(LoadEvent::FellBack(&format!("GPU: {reason}; the CPU goes on")));
        let Ok(cpu) = CpuDecoder::new(spare.model, spare.options) else { return Err(error) };
        self.active = Box::new(cpu);
        for (seq, held) in self.held.iter().enumerate() {
            let seq = seq as u32;
            if held.kept > 0 {
                let loaded = self.active.load(seq, &mut held.loaded.as_slice());
                if loaded.is_err() || self.active.rewind(seq, held.kept) != held.kept {
                    return Err(error);
                }
            }
            // Sequences that shared pages share them again.
            let known = if held.kept == 0 { self.active.attach(seq, &held.fed) } else { 0 };
            let entry = |(i, &token)| Entry { token, pos: held.kept + i as u32, seq, output: Output::None };
            let batch: Vec<_> = held.fed.iter().enumerate().skip(known as usize).map(entry).collect();
            self.active.forward(&batch)?;
            if held.kept == 0 {
                self.active.share(seq, &held.fed);
            }
        }
        Ok(())
    }
}

impl Forward for Fallback {
    fn n_vocab(&self) -> usize {
        self.active.n_vocab()
    }

    fn n_ctx(&self) -> usize {
        self.active.n_ctx()
    }

    fn n_seq(&self) -> usize {
        self.active.n_seq()
    }

    fn step(&mut self, batch: &Batch) -> Result<Rows<'_>, ForwardError> {
        // Asked twice because a borrow that is returned cannot be dropped on the other path.
        if let Some(error) = self.active.step(batch).err() {
            self.give_up(error)?;
            self.active.step(batch)?;
        }
        for e in batch.entries {
            self.held[e.seq as usize].fed.push(e.token);
        }
        Ok(self.active.rows())
    }

    fn rows(&self) -> Rows<'_> {
        self.active.rows()
    }

    fn pool(&self) -> Option<&Pool> {
        self.active.pool()
    }

    fn set_sampling(&mut self, seq: u32, sampling: &SamplingRequest) -> Result<bool, ForwardError> {
        self.active.set_sampling(seq, sampling).or_else(|error| self.give_up(error).map(|()| false))
    }

    fn len(&self, seq: u32) -> u32 {
        self.active.len(seq)
    }

    fn rewind(&mut self, seq: u32, pos: u32) -> u32 {
        let kept = self.active.rewind(seq, pos);
        let held = &mut self.held[seq as usize];
        held.fed.truncate(kept.saturating_sub(held.kept) as usize);
        held.kept = held.kept.min(kept);
        kept
    }

    fn attach(&mut self, seq: u32, tokens: &[u32]) -> u32 {
        let n = self.active.attach(seq, tokens);
        self.held[seq as usize] = Held { fed: tokens[..n as usize].to_vec(), ..Held::default() };
        n
    }

    fn set_salt(&mut self, seq: u32, salt: &Salt) {
        self.active.set_salt(seq, salt);
    }

    fn cached(&self, salt: &Salt, tokens: &[u32]) -> Cached {
        self.active.cached(salt, tokens)
    }

    fn fork(&mut self, from: u32, to: u32, len: u32) -> u32 {
        // What was loaded is not known token by token.
        let held = &self.held[from as usize];
        if held.kept > 0 {
            return self.rewind(to, 0);
        }
        let fed = held.fed.get(..len as usize).unwrap_or_default().to_vec();
        let n = self.active.fork(from, to, len);
        self.held[to as usize] = Held { fed: fed[..n as usize].to_vec(), ..Held::default() };
        n
    }

    fn share(&mut self, seq: u32, tokens: &[u32]) {
        self.active.share(seq, tokens);
    }

    fn release(&mut self, seq: u32, tokens: &[u32]) {
        self.active.release(seq, tokens);
        self.held[seq as usize] = Held::default();
    }

    fn forget(&mut self, keep: &[u32]) {
        self.active.forget(keep);
    }

    fn erase(&mut self, salt: &Salt, tokens: &[u32]) {
        self.active.erase(salt, tokens);
    }

    fn pages(&self) -> PageCount {
        self.active.pages()
    }

    fn set_tap(&mut self, tap: Option<Tap>) -> bool {
        self.active.set_tap(tap)
    }

    fn bytes_per_token(&self) -> u64 {
        self.active.bytes_per_token()
    }

    fn kv_bytes(&self) -> u64 {
        self.active.kv_bytes()
    }

    fn save(&self, seq: u32, out: &mut dyn Write) -> io::Result<()> {
        self.active.save(seq, out)
    }

    fn load(&mut self, seq: u32, input: &mut dyn Read) -> io::Result<()> {
        let mut loaded = Vec::new();
        input.read_to_end(&mut loaded)?;
        self.held[seq as usize] = Held::default();
        self.active.load(seq, &mut loaded.as_slice())?;
        self.held[seq as usize] = Held { loaded, kept: self.active.len(seq), fed: Vec::new() };
        Ok(())
    }
}
