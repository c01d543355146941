//! Page-locked host memory, which the device reads and writes while the host goes on.

use std::{cell::Cell, ffi::c_void, ops::Deref, sync::Arc};

use cudarc::driver::sys;

use super::{Event, Gpu, Ptr, Stream};
use crate::error::{DeviceError, Result, check};

/// Page-locked host memory that copies run from and to while the host goes on, and that kernels can write.
///
/// It knows what the device does with it: a borrow waits for the copy that is in its way, so no slice changes under the
/// reader. Once kernels have its address there are no slices any more, only [`Pinned::read_volatile`].
pub struct Pinned<T> {
    gpu: Arc<Gpu>,
    /// Other memory once a copy that hangs has kept what there was.
    data: Cell<*mut T>,
    len: usize,
    in_use: Cell<Use>,
    /// Comes when the last copy has ended.
    copied: Event,
}

/// What the device may be doing with the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Nothing,
    /// A copy to the device reads it.
    Read,
    /// A copy from the device writes it.
    Written,
    /// Kernels have its address.
    Shared,
}

// SAFETY: owns its memory, as a boxed slice does; the driver's calls may come from any thread.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Copy + Default> Pinned<T> {
    /// `len` elements of the default value.
    ///
    /// # Errors
    /// The driver's, when the system gives no page-locked memory.
    pub fn new(gpu: &Arc<Gpu>, len: usize) -> Result<Self> {
        let copied = Event::new(gpu)?;
        let bytes = len.max(1) * size_of::<T>();
        let mut data: *mut c_void = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: a context is bound (`Event::new` did it); one address is written.
        check(unsafe { sys::cuMemHostAlloc(&mut data, bytes, flags) }, || {
            format!("cuMemHostAlloc({bytes} bytes of page-locked memory)")
        })?;
        let data = data.cast::<T>();
        for i in 0..len {
            // SAFETY: within the `len` elements just allocated, which nothing else knows of.
            unsafe { data.add(i).write(T::default()) };
        }
        Ok(Self { gpu: gpu.clone(), data: Cell::new(data), len, in_use: Cell::new(Use::Nothing), copied })
    }

    /// The elements, to be changed. Waits for a copy from or to here that is under way.
    ///
    /// # Panics
    /// Where kernels have the address ([`Pinned::on_device`]).
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // The next call on the stream reports an error.
        let _ = self.wait_for(&[Use::Read, Use::Written]);
        // SAFETY: `len` initialised elements, borrowed mutably with `self`; no copy from or to them is under way, and none can
        // begin while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.data.get(), self.len) }
    }

    /// Where kernels see it. From now on they may write it at any moment.
    ///
    /// # Errors
    /// An earlier launch has failed: the context answers nothing else any more.
    pub fn on_device(&mut self) -> Result<Ptr<T>> {
        self.gpu.bind()?;
        let mut address = 0;
        // SAFETY: allocated by `new` with DEVICEMAP, as the GPU is not hung (it is bound); one address is written.
        check(unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, self.data.get().cast(), 0) }, || {
            "cuMemHostGetDevicePointer".into()
        })?;
        self.in_use.set(Use::Shared);
        Ok(Ptr::new(address))
    }

    /// Reads an element that a kernel may write at this moment.
    pub fn read_volatile(&self, i: usize) -> T {
        assert!(i < self.len);
        // SAFETY: in bounds and initialised; volatile, as the device writes behind the compiler's back. Callers
        // use types that are written in one piece or check a sequence number.
        unsafe { self.data.get().add(i).read_volatile() }
    }

    /// Has `copy` queue a copy from or to the memory's address, and remembers it until it has ended.
    ///
    /// # Errors
    /// The copy before this one failed or hangs, `copy` fails, or the driver cannot note where this one ends.
    pub(super) fn copy(&self, stream: &Stream, what: Use, copy: impl FnOnce(*mut c_void) -> Result<()>) -> Result<()> {
        // There is one event: the copy before this one has to be over.
        self.wait_for(&[Use::Read, Use::Written])?;
        copy(self.data.get().cast())?;
        self.in_use.set(what);
        self.copied.record(stream).inspect_err(|_| {
            // The event does not tell the end of this copy; its stream does, or hangs, which the event tells then.
            if stream.synchronize().is_ok() {
                self.in_use.set(Use::Nothing);
            }
        })
    }

    /// Waits until the device has done with any of these uses.
    ///
    /// # Errors
    /// The driver's: it ends the context, and with it the copy. [`DeviceError::Hung`]: the copy may still come, so it keeps the
    /// memory for ever, and what is borrowed from now on is other memory. Nothing runs on that GPU any more.
    fn wait_for(&self, uses: &[Use]) -> Result<()> {
        assert!(self.in_use.get() != Use::Shared, "memory that kernels write is read by read_volatile alone");
        if !uses.contains(&self.in_use.get()) {
            return Ok(());
        }
        let waited = self.copied.synchronize();
        if matches!(waited, Err(DeviceError::Hung { .. })) {
            self.data.set(Box::leak(vec![T::default(); self.len].into_boxed_slice()).as_mut_ptr());
        }
        self.in_use.set(Use::Nothing);
        waited
    }
}

