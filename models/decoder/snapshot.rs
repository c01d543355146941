//! Saving and loading the cache of one sequence, in the form of the CPU's cache: what one device saved, the other loads.

use std::io::{self, Read, Write};

use qrun_cuda::{Pinned, Ptr, Result};

use super::{
    GpuDecoder,
    memory::{cache_type, state_len},
    other,
    pages::{self, Plane},
    states,
};
use crate::{
    ForwardError,
    kv::{OutOfPages, PAGE, PageId, Shape, snapshot::Header},
};

/// One page of one layer on the host: planes as they lie on the device, with room for the widest layer.
struct Planes {
    /// `[head][token][dim]` keys, then values; or a state, then nothing.
    elements: [Pinned<u8>; 2],
    /// `[head][token][block]` f16, empty without scales.
    scales: [Pinned<u8>; 2],
}

impl GpuDecoder {
    /// What a page holds of a layer.
    fn shape(&self, il: usize) -> Shape {
        Shape::new(&self.config.layers[il], &self.options)
    }

    fn header(&self) -> Header {
        Header::new((0..self.config.layers.len()).map(|il| self.shape(il)))
    }

    fn planes(&self) -> Result<Planes> {
        let ty = cache_type(self.options.type_k);
        let elements = self.config.widest(|l| l.n_head_kv * ty.page_bytes(l.head_dim).0);
        let elements = elements.max(self.config.widest(|l| size_of::<f32>() * state_len(l)));
        let scales = self.config.widest(|l| l.n_head_kv * ty.page_bytes(l.head_dim).1);
        let gpu = self.stream.gpu();
        Ok(Planes {
            elements: [Pinned::new(gpu, elements)?, Pinned::new(gpu, elements)?],
            scales: [Pinned::new(gpu, scales)?, Pinned::new(gpu, scales)?],
        })
    }

    /// The planes of a page of a layer, keys then values: elements, and scales of no bytes where there are none.
    fn page(&self, il: usize, id: PageId) -> [[Plane; 2]; 2] {
        let planes = pages::planes(&self.memory.layers[il], &self.config.layers[il]);
        let [k, v, k_scale, v_scale] = planes.map(|(start, bytes)| match bytes {
            0 => (Ptr::NULL, 0),
            _ => (start.add(id as usize * bytes), bytes),
        });
        [[k, v], [k_scale, v_scale]]
    }

    /// First block of a layer that a sequence of `len` tokens goes on from.
    fn first_block(&self, il: usize, len: usize) -> usize {
        let window = self.memory.kinds[self.memory.kind_of_layer[il]].window;
        window.map_or(0, |window| (len + 1).saturating_sub(window) / PAGE)
    }

    pub(super) fn save_sequence(&self, seq: usize, out: &mut dyn Write) -> io::Result<()> {
        let len = self.pages.tables.len(seq);
        self.header().write(len, out)?;
        let mut planes = self.planes().map_err(other)?;
        let mut bytes = Vec::new();
        for il in 0..self.config.layers.len() {
            let first = self.first_block(il, len);
            let blocks = first..len.div_ceil(PAGE);
            out.write_all(&(first as u32).to_le_bytes())?;
            out.write_all(&(blocks.len() as u32).to_le_bytes())?;
            for block in blocks {
                let id = self.pages.tables.page(self.memory.kind_of_layer[il], seq, block);
                self.fetch(il, id, &mut planes).map_err(other)?;
                bytes.clear();
                bytes.resize(self.shape(il).page_bytes(), 0);
                self.write_page(il, &planes, &mut bytes);
                out.write_all(&bytes)?;
            }
        }
        Ok(())
    }

    fn fetch(&self, il: usize, id: PageId, planes: &mut Planes) -> Result<()> {
        let [elements, scales] = self.page(il, id);
        for i in 0..2 {
            for ((from, n), to) in [(elements[i], &mut planes.elements[i]), (scales[i], &mut planes.scales[i])] {
                if n > 0 {
                    // SAFETY: a page that the sequence has, in a plane of the arena (see `decoder`).
                    unsafe { self.stream.copy_out(to, from, n)? };
                }
            }
        }
        self.stream.synchronize()
    }

