//! Streams: launches, copies and waits in order.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    ffi::c_void,
    sync::Arc,
    time::Instant,
};

use cudarc::driver::sys;

use super::{
    Gpu, Ptr,
    wait::{Launches, MARK},
};
use crate::error::{Result, check};

/// A parameter struct of a kernel: the bytes of its CUDA twin.
///
/// # Safety
/// `repr(C)`, plain numbers and [`Ptr`]s in the order and sizes of the struct in the .cu file, no padding
/// that is not written out.
pub unsafe trait Params: Copy + 'static {}

/// Size of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks in x, y, z.
    pub blocks: [u32; 3],
    /// Threads per block, in one dimension; a multiple of 32.
    pub threads: u32,
    /// Dynamic shared memory per block, in bytes.
    pub shared: u32,
}

impl Grid {
    /// Blocks in a row, without dynamic shared memory.
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self { blocks: [blocks, 1, 1], threads, shared: 0 }
    }
    /// A plane of blocks, without dynamic shared memory.
    pub const fn plane(x: u32, y: u32, threads: u32) -> Self {
        Self { blocks: [x, y, 1], threads, shared: 0 }
    }
}

/// What a stream was given since it was last known to be idle.
#[derive(Default)]
struct Backlog {
    /// Each comes when the launches beside it have ended.
    marks: VecDeque<(Event, Launches)>,
    /// Events for further marks.
    free: Vec<Event>,
    /// Behind the last mark.
    open: Launches,
}

/// The first SM whose kernels can wait for their predecessor by themselves.
const DEPENDENT_FROM_SM: u32 = 90;

/// A queue of work on one GPU.
pub struct Stream {
    gpu: Arc<Gpu>,
    raw: sys::CUstream,
    /// Whether launches are recorded instead of run.
    recording: Cell<bool>,
    backlog: RefCell<Backlog>,
}

