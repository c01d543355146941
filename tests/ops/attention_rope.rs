//! Attention that norms and turns its rows itself: the bits of `rope_kv` or `latent_kv` and then attention, in the result and in the
//! cache.

use qrun_cuda::{
    Arena, Ptr,
    ops::{
        activations::QuantizedActivations,
        attention::{Attention, Scratch, Tiling, attention},
        cache::{Cache, CacheType, PAGE},
        rope_kv::{LatentKv, Pairs, RopeKv, latent_kv, rope_kv, turns},
    },
};

use crate::{
    cache::HostCache,
    harness::{Device, Random, everywhere},
};

#[derive(Clone, Copy)]
struct Case {
    head_dim: usize,
    n_head: usize,
    n_head_kv: usize,
    n_rot: usize,
    pairs: Pairs,
    norm: bool,
    kind: CacheType,
    window: usize,
    splits: usize,
    /// Elements from head to head of queries, in heads.
    step: usize,
    magnitude: f32,
    /// Values are keys as they were projected, normed.
    v_is_k: bool,
    /// Whether the rows have keys and values.
    own: bool,
    /// Of latent attention the elements of a value; 0: it is not.
    latent: usize,
}

/// (sequence, position): the first token, the ends of a tile, of a page and of a part, and an idle row.
const ROWS: &[(i32, i32)] = &[(0, 0), (1, 31), (2, 32), (-1, 7), (3, 63), (4, 64), (5, 200)];

const BASE: Case = Case {
    head_dim: 64,
    n_head: 4,
    n_head_kv: 2,
    n_rot: 64,
    pairs: Pairs::Halves,
    norm: true,
    kind: CacheType::F16,
    window: 0,
    splits: 8,
    step: 1,
    magnitude: 1.0,
    v_is_k: false,
    own: true,
    latent: 0,
};
const LATENT: Case =
    Case { head_dim: 576, n_rot: 64, n_head: 20, n_head_kv: 1, pairs: Pairs::Interleaved, latent: 512, ..BASE };
const CASES: &[Case] = &[
    BASE,
    Case { head_dim: 256, n_rot: 256, n_head_kv: 1, splits: 64, ..BASE },
    Case { head_dim: 256, n_rot: 256, n_head_kv: 1, kind: CacheType::Q8_0, splits: 1, ..BASE },
    Case { head_dim: 128, n_rot: 128, n_head: 16, n_head_kv: 1, norm: false, window: 40, ..BASE },
    Case { head_dim: 80, n_rot: 32, kind: CacheType::Q8_0, pairs: Pairs::Interleaved, splits: 3, ..BASE },
    Case { head_dim: 256, n_rot: 64, n_head_kv: 1, step: 2, ..BASE },
    Case { head_dim: 128, n_rot: 96, step: 2, magnitude: 1.2, kind: CacheType::Q8_0, norm: false, ..BASE },
    Case { head_dim: 16, n_rot: 16, n_head: 3, n_head_kv: 3, splits: 2, ..BASE },
    Case { head_dim: 512, n_rot: 512, n_head_kv: 1, v_is_k: true, splits: 5, ..BASE },
    Case { head_dim: 512, n_rot: 128, n_head: 6, kind: CacheType::Q8_0, v_is_k: true, window: 40, ..BASE },
    Case { head_dim: 288, n_rot: 288, splits: 1, ..BASE },
    Case { head_dim: 512, n_rot: 512, splits: 3, own: false, ..BASE },
    Case { own: false, ..BASE },
    // Two tiles of query heads, each with several steps: both need the row's own key in the last one.
    Case { head_dim: 128, n_rot: 128, n_head: 16, n_head_kv: 1, splits: 1, ..BASE },
    Case { n_head: 24, kind: CacheType::Q8_0, splits: 2, ..BASE },
    LATENT,
    Case { splits: 1, kind: CacheType::Q8_0, magnitude: 1.3, ..LATENT },
    Case {
        head_dim: 112,
        n_rot: 16,
        n_head: 3,
        latent: 96,
        pairs: Pairs::Halves,
        kind: CacheType::Q8_0,
        splits: 2,
        ..LATENT
    },
    Case { head_dim: 160, n_rot: 128, n_head: 9, latent: 32, splits: 1, ..LATENT },
];

impl Case {
    /// A cache with what came before each row, and NaNs elsewhere.
    fn cache(&self) -> HostCache {
        let pages = match self.window {
            0 => 4,
            window => window.div_ceil(PAGE) + 1,
        };
        let mut cache = HostCache::new(self.kind, [self.n_head_kv, self.head_dim], [6, pages], 0xFF);
        let width = self.n_head_kv * self.head_dim;
        for &(seq, pos) in ROWS.iter().filter(|row| row.0 >= 0) {
            let end = pos as usize;
            let first = if self.window > 0 { (end + 1).saturating_sub(self.window) } else { 0 };
            // Of rows without keys of their own somebody else has put them there.
            for p in first..end + usize::from(!self.own) {
                let random = &mut Random::new((seq as u64) << 32 | p as u64);
                cache.write(seq as usize, p, [random.normals(width), random.normals(width)]);
            }
        }
        cache
    }

    fn value_dim(&self) -> usize {
        if self.latent > 0 { self.latent } else { self.head_dim }
    }

