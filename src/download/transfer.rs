//! Bytes from a server to a file that grows: lanes fetch ranges, each resumes and waits on its own, and what they bring is
//! put together in order.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    body::{Body, Origin},
    http::{Fault, Http, Refusal},
    partial::Partial,
    settings::Patience,
};

/// Bytes that one lane fetches in one request.
const PIECE: u64 = 16 << 20;
/// Lanes of a large file.
const LANES: u64 = 4;
/// What is handed on at once.
const BLOCK: usize = 256 << 10;
/// Blocks that a lane may be ahead: one piece.
const AHEAD: usize = (PIECE / BLOCK as u64) as usize;
/// How often the caller hears how far it is, at least.
const TICK: Duration = Duration::from_millis(100);

/// Why a transfer ended before the bytes were there.
#[derive(Debug)]
pub enum Stop {
    /// The caller's callback.
    Interrupted,
    /// The server.
    Fault(Fault),
    /// The disk.
    Disk(std::io::Error),
}

/// What a transfer needs to know.
pub struct Transfer {
    pub http: Arc<Http>,
    pub origin: Arc<Origin>,
    pub patience: Patience,
}

impl Transfer {
    /// Appends to `partial` until it has `to` bytes, or where that is `None` until the server has no more. `parallel`: over
    /// several connections, as long as the server gives ranges. `tick` hears how many bytes are there.
    ///
    /// # Errors
    /// [`Stop::Fault`]: the server refuses, or fails as often as [`Patience`] allows. [`Stop::Disk`]: `partial` cannot
    /// be written. [`Stop::Interrupted`]: `tick` breaks. What has come by then is kept.
    pub fn run(
        &self,
        partial: &mut Partial,
        to: Option<u64>,
        parallel: bool,
        tick: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        if parallel && self.origin.gives_ranges() && to.is_some() {
            match self.lanes(partial, to, LANES, tick) {
                // From here on one lane goes through the whole file.
                Err(Stop::Fault(Fault::NoRanges { .. })) => {}
                done => return done,
            }
        }
        self.lanes(partial, to, 1, tick)
    }