    /// The bytes of a page of a layer in the file's order, one run after the other, and where each run lies in the planes:
    /// `(plane, offset)`, planes 0 and 1 the elements of keys and values, 2 and 3 their scales.
    fn runs(&self, il: usize) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let Shape { n_head_kv: heads, head_dim: d, type_k, type_v, .. } = self.shape(il);
        let (elements, scales) = cache_type(type_k).page_bytes(d);
        // Bytes of an element, and blocks of a token.
        let (size, blocks) = ((elements / PAGE).checked_div(d).unwrap_or(0), scales / PAGE / 2);
        // Keys of a head: [dim][token], then their scales [block][token].
        let keys = (0..heads).flat_map(move |h| {
            let element = move |i: usize| (0, ((h * PAGE + i % PAGE) * d + i / PAGE) * size, size);
            let scale = move |i: usize| (2, ((h * PAGE + i % PAGE) * blocks + i / PAGE) * 2, 2);
            (0..d * PAGE).map(element).chain((0..blocks * PAGE).map(scale))
        });
        // Values of a head as they lie on the device, then their scales; none where they are the front of keys.
        let heads_of_values = if type_v.is_some() { heads } else { 0 };
        let values = (0..heads_of_values).flat_map(move |h| [(1, h * elements, elements), (3, h * scales, scales)]);
        keys.chain(values)
    }

    /// A page of a layer as files have it.
    fn write_page(&self, il: usize, planes: &Planes, file: &mut [u8]) {
        let [k, v] = &planes.elements;
        let [k_scale, v_scale] = &planes.scales;
        let all: [&[u8]; 4] = [k, v, k_scale, v_scale];
        self.each_piece(il, |in_file, (plane, at), n| {
            file[in_file..in_file + n].copy_from_slice(&all[plane][at..at + n])
        });
    }

    /// What [`GpuDecoder::write_page`] wrote.
    fn read_page(&self, il: usize, file: &[u8], planes: &mut Planes) {
        let [k, v] = &mut planes.elements;
        let [k_scale, v_scale] = &mut planes.scales;
        let mut all: [&mut [u8]; 4] =
            [k.as_mut_slice(), v.as_mut_slice(), k_scale.as_mut_slice(), v_scale.as_mut_slice()];
        self.each_piece(il, |in_file, (plane, at), n| {
            all[plane][at..at + n].copy_from_slice(&file[in_file..in_file + n])
        });
    }

    /// `each(place in the file, (plane, place there), bytes)`.
    fn each_piece(&self, il: usize, mut each: impl FnMut(usize, (usize, usize), usize)) {
        const SIZE: usize = size_of::<f32>();
        states::each_element(&self.config.layers[il], |file, at| each(SIZE * file, (0, SIZE * at), SIZE));
        let mut in_file = 0;
        for (plane, at, n) in self.runs(il) {
            each(in_file, (plane, at), n);
            in_file += n;
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
        let len = self.header().read(self.options.n_ctx, input)?;
        let mut planes = self.planes().map_err(other)?;
        let mut bytes = Vec::new();
        let mut firsts = vec![None; self.memory.kinds.len()];
        for il in 0..self.config.layers.len() {
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
            bytes.resize(self.shape(il).page_bytes(), 0);
            for block in blocks {
                input.read_exact(&mut bytes)?;
                self.read_page(il, &bytes, &mut planes);
                let id = self.pages.tables.page(kind, seq, block);
                self.send(il, id, &planes).map_err(other)?;
            }
        }
        self.pages.tables.commit(seq, len);
        Ok(())
    }

    fn send(&self, il: usize, id: PageId, planes: &Planes) -> Result<()> {
        let [elements, scales] = self.page(il, id);
        for i in 0..2 {
            for ((to, n), from) in [(elements[i], &planes.elements[i]), (scales[i], &planes.scales[i])] {
                if n > 0 {
                    // SAFETY: a page that the sequence has, in a plane of the arena (see `decoder`).
                    unsafe { self.stream.copy_in(to, from, n)? };
                }
            }
        }
        self.stream.synchronize()
    }
}
