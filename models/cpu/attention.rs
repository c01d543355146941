//! Attention over the paged cache: online softmax page by page, splits of the context in parallel.
//!
//! A query's arithmetic is fixed by its position alone (and by the length of its text, where it sees what comes behind
//! it): pages in order inside splits of 512 absolute positions, splits merged in order. So one token at a time, any
//! chunking and any number of threads give the same bits.

use std::ops::Range;

mod product;
mod softmax;

use rayon::prelude::*;

pub use self::product::Elements;
use self::{
    product::{FEW, Product},
    softmax::OnlineSoftmax,
};
use super::simd::{self, LANES};
use crate::{
    Config, Entry, LayerPlan,
    forward::ends,
    kv::{KvCache, PAGE},
    layer::KvSource,
};

/// Pages of the cache per split: fixed, so that sums do not depend on the number of threads.
const SPLIT: usize = 8;
/// Queries that share the loading of a page.
const BLOCK: usize = 64;
/// Most query heads of a block: where many share a key head, threads share them.
const HEADS: usize = 16;

/// One layer's attention: queries `q[tokens][n_head][head_dim]` against the cache.
pub struct Attend<'a> {
    pub c: &'a Config,
    pub kv: &'a KvCache,
    pub il: usize,
    pub chunk: &'a [Entry],
    pub q: &'a [f32],
    /// Positions that each token of the chunk sees.
    pub visible: &'a [Range<usize>],
    /// One more logit for the softmax of each query head, `[n_head]`: its weight is dropped.
    pub sinks: Option<&'a [f32]>,
}

/// Queries of one key/value head for consecutive tokens of one sequence.
struct Block {
    tokens: Range<usize>,
    /// The query heads: all of the key/value head, or some.
    heads: Range<usize>,
    /// The key/value head.
    head: usize,
}

/// Softmax state of some queries: running maximum, sum, and weighted values `[queries][value_dim]`.
struct State {
    max: Vec<f32>,
    sum: Vec<f32>,
    values: Vec<f32>,
}

/// The positions that each token of a chunk sees in a layer.
pub fn visible(l: &LayerPlan, chunk: &[Entry]) -> Vec<Range<usize>> {
    // Of a text that is seen up to a token it does not matter where it ends.
    let ends = if l.mask.is_causal() { Vec::new() } else { ends(chunk) };
    let len = |seq: u32| ends.iter().find(|(of, _)| *of == seq as usize).map_or(0, |(_, end)| *end);
    chunk.iter().map(|e| l.visible(e.pos as usize, len(e.seq))).collect()
}

/// Computes `out[tokens][n_head][value_dim]`.
pub fn attend(a: &Attend, out: &mut [f32]) {
    let (l, n) = (a.plan(), a.plan().value_dim());
    let group = l.group();
    // As few parts as may be, as even as may be.
    let part = group.div_ceil(group.div_ceil(HEADS));
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < a.chunk.len() {
        let same = a.chunk[start..].iter().take_while(|e| e.seq == a.chunk[start].seq).count();
        let end = start + same.min((BLOCK / part).max(4));
        for head in 0..l.n_head_kv {
            let all = head * group..(head + 1) * group;
            let parts = all.clone().step_by(part).map(|first| first..(first + part).min(all.end));
            blocks.extend(parts.map(|heads| Block { tokens: start..end, heads, head }));
        }
        start = end;
    }
    // Few blocks (decode): splits in parallel. Many (prefill): blocks in parallel, splits in order.
    let states: Vec<State> = if blocks.len() < 2 * rayon::current_num_threads() {
        let parts: Vec<(usize, usize)> =
            blocks.iter().enumerate().flat_map(|(i, b)| a.splits(b).map(move |split| (i, split))).collect();
        let run = |&(i, split): &(usize, usize)| (i, a.split(&blocks[i], split));
        let parts: Vec<(usize, State)> = match parts.len() {
            1 => parts.iter().map(run).collect(),
            _ => parts.par_iter().map(run).collect(),
        };
        let mut states: Vec<Option<State>> = blocks.iter().map(|_| None).collect();
        for (i, part) in parts {
            merge(&mut states[i], part);
        }
        states.into_iter().flatten().collect()
    } else {
        let whole = |block: &Block| {
            let mut state = None;
            a.splits(block).for_each(|split| merge(&mut state, a.split(block, split)));
            state
        };
        blocks.par_iter().filter_map(whole).collect()
    };
    for (block, state) in blocks.iter().zip(states) {
        for (i, (values, sum)) in state.values.chunks_exact(n).zip(&state.sum).enumerate() {
            let width = block.heads.len();
            let (token, head) = (block.tokens.start + i / width, block.heads.start + i % width);
            let at = (token * l.n_head + head) * n;
            let (scale, sum) = match a.sinks {
                None => (1.0, *sum),
                Some(sinks) => {
                    let max = state.max[i].max(sinks[head]);
                    let scale = (state.max[i] - max).exp();
                    (scale, sum * scale + (sinks[head] - max).exp())
                }
            };
            for (o, v) in out[at..at + n].iter_mut().zip(values) {
                *o = v * scale / sum;
            }
        }
    }
}

