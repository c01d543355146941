//! A fence around a computation that is not trusted: memory, stack and time are bounded.
//!
//! A chat template is a program out of a model file. The interpreter's fuel bounds its instructions but not
//! what one instruction may allocate (`s ~ s` sixty times over is 2^60 bytes), and there is no hook at the
//! places where values grow. So the fence stands where every growth must pass: in the allocator. The
//! computation runs on a thread of its own; when that thread asks for more than its budget, or its stack is
//! nearly used up, or its time is over, the allocator **parks it for good** instead of answering. An
//! allocator may neither unwind nor, without an abort, refuse: waiting is the one honest answer left.
//! The caller sees the flag and returns an error.
//!
//! What that costs: the parked thread and what it holds (at most its budget) stay until the process ends, so
//! callers must not run the same job again. What stays open: a computation that neither allocates nor spends
//! fuel (comparing two values that share structure exponentially) is abandoned at its deadline and burns a
//! core until the process ends.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How often the caller looks whether the sandboxed thread was stopped.
const POLL: Duration = Duration::from_millis(5);
/// Stack left when the fence closes: enough for whatever the allocator was called from to be interrupted.
const STACK_MARGIN: usize = 256 << 10;

/// What a sandboxed computation may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that may be allocated and not freed at any one time.
    pub bytes: usize,
    /// Bytes of stack; reserved, not touched.
    pub stack: usize,
    /// Time until the caller gets its answer.
    pub time: Duration,
}

/// Why a sandboxed computation gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// More than [`Limits::bytes`] were asked for.
    #[error("it needs too much memory")]
    Memory,
    /// More than [`Limits::stack`] was used: a value inside itself, or nesting without end.
    #[error("it nests too deeply")]
    Stack,
    /// More than [`Limits::time`] passed.
    #[error("it takes too long")]
    Time,
    /// The interpreter panicked.
    #[error("it made the interpreter panic")]
    Panic,
    /// The system gave no thread.
    #[error("no thread could be started for it")]
    NoThread,
}

const RUNNING: u8 = 0;
const MEMORY: u8 = 1;
const STACK: u8 = 2;
const TIME: u8 = 3;

/// The fence of the current thread; open (`state` null) on all threads but those of [`run`].
struct Sandbox {
    state: Cell<*const AtomicU8>,
    left: Cell<isize>,
    stack_floor: Cell<usize>,
}

thread_local! {
    static FENCE: Sandbox = const {
        Sandbox { state: Cell::new(ptr::null()), left: Cell::new(0), stack_floor: Cell::new(0) }
    };
}

/// The system's allocator behind the fence. On a thread without a fence it costs one thread-local read.
struct FencedAllocator;

#[global_allocator]
static ALLOCATOR: FencedAllocator = FencedAllocator;

// SAFETY: every call is passed on unchanged to `System`, which keeps the contract. Before that `Sandbox::charge`
// touches plain cells of a thread-local without a destructor (so it neither allocates nor registers anything)
// and may stop the thread, which is not returning, not unwinding.
unsafe impl GlobalAlloc for FencedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        FENCE.with(|fence| fence.charge(layout.size() as isize));
        // SAFETY: the caller's promise about `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        FENCE.with(|fence| fence.charge(layout.size() as isize));
        // SAFETY: the caller's promise about `layout`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        FENCE.with(|fence| fence.charge(-(layout.size() as isize)));
        // SAFETY: the caller's promise about `block` and `layout`; blocks come from `System` alone.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        FENCE.with(|fence| fence.charge(size as isize - layout.size() as isize));
        // SAFETY: the caller's promise about `block`, `layout` and `size`; blocks come from `System` alone.
        unsafe { System.realloc(block, layout, size) }
    }
}

impl Sandbox {
    /// Takes `bytes` (negative: gives back) from the budget; stops the thread where there is none left.
    #[inline]
    fn charge(&self, bytes: isize) {
        let state = self.state.get();
        if !state.is_null() {
            // SAFETY: `run` sets the pointer to an `AtomicU8` that the thread's own `Arc` keeps alive, and
            // sets it back to null before that `Arc` goes.
            self.check(unsafe { &*state }, bytes);
        }
    }

