//! Recorded work that is launched as one.

use std::sync::Arc;

use cudarc::driver::sys;

use super::{Gpu, Stream, wait::Launches};
use crate::error::{Result, check};

/// A graph, ready to be launched any number of times.
pub struct Graph {
    gpu: Arc<Gpu>,
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    launches: Launches,
}

// SAFETY: the driver's handles may be used from any thread, one at a time: a graph is not `Sync`.
unsafe impl Send for Graph {}

impl Graph {
    /// Takes over a graph that a capture has made.
    fn recorded(gpu: &Arc<Gpu>, graph: sys::CUgraph, launches: Launches) -> Result<Self> {
        let mut made = Self { gpu: gpu.clone(), graph, exec: std::ptr::null_mut(), launches };
        // SAFETY: a whole graph; one handle is written.
        check(unsafe { sys::cuGraphInstantiateWithFlags(&mut made.exec, graph, 0) }, || "cuGraphInstantiate".into())?;
        Ok(made)
    }

    /// Queues the whole graph. This is safe, as recording is not: who gave a launch or a [`Stream::zero`] to the stream that
    /// recorded has answered for each time that the graph may run, on any stream.
    ///
    /// # Errors
    /// The driver refuses the launch, or an earlier launch has failed.
    ///
    /// # Panics
    /// While launches are recorded.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        assert!(!stream.recording().get(), "a graph that is recorded into another one");
        self.gpu.bind()?;
        // SAFETY: an instantiated graph and a live stream that runs what it is given. Who recorded launches and zeros has
        // answered for this run of them, too; copies are not recorded.
        check(unsafe { sys::cuGraphLaunch(self.exec, stream.raw()) }, || "cuGraphLaunch".into())?;
        // No mark behind it: steps that run ahead are waited for in the tokens that they give.
        stream.swap_launches(self.launches);
        Ok(())
    }
}

impl Stream {
    /// Records what `work` launches, without running it. What its unsafe calls promise has to hold each time that the graph
    /// may run.
    ///
    /// # Errors
    /// Those of `work`, and the driver's.
    ///
    /// # Panics
    /// Where `work` records, too.
    pub fn capture(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<Graph> {
        assert!(!self.recording().get(), "a recording inside of another one");
        self.gpu().bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a live stream that is not being captured, as `recording` says.
        check(unsafe { sys::cuStreamBeginCapture_v2(self.raw(), mode) }, || "cuStreamBeginCapture".into())?;
        self.recording().set(true);
        let before = self.swap_launches(Launches::default());
        let worked = work(self);
        let launches = self.swap_launches(before);
        self.recording().set(false);
        let mut graph = std::ptr::null_mut();
        // SAFETY: ends the capture begun above; one handle is written.
        let code = unsafe { sys::cuStreamEndCapture(self.raw(), &mut graph) };
        let ended = check(code, || "cuStreamEndCapture".into());
        let recorded = (!graph.is_null()).then(|| Graph::recorded(self.gpu(), graph, launches));
        worked?;
        ended?;
        recorded.expect("a capture that ended well has a graph")
    }
}

/// Work that comes again and again: the first time it runs as it is, the second time it is recorded.
///
/// A kernel may be loaded by the driver when it is first launched, and loading can wait for the device, which a
/// recording must not.
#[derive(Default)]
pub struct LazyGraph {
    ran: bool,
    graph: Option<Graph>,
}

impl LazyGraph {
    /// Queues the work. `work` must launch the same each time: once it is recorded, it is no longer called. What it promised
    /// then has to hold each time, as of [`Stream::capture`].
    ///
    /// # Errors
    /// Those of `work`, and the driver's.
    pub fn launch(&mut self, stream: &Stream, work: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        if let Some(graph) = &self.graph {
            return graph.launch(stream);
        }
        if !self.ran {
            work(stream)?;
            self.ran = true;
            return Ok(());
        }
        self.graph.insert(stream.capture(work)?).launch(stream)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: both made for this object alone and destroyed once.
            unsafe {
                if !self.exec.is_null() {
                    let _ = sys::cuGraphExecDestroy(self.exec);
                }
                let _ = sys::cuGraphDestroy(self.graph);
            }
        }
    }
}