impl<'a> Attend<'a> {
    fn plan(&self) -> &'a LayerPlan {
        &self.c.layers[self.il]
    }

    /// Positions that a token sees.
    fn visible(&self, token: usize) -> Range<usize> {
        self.visible[token].clone()
    }

    /// Splits that any query of a block sees.
    fn splits(&self, block: &Block) -> Range<usize> {
        let (first, last) = (self.visible(block.tokens.start), self.visible(block.tokens.end - 1));
        first.start / (SPLIT * PAGE)..(last.end - 1) / (SPLIT * PAGE) + 1
    }

    /// All pages of one split for all queries of a block.
    fn split(&self, block: &Block, split: usize) -> State {
        let (n, width) = (self.plan().value_dim(), block.heads.len());
        let queries = block.tokens.len() * width;
        let seq = self.chunk[block.tokens.start].seq as usize;
        let cached = self.plan().kv.layer(self.il);
        let q = self.scaled_queries(block);
        let mut state =
            State { max: vec![f32::NEG_INFINITY; queries], sum: vec![0.0; queries], values: vec![0.0; queries * n] };
        let k = self.plan().head_dim;
        let (mut page_data, mut scores) = (vec![0.0; k * PAGE], vec![0.0; queries * PAGE]);
        let mut turned = Vec::new();
        let first = self.visible(block.tokens.start).start / PAGE;
        let last = (self.visible(block.tokens.end - 1).end - 1) / PAGE;
        let latent = matches!(self.plan().kv, KvSource::Latent(_));
        let few = queries <= FEW && !latent;
        for page in first.max(split * SPLIT)..(last + 1).min((split + 1) * SPLIT) {
            let at = |page: usize| (seq, cached, page.min(last), block.head);
            let keys = self.kv.keys(at(page), few, &mut page_data);
            scores.fill(0.0);
            let next = self.kv.key_bytes(at(page + 1));
            Product { a: &q, stride: k, b: keys, k, n: PAGE, next }.add_to(&mut scores);
            if let Some(cap) = self.c.attention_softcap {
                scores.iter_mut().for_each(|s| *s = cap * (*s / cap).tanh());
            }
            let softmax = OnlineSoftmax {
                scores: scores.as_chunks_mut().0,
                visible: (&self.visible[block.tokens.clone()], width),
                start: page * PAGE,
                max: &mut state.max,
                sum: &mut state.sum,
                values: &mut state.values,
            };
            softmax.run();
            let (values, next) = if latent {
                turned.resize(n * PAGE, 0.0);
                simd::dispatch(Turn { rows: page_data[..n * PAGE].as_chunks().0, out: &mut turned });
                (Elements::F32(&turned), [].as_slice())
            } else {
                (self.kv.values(at(page), few, &mut page_data), self.kv.value_bytes(at(page + 1)))
            };
            // Slots that nobody has seen yet hold what an earlier sequence left there, finite or not.
            let written = (self.visible(block.tokens.end - 1).end - page * PAGE).min(PAGE);
            Product { a: &scores, stride: PAGE, b: values, k: written, n, next }.add_to(&mut state.values);
        }
        state
    }

    /// Queries of a block times the attention scale, `[tokens · heads][head_dim]`.
    fn scaled_queries(&self, block: &Block) -> Vec<f32> {
        let l = self.plan();
        let mut scaled = Vec::with_capacity(block.tokens.len() * block.heads.len() * l.head_dim);
        for t in block.tokens.clone() {
            let at = |head: usize| t * l.q_dim() + head * l.head_dim;
            scaled.extend(self.q[at(block.heads.start)..at(block.heads.end)].iter().map(|q| q * l.attention_scale));
        }
        scaled
    }
}

/// Keys `[dim][PAGE]` as values `[PAGE][dim]`, `dim` a multiple of 16. Square by square, so that a line that is written is not
/// left before it is full.
struct Turn<'a> {
    rows: &'a [[f32; PAGE]],
    out: &'a mut [f32],
}

impl simd::SimdKernel for Turn<'_> {
    #[inline(always)]
    fn run(self) {
        let width = self.rows.len();
        for (i, rows) in self.rows.as_chunks::<LANES>().0.iter().enumerate() {
            for slot in 0..PAGE {
                let line = &mut self.out[slot * width + i * LANES..][..LANES];
                for (o, row) in line.iter_mut().zip(rows) {
                    *o = row[slot];
                }
            }
        }
    }
}

/// Joins the state of a later split to what is there.
fn merge(state: &mut Option<State>, part: State) {
    let Some(s) = state else {
        *state = Some(part);
        return;
    };
    let n = s.values.len() / s.max.len();
    for i in 0..s.max.len() {
        let max = s.max[i].max(part.max[i]);
        if max == f32::NEG_INFINITY {
            continue;
        }
        let (a, b) = ((s.max[i] - max).exp(), (part.max[i] - max).exp());
        s.max[i] = max;
        s.sum[i] = s.sum[i] * a + part.sum[i] * b;
        for (x, y) in s.values[i * n..(i + 1) * n].iter_mut().zip(&part.values[i * n..]) {
            *x = *x * a + y * b;
        }
    }
}