    #[cold]
    fn check(&self, state: &AtomicU8, bytes: isize) {
        // A panic is on its way out, and its message is written under the lock of stderr: not to be parked with.
        if thread::panicking() {
            return;
        }
        let here = ptr::from_ref(&bytes).addr();
        self.left.set(self.left.get().saturating_sub(bytes));
        let verdict = if self.left.get() < 0 {
            MEMORY
        } else if here < self.stack_floor.get() {
            STACK
        } else if state.load(Ordering::Relaxed) != RUNNING {
            TIME
        } else {
            return;
        };
        // Stopping must not allocate: `sleep` is a system call.
        let _ = state.compare_exchange(RUNNING, verdict, Ordering::Release, Ordering::Relaxed);
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Opens the fence again, also when the job panics.
struct Armed;

impl Armed {
    fn new(state: &AtomicU8, limits: Limits) -> Self {
        FENCE.with(|fence| {
            let top = ptr::from_ref(&limits).addr();
            fence.left.set(limits.bytes as isize);
            fence.stack_floor.set(top.saturating_sub(limits.stack.saturating_sub(STACK_MARGIN)));
            fence.state.set(state);
        });
        Self
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        FENCE.with(|fence| fence.state.set(ptr::null()));
    }
}

/// Runs `job` inside a fence.
///
/// # Errors
/// The limit that was reached. The thread of the job then never ends (see the module's text).
pub fn run<T: Send + 'static>(limits: Limits, job: impl FnOnce() -> T + Send + 'static) -> Result<T, LimitExceeded> {
    let state = Arc::new(AtomicU8::new(RUNNING));
    let (sender, receiver) = mpsc::sync_channel(1);
    let watched = Arc::clone(&state);
    thread::Builder::new()
        .name("template".into())
        .stack_size(limits.stack)
        .spawn(move || {
            let armed = Armed::new(&watched, limits);
            let answer = job();
            drop(armed);
            // The caller may be gone by now.
            let _ = sender.send(answer);
        })
        .map_err(|_| LimitExceeded::NoThread)?;

    let deadline = Instant::now() + limits.time;
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(answer) => return Ok(answer),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(LimitExceeded::Panic),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if Instant::now() >= deadline {
            let _ = state.compare_exchange(RUNNING, TIME, Ordering::Relaxed, Ordering::Relaxed);
        }
        match state.load(Ordering::Acquire) {
            MEMORY => return Err(LimitExceeded::Memory),
            STACK => return Err(LimitExceeded::Stack),
            TIME => return Err(LimitExceeded::Time),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 1 << 20, stack: 1 << 20, time: Duration::from_secs(30) };

    /// Recursion that allocates, and that no compiler turns into a loop.
    fn dig(depth: u64) -> u64 {
        let page = std::hint::black_box(vec![depth; 16]);
        if depth == u64::MAX { 0 } else { dig(depth + 1) + page[3] }
    }

    #[test]
    fn what_stays_inside_comes_back() {
        assert_eq!(run(LIMITS, || vec![7u8; 1 << 19].len()), Ok(1 << 19));
        // What is freed may be used again.
        assert_eq!(run(LIMITS, || (0..100).map(|i| vec![i; 1 << 17].len()).sum::<usize>()), Ok(100 << 17));
    }

    #[test]
    fn each_limit_is_named() {
        assert_eq!(run(LIMITS, || vec![0u8; 1 << 21].len()), Err(LimitExceeded::Memory));
        assert_eq!(run(LIMITS, || vec![0u8; isize::MAX as usize].len()), Err(LimitExceeded::Memory));
        assert_eq!(run(Limits { bytes: 1 << 30, ..LIMITS }, || dig(0)), Err(LimitExceeded::Stack));
        assert_eq!(run(LIMITS, || -> u8 { panic!("this is a test of panics") }), Err(LimitExceeded::Panic));
        let short = Limits { time: Duration::from_millis(50), ..LIMITS };
        let endless = || loop {
            std::hint::black_box(vec![0u8; 64]);
        };
        assert_eq!(run::<()>(short, endless), Err(LimitExceeded::Time));
    }

    #[test]
    fn other_threads_are_not_fenced() {
        let _ = run(LIMITS, || vec![0u8; 1 << 21].len());
        assert_eq!(vec![1u8; 1 << 22].len(), 1 << 22);
    }
}
