//! Sequences that take over, share and leave pages: what [`PageTables`] does with the prefix cache.

use super::{
    PAGE,
    pool::{PageId, PagePool},
    sequence::Sequence,
    tables::{PageCopy, PageTables},
};
use crate::{Cached, Salt};

/// What a sequence may take over: whole blocks, and the first tokens of one more.
struct Found {
    path: Vec<usize>,
    /// A node, and how many of its tokens.
    tail: Option<(usize, usize)>,
}

impl Found {
    fn len(&self) -> usize {
        PAGE * self.path.len() + self.tail.map_or(0, |(_, n)| n)
    }
}

impl PageTables {
    /// Empties a sequence and gives it the pages of as many of `tokens` as the prefix cache knows, to the token. Returns
    /// how many tokens it then has, and the copies that the storage has to make.
    ///
    /// Whole blocks are shared. A partial leaf that agrees to its end becomes the sequence's own; any other last block
    /// is copied up to where it agrees, or, where no page is left for that, moved (a partial leaf) or left out.
    pub fn attach(&mut self, seq: usize, tokens: &[u32]) -> (usize, Vec<PageCopy>) {
        self.rewind(seq, 0);
        let salt = self.sequences[seq].salt.clone();
        let mut found = self.find(&salt, tokens, true);
        let mut copied = false;
        if let Some((node, n)) = found.tail {
            let (partial, all) = (self.tree.node(node).is_partial(), n == self.tree.node(node).tokens.len());
            copied = !(partial && all) && self.has_room_beside(&found);
            if !copied && !partial {
                found = self.find(&salt, tokens, false);
            }
        }
        let len = found.len();
        if len == 0 {
            return (0, Vec::new());
        }
        self.take_over(seq, &found.path, len);
        self.tree.touch(&found.path);
        let mut copies = Vec::new();
        if let Some((node, _)) = found.tail {
            self.tree.touch(&[node]);
            copies = self.take_tail(seq, node, copied);
        }
        self.commit(seq, len);
        (len, copies)
    }

    /// The salt of what a sequence finds in the prefix cache and leaves there from now on.
    pub fn set_salt(&mut self, seq: usize, salt: &Salt) {
        self.sequences[seq].salt.clone_from(salt);
    }

    /// What [`PageTables::attach`] would find of `tokens`.
    pub fn cached(&self, salt: &Salt, tokens: &[u32]) -> Cached {
        let known = self.tree.root(salt).map_or(0, |root| PAGE * self.tree.path(root, tokens).len());
        Cached { held: self.find(salt, tokens, true).len() as u32, known: known as u32 }
    }

    /// Empties sequence `to` and gives it the first `len` tokens of `from`. All pages are shared, the last one too:
    /// [`PageTables::reserve`] copies it for whoever writes there first. Returns `len`, or 0 where `from` does not hold
    /// so many, a window has let go of a page that position `len` would look at, or a recurrent layer has no state there.
    pub fn fork(&mut self, from: usize, to: usize, len: usize) -> usize {
        if from == to || len > self.len(from) || self.goes_on_at(from, len) != len || !self.sees_from(from, len) {
            return self.rewind(to, 0);
        }
        self.rewind(to, 0);
        self.sequences[to].salt = self.sequences[from].salt.clone();
        for (k, kind) in self.kinds.iter().enumerate() {
            let source = &self.sequences[from].tables[k];
            let first = source.first.max(kind.first_kept(len));
            let pages: Vec<PageId> = (first..len.div_ceil(PAGE)).filter_map(|block| source.get(block)).collect();
            pages.iter().for_each(|&id| self.pools[k].hold(id));
            let table = &mut self.sequences[to].tables[k];
            (table.first, table.pages) = (first, pages.into());
        }
        self.commit(to, len);
        len
    }

    /// The longest beginning of `tokens` behind which a sequence can go on: its last blocks have the pages that windows
    /// look back at.
    fn find(&self, salt: &Salt, tokens: &[u32], tails: bool) -> Found {
        let Some(root) = self.tree.root(salt) else { return Found { path: Vec::new(), tail: None } };
        let mut path = self.tree.path(root, tokens);
        loop {
            let at = path.last().copied().unwrap_or(root);
            let tail = self.tree.tail(at, &tokens[PAGE * path.len()..], self.has_states()).filter(|_| tails);
            for tail in [tail, None] {
                let found = Found { path: path.clone(), tail };
                if self.has_windows(&found) {
                    return found;
                }
            }
            path.pop();
        }
    }

    fn has_windows(&self, found: &Found) -> bool {
        self.kinds.iter().enumerate().all(|(k, kind)| {
            let seen = kind.oldest_seen(found.len()) / PAGE;
            found.path.iter().skip(seen).all(|&node| self.tree.node(node).pages[k].is_some())
        })
    }

    /// Whether a page of each kind is left once a sequence holds what was found.
    fn has_room_beside(&self, found: &Found) -> bool {
        self.kinds.iter().enumerate().all(|(k, kind)| {
            let nodes = found.path.iter().copied().skip(kind.oldest_seen(found.len()) / PAGE);
            let pages = nodes.chain(found.tail.map(|(node, _)| node)).filter_map(|node| self.tree.node(node).pages[k]);
            self.available(k) > pages.filter(|&id| self.pools[k].holders(id) == 1).count()
        })
    }