    fn lanes(
        &self,
        partial: &mut Partial,
        to: Option<u64>,
        lanes: u64,
        tick: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Stop> {
        let start = partial.have();
        if to.is_some_and(|to| start >= to) {
            return Ok(());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let _stop = OnDrop(stop.clone());
        // With one lane there is one piece.
        let pieces: Vec<(u64, Option<u64>)> = match to.filter(|_| lanes > 1) {
            Some(to) => (start..to).step_by(PIECE as usize).map(|from| (from, Some(to.min(from + PIECE)))).collect(),
            None => vec![(start, to)],
        };
        let receivers = (0..lanes as usize).map(|lane| {
            let own = pieces.iter().skip(lane).step_by(lanes as usize).copied().collect();
            self.lane(own, lanes == 1, &stop)
        });
        let receivers: Vec<Receiver<Message>> = receivers.collect();
        for (i, (_, end)) in pieces.iter().enumerate() {
            take(&receivers[i % lanes as usize], partial, *end, tick)?;
        }
        Ok(())
    }

    /// A thread that fetches these pieces one after the other.
    fn lane(&self, pieces: Vec<(u64, Option<u64>)>, alone: bool, stop: &Arc<AtomicBool>) -> Receiver<Message> {
        let (sender, receiver) = sync_channel(AHEAD);
        let lane = Lane {
            http: self.http.clone(),
            origin: self.origin.clone(),
            patience: self.patience,
            alone,
            stop: stop.clone(),
            sender,
        };
        thread::spawn(move || {
            for (from, to) in pieces {
                if let Err(fault) = lane.piece(from, to) {
                    // Nobody listens any more: then nobody asks why.
                    let _ = lane.sender.send(Message::Failed(fault));
                    return;
                }
                if lane.sender.send(Message::End).is_err() {
                    return;
                }
            }
        });
        receiver
    }
}

/// What a lane has.
enum Message {
    Block(Vec<u8>),
    /// The piece is whole.
    End,
    Failed(Fault),
}

/// Appends one piece.
fn take(
    lane: &Receiver<Message>,
    partial: &mut Partial,
    end: Option<u64>,
    tick: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), Stop> {
    let mut heard = Instant::now();
    loop {
        let message = lane.recv_timeout(TICK);
        match message {
            Ok(Message::Block(block)) => partial.append(&block).map_err(Stop::Disk)?,
            Ok(Message::End) => break,
            Ok(Message::Failed(fault)) => return Err(Stop::Fault(fault)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "its thread ended".to_owned();
                return Err(Stop::Fault(Fault::Cut { host: String::new(), reason }));
            }
        }
        if heard.elapsed() >= TICK {
            heard = Instant::now();
            if tick(partial.have()).is_break() {
                return Err(Stop::Interrupted);
            }
        }
    }
    debug_assert!(end.is_none_or(|end| end == partial.have()));
    if tick(partial.have()).is_break() { Err(Stop::Interrupted) } else { Ok(()) }
}

/// One thread that fetches.
struct Lane {
    http: Arc<Http>,
    origin: Arc<Origin>,
    patience: Patience,
    /// The only lane: it may go through a whole file.
    alone: bool,
    stop: Arc<AtomicBool>,
    sender: SyncSender<Message>,
}

impl Lane {
    /// Fetches a piece, however often the connection is cut.
    fn piece(&self, mut from: u64, to: Option<u64>) -> Result<(), Fault> {
        let mut failures = 0;
        loop {
            let before = from;
            let fault = match self.attempt(&mut from, to) {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            failures = if from > before { 1 } else { failures + 1 };
            if self.stop.load(Relaxed) {
                return Err(fault);
            }
            let begun = self.origin.reached.load(Relaxed);
            let wait = pause(&fault, failures, begun, &self.patience).ok_or(fault)?;
            sleep(wait, &self.stop);
        }
    }

    /// One request; `from` moves as blocks are handed on.
    fn attempt(&self, from: &mut u64, to: Option<u64>) -> Result<(), Fault> {
        let mut body = self.origin.open(&self.http, *from, to, self.alone)?;
        let ends = to.or(body.total);
        loop {
            let left = ends.map_or(u64::MAX, |to| to - *from);
            if left == 0 {
                body.finish(&self.http);
                return Ok(());
            }
            let (block, end) = self.block(&mut body, left);
            *from += block.len() as u64;
            if !block.is_empty() {
                self.origin.reached.store(true, Relaxed);
                if self.sender.send(Message::Block(block)).is_err() {
                    return Ok(());
                }
            }
            match (end, ends) {
                (None, _) => {}
                (Some(Err(fault)), _) => return Err(fault),
                // Without Content-Length the end of the connection looks like the end of the file.
                (Some(Ok(())), Some(ends)) if *from < ends => {
                    let reason = format!("the connection ended {} bytes early", ends - *from);
                    return Err(Fault::Cut { host: body.host, reason });
                }
                (Some(Ok(())), _) => return Ok(()),
            }
        }
    }

    /// A block of at most `left` bytes, of what comes in a moment; and how the body ended, if it did.
    fn block(&self, body: &mut Body, left: u64) -> (Vec<u8>, Option<Result<(), Fault>>) {
        let started = Instant::now();
        let mut block = vec![0; BLOCK.min(usize::try_from(left).unwrap_or(BLOCK))];
        let (mut n, mut end) = (0, None);
        while n < block.len() && end.is_none() && (n == 0 || started.elapsed() < TICK) {
            match body.read(&self.http, &mut block[n..]) {
                Ok(0) => end = Some(Ok(())),
                Ok(more) => n += more,
                // What came before it is worth keeping.
                Err(fault) => end = Some(Err(fault)),
            }
        }
        block.truncate(n);
        (block, end)
    }
}

/// How long to wait after so many failures in a row; `None`: it is of no use. A server that was never reached
/// (`begun` is false) is not waited for.
pub fn pause(fault: &Fault, failures: u32, begun: bool, patience: &Patience) -> Option<Duration> {
    let growing = patience.pause.saturating_mul(1 << failures.saturating_sub(1).min(4));
    if failures >= patience.tries {
        return None;
    }
    match fault {
        Fault::Cut { .. } => Some(growing),
        Fault::Unreachable { .. } => begun.then_some(growing),
        Fault::Status(Refusal { status: 429 | 503, retry_after: Some(after), .. }) => {
            (*after <= patience.longest).then_some(*after)
        }
        Fault::Status(Refusal { status: 408 | 429 | 500 | 502 | 503 | 504, .. }) => Some(growing),
        Fault::Status(_) | Fault::NoRanges { .. } | Fault::Changed { .. } => None,
    }
}

/// Sleeps, but wakes when it is to stop.
pub fn sleep(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while !stop.load(Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(TICK));
    }
}

/// Tells lanes that nobody waits for them.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let patience = Patience::default();
        let cut = Fault::Cut { host: String::new(), reason: String::new() };
        let waits: Vec<_> = (1..=6).map(|n| pause(&cut, n, true, &patience).map(|wait| wait.as_secs())).collect();
        assert_eq!(waits, [Some(1), Some(2), Some(4), Some(8), Some(16), None]);
        let status = |status, after: Option<u64>| {
            let retry_after = after.map(Duration::from_secs);
            Fault::Status(Refusal {
                host: String::new(),
                asked: String::new(),
                token: false,
                status,
                retry_after,
                code: String::new(),
                said: String::new(),
            })
        };
        let seconds = |fault: &Fault, begun| pause(fault, 1, begun, &patience).map(|wait| wait.as_secs());
        assert_eq!(seconds(&status(429, Some(7)), false), Some(7));
        assert_eq!(seconds(&status(503, Some(3600)), true), None);
        assert_eq!(seconds(&status(503, None), false), Some(1));
        assert_eq!(seconds(&status(404, None), true), None);
        let unreachable = Fault::Unreachable { host: String::new(), reason: String::new() };
        assert_eq!((seconds(&unreachable, false), seconds(&unreachable, true)), (None, Some(1)));
    }
}