// SAFETY: the driver's handles may be used from any thread, one at a time: a stream is not `Sync`.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream that does not wait for the legacy default stream.
    ///
    /// # Errors
    /// The driver has no resources for it, or an earlier launch has failed.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        gpu.bind()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: one handle is written; destroyed in `drop`.
        check(unsafe { sys::cuStreamCreate(&mut raw, flags) }, || "cuStreamCreate".into())?;
        Ok(Self { gpu: gpu.clone(), raw, recording: Cell::new(false), backlog: RefCell::default() })
    }

    /// The GPU it runs on.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Launches a kernel. Its parameters travel as one block whose size the driver learns.
    ///
    /// # Errors
    /// The driver's; a kernel that fails while it runs is reported by a later call.
    ///
    /// # Safety
    /// The kernel of this name takes a `P`. What it reads and writes through the addresses in there, for this grid, lies in
    /// device memory, or in [`Pinned`](super::Pinned) memory that [`Pinned::on_device`](super::Pinned::on_device) has given the address of,
    /// whenever it runs: now, or again and again where it is recorded.
    pub unsafe fn launch<P: Params>(&self, name: &'static str, grid: Grid, params: &P) -> Result<()> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.launch_with(name, grid, params, &mut []) }
    }

    /// As [`Stream::launch`], for a kernel all of whose threads wait for its predecessor by themselves (`depend_wait`): where
    /// kernels are made for SM 9.0 and newer, it may start while those before it run, back to the last that was launched by
    /// [`Stream::launch`]. Before it waits it touches nothing that these write.
    ///
    /// # Errors
    /// The driver refuses the launch, or an earlier launch has failed.
    ///
    /// # Safety
    /// As for [`Stream::launch`].
    pub unsafe fn launch_dependent<P: Params>(&self, name: &'static str, grid: Grid, params: &P) -> Result<()> {
        if self.gpu.target().sm < DEPENDENT_FROM_SM {
            // SAFETY: the caller keeps the same contract.
            return unsafe { self.launch(name, grid, params) };
        }
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { pad: [0; 64] },
        };
        attribute.value.programmaticStreamSerializationAllowed = 1;
        // SAFETY: the caller keeps the same contract.
        unsafe { self.launch_with(name, grid, params, &mut [attribute]) }
    }

    /// # Safety
    /// As for [`Stream::launch`].
    unsafe fn launch_with<P: Params>(
        &self,
        name: &'static str,
        grid: Grid,
        params: &P,
        attributes: &mut [sys::CUlaunchAttribute],
    ) -> Result<()> {
        if grid.blocks.contains(&0) {
            return Ok(());
        }
        self.gpu.bind()?;
        let kernel = self.gpu.kernel(name, grid.shared)?;
        let mut bytes = size_of::<P>();
        let mut extra: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(1), // CU_LAUNCH_PARAM_BUFFER_POINTER
            std::ptr::from_ref(params).cast_mut().cast(),
            std::ptr::without_provenance_mut(2), // CU_LAUNCH_PARAM_BUFFER_SIZE
            std::ptr::from_mut(&mut bytes).cast(),
            std::ptr::null_mut(), // CU_LAUNCH_PARAM_END
        ];
        let [x, y, z] = grid.blocks;
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared,
            hStream: self.raw,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: the kernel belongs to a loaded module of this GPU and takes one `P`, says the caller; the driver copies the
        // parameters before it returns.
        let code = unsafe { sys::cuLaunchKernelEx(&config, kernel.function, std::ptr::null_mut(), extra.as_mut_ptr()) };
        check(code, || format!("cuLaunchKernelEx({name}, {x}·{y}·{z} blocks of {} threads)", grid.threads))?;
        self.launched(name)
    }

    /// Copies `len` elements on the device, from one place to another that does not overlap it.
    ///
    /// # Errors
    /// The driver refuses the copy (an address that is not its own), or an earlier launch has failed.
    ///
    /// # Panics
    /// While launches are recorded, as [`Stream::copy_in`].
    ///
    /// # Safety
    /// As for [`Stream::zero`], at both addresses; the places do not overlap.
    pub unsafe fn copy_within<T>(&self, to: Ptr<T>, from: Ptr<T>, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        assert!(!self.recording.get(), "a copy that is recorded");
        self.gpu.bind()?;
        let bytes = len * size_of::<T>();
        // SAFETY: both addresses have so many bytes, says the caller; nothing on the host is read.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to.address(), from.address(), bytes, self.raw) };
        check(code, || format!("cuMemcpyDtoDAsync({bytes} bytes)"))
    }

    /// Sets `len` elements to zero.
    ///
    /// # Errors
    /// The driver refuses the copy (an address that is not its own), or an earlier launch has failed.
    ///
    /// # Safety
    /// The contract of [`ops`](crate::ops), for `len` elements at `at`: they lie where a [`Ptr`] of the stream's GPU may lead,
    /// and stay allocated until the stream has passed this, or for as long as a graph that has recorded it may run. Nothing
    /// else on the device writes them meanwhile. What this leaves in [`Pinned`](super::Pinned) memory are values of its type.
    pub unsafe fn zero<T>(&self, at: Ptr<T>, len: usize) -> Result<()> {
        self.gpu.bind()?;
        let bytes = len * size_of::<T>();
        // SAFETY: the address has so many bytes, says the caller.
        check(unsafe { sys::cuMemsetD8Async(at.address(), 0, bytes, self.raw) }, || {
            format!("cuMemsetD8Async({bytes} bytes)")
        })
    }

    /// Sets `len` numbers to one value. The value travels with the call: unlike with a copy, nothing on the host has to
    /// stay as it is until the device is there.
    ///
    /// # Errors
    /// The driver refuses it (an address that is not its own), or an earlier launch has failed.
    ///
    /// # Panics
    /// While launches are recorded, as [`Stream::copy_in`].
    ///
    /// # Safety
    /// As for [`Stream::zero`].
    pub unsafe fn fill(&self, at: Ptr<i32>, value: i32, len: usize) -> Result<()> {
        assert!(!self.recording.get(), "a value that is recorded");
        if len == 0 {
            return Ok(());
        }
        self.gpu.bind()?;
        // SAFETY: the address has so many numbers, says the caller.
        let code = unsafe { sys::cuMemsetD32Async(at.address(), value.cast_unsigned(), len, self.raw) };
        check(code, || format!("cuMemsetD32Async({len} numbers)"))
    }

    /// Notes a launch as queued, so that one that never ends can be named.
    fn launched(&self, name: &'static str) -> Result<()> {
        let mut backlog = self.backlog.borrow_mut();
        backlog.open.add(name);
        if backlog.open.count < MARK || self.recording.get() {
            return Ok(());
        }
        let event = backlog.free.pop().map_or_else(|| Event::new(&self.gpu), Ok)?;
        event.record(self)?;
        let launches = std::mem::take(&mut backlog.open);
        backlog.marks.push_back((event, launches));
        Ok(())
    }

    /// What was launched behind the last mark, which is then another one.
    pub(super) fn swap_launches(&self, launches: Launches) -> Launches {
        std::mem::replace(&mut self.backlog.borrow_mut().open, launches)
    }

    /// Waits until everything so far is done.
    ///
    /// # Errors
    /// The driver's, those of kernels launched before among them; [`crate::DeviceError::Hung`].
    pub fn synchronize(&self) -> Result<()> {
        let mut since = Instant::now();
        while !self.is_idle()? {
            if self.has_passed_a_mark()? {
                since = Instant::now();
            }
            self.expect_progress(since)?;
            std::thread::yield_now();
        }
        let mut backlog = self.backlog.borrow_mut();
        let Backlog { marks, free, open } = &mut *backlog;
        free.extend(marks.drain(..).map(|(event, _)| event));
        *open = Launches::default();
        // SAFETY: a live stream, which is idle: this does not wait.
        check(unsafe { sys::cuStreamSynchronize(self.raw) }, || "cuStreamSynchronize".into())
    }

    /// Fails where the stream has been at the same launches since `since` and that is too long.
    ///
    /// # Errors
    /// [`crate::DeviceError::Hung`], as does every later call.
    pub fn expect_progress(&self, since: Instant) -> Result<()> {
        let backlog = self.backlog.borrow();
        let launches = backlog.marks.front().map_or(backlog.open, |(_, launches)| *launches);
        self.gpu.expect_progress(since, launches)
    }

    fn has_passed_a_mark(&self) -> Result<bool> {
        let mut backlog = self.backlog.borrow_mut();
        let passed = match backlog.marks.front() {
            Some((event, _)) => event.has_come()?,
            None => false,
        };
        if passed {
            let event = backlog.marks.pop_front().map(|(event, _)| event);
            backlog.free.extend(event);
        }
        Ok(passed)
    }

    /// Whether everything so far is done.
    ///
    /// # Errors
    /// The driver's, those of kernels launched before among them.
    pub fn is_idle(&self) -> Result<bool> {
        self.gpu.bind()?;
        // SAFETY: a live stream.
        match unsafe { sys::cuStreamQuery(self.raw) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check(code, || "cuStreamQuery".into()).map(|()| true),
        }
    }

    /// Whether launches are recorded instead of run.
    pub(super) fn recording(&self) -> &Cell<bool> {
        &self.recording
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: created by `new`, destroyed once; the driver finishes what is queued.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// A point in a stream that can be waited for.
pub struct Event {
    gpu: Arc<Gpu>,
    raw: sys::CUevent,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// An event that measures time.
    ///
    /// # Errors
    /// The driver has no resources for it, or an earlier launch has failed.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        gpu.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: one handle is written; destroyed in `drop`.
        check(unsafe { sys::cuEventCreate(&mut raw, 0) }, || "cuEventCreate".into())?;
        Ok(Self { gpu: gpu.clone(), raw })
    }

    /// Records the event: it completes when all work that the stream has now is done.
    ///
    /// # Errors
    /// An earlier launch has failed: the context answers nothing else any more.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.gpu.bind()?;
        // SAFETY: both live; the driver refuses an event of another GPU.
        check(unsafe { sys::cuEventRecord(self.raw, stream.raw()) }, || "cuEventRecord".into())
    }

    /// Blocks until the event has completed; not at all if it was never recorded.
    ///
    /// # Errors
    /// The driver's; [`crate::DeviceError::Hung`].
    pub fn synchronize(&self) -> Result<()> {
        let since = Instant::now();
        while !self.has_come()? {
            self.gpu.expect_progress(since, Launches::default())?;
            std::thread::yield_now();
        }
        // SAFETY: a live event that has completed: this does not wait.
        check(unsafe { sys::cuEventSynchronize(self.raw) }, || "cuEventSynchronize".into())
    }

    fn has_come(&self) -> Result<bool> {
        self.gpu.bind()?;
        // SAFETY: a live event.
        match unsafe { sys::cuEventQuery(self.raw) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check(code, || "cuEventQuery".into()).map(|()| true),
        }
    }

    /// Milliseconds from `earlier` to this one; both have completed.
    ///
    /// # Errors
    /// An event that was not recorded or has not completed; an earlier launch that failed.
    pub fn since(&self, earlier: &Event) -> Result<f32> {
        let mut ms = 0.0;
        // SAFETY: live events; one number is written.
        check(unsafe { sys::cuEventElapsedTime(&mut ms, earlier.raw, self.raw) }, || "cuEventElapsedTime".into())?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: created by `new`, destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