    /// Shares the pages of whole blocks that a sequence of `len` tokens looks back at.
    fn take_over(&mut self, seq: usize, path: &[usize], len: usize) {
        for (k, kind) in self.kinds.iter().enumerate() {
            let first = (kind.oldest_seen(len) / PAGE).min(path.len());
            let pages: Vec<PageId> = path[first..].iter().filter_map(|&node| self.tree.node(node).pages[k]).collect();
            pages.iter().for_each(|&id| self.pools[k].hold(id));
            let table = &mut self.sequences[seq].tables[k];
            (table.first, table.pages) = (first, pages.into());
        }
    }

    /// Makes a node's pages the sequence's last ones: copies of them, or they themselves, which the tree gives up.
    fn take_tail(&mut self, seq: usize, node: usize, copied: bool) -> Vec<PageCopy> {
        let pages: Vec<PageId> = self.tree.node(node).pages.iter().copied().flatten().collect();
        // Held while others are taken, so that none of them is evicted.
        pages.iter().zip(&mut self.pools).for_each(|(&id, pool)| pool.hold(id));
        let mut copies = Vec::new();
        for (kind, &from) in pages.iter().enumerate() {
            let own = if copied {
                let to = self.take(kind).expect("counted");
                self.pools[kind].let_go(from);
                copies.push(PageCopy { kind, from, to });
                to
            } else {
                from
            };
            self.sequences[seq].tables[kind].pages.push_back(own);
        }
        if !copied {
            self.tree.remove(node, &mut self.pools);
        }
        copies
    }

    /// Shares the whole blocks of a sequence with the prefix cache while it goes on. `tokens` are those it holds. Where
    /// the cache knows a block already the sequence takes over its page and returns its own.
    pub fn share(&mut self, seq: usize, tokens: &[u32]) {
        let n = tokens.len().min(self.len(seq));
        let last = self.add_blocks(seq, &tokens[..n]);
        self.tree.prune(last, &mut self.pools);
    }

    /// Leaves the pages of a sequence to the prefix cache, the partly filled last one too, and empties it. `tokens` are
    /// those it holds; fewer leave only the beginning.
    pub fn release(&mut self, seq: usize, tokens: &[u32]) {
        let tokens = &tokens[..self.goes_on_at(seq, tokens.len().min(self.len(seq)))];
        let last = self.add_blocks(seq, tokens);
        let rest = tokens.as_chunks::<PAGE>().1;
        let whole = self.tree.depth(last) == tokens.len() / PAGE;
        match (self.tree.tail(last, rest, false), self.uncached(seq, tokens.len() / PAGE)) {
            (Some((node, n)), _) if n == rest.len() => self.tree.touch(&[node]),
            (_, Some(pages)) if whole && !rest.is_empty() && pages.iter().all(Option::is_some) => {
                let leaf = self.tree.insert(last, rest, &pages, &mut self.pools);
                self.tree.touch(&[leaf]);
            }
            _ => (),
        }
        self.rewind(seq, 0);
        self.tree.prune(last, &mut self.pools);
    }

    /// Drops from the prefix cache what does not begin as `keep` does, or goes on beyond it, and all that has a salt.
    pub fn forget(&mut self, keep: &[u32]) {
        self.tree.forget(keep, &mut self.pools);
    }

    /// Drops from the prefix cache the end of these tokens, as far back as nothing else begins like that.
    pub fn erase(&mut self, salt: &Salt, tokens: &[u32]) {
        self.tree.erase(salt, tokens, &mut self.pools);
    }

    /// Puts the whole blocks of a sequence into the tree; returns the node of the last one.
    fn add_blocks(&mut self, seq: usize, tokens: &[u32]) -> usize {
        let root = self.tree.root_for(&self.sequences[seq].salt);
        let mut path = Vec::new();
        for (block, tokens) in tokens.as_chunks::<PAGE>().0.iter().enumerate() {
            let at = path.last().copied().unwrap_or(root);
            let node = match (self.tree.child(at, tokens), self.uncached(seq, block)) {
                (Some(node), _) => {
                    self.join(seq, block, node);
                    node
                }
                (None, Some(pages)) => self.tree.insert(at, tokens, &pages, &mut self.pools),
                (None, None) => break,
            };
            path.push(node);
        }
        self.tree.touch(&path);
        path.last().copied().unwrap_or(root)
    }

    /// A sequence and a node with the same tokens: where both have a page the sequence takes the node's, and so do those
    /// that were forked from it, for who holds a page of a node is to hold those of its parents.
    fn join(&mut self, seq: usize, block: usize, node: usize) {
        for kind in 0..self.kinds.len() {
            let Some(own) = self.sequences[seq].tables[kind].get(block) else { continue };
            match self.tree.node(node).pages[kind] {
                Some(id) if id == own => (),
                Some(id) => {
                    let alike = |s: &&mut Sequence| s.tables[kind].get(block) == Some(own);
                    for sequence in self.sequences.iter_mut().filter(alike) {
                        let table = &mut sequence.tables[kind];
                        table.pages[block - table.first] = id;
                        sequence.changes += 1;
                        self.pools[kind].hold(id);
                        self.pools[kind].let_go(own);
                    }
                }
                None if self.pools[kind].is_cached(own) => (),
                None => self.tree.set_page(node, kind, own, &mut self.pools[kind]),
            }
        }
    }

    /// The pages of a block of a sequence, unless the tree holds one of them: for other tokens, or more of them.
    fn uncached(&self, seq: usize, block: usize) -> Option<Vec<Option<PageId>>> {
        let pages: Vec<_> = self.sequences[seq].tables.iter().map(|table| table.get(block)).collect();
        let cached = |(id, pool): (&Option<PageId>, &PagePool)| id.is_some_and(|id| pool.is_cached(id));
        (!pages.iter().zip(&self.pools).any(cached)).then_some(pages)
    }
}
