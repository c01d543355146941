//! What measures a machine has to do what it says that it measures.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use qrun_cuda::{
    Pinned, Stream,
    ops::probe::{self, LINK, SUMS},
};
use qrun_emulator::{Config, Failure};

use crate::harness::{Device, Random, everywhere};

/// Elements and blocks: less than a block, ragged, several turns of the unrolled loop.
const CASES: [(usize, u32); 5] = [(1, 1), (255, 1), (1025, 3), (2051, 1), (9000, 2)];

fn elements(n: usize) -> Vec<[u32; 4]> {
    let mut random = Random::new(n as u64);
    (0..n).map(|_| [(); 4].map(|()| random.next() as u32)).collect()
}

/// As numbers that f32 holds exactly.
fn halves(words: &[u32]) -> Vec<f32> {
    words.iter().flat_map(|w| [(w >> 16) as f32, (w & 0xffff) as f32]).collect()
}

#[test]
fn reads_every_element_once() {
    for (n, blocks) in CASES {
        let values = elements(n);
        let run = |d: &Device| {
            let (from, sums) = (d.buffer(&values), d.empty::<u32>(blocks as usize * SUMS));
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe { probe::read(&d.stream, blocks, from.ptr, n as u32, sums.ptr) }.expect("a launch");
            halves(&[d.read(&sums).into_iter().fold(0, u32::wrapping_add)])
        };
        let sum = values.iter().fold(0u32, |sum, v| sum.wrapping_add(v[0] ^ v[1] ^ v[2] ^ v[3]));
        everywhere(run, |found| assert_eq!(found, halves(&[sum]), "{n} elements, {blocks} blocks"));
    }
}

#[test]
fn copies() {
    for (n, blocks) in CASES {
        let values = elements(n);
        let run = |d: &Device| {
            let (from, to) = (d.buffer(&values), d.empty::<[u32; 4]>(n));
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe { probe::copy(&d.stream, blocks, from.ptr, to.ptr, n as u32) }.expect("a launch");
            halves(d.read(&to).as_flattened())
        };
        everywhere(run, |found| assert_eq!(found, halves(values.as_flattened()), "{n} elements, {blocks} blocks"));
    }
}

#[test]
fn links_add_one_each() {
    let values = elements(LINK);
    let expected: Vec<u32> = values.as_flattened().iter().map(|w| w.wrapping_add(4)).collect();
    let d = Device::new(Config { sm: 90, ..Config::checked() });
    let buffers = [d.buffer(&values), d.empty::<[u32; 4]>(LINK)];
    let [even, odd] = [buffers[0].ptr, buffers[1].ptr];
    probe::empty(&d.stream).expect("a launch");
    // Below SM 9.0 the driver refuses these, and kernels that were made for less do not wait for each other.
    let last = if d.gpu.target().sm >= 90 { probe::dependent_link } else { probe::link };
    // SAFETY: both buffers have the elements of a link and live until the results are read.
    unsafe {
        probe::link(&d.stream, even, odd).expect("a launch");
        probe::link(&d.stream, odd, even).expect("a launch");
        last(&d.stream, even, odd).expect("a launch");
        last(&d.stream, odd, even).expect("a launch");
    }
    assert_eq!(d.read(&buffers[0]).as_flattened(), expected);
}

#[test]
fn a_launch_that_never_ends_is_named_and_nothing_waits_for_it_again() {
    let d = Device::new(Config::default());
    let Some(machine) = d.machine() else { return crate::skip::skip("no kernel on a card runs for ever") };
    d.gpu.set_launch_limit(Duration::from_millis(50));
    probe::empty(&d.stream).expect("a launch");
    d.stream.synchronize().expect("it ends");
    machine.fail(Failure { call: Some("probe_empty"), nth: 1, code: 600 });
    probe::empty(&d.stream).expect("a launch");
    let error = d.stream.synchronize().expect_err("it does not end");
    assert_eq!(error.to_string(), "probe_empty has not ended after 0 s");
    assert_eq!(Stream::new(&d.gpu).err(), Some(error), "every later call fails the same way");
}

