//! The KV cache of one layer, as kernels/cache.cuh has it.

use crate::Ptr;

/// Tokens of a page.
pub const PAGE: usize = 64;
/// Elements of a token that share a scale in a q8_0 cache; the last block of a head may be shorter.
const BLOCK: usize = 32;

/// Element type of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(i32)]
pub enum CacheType {
    /// IEEE half, 2 bytes per element.
    #[default]
    F16 = 0,
    /// 1 byte, and an f16 scale per 32 elements of a token.
    Q8_0 = 1,
}

impl CacheType {
    /// Bytes of the elements of one head of one page, and of their scales: they lie in planes of their own.
    pub fn page_bytes(self, head_dim: usize) -> (usize, usize) {
        match self {
            Self::F16 => (2 * PAGE * head_dim, 0),
            Self::Q8_0 => (PAGE * head_dim, 2 * PAGE * head_dim.div_ceil(BLOCK)),
        }
    }
}

/// Keys and values of one layer, in pages of 64 tokens.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Cache {
    /// Keys: f16 or int8 `[page][head_kv][64][head_dim]`.
    pub k: Ptr<u8>,
    /// Values: first byte of the pages, laid out as those of the keys.
    pub v: Ptr<u8>,
    /// q8_0: f16 `[page][head_kv][64][ceil(head_dim / 32)]`; else null.
    pub k_scale: Ptr<u16>,
    /// The same of the values.
    pub v_scale: Ptr<u16>,
    /// `[seq][pages]`: the page of position `p` is entry `(p / 64) % pages` of its sequence.
    pub table: Ptr<i32>,
    /// Entries per sequence. With a window of W tokens and chunks of C, at least `ceil((W + C - 1) / 64) + 1`.
    pub pages: i32,
    /// Element type of keys and values.
    pub kind: CacheType,
}
