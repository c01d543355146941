//! Saving and loading the cache of one sequence, in the form of the CPU's cache: what one device saved, the other loads.

use std::io::{self, Read, Write};

use qrun_cuda::{Pinned, Ptr, Result, ops::cache::Cache};

use super::{GpuDecoder, memory::cache_type, other, pages};
use crate::{
    ForwardError,
    kv::{OutOfPages, PAGE, PageId, Shape, snapshot::Header},
};

/// One page of one layer on the host: planes as they lie on the device.
struct Planes {
    /// `[head][token][dim]` keys, then values.
    elements: [Pinned<u8>; 2],
    /// `[head][token][block]` f16, empty without scales.
    scales: [Pinned<u8>; 2],
}

impl GpuDecoder {
    fn shape(&self) -> Shape {
        let (c, o) = (&self.config, &self.options);
        Shape { n_head_kv: c.n_head_kv, head_dim: c.head_dim, type_k: o.type_k, type_v: o.type_v }
    }

    fn planes(&self) -> Result<Planes> {
        let c = &self.config;
        let (elements, scales) = cache_type(self.options.type_k).page_bytes(c.head_dim);
        let (elements, scales) = (c.n_head_kv * elements, c.n_head_kv * scales);
        let gpu = self.stream.gpu();
        Ok(Planes {
            elements: [Pinned::new(gpu, elements)?, Pinned::new(gpu, elements)?],
            scales: [Pinned::new(gpu, scales)?, Pinned::new(gpu, scales)?],
        })
    }

    /// Addresses of the planes of a page: keys, values, their scales or null.
    fn page(&self, cache: &Cache, id: PageId) -> ([Ptr<u8>; 2], [Ptr<u8>; 2]) {
        let planes = pages::planes(cache, self.config.n_head_kv, self.config.head_dim);
        let [k, v, k_scale, v_scale] = planes.map(|(start, bytes)| match bytes {
            0 => Ptr::NULL,
            _ => start.add(id as usize * bytes),
        });
        ([k, v], [k_scale, v_scale])
    }

    /// First block of a layer that a sequence of `len` tokens goes on from.
    fn first_block(&self, il: usize, len: usize) -> usize {
        let window = self.memory.kinds[self.memory.kind_of_layer[il]].window;
        window.map_or(0, |window| (len + 1).saturating_sub(window) / PAGE)
    }

    pub(super) fn save_sequence(&self, seq: usize, out: &mut dyn Write) -> io::Result<()> {
        let (shape, len) = (self.shape(), self.pages.tables.len(seq));
        Header::new(self.config.n_layer, shape).write(len, out)?;
        let mut planes = self.planes().map_err(other)?;
        let mut bytes = Vec::with_capacity(shape.page_bytes());
        for il in 0..self.config.n_layer {
            let first = self.first_block(il, len);
            let blocks = first..len.div_ceil(PAGE);
            out.write_all(&(first as u32).to_le_bytes())?;
            out.write_all(&(blocks.len() as u32).to_le_bytes())?;
            for block in blocks {
                let id = self.pages.tables.page(self.memory.kind_of_layer[il], seq, block);
                self.fetch(&self.memory.layers[il].cache, id, &mut planes).map_err(other)?;
                bytes.clear();
                self.each_run(&planes, |_, source| bytes.extend_from_slice(source));
                out.write_all(&bytes)?;
            }
        }
        Ok(())
    }

    fn fetch(&self, cache: &Cache, id: PageId, planes: &mut Planes) -> Result<()> {
        let (elements, scales) = self.page(cache, id);
        for i in 0..2 {
            let n = planes.elements[i].len();
            self.stream.copy_out(&mut planes.elements[i], elements[i], n)?;
            let n = planes.scales[i].len();
            if n > 0 {
                self.stream.copy_out(&mut planes.scales[i], scales[i], n)?;
            }
        }
        self.stream.synchronize()
    }

