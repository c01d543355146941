//! What the machine is and what it can do at most: the ceilings of every other number.

use std::sync::Arc;

use anyhow::{Result, ensure};
use qrun::bench::machine::graphics;
use qrun_cuda::{
    Arena, Event, Gpu, Pinned, Ptr, Stream,
    ops::probe::{self, ELEMENT, LINK, SUMS},
};
use serde_json::{Value, json};

use crate::Setup;

/// What the driver says of the device, and which kernels it gets.
pub fn device(_: &Setup) -> Result<Value> {
    let gpu = Gpu::open(0)?;
    let properties = gpu.properties();
    Ok(json!({
        "device": graphics(properties),
        "free_bytes": gpu.free_memory()?,
        "l2_bytes": properties.l2,
        "shared_bytes_per_block": properties.shared_per_block,
        "kernels": gpu.target().to_string(),
    }))
}

/// Milliseconds that `work` takes on the device, once.
pub fn milliseconds(gpu: &Arc<Gpu>, stream: &Stream, work: impl FnOnce() -> qrun_cuda::Result<()>) -> Result<f64> {
    let (before, after) = (Event::new(gpu)?, Event::new(gpu)?);
    before.record(stream)?;
    work()?;
    after.record(stream)?;
    after.synchronize()?;
    Ok(f64::from(after.since(&before)?))
}

/// The best of several runs: whatever disturbs makes it slower.
pub fn best(runs: u32, mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    (0..runs).try_fold(f64::INFINITY, |best, _| Ok(best.min(run()?)))
}

/// To two digits behind the point, as reports have times and rates.
pub fn rounded(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

/// Reading and copying device memory, GB/s (a copy counts both ways).
pub fn bandwidth(setup: &Setup) -> Result<Value> {
    let gpu = Gpu::open(0)?;
    let stream = Stream::new(&gpu)?;
    let mut rows = Vec::new();
    for mib in if setup.dry { vec![1] } else { vec![64, 256, 1024, 4096] } {
        let bytes = mib << 20;
        if 2 * bytes as u64 > gpu.free_memory()? * 9 / 10 {
            break;
        }
        let blocks = 8 * gpu.properties().multiprocessors as u32;
        let (n, words) = (bytes / ELEMENT, blocks as usize * SUMS);
        let (_arena, (from, to, sums)) = Arena::new(&gpu, |c| {
            (c.take::<[u32; 4]>("from", n), c.take::<[u32; 4]>("to", n), c.take::<u32>("sums", words))
        })?;
        // SAFETY: the arena has the buffers in these sizes and lives until each run was waited for.
        unsafe { stream.zero(from, n)? };
        let n = n as u32;
        // SAFETY: as above.
        let read = || milliseconds(&gpu, &stream, || unsafe { probe::read(&stream, blocks, from, n, sums) });
        // SAFETY: as above.
        let copy = || milliseconds(&gpu, &stream, || unsafe { probe::copy(&stream, blocks, from, to, n) });
        let gb = bytes as f64 / 1e6;
        let runs = if setup.dry { 1 } else { 10 };
        rows.push(json!({
            "MiB": mib,
            "read_GB_per_s": rounded(gb / best(runs, read)?),
            "copy_GB_per_s": rounded(2.0 * gb / best(runs, copy)?),
        }));
    }
    ensure!(!rows.is_empty(), "{} bytes are free: too little to measure", gpu.free_memory()?);
    Ok(Value::Array(rows))
}

/// Microseconds per kernel in a chain: of nothing, and of 4 KB that each hands to the next; launched one by one, as a
/// graph, and as a graph with dependent launch. The chains' results are checked.
pub fn launches(setup: &Setup) -> Result<Value> {
    type Link = unsafe fn(&Stream, Ptr<[u32; 4]>, Ptr<[u32; 4]>) -> qrun_cuda::Result<()>;
    let gpu = Gpu::open(0)?;
    let stream = Stream::new(&gpu)?;
    let n = if setup.dry { 10 } else { 1000 };
    let (_arena, buffers) = Arena::new(&gpu, |c| [c.take::<[u32; 4]>("even", LINK), c.take::<[u32; 4]>("odd", LINK)])?;
    let mut words = Pinned::<u32>::new(&gpu, 4 * LINK)?;
    let mut time = |work: &dyn Fn() -> qrun_cuda::Result<()>, adds: usize| -> Result<Value> {
        // SAFETY: the buffer has the elements of a link and lives until all was waited for.
        unsafe { stream.zero(buffers[0], LINK)? };
        let mut ran = 0;
        let ms = best(if setup.dry { 2 } else { 10 }, || {
            ran += 1;
            milliseconds(&gpu, &stream, work)
        })?;
        // SAFETY: as above; an element is four words.
        unsafe { stream.copy_out(&mut words, buffers[0].cast(), 4 * LINK)? };
        stream.synchronize()?;
        let (expected, found) = ((ran * adds) as u32, words[0]);
        ensure!(words.iter().all(|w| *w == expected), "{ran} × {adds} links: expected {expected}, found {found}");
        Ok(rounded(1e3 * ms / n as f64).into())
    };
    let empties = || (0..n).try_for_each(|_| probe::empty(&stream));
    // Each reads what the one before it has written.
    let links = |link: Link| {
        // SAFETY: both buffers have the elements of a link and live until each run was waited for.
        (0..n).try_for_each(|i| unsafe { link(&stream, buffers[i % 2], buffers[(i + 1) % 2]) })
    };
    let mut result = json!({ "kernels": n });
    result["stream_empty_us"] = time(&empties, 0)?;
    result["stream_4KB_us"] = time(&|| links(probe::link), n)?;
    let graph = stream.capture(|_| empties())?;
    result["graph_empty_us"] = time(&|| graph.launch(&stream), 0)?;
    let graph = stream.capture(|_| links(probe::link))?;
    result["graph_4KB_us"] = time(&|| graph.launch(&stream), n)?;
    if gpu.target().sm >= 90 {
        let graph = stream.capture(|_| links(probe::dependent_link))?;
        result["dependent_graph_4KB_us"] = time(&|| graph.launch(&stream), n)?;
    }
    Ok(result)
}
