//! Addresses on the device.

use std::marker::PhantomData;

/// An address on the device of some `T`s: inside an [`Arena`](super::Arena), in a table that a [`Gpu`](super::Gpu) keeps, or in
/// [`Pinned`](super::Pinned) memory that kernels share. A number: it is valid while these live. Only kernels and copies look at
/// what is there, and no Rust value lies in an arena: a wrong address gives wrong numbers or an error of the driver.
///
/// Who makes one of another, by [`Ptr::add`] or [`Ptr::cast`], and who says how much is read and written there, has to stay inside the
/// arena. Beyond it may lie page-locked memory, which holds Rust values: host and device have one address for it, and the driver
/// checks allocations at most.
#[repr(transparent)]
pub struct Ptr<T>(u64, PhantomData<*const T>);

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ptr<T> {}
// SAFETY: a number, which no method follows to memory.
unsafe impl<T> Send for Ptr<T> {}
// SAFETY: a number that does not change.
unsafe impl<T> Sync for Ptr<T> {}

impl<T> std::fmt::Debug for Ptr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl<T> Default for Ptr<T> {
    fn default() -> Self {
        Self::NULL
    }
}

impl<T> Ptr<T> {
    /// No address: an optional argument that is left out.
    pub const NULL: Self = Self(0, PhantomData);

    /// The `T`s at an address, of which the driver or an arena has said that it is on the device.
    pub(super) const fn new(address: u64) -> Self {
        Self(address, PhantomData)
    }
    /// The address as the driver and kernel parameters take it.
    pub const fn address(self) -> u64 {
        self.0
    }
    /// The same address, not of this type.
    pub const fn cast<U>(self) -> Ptr<U> {
        Ptr(self.0, PhantomData)
    }
    /// The address `n` elements further on.
    pub const fn add(self, n: usize) -> Self {
        Self(self.0 + (n * size_of::<T>()) as u64, PhantomData)
    }
    /// Whether this is [`Ptr::NULL`].
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}
