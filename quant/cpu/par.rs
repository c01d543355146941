//! Threads. The whole decode loop runs inside one [`Pool::install`], so that a parallel region costs
//! a fraction of a microsecond and a busy neighbour slows us down but never stalls us.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use rayon::prelude::*;

/// A thread pool of a fixed size.
pub struct Pool(rayon::ThreadPool);

impl Pool {
    /// A pool of `threads` threads (at least one).
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
        pool.map(Self).map_err(std::io::Error::other)
    }

    /// Runs `f` inside the pool: parallel regions in it use this pool's threads.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.0.install(f)
    }

    /// Runs `f` on each item, on as many threads as there are; a single item on the caller's.
    pub fn each<T: Send>(&self, items: &mut [T], f: impl Fn(&mut T) + Sync) {
        match items {
            [one] => f(one),
            many => self.0.install(|| many.par_iter_mut().with_max_len(1).for_each(&f)),
        }
    }

    /// How many threads the pool has.
    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }
}

/// Threads of the pool that this code runs in.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// Splits `0..n` into ranges of `chunk` (the last one shorter) and runs `f` on all of them in
/// parallel. Which thread runs which range does not matter to the caller.
pub fn parallel_for(n: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
    claim_chunks(n, chunk, |_| 1, f);
}

/// The same for work that runs best in long ranges: the first ones are long, and those at the end are of
/// `chunk`, so that the threads end together.
pub fn parallel_for_guided(n: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
    let share = 4 * threads();
    claim_chunks(n, chunk, |left| (left / share).max(1), f);
}

/// Threads claim as many of the chunks `left` as `take` says, again and again, so that one that is slowed down (or
/// never comes) leaves its share to the others; the caller works too and waits at most for what others have begun.
fn claim_chunks(n: usize, chunk: usize, take: impl Fn(usize) -> usize + Sync, f: impl Fn(Range<usize>) + Sync) {
    let chunk = chunk.max(1);
    let (chunks, next) = (n.div_ceil(chunk), AtomicUsize::new(0));
    let claim = |from| (from < chunks).then(|| from + take(chunks - from));
    let work = || {
        while let Ok(from) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
            f(from * chunk..((from + take(chunks - from)) * chunk).min(n));
        }
    };
    fork(threads().min(chunks), &work);
}

/// Offers `work` to `n` threads, this one among them.
fn fork(n: usize, work: &(impl Fn() + Sync)) {
    match n {
        0 => {}
        1 => work(),
        _ => {
            rayon::join(|| fork(n.div_ceil(2), work), || fork(n / 2, work));
        }
    }
}

/// A pointer that parallel chunks share to write at disjoint places.
#[derive(Debug)]
pub(super) struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}
// SAFETY: a pointer is only dereferenced in unsafe code, which promises that the places are disjoint.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: a shared reference gives the same pointer, under the same promise.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) fn new(p: *mut T) -> Self {
        Self(p)
    }
    pub(super) fn get(self) -> *mut T {
        self.0
    }
}

/// Threads for products by default: one per physical core, for a second thread on a core shares its arithmetic.
#[cfg(target_os = "linux")]
pub fn physical_cores() -> usize {
    let logical = logical_cores();
    let siblings = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    let shared = siblings.is_ok_and(|list| list.trim().contains([',', '-']));
    if shared && logical > 2 { logical / 2 } else { logical }
}

/// Threads for products by default: one per physical core, for a second thread on a core shares its arithmetic. Where the
/// system does not say which logical cores share one (other than Linux, Windows and macOS), all logical cores.
#[cfg(not(target_os = "linux"))]
pub fn physical_cores() -> usize {
    num_cpus::get_physical().clamp(1, logical_cores())
}

/// The logical cores that this process may use.
fn logical_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}
