//! A paged cache filled on the host, and what its elements become when they are stored.

use std::collections::HashMap;

use half::f16;
use qrun_cuda::ops::cache::{Cache, CacheType, PAGE};

use crate::harness::{Buffer, Device, Random};

/// Elements of a token that share a scale.
const BLOCK: usize = 32;

/// One token of one head as q8_0: elements and scales.
pub fn q8_0(x: &[f32]) -> (Vec<i8>, Vec<f16>) {
    let block = |block: &[f32]| {
        let scale = f16::from_f32(block.iter().fold(0f32, |m, v| m.max(v.abs())) / 127.0);
        let inverse = if scale > f16::ZERO { 1.0 / scale.to_f32() } else { 0.0 };
        (block.iter().map(|x| (x * inverse).round() as i8).collect::<Vec<_>>(), scale)
    };
    let (q, scales): (Vec<_>, Vec<_>) = x.chunks(BLOCK).map(block).unzip();
    (q.concat(), scales)
}

/// What the cache makes of one token of one head.
pub fn stored(kind: CacheType, x: &[f32]) -> Vec<f64> {
    match kind {
        CacheType::F16 => x.iter().map(|&x| f16::from_f32(x).to_f64()).collect(),
        CacheType::Q8_0 => {
            let (q, scales) = q8_0(x);
            q.iter().enumerate().map(|(i, &q)| f64::from(q) * scales[i / BLOCK].to_f64()).collect()
        }
    }
}

/// Keys and values of some positions of some sequences.
pub struct HostCache {
    pub kind: CacheType,
    pub heads: usize,
    pub head_dim: usize,
    pub pages: usize,
    pub table: Vec<i32>,
    planes: [Plane; 2],
    /// What was written, `[heads][head_dim]` by sequence and position: keys and values.
    pub tokens: HashMap<(usize, usize), [Vec<f32>; 2]>,
}

/// The bytes of all keys or all values.
struct Plane {
    elements: Vec<u8>,
    scales: Vec<u16>,
}

/// The same on a device.
pub struct DeviceCache {
    pub cache: Cache,
    pub planes: [(Buffer<u8>, Buffer<u16>); 2],
    _table: Buffer<i32>,
}

impl HostCache {
    /// Nothing but NaNs (or `fill` bytes): `sequences` of `pages` pages in random order, and a page that nobody has.
    pub fn new(kind: CacheType, [heads, head_dim]: [usize; 2], [sequences, pages]: [usize; 2], fill: u8) -> Self {
        let count = sequences * pages + 1;
        let mut table: Vec<i32> = (0..count as i32).collect();
        let mut random = Random::new(count as u64);
        for i in (1..count).rev() {
            table.swap(i, random.below(i + 1));
        }
        table.truncate(sequences * pages);
        let (bytes, scales) = kind.page_bytes(head_dim);
        let plane = || Plane {
            elements: vec![fill; count * heads * bytes],
            scales: vec![u16::from_le_bytes([fill; 2]); count * heads * scales / 2],
        };
        Self { kind, heads, head_dim, pages, table, planes: [plane(), plane()], tokens: HashMap::new() }
    }

    /// Number of a slot, in tokens of a head.
    pub fn slot(&self, seq: usize, pos: usize, head: usize) -> usize {
        let page = self.table[seq * self.pages + pos / PAGE % self.pages] as usize;
        (page * self.heads + head) * PAGE + pos % PAGE
    }

    /// Stores a token: `[heads][head_dim]` of keys and of values.
    pub fn write(&mut self, seq: usize, pos: usize, kv: [Vec<f32>; 2]) {
        for which in 0..2 {
            for head in 0..self.heads {
                let (slot, n) = (self.slot(seq, pos, head), self.head_dim);
                let x = &kv[which][head * n..(head + 1) * n];
                let plane = &mut self.planes[which];
                match self.kind {
                    CacheType::F16 => {
                        let bytes: Vec<u8> = x.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
                        plane.elements[2 * slot * n..2 * (slot + 1) * n].copy_from_slice(&bytes);
                    }
                    CacheType::Q8_0 => {
                        let (q, scales) = q8_0(x);
                        let at = slot * scales.len();
                        plane.elements[slot * n..(slot + 1) * n]
                            .copy_from_slice(&q.iter().map(|&q| q as u8).collect::<Vec<_>>());
                        for (to, s) in plane.scales[at..].iter_mut().zip(scales) {
                            *to = s.to_bits();
                        }
                    }
                }
            }
        }
        self.tokens.insert((seq, pos), kv);
    }

    /// Bytes and scales of keys (0) or values (1).
    pub fn plane(&self, which: usize) -> (&[u8], &[u16]) {
        (&self.planes[which].elements, &self.planes[which].scales)
    }

    pub fn upload(&self, device: &Device) -> DeviceCache {
        let planes = [0, 1].map(|i| (device.buffer(&self.planes[i].elements), device.buffer(&self.planes[i].scales)));
        let table = device.buffer(&self.table);
        let cache = Cache {
            k: planes[0].0.ptr,
            v: planes[1].0.ptr,
            k_scale: planes[0].1.ptr,
            v_scale: planes[1].1.ptr,
            table: table.ptr,
            pages: self.pages as i32,
            kind: self.kind,
        };
        DeviceCache { cache, planes, _table: table }
    }
}
