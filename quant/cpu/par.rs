//! Threads. The whole decode loop runs inside one [`Pool::install`], so that a parallel region costs
//! a fraction of a microsecond and a busy neighbour slows us down but never stalls us.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
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
///
/// Threads claim one chunk after the other, so that one that is slowed down (or never comes) leaves its share to the others; the
/// caller works too and waits at most for what others have begun.
pub fn parallel_for(n: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
    let chunk = chunk.max(1);
    let (chunks, next) = (n.div_ceil(chunk), AtomicUsize::new(0));
    let claim = |from| (from < chunks).then_some(from + 1);
    let work = || {
        while let Ok(from) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim) {
            f(from * chunk..((from + 1) * chunk).min(n));
        }
    };
    fork(threads().min(chunks), &work);
}

/// The same for work that runs best in order, as what streams from memory does: each thread has a run of its own and goes
/// through it in ranges, long ones first and those at the end of `chunk`; one that is through takes half of what another has left.
pub fn parallel_for_runs(n: usize, chunk: usize, f: impl Fn(Range<usize>) + Sync) {
    let chunk = chunk.max(1);
    let (chunks, threads) = (n.div_ceil(chunk), threads());
    assert!(chunks <= u32::MAX as usize, "{chunks} chunks");
    let runs: Box<[Run]> = (0..threads).map(|i| Run::new(i * chunks / threads..(i + 1) * chunks / threads)).collect();
    let work = || {
        let own = &runs[rayon::current_thread_index().unwrap_or(0) % threads];
        loop {
            while let Some(chunks) = own.next() {
                f(chunks.start * chunk..(chunks.end * chunk).min(n));
            }
            let Some(half) = runs.iter().find_map(Run::second_half) else { break };
            own.refill(half);
        }
    };
    fork(threads.min(chunks), &work);
}

/// Chunks that a thread goes through in order; those that are left, their start and end in halves of one word. On a line of the
/// cache of its own.
#[repr(align(64))]
struct Run(AtomicU64);

impl Run {
    fn new(left: Range<usize>) -> Self {
        Self(AtomicU64::new(Self::word(left)))
    }

    fn word(left: Range<usize>) -> u64 {
        (left.start as u64) << 32 | left.end as u64
    }

    fn left(word: u64) -> Range<usize> {
        (word >> 32) as usize..word as u32 as usize
    }

    /// Leaves what `leave` says of what is left; what it says is taken away. `None` where nothing is left.
    fn take(&self, split: impl Fn(&Range<usize>) -> [Range<usize>; 2]) -> Option<Range<usize>> {
        let leave = |word| {
            Some(Self::left(word)).filter(|left| !left.is_empty()).map(|left| Self::word(split(&left)[0].clone()))
        };
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, leave).ok()?;
        let [_, taken] = split(&Self::left(before));
        Some(taken)
    }

    /// The first quarter, for its own thread.
    fn next(&self) -> Option<Range<usize>> {
        self.take(|left| {
            let end = left.start + left.len().div_ceil(4);
            [end..left.end, left.start..end]
        })
    }

    /// The second half, the larger one, for another thread.
    fn second_half(&self) -> Option<Range<usize>> {
        self.take(|left| {
            let middle = left.start + left.len() / 2;
            [left.start..middle, middle..left.end]
        })
    }

    /// Nothing is left of it: others only take.
    fn refill(&self, left: Range<usize>) {
        self.0.store(Self::word(left), Ordering::Relaxed);
    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use super::*;

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads).expect("threads");
            for (n, chunk) in [(0, 4), (1, 4), (4, 4), (5, 4), (1000, 1), (1001, 7), (64, 0)] {
                for runs in [false, true] {
                    let times: Vec<AtomicU8> = (0..n).map(|_| AtomicU8::new(0)).collect();
                    let run = |range: Range<usize>| {
                        assert!(!range.is_empty() && (runs || range.len() <= chunk.max(1)));
                        range.for_each(|i| _ = times[i].fetch_add(1, Ordering::Relaxed));
                    };
                    pool.install(|| if runs { parallel_for_runs(n, chunk, run) } else { parallel_for(n, chunk, run) });
                    assert!(
                        times.iter().all(|times| times.load(Ordering::Relaxed) == 1),
                        "{threads} threads, {n} of {chunk}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_thread_that_is_through_takes_half_of_what_another_has_left() {
        let run = Run::new(3..13);
        assert_eq!((run.next(), run.second_half()), (Some(3..6), Some(9..13)));
        assert_eq!((run.next(), run.next(), run.next()), (Some(6..7), Some(7..8), Some(8..9)));
        assert_eq!((run.next(), run.second_half()), (None, None));
        run.refill(20..21);
        assert_eq!((run.second_half(), run.next()), (Some(20..21), None));
    }
}
