//! The draft head: a block with attention that guesses how a text goes on.
//!
//! At each position it takes the token there and the hidden state before it, so that its cache depends on the same tokens as
//! those of the layers, and lies in the same pages. A step leaves its keys and values there, and the last hidden state as the
//! state of a recurrent layer. A draft goes on from these: its first guess with the model's hidden state, further ones with
//! the draft head's own.

use super::{
    CpuDecoder, ops,
    step::{Step, project, tap},
};
use crate::{
    DraftRequest, Entry, Output,
    forward::likeliest,
    tensors::Role::{AttnK, AttnNorm, AttnV},
    weights::DraftHead,
};

impl Step<'_> {
    /// Keeps the hidden states of all tokens of the chunk, as the model's head takes them, where there is a draft head.
    pub(super) fn keep_hidden(&mut self) {
        if self.weights.draft_head.is_some() {
            self.norm_output(None);
            self.s.hidden.clone_from(&self.s.h);
        }
    }

    /// Keys and values of the draft head for all tokens of the chunk.
    pub(super) fn feed_draft_head(&mut self) {
        let Some(head) = &self.weights.draft_head else { return };
        let (n, il) = (self.model.config.n_embd, self.weights.layers.len());
        self.s.before.resize(self.s.hidden.len(), 0.0);
        for run in self.runs() {
            let (state, s) = (self.kv.state(run.seq, il, run.pos), &mut *self.s);
            let of_run = run.tokens.start * n..run.tokens.end * n;
            let (hidden, before) = (&s.hidden[of_run.clone()], &mut s.before[of_run]);
            before[..n].copy_from_slice(state);
            before[n..].copy_from_slice(&hidden[..hidden.len() - n]);
            state.copy_from_slice(&hidden[hidden.len() - n..]);
        }
        self.join_hidden(head);
        self.norm(&head.block, AttnNorm);
        let (l, s) = (&self.model.config.layers[il + 1], &mut *self.s);
        s.k.resize(self.chunk.len() * l.kv_dim(), 0.0);
        s.v.resize(self.chunk.len() * l.kv_dim(), 0.0);
        let matrices = &head.block.matrices;
        project(&mut s.prepared, &s.h, [(&matrices[AttnK], &mut s.k), (&matrices[AttnV], &mut s.v)]);
        self.keys_and_values(il + 1, &head.block);
    }

    /// What the block takes: the tokens of the chunk, and the hidden states before them.
    fn join_hidden(&mut self, head: &DraftHead) {
        let (c, s) = (&self.model.config, &mut *self.s);
        let n = c.n_embd;
        s.h.resize(self.chunk.len() * n, 0.0);
        let embedding = head.token_embd.as_ref().unwrap_or(&self.weights.token_embd);
        for (e, row) in self.chunk.iter().zip(s.h.chunks_exact_mut(n)) {
            embedding.row(e.token as usize, row);
            ops::scale(row, c.embedding_scale);
        }
        ops::rms_norm_in_place(&mut s.h, &head.e_norm, c.norm_eps);
        ops::rms_norm_in_place(&mut s.before, &head.h_norm, c.norm_eps);
        s.up.clear();
        for (embedding, hidden) in s.h.chunks_exact(n).zip(s.before.chunks_exact(n)) {
            s.up.extend_from_slice(embedding);
            s.up.extend_from_slice(hidden);
        }
        s.x.resize(self.chunk.len() * n, 0.0);
        project(&mut s.prepared, &s.up, [(&head.eh_proj, &mut s.x)]);
    }

    /// The logits behind each token of the chunk, `[tokens][n_vocab]`. `before` of the scratch holds the hidden states before
    /// them, and `hidden` afterwards those of the draft head.
    fn guess(&mut self, head: &DraftHead, logits: &mut Vec<f32>) {
        self.rope.set_positions(self.chunk);
        self.join_hidden(head);
        // Nobody cancels a draft.
        if self.layer(self.weights.layers.len() + 1, &head.block).is_ok() {
            self.norm_output(head.norm.as_deref());
            self.s.hidden.clone_from(&self.s.h);
            self.unembed(head.output.as_ref().or(self.weights.output.as_ref()), logits);
            tap(self.tap, None, "draft_output", logits);
        }
    }
}

impl CpuDecoder {
    /// See [`crate::Forward::draft`].
    pub(super) fn guess_further(&mut self, wanted: &[DraftRequest], least: f32) -> Vec<Vec<u32>> {
        let mut drafts = vec![Vec::new(); wanted.len()];
        let Self { model, options, pool, kv, rope, scratch, tap: taps, .. } = self;
        let Some(head) = &model.weights.draft_head else { return drafts };
        let (n_vocab, n, il) = (model.config.n_vocab, model.config.n_embd, model.weights.layers.len());
        let mut logits = Vec::new();
        // By request, the next token of those that go on.
        let mut rows: Vec<(usize, Entry)> = Vec::new();
        scratch.hidden.clear();
        for (i, request) in wanted.iter().enumerate() {
            let (seq, pos) = (request.seq as usize, kv.tables().len(request.seq as usize));
            let fits = pos + request.most <= options.n_ctx && pos > 0;
            if request.most > 0 && fits && kv.reserve_beyond(seq, request.most) {
                scratch.hidden.extend_from_slice(kv.state(seq, il, pos));
                let (token, pos, seq) = (request.token, pos as u32, request.seq);
                rows.push((i, Entry { token, pos, seq, output: Output::Logits, drafted: true }));
            }
        }
        while !rows.is_empty() {
            let chunk: Vec<Entry> = rows.iter().map(|(_, entry)| *entry).collect();
            std::mem::swap(&mut scratch.before, &mut scratch.hidden);
            logits.clear();
            let (weights, gives, cancelled) = (&model.weights, options.gives, &|| false);
            let s = &mut *scratch;
            let mut step = Step { model, weights, gives, kv, rope, s, chunk: &chunk, tap: taps, cancelled };
            pool.install(|| step.guess(head, &mut logits));
            let (mut row, mut at) = (0, 0);
            rows.retain_mut(|(i, entry)| {
                let token = likeliest(&logits[row * n_vocab..][..n_vocab], least);
                row += 1;
                drafts[*i].extend(token);
                let Some(token) = token.filter(|_| drafts[*i].len() < wanted[*i].most) else { return false };
                scratch.hidden.copy_within((row - 1) * n..row * n, at * n);
                at += 1;
                (entry.token, entry.pos) = (token, entry.pos + 1);
                true
            });
            scratch.hidden.truncate(at * n);
        }
        drafts
    }
}