impl<T> Pinned<T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Copy + Default> Deref for Pinned<T> {
    type Target = [T];

    /// The elements. Waits for a copy to here that is under way.
    ///
    /// # Panics
    /// Where kernels have the address ([`Pinned::on_device`]).
    fn deref(&self) -> &[T] {
        // The next call on the stream reports an error.
        let _ = self.wait_for(&[Use::Written]);
        // SAFETY: `len` initialised elements, there at least as long as `self`; no copy writes them now, and none can begin that
        // does while `self` is borrowed (`Stream::copy_out` takes `&mut`).
        unsafe { std::slice::from_raw_parts(self.data.get(), self.len) }
    }
}

impl Stream {
    /// Copies the first `len` elements of pinned memory to the device. The host goes on; `from` waits with its next
    /// change until they are there.
    ///
    /// # Errors
    /// The driver refuses the copy (an address that is not its own), or an earlier launch has failed.
    ///
    /// # Panics
    /// While launches are recorded: a replayed copy would read what `from` no longer guards.
    ///
    /// # Safety
    /// As for [`Stream::zero`], at `to`. Of `from` nothing has to be said: its length is checked, and it neither changes nor is
    /// freed until the copy has ended.
    pub unsafe fn copy_in<T: Copy + Default>(&self, to: Ptr<T>, from: &Pinned<T>, len: usize) -> Result<()> {
        assert!(len <= from.len() && !self.recording().get(), "a copy of {len} elements, or one that is recorded");
        self.gpu().bind()?;
        let bytes = len * size_of::<T>();
        from.copy(self, Use::Read, |from| {
            // SAFETY: `from` holds `len` elements and stays as it is until the copy has ended; `to` has room for them, says the
            // caller.
            let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to.address(), from, bytes, self.raw()) };
            check(code, || format!("cuMemcpyHtoDAsync({bytes} bytes)"))
        })
    }

    /// Copies `len` elements from the device to pinned memory. The host goes on; `to` waits with its next look.
    ///
    /// # Errors
    /// The driver refuses the copy (an address that is not its own), or an earlier launch has failed.
    ///
    /// # Panics
    /// While launches are recorded, as [`Stream::copy_in`].
    ///
    /// # Safety
    /// As for [`Stream::zero`], at `from`, where the bits of each element are those of some `T`. Of `to` nothing has to be said:
    /// its length is checked, and it is neither looked at nor freed until the copy has ended.
    pub unsafe fn copy_out<T: Copy + Default>(&self, to: &mut Pinned<T>, from: Ptr<T>, len: usize) -> Result<()> {
        assert!(len <= to.len() && !self.recording().get(), "a copy of {len} elements, or one that is recorded");
        self.gpu().bind()?;
        let bytes = len * size_of::<T>();
        to.copy(self, Use::Written, |to| {
            // SAFETY: `to` has room for `len` elements, which nobody looks at until the copy has ended; `from` has as many, says
            // the caller.
            let code = unsafe { sys::cuMemcpyDtoHAsync_v2(to, from.address(), bytes, self.raw()) };
            check(code, || format!("cuMemcpyDtoHAsync({bytes} bytes)"))
        })
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if self.gpu.bind().is_err() {
            return;
        }
        let waited = match self.in_use.get() {
            Use::Nothing => Ok(()),
            Use::Read | Use::Written => self.copied.synchronize(),
            // SAFETY: a context is bound. Kernels that have the address have ended after this.
            Use::Shared => check(unsafe { sys::cuCtxSynchronize() }, || "cuCtxSynchronize".into()),
        };
        // Where nothing tells whether the device has done with it, it stays.
        if waited.is_ok() {
            // SAFETY: allocated by `new`, as the GPU is not hung (it was bound); freed once; the device has done with it.
            let _ = unsafe { sys::cuMemFreeHost(self.data.get().cast()) };
        }
    }
}
