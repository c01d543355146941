//! FNV-1a, 64 bits: the same number on every machine and in every version.

/// The number of some bytes, or of those that come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fnv1a(pub u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Goes on with more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let step = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, step);
    }
}

/// The number of all parts, one after the other.
pub(crate) fn fnv1a<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut sum = Fnv1a::default();
    parts.into_iter().for_each(|part| sum.update(part));
    sum.0
}
