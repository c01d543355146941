//! Which requests begin, with how much of their prompts, and who computes what several begin with.
//!
//! Where a waiting request begins as a running one whose prompt is not computed so far, it waits until it is, and the
//! other one's chunk ends where the two part: there the one that waited goes on with the same pages, and the prefix cache
//! gets a place at which later ones can, windows included. So what many begin with is computed once.

use qrun_models::kv::PAGE;

use super::{Scheduler, Watch};
use crate::generate::{
    Event, Finish,
    plan::{self, Candidate},
    sequence::Sequence,
};

impl Scheduler {
    /// Gives free sequences to waiting requests.
    pub(super) fn join(&mut self, watch: Watch) {
        while let Some(free) = self.running.iter().position(Option::is_none) {
            let Some(next) = self.next() else { return };
            let Some(mut sequence) = self.waiting.remove(next) else { return };
            let seq = sequence.request.slot.filter(|&slot| self.is_free(slot)).unwrap_or(free);
            self.waiting.iter_mut().take(next).for_each(|older| older.passed += 1);
            let begins = sequence.begins();
            let held = self.fill(seq, &mut sequence);
            if begins {
                self.stats.tokens_in += sequence.request.prompt.len() as u64;
                self.stats.prefix_queries += sequence.request.prompt.len() as u64;
                self.stats.prefix_hits += held as u64;
            }
            sequence.begin(seq, held);
            if let Some(sampling) = sequence.sampling()
                && let Err(error) = self.forward.set_sampling(seq as u32, &sampling)
            {
                self.running[seq] = Some(sequence);
                if self.fail(&error) {
                    continue;
                }
                return;
            }
            let (id, total, fresh) = (sequence.id, sequence.request.prompt.len(), !sequence.has_answer());
            self.running[seq] = Some(sequence);
            if fresh && watch(id, Event::Prompt { done: held.min(total), total, slot: seq }).is_break() {
                self.finish(seq, Finish::Interrupted, watch);
            }
        }
    }

    /// Fills a sequence with what others have computed of the same tokens, all but the last; says how much that is.
    fn fill(&mut self, seq: usize, sequence: &mut Sequence) -> usize {
        let id = seq as u32;
        sequence.branch = 0;
        self.forward.set_salt(id, &sequence.request.salt);
        if sequence.request.fresh {
            self.forward.release(id, &[]);
            return 0;
        }
        let tokens = &sequence.tokens[..sequence.tokens.len() - 1];
        let cached = self.forward.cached(&sequence.request.salt, tokens);
        let twin = self.twin(sequence).filter(|&(_, n)| n > cached.held as usize);
        let forked = twin.map_or(0, |(from, n)| self.forward.fork(from as u32, id, n as u32));
        let held = if forked > 0 { forked } else { self.forward.attach(id, tokens) };
        if cached.known > held {
            sequence.branch = cached.known as usize;
        }
        held as usize
    }

    /// The running sequence that holds most of what another one begins with, all but its last token, and how many tokens
    /// these are.
    fn twin(&self, other: &Sequence) -> Option<(usize, usize)> {
        let tokens = &other.tokens[..other.tokens.len() - 1];
        let of = |(seq, s): (usize, &Option<Sequence>)| {
            let s = s.as_ref().filter(|s| !s.request.fresh && s.request.salt == other.request.salt)?;
            Some((seq, common(&s.tokens[..s.held], tokens))).filter(|(_, n)| *n > 0)
        };
        self.running.iter().enumerate().filter_map(of).max_by_key(|(_, n)| *n)
    }

    /// Which waiting request is next.
    fn next(&self) -> Option<usize> {
        let decodes = self.running.iter().flatten().filter(|s| s.decodes()).count();
        plan::admit(self.waiting.iter().map(|s| self.candidate(s)), self.budget().of_prompts(decodes))
    }

    fn candidate(&self, s: &Sequence) -> Candidate {
        let tokens = &s.tokens[..s.tokens.len() - 1];
        let (mut cached, mut shared) = (0, 0);
        if !s.request.fresh {
            shared = self.twin(s).map_or(0, |(_, n)| n);
            cached = shared.max(self.forward.cached(&s.request.salt, tokens).held as usize);
        }
        let (pages, others) = (self.forward.pages(), self.running.iter().flatten().count());
        // Those that running sequences hold need not be free. Each of these may want one more.
        let needed = s.tokens.len() / PAGE - shared / PAGE + 1 + others;
        Candidate {
            rest: s.tokens.len() - cached,
            busy: s.request.slot.and_then(|slot| self.running.get(slot)).is_some_and(Option::is_some),
            held_back: self.running.iter().flatten().any(|r| self.parting(r, s).is_some()),
            fits: others == 0 || needed <= pages.free.saturating_add(pages.evictable),
            passed: s.passed,
        }
    }

    /// Where a waiting request parts from a running one, if it is worth waiting for the other to come there: that saves a
    /// page, or all but its last token.
    fn parting(&self, running: &Sequence, waiting: &Sequence) -> Option<usize> {
        let apart = running.request.fresh || waiting.request.fresh || running.request.salt != waiting.request.salt;
        if apart || running.decodes() {
            return None;
        }
        let tokens = &waiting.tokens[..waiting.tokens.len() - 1];
        let at = common(&running.tokens, tokens);
        if at <= running.held || (at < PAGE && at < tokens.len()) {
            return None;
        }
        (at == tokens.len() || at >= self.forward.cached(&waiting.request.salt, tokens).held as usize + PAGE)
            .then_some(at)
    }

    /// Ends the chunks of prompts where others wait for what is computed there, where the prefix cache has missed a
    /// window, and where others are likely to go on.
    pub(super) fn cut(&mut self) {
        for seq in 0..self.running.len() {
            let Some(s) = self.running[seq].as_ref() else { continue };
            let partings = self.waiting.iter().filter_map(|waiting| self.parting(s, waiting));
            // Whole pages are kept, and of who leaves nothing none.
            let mark = if s.request.fresh { 0 } else { s.request.mark / PAGE * PAGE };
            let cut = partings.chain([s.branch, mark].into_iter().filter(|&at| at > s.held)).min().unwrap_or(0);
            self.running[seq].iter_mut().for_each(|s| s.cut = cut);
        }
    }
}

/// How many tokens two lists begin with in common.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
