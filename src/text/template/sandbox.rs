//! A sandbox around a computation that is not trusted: memory, stack and time are bounded.
//!
//! A chat template is a program out of a model file. The interpreter's fuel bounds its instructions but not what one
//! instruction may allocate (`s ~ s` sixty times over is 2^60 bytes), and the interpreter has no hook where values grow. So
//! the computation runs on a thread of its own, and there are two lines of defence.
//!
//! * [`checkpoint`] is called from the hooks that the interpreter does have (output, methods, our filters). Close to the
//!   limit of memory, or once the time is over, it returns an error: the computation ends and all it held is freed.
//! * [`SandboxAllocator`] sees every growth. A thread that asks for more than its budget, whose stack is nearly used up, or
//!   that has not ended three seconds after its time, is **parked for good**: an allocator may neither unwind nor, without an
//!   abort, refuse. The caller gets an error; the parked thread and what it holds (at most its budget) stay until the
//!   process ends, which is why [`super::ChatTemplate`] counts how often that happens to it.
//!
//! The allocator belongs to the program, not to this library: the `qrun` binary installs it. In a program that does not,
//! instructions and time are bounded, memory and stack are not.
//!
//! What stays open: a computation that neither allocates nor spends fuel (comparing two values that share structure
//! exponentially) is abandoned when its time is over and uses a core until it ends by itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How often the caller looks whether the sandboxed thread was stopped.
const POLL: Duration = Duration::from_millis(5);
/// Stack left when the thread is parked: enough for whatever called the allocator.
const STACK_MARGIN: usize = 256 << 10;
/// How long the thread may take to reach a checkpoint when its time is over.
const GRACE: Duration = Duration::from_secs(3);

/// What a sandboxed computation may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that may be allocated and not freed at any one time.
    pub bytes: usize,
    /// Bytes of stack; reserved, not touched.
    pub stack: usize,
    /// Time until the computation is told to end; the caller gets its answer three seconds later at the latest.
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
/// The time is over: the next checkpoint ends the computation.
const LATE: u8 = 1;
/// No checkpoint came: the next allocation parks the thread.
const TIME: u8 = 2;
const MEMORY: u8 = 3;
const STACK: u8 = 4;

/// The budget of the current thread; `state` is null on all threads but those of [`run`].
struct Sandbox {
    state: Cell<*const AtomicU8>,
    /// Bytes that may still be allocated.
    left: Cell<isize>,
    /// Bytes left at which a checkpoint ends the computation: a quarter of the budget.
    low: Cell<isize>,
    stack_floor: Cell<usize>,
}

thread_local! {
    static SANDBOX: Sandbox = const {
        Sandbox { state: Cell::new(ptr::null()), left: Cell::new(0), low: Cell::new(0), stack_floor: Cell::new(0) }
    };
}

/// An allocator that passes everything on to `A` and bounds what a chat template may allocate. For the
/// `#[global_allocator]` of a program that renders templates it does not trust; on other threads than those that render it
/// costs one thread-local read.
///
/// ```ignore
/// #[global_allocator]
/// static ALLOCATOR: qrun::text::template::SandboxAllocator = qrun::text::template::SandboxAllocator(std::alloc::System);
/// ```
pub struct SandboxAllocator<A = System>(
    /// Where the memory comes from.
    pub A,
);

// SAFETY: every call is passed on unchanged to `A`, which keeps the contract. Before that `Sandbox::charge`
// touches plain cells of a thread-local without a destructor (so it neither allocates nor registers anything)
// and may stop the thread, which is not returning, not unwinding.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SandboxAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        SANDBOX.with(|sandbox| sandbox.charge(layout.size() as isize));
        // SAFETY: the caller's promise about `layout`.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        SANDBOX.with(|sandbox| sandbox.charge(layout.size() as isize));
        // SAFETY: the caller's promise about `layout`.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        SANDBOX.with(|sandbox| sandbox.charge(-(layout.size() as isize)));
        // SAFETY: the caller's promise about `block` and `layout`; blocks come from `A` alone.
        unsafe { self.0.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        SANDBOX.with(|sandbox| sandbox.charge(size as isize - layout.size() as isize));
        // SAFETY: the caller's promise about `block`, `layout` and `size`; blocks come from `A` alone.
        unsafe { self.0.realloc(block, layout, size) }
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
        } else if state.load(Ordering::Relaxed) >= TIME {
            TIME
        } else {
            return;
        };
        // Parking must not allocate: `sleep` is a system call.
        state.fetch_max(verdict, Ordering::Release);
        loop {
            thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Where an interpreter can still return an error: whether the sandboxed computation on this thread should.
///
/// # Errors
/// The limit that is nearly reached.
pub fn checkpoint() -> Result<(), LimitExceeded> {
    SANDBOX.with(|sandbox| {
        let state = sandbox.state.get();
        if state.is_null() {
            return Ok(());
        }
        // SAFETY: as in `charge`.
        if unsafe { &*state }.load(Ordering::Relaxed) != RUNNING {
            return Err(LimitExceeded::Time);
        }
        if sandbox.left.get() < sandbox.low.get() { Err(LimitExceeded::Memory) } else { Ok(()) }
    })
}

/// Ends the sandbox, also when the job panics.
struct Armed;

impl Armed {
    fn new(state: &AtomicU8, limits: Limits) -> Self {
        SANDBOX.with(|sandbox| {
            let top = ptr::from_ref(&limits).addr();
            sandbox.left.set(limits.bytes as isize);
            sandbox.low.set((limits.bytes / 4) as isize);
            sandbox.stack_floor.set(top.saturating_sub(limits.stack.saturating_sub(STACK_MARGIN)));
            sandbox.state.set(state);
        });
        Self
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        SANDBOX.with(|sandbox| sandbox.state.set(ptr::null()));
    }
}

/// Runs `job` in a sandbox.
///
/// # Errors
/// The limit that was reached. Of memory, stack and time: the thread of the job is then lost (see the module's text).
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
        let late = Instant::now().saturating_duration_since(deadline);
        if !late.is_zero() {
            state.fetch_max(if late > GRACE { TIME } else { LATE }, Ordering::Relaxed);
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

    #[global_allocator]
    static ALLOCATOR: SandboxAllocator = SandboxAllocator(System);

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
    fn a_checkpoint_ends_what_would_have_been_parked() {
        let short = Limits { time: Duration::from_millis(50), ..LIMITS };
        let until_late = || loop {
            if let Err(limit) = checkpoint() {
                return limit;
            }
            std::hint::black_box(vec![0u8; 64]);
        };
        assert_eq!(run(short, until_late), Ok(LimitExceeded::Time));
        let until_full = || {
            let mut held = Vec::new();
            loop {
                held.push(vec![0u8; 1 << 16]);
                if let Err(limit) = checkpoint() {
                    return (limit, held.len());
                }
            }
        };
        assert_eq!(run(LIMITS, until_full), Ok((LimitExceeded::Memory, 12)));
        assert_eq!(checkpoint(), Ok(()), "on a thread without a sandbox");
    }

    #[test]
    fn other_threads_are_not_bounded() {
        let _ = run(LIMITS, || vec![0u8; 1 << 21].len());
        assert_eq!(vec![1u8; 1 << 22].len(), 1 << 22);
    }
}