    /// The bytes of a page in the file's order, one run after the other, and where each run lies in the planes:
    /// `(plane, offset)`, planes 0 and 1 the elements of keys and values, 2 and 3 their scales.
    fn runs(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let (heads, d) = (self.config.n_head_kv, self.config.head_dim);
        let (elements, scales) = cache_type(self.options.type_k).page_bytes(d);
        // Bytes of an element, and blocks of a token.
        let (size, blocks) = (elements / PAGE / d, scales / PAGE / 2);
        // Keys of a head: [dim][token], then their scales [block][token].
        let keys = (0..heads).flat_map(move |h| {
            let element = move |i: usize| (0, ((h * PAGE + i % PAGE) * d + i / PAGE) * size, size);
            let scale = move |i: usize| (2, ((h * PAGE + i % PAGE) * blocks + i / PAGE) * 2, 2);
            (0..d * PAGE).map(element).chain((0..blocks * PAGE).map(scale))
        });
        // Values of a head as they lie on the device, then their scales.
        let values = (0..heads).flat_map(move |h| [(1, h * elements, elements), (3, h * scales, scales)]);
        keys.chain(values)
    }

    fn each_run(&self, planes: &Planes, mut f: impl FnMut(usize, &[u8])) {
        let [k, v] = &planes.elements;
        let [k_scale, v_scale] = &planes.scales;
        let all: [&[u8]; 4] = [k, v, k_scale, v_scale];
        for (plane, at, len) in self.runs() {
            f(plane, &all[plane][at..at + len]);
        }
    }

    pub(super) fn load_sequence(&mut self, seq: usize, input: &mut dyn Read) -> io::Result<()> {
        self.forget_steps(seq as u32);
        self.pages.tables.rewind(seq, 0);
        let read = self.read_sequence(seq, input);
        if read.is_err() {
            self.pages.tables.rewind(seq, 0);
        }
        read
    }

    fn read_sequence(&mut self, seq: usize, input: &mut dyn Read) -> io::Result<()> {
        let shape = self.shape();
        let len = Header::new(self.config.n_layer, shape).read(self.options.n_ctx, input)?;
        let mut planes = self.planes().map_err(other)?;
        let mut bytes = vec![0; shape.page_bytes()];
        let mut firsts = vec![None; self.memory.kinds.len()];
        for il in 0..self.config.n_layer {
            let kind = self.memory.kind_of_layer[il];
            let first = Header::pages(self.memory.kinds[kind].window, len, input)?;
            let blocks = first..len.div_ceil(PAGE);
            match firsts[kind].replace(first) {
                None => {
                    let full = |pages: OutOfPages| io::Error::other(ForwardError::from(pages));
                    self.pages.tables.fill(kind, seq, blocks.clone()).map_err(full)?;
                }
                Some(other) if other != first => {
                    let what = "page tables that differ within a kind of layer";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                Some(_) => (),
            }
            for block in blocks {
                input.read_exact(&mut bytes)?;
                let mut rest = &bytes[..];
                for (plane, at, n) in self.runs() {
                    let to = match plane {
                        0 | 1 => &mut planes.elements[plane],
                        _ => &mut planes.scales[plane - 2],
                    };
                    let (run, tail) = rest.split_at(n);
                    to.as_mut_slice()[at..at + n].copy_from_slice(run);
                    rest = tail;
                }
                let id = self.pages.tables.page(kind, seq, block);
                self.send(&self.memory.layers[il].cache, id, &planes).map_err(other)?;
            }
        }
        self.pages.tables.commit(seq, len);
        Ok(())
    }

    fn send(&self, cache: &Cache, id: PageId, planes: &Planes) -> Result<()> {
        let (elements, scales) = self.page(cache, id);
        for i in 0..2 {
            self.stream.copy_in(elements[i], &planes.elements[i], planes.elements[i].len())?;
            if !scales[i].is_null() {
                self.stream.copy_in(scales[i], &planes.scales[i], planes.scales[i].len())?;
            }
        }
        self.stream.synchronize()
    }
}