#[test]
fn memory_that_a_hanging_copy_may_write_is_left_to_it() {
    let d = Device::new(Config::default());
    let Some(machine) = d.machine() else { return crate::skip::skip("no kernel on a card runs for ever") };
    d.gpu.set_launch_limit(Duration::from_millis(50));
    let from = d.buffer(&[7u32; 4]);
    let mut to = Pinned::<u32>::new(&d.gpu, 4).expect("page-locked memory");
    let before = to.as_ptr();
    machine.fail(Failure { call: Some("probe_empty"), nth: 1, code: 600 });
    probe::empty(&d.stream).expect("a launch");
    // SAFETY: `from` has 4 words, and a GPU that hangs keeps its memory.
    unsafe { d.stream.copy_out(&mut to, from.ptr, 4) }.expect("a copy is queued");
    assert_eq!(to[..], [0; 4], "what was there before");
    assert_ne!(to.as_ptr(), before, "other memory");
    to.as_mut_slice().fill(1);
    // SAFETY: as above.
    let error = unsafe { d.stream.copy_in(from.ptr, &to, 4) }.expect_err("nothing runs any more");
    assert_eq!(error.to_string(), "a copy has not ended after 0 s");
}

#[test]
fn nothing_is_recorded_inside_of_a_recording() {
    let d = Device::new(Config::default());
    probe::empty(&d.stream).expect("a launch");
    let inner = d.stream.capture(probe::empty).expect("a graph");
    let outer = d.stream.capture(|s| {
        catch_unwind(AssertUnwindSafe(|| s.capture(probe::empty).map(drop))).expect_err("a recording is refused");
        catch_unwind(AssertUnwindSafe(|| inner.launch(s))).expect_err("a graph is refused");
        probe::empty(s)
    });
    outer.expect("a graph").launch(&d.stream).expect("a launch");
    d.stream.synchronize().expect("it ends");
}

#[test]
fn of_many_launches_some_are_named() {
    let d = Device::new(Config::default());
    let Some(machine) = d.machine() else { return crate::skip::skip("no kernel on a card runs for ever") };
    d.gpu.set_launch_limit(Duration::from_millis(50));
    let [even, odd] = [(); 2].map(|()| d.buffer(&elements(LINK)));
    machine.fail(Failure { call: Some("probe_link"), nth: 30, code: 600 });
    for _ in 0..20 {
        probe::empty(&d.stream).expect("a launch");
        // SAFETY: both buffers have the elements of a link and live as long as the stream is waited for.
        unsafe {
            probe::link(&d.stream, even.ptr, odd.ptr).expect("a launch");
            probe::link(&d.stream, odd.ptr, even.ptr).expect("a launch");
        }
    }
    let error = d.stream.synchronize().expect_err("it does not end").to_string();
    assert_eq!(error, "one of 16 launches from probe_link to probe_link has not ended after 0 s");
}

#[test]
fn a_graph_that_never_ends_is_named_by_its_launches() {
    let d = Device::new(Config::default());
    let Some(machine) = d.machine() else { return crate::skip::skip("no kernel on a card runs for ever") };
    d.gpu.set_launch_limit(Duration::from_millis(50));
    let [even, odd] = [(); 2].map(|()| d.buffer(&elements(LINK)));
    let step = |s: &Stream| {
        probe::empty(s)?;
        // SAFETY: both buffers have the elements of a link and outlive the graph.
        unsafe { probe::link(s, even.ptr, odd.ptr) }
    };
    let graph = d.stream.capture(step).expect("a graph");
    graph.launch(&d.stream).expect("a launch");
    d.stream.synchronize().expect("it ends");
    machine.fail(Failure { call: Some("probe_link"), nth: 1, code: 600 });
    graph.launch(&d.stream).expect("a launch");
    let error = d.stream.synchronize().expect_err("it does not end").to_string();
    assert_eq!(error, "one of 2 launches from probe_empty to probe_link has not ended after 0 s");
}
