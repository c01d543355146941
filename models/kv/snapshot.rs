//! Saving and loading the cache of one sequence.
//!
//! A file holds a [`Header`], the number of tokens, and for each layer its pages in the CPU's layout, from the
//! oldest that is kept. The GPU's cache reads and writes the same.

use std::io::{self, Read, Write};

use super::{KvCache, OutOfPages, PAGE, Shape};
use crate::ForwardError;

const MAGIC: &[u8; 8] = b"qrunkv02";

/// What must be equal between the cache that was saved and the one that loads.
pub(crate) struct Header(Vec<u32>);

impl Header {
    /// Of a cache whose layers have pages of these shapes.
    pub fn new(shapes: impl ExactSizeIterator<Item = Shape>) -> Self {
        // Heads or a state: a layer has one of them.
        let elements = |s: &Shape| if s.state_len > 0 { s.state_len } else { s.head_dim };
        let types = |s: &Shape| (s.type_k as u32) << 8 | s.type_v.map_or(0xff, |ty| ty as u32);
        let of_layer = |s: Shape| [s.n_head_kv as u32, elements(&s) as u32, types(&s)];
        let all = [shapes.len() as u32, PAGE as u32];
        Self(all.into_iter().chain(shapes.flat_map(of_layer)).collect())
    }

    /// Begins the file of a sequence of `len` tokens.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, len: usize, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        self.0.iter().copied().chain([len as u32]).try_for_each(|n| out.write_all(&n.to_le_bytes()))
    }

    /// Reads the beginning of a file; returns the number of tokens, at most `n_ctx`.
    ///
    /// # Errors
    /// `InvalidData`: no saved cache of this version, one of another model or of other cache types, or more than
    /// `n_ctx` tokens. `input` ends early or cannot be read.
    pub fn read(&self, n_ctx: usize, input: &mut dyn Read) -> io::Result<usize> {
        let mut magic = [0; 8];
        input.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(wrong("not a saved KV cache of this version"));
        }
        for &expected in &self.0 {
            if read_u32(input)? != expected {
                return Err(wrong("saved with another model, other cache types, or with or without its draft head"));
            }
        }
        let len = read_u32(input)? as usize;
        if len > n_ctx {
            return Err(wrong(&format!("{len} tokens saved, the context has room for {n_ctx}")));
        }
        Ok(len)
    }

    /// Reads the page table of a layer: exactly the pages up to the end, from one that the window still reaches.
    /// Returns the first.
    ///
    /// # Errors
    /// `InvalidData`: the table does not reach the end, or begins behind what the window still reaches. `input` ends
    /// early or cannot be read.
    pub fn pages(window: Option<usize>, len: usize, input: &mut dyn Read) -> io::Result<usize> {
        let (first, n) = (read_u32(input)? as usize, read_u32(input)? as usize);
        let oldest = window.map_or(0, |w| (len + 1).saturating_sub(w));
        if first.checked_add(n) != Some(len.div_ceil(PAGE)) || first * PAGE > oldest {
            return Err(wrong("a page table that does not fit its length"));
        }
        Ok(first)
    }
}

impl KvCache {
    fn header(&self) -> Header {
        Header::new(self.layers.iter().map(|place| place.shape))
    }

    /// Writes the pages of a sequence one by one, little endian: those that its next position sees.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn save(&self, seq: usize, out: &mut dyn Write) -> io::Result<()> {
        let len = self.tables.len(seq);
        self.header().write(len, out)?;
        for (il, place) in self.layers.iter().enumerate() {
            let first = self.tables.kinds()[place.kind].oldest_seen(len) / PAGE;
            let blocks = first..len.div_ceil(PAGE);
            out.write_all(&(first as u32).to_le_bytes())?;
            out.write_all(&(blocks.len() as u32).to_le_bytes())?;
            for block in blocks {
                out.write_all(&self.page_content(il, self.tables.page(place.kind, seq, block)))?;
            }
        }
        Ok(())
    }

    /// Reads what `save` wrote into a sequence of at most `n_ctx` tokens.
    ///
    /// # Errors
    /// As of [`Header::read`] and [`Header::pages`], or no pages are free. The sequence is empty then.
    pub fn load(&mut self, seq: usize, n_ctx: usize, input: &mut dyn Read) -> io::Result<()> {
        self.tables.rewind(seq, 0);
        let result = self.read(seq, n_ctx, input);
        if result.is_err() {
            self.tables.rewind(seq, 0);
        }
        result
    }

    fn read(&mut self, seq: usize, n_ctx: usize, input: &mut dyn Read) -> io::Result<()> {
        let len = self.header().read(n_ctx, input)?;
        let mut firsts = vec![None; self.tables.kinds().len()];
        for il in 0..self.layers.len() {
            let kind = self.layers[il].kind;
            let first = Header::pages(self.tables.kinds()[kind].window, len, input)?;
            let blocks = first..len.div_ceil(PAGE);
            match firsts[kind].replace(first) {
                None => {
                    let full = |pages: OutOfPages| io::Error::other(ForwardError::from(pages));
                    self.tables.fill(kind, seq, blocks.clone()).map_err(full)?;
                    self.grow();
                }
                Some(other) if other != first => return Err(wrong("page tables that differ within a kind of layer")),
                Some(_) => (),
            }
            for block in blocks {
                self.read_page(il, self.tables.page(kind, seq, block), input)?;
            }
        }
        self.tables.commit(seq, len);
        Ok(())
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn read_u32(input: &mut dyn Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