    /// The output, its image, and the bytes of the cache.
    fn run(&self, device: &Device, alone: bool) -> Vec<f32> {
        let mut random = Random::new(self.head_dim as u64);
        let (q_width, kv_width) = (self.n_head * self.head_dim, self.n_head_kv * self.head_dim);
        let mut values = |n| device.buffer(&random.normals(n));
        let (q, k, v) =
            (values(ROWS.len() * q_width * self.step), values(ROWS.len() * kv_width), values(ROWS.len() * kv_width));
        let (q_norm, k_norm) = (values(self.head_dim), values(self.head_dim));
        let ends = values(ROWS.len() * self.n_head * (self.n_rot + 32));
        let half = self.n_rot / 2;
        let frequency: Vec<f64> = (0..half).map(|i| 1e4f64.powf(-(i as f64) / half as f64)).collect();
        let frequency = device.buffer(&frequency.into_iter().map(turns).collect::<Vec<u64>>());
        let (seq, pos): (Vec<_>, Vec<_>) = ROWS.iter().copied().unzip();
        let (seq, pos) = (device.buffer(&seq), device.buffer(&pos));
        let cache = self.cache().upload(device);
        let turned = device.buffer(&vec![f32::NAN; ROWS.len() * q_width]);
        let norm = |weights| if self.norm { weights } else { Ptr::NULL };
        let own = |values| if self.own { values } else { Ptr::NULL };
        let rope = RopeKv {
            q: q.ptr,
            q_out: if self.step > 1 { turned.ptr } else { q.ptr },
            k: own(k.ptr),
            v: own(if self.v_is_k { k.ptr } else { v.ptr }),
            q_norm: norm(q_norm.ptr),
            k_norm: norm(k_norm.ptr),
            frequency: frequency.ptr,
            pos: pos.ptr,
            seq: seq.ptr,
            cache: cache.cache,
            n_head: self.n_head as i32,
            n_head_kv: self.n_head_kv as i32,
            head_dim: self.head_dim as i32,
            n_rot: self.n_rot as i32,
            pairs: self.pairs,
            eps: 1e-6,
            magnitude: self.magnitude,
            q_step: (self.step * self.head_dim) as i32,
            v_norm: self.v_is_k.into(),
            share: 0.0,
        };
        let rope = match self.latent {
            0 => rope,
            _ => RopeKv {
                q: ends.ptr,
                q_step: self.n_rot as i32 + 32,
                v: Ptr::NULL,
                q_norm: Ptr::NULL,
                cache: Cache { v: Ptr::NULL, v_scale: Ptr::NULL, ..cache.cache },
                ..rope
            },
        };
        if !alone {
            let rows = ROWS.len() as u32;
            // SAFETY: buffers of these shapes, which live until the results are read.
            unsafe {
                match self.latent {
                    0 => rope_kv(&device.stream, rows, &rope),
                    _ => latent_kv(&device.stream, rows, &LatentKv { rope, k_out: Ptr::NULL }),
                }
            }
            .expect("a launch");
        }
        let n = ROWS.len() * self.n_head * self.value_dim();
        let zeros = vec![0f32; n];
        let out = device.buffer(&zeros);
        let (iq, id) = (device.buffer(&vec![0i8; n]), device.buffer(&zeros[..n / 32]));
        let is = device.buffer(&zeros[..n / 16]);
        let image = QuantizedActivations { q: iq.ptr, d: id.ptr, s: is.ptr };
        let shape = [ROWS.len(), self.n_head, q_width];
        let (_arena, scratch) = Arena::new(&device.gpu, |layout| Scratch::take(layout, shape, 256)).expect("memory");
        // SAFETY: it was taken for these rows and heads.
        unsafe { scratch.clear(&device.stream, ROWS.len(), self.n_head) }.expect("a launch");
        let a = Attention {
            q: rope.q_out,
            pos: pos.ptr,
            seq: seq.ptr,
            cache: rope.cache,
            out: out.ptr,
            image: if self.value_dim().is_multiple_of(32) { image } else { QuantizedActivations::default() },
            scratch,
            splits: self.splits,
            rope: alone.then_some(rope),
            tiling: Tiling::Rows,
            rows: ROWS.len(),
            n_head: self.n_head,
            n_head_kv: self.n_head_kv,
            head_dim: self.head_dim,
            latent: (self.latent > 0).then_some(self.latent),
            window: self.window,
            scale: 0.3,
            softcap: 0.0,
            ..Attention::default()
        };
        // SAFETY: as above; the arena of the scratch lives as long.
        unsafe { attention(&device.stream, &a) }.expect("a launch");
        let mut all = [device.read(&out), device.read(&id), device.read(&is)].concat();
        all.extend(device.read(&iq).iter().map(|&x| f32::from(x)));
        for (elements, scales) in &cache.planes {
            all.extend(device.read(elements).iter().map(|&x| f32::from(x)));
            all.extend(device.read(scales).iter().map(|&x| f32::from(x)));
        }
        all
    }
}

#[test]
fn rows_that_attention_turns_have_the_bits_of_rows_turned_before() {
    for (i, case) in CASES.iter().enumerate() {
        everywhere(
            |device| [case.run(device, true), case.run(device, false)].concat(),
            |found| {
                let (alone, before) = found.split_at(found.len() / 2);
                let differ = (0..alone.len()).filter(|&i| alone[i].to_bits() != before[i].to_bits()).count();
                assert!(differ == 0, "case {i}: {differ} of {} values", alone.len());
                assert!(alone.iter().all(|x| x.is_finite()) && alone[..64].iter().any(|&x| x != 0.0), "case {i}");
            },
        );
    }
}
