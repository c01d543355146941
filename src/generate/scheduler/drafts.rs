//! Guesses before a step, and what is kept of them after it.

use super::Scheduler;
use crate::generate::Wanted;

impl Scheduler {
    /// Asks for guesses of what follows in the sequences that decode.
    pub(super) fn draft(&mut self) {
        let (n_ctx, n_draft) = (self.forward.n_ctx(), self.forward.n_draft());
        let Some(drafter) = self.drafter.as_mut().filter(|_| n_draft > 0) else { return };
        let sequences = self.running.iter().enumerate().filter_map(|(seq, s)| Some((seq, s.as_ref()?)));
        let wanted = sequences.map(|(seq, s)| {
            let seq = seq as u32;
            // Where the decoder samples from masks it has one of the next token, and none of those behind guesses.
            let masked = self.forward.wants_mask(seq);
            let most = if masked { 0 } else { s.room_for_drafts(n_ctx).min(n_draft) };
            Wanted { seq, tokens: &s.tokens, most }
        });
        let wanted: Vec<Wanted> = wanted.filter(|wanted| wanted.most > 0).collect();
        let most: Vec<(usize, usize)> = wanted.iter().map(|wanted| (wanted.seq as usize, wanted.most)).collect();
        let drafts = drafter.draft(&mut *self.forward, &wanted);
        for ((seq, most), mut draft) in most.into_iter().zip(drafts) {
            draft.truncate(most);
            self.running[seq].iter_mut().for_each(|s| s.draft = std::mem::take(&mut draft));
        }
    }

    /// Leaves out what was guessed; `false` where nothing was.
    pub(super) fn forget_drafts(&mut self) -> bool {
        let drafts = self.running.iter_mut().flatten().map(|s| std::mem::take(&mut s.draft));
        drafts.filter(|draft| !draft.is_empty()).count() > 0
    }

    /// Tells the decoder which guesses of the last step were right; `before` is what the cache held of each sequence.
    pub(super) fn accept(&mut self, before: &[usize]) {
        for (seq, sequence) in self.running.iter_mut().enumerate() {
            let Some(s) = sequence.as_mut().filter(|s| !s.draft.is_empty()) else { continue };
            let (drafted, accepted) = (s.draft.len(), s.held - before[seq] - 1);
            self.forward.accept(seq as u32, accepted);
            s.draft.clear();
            s.timings.draft_n += drafted;
            s.timings.draft_n_accepted += accepted;
            self.stats.drafts += 1;
            self.stats.drafted += drafted as u64;
            self.stats.accepted += accepted as u64;
        }
    }
}
