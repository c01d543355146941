//! Element types of the cache: how a head's page of keys or values is stored and read back.

use std::str::FromStr;

use half::f16;

use super::PAGE;
use crate::cpu::{Elements, simd::f16_to_f32};

/// Elements of a token that share a scale in a q8_0 cache (the last block of a head may be shorter).
const BLOCK: usize = 32;

/// Element type of cached keys or values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// 4 bytes: the oracle.
    F32,
    /// 2 bytes: the default.
    F16,
    /// 1 byte, and an f16 scale per 32 elements of a token.
    Q8_0,
}

impl FromStr for KvType {
    type Err = String;

    /// By name in any case.
    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|t| t.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| format!("expected one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

impl KvType {
    /// Every type, as `--cache-type-k` and `--cache-type-v` take them.
    pub const ALL: [KvType; 3] = [Self::F32, Self::F16, Self::Q8_0];

    /// Name as llama.cpp writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
        }
    }

    /// Bytes of one head's page of keys or values.
    pub fn page_bytes(self, head_dim: usize) -> usize {
        match self {
            Self::F32 => 4 * PAGE * head_dim,
            Self::F16 => 2 * PAGE * head_dim,
            Self::Q8_0 => PAGE * (head_dim + 2 * head_dim.div_ceil(BLOCK)),
        }
    }

    /// Stores the key of the page's token number `slot`: `[dim][token]`; scales `[block][token]` behind.
    pub(super) fn store_key(self, page: &mut [u8], slot: usize, x: &[f32]) {
        self.store(page, x, |d| d * PAGE + slot, |b| b * PAGE + slot);
    }

    /// Stores a value: `[token][dim]`; scales `[token][block]` behind.
    pub(super) fn store_value(self, page: &mut [u8], slot: usize, x: &[f32]) {
        let blocks = x.len().div_ceil(BLOCK);
        self.store(page, x, |d| slot * x.len() + d, |b| slot * blocks + b);
    }

    fn store(self, page: &mut [u8], x: &[f32], at: impl Fn(usize) -> usize, scale_at: impl Fn(usize) -> usize) {
        match self {
            Self::F32 => {
                for (d, x) in x.iter().enumerate() {
                    page[4 * at(d)..][..4].copy_from_slice(&x.to_le_bytes());
                }
            }
            Self::F16 => {
                for (d, x) in x.iter().enumerate() {
                    page[2 * at(d)..][..2].copy_from_slice(&f16::from_f32(*x).to_le_bytes());
                }
            }
            Self::Q8_0 => {
                let (quants, scales) = page.split_at_mut(PAGE * x.len());
                for (b, block) in x.chunks(BLOCK).enumerate() {
                    let amax = block.iter().fold(0f32, |m, v| m.max(v.abs()));
                    let scale = f16::from_f32(amax / 127.0);
                    let inverse = if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 };
                    scales[2 * scale_at(b)..][..2].copy_from_slice(&scale.to_le_bytes());
                    for (i, x) in block.iter().enumerate() {
                        quants[at(b * BLOCK + i)] = (x * inverse).round() as i8 as u8;
                    }
                }
            }
        }
    }

    /// A page of keys, `[dim][token]`: as it is stored where that is asked for and it is in f16, or in `out`.
    pub(super) fn keys<'a>(self, page: &'a [u8], as_stored: bool, out: &'a mut [f32]) -> Elements<'a> {
        match self {
            Self::F16 if as_stored => Elements::F16(page),
            _ => {
                self.load_keys(page, out);
                Elements::F32(out)
            }
        }
    }

    /// The same of a page of values, `[token][dim]`.
    pub(super) fn values<'a>(self, page: &'a [u8], as_stored: bool, out: &'a mut [f32]) -> Elements<'a> {
        match self {
            Self::F16 if as_stored => Elements::F16(page),
            _ => {
                self.load_values(page, out);
                Elements::F32(out)
            }
        }
    }

    fn load_keys(self, page: &[u8], out: &mut [f32]) {
        let Self::Q8_0 = self else { return self.load_plain(page, out) };
        let (quants, scales) = page.split_at(out.len());
        for (d, (q, out)) in quants.chunks_exact(PAGE).zip(out.chunks_exact_mut(PAGE)).enumerate() {
            let mut scale = [0.0; PAGE];
            f16_to_f32(&scales[2 * PAGE * (d / BLOCK)..][..2 * PAGE], &mut scale);
            for ((o, q), s) in out.iter_mut().zip(q).zip(scale) {
                *o = f32::from(*q as i8) * s;
            }
        }
    }

    fn load_values(self, page: &[u8], out: &mut [f32]) {
        let Self::Q8_0 = self else { return self.load_plain(page, out) };
        let head_dim = out.len() / PAGE;
        let (quants, scales) = page.split_at(out.len());
        let mut scale = [0.0; 1024 / BLOCK];
        let scale = &mut scale[..head_dim.div_ceil(BLOCK)];
        for (t, (q, out)) in quants.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)).enumerate() {
            f16_to_f32(&scales[2 * t * scale.len()..][..2 * scale.len()], scale);
            for ((q, out), s) in q.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).zip(&*scale) {
                for (o, q) in out.iter_mut().zip(q) {
                    *o = f32::from(*q as i8) * s;
                }
            }
        }
    }

    fn load_plain(self, page: &[u8], out: &mut [f32]) {
        match self {
            Self::F16 => f16_to_f32(page, out),
            _ => {
                for (o, b) in out.iter_mut().zip(page.chunks_exact(4)) {
                    *o = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
        }
    }
}
