//! The prefix cache: which pages hold the keys and values of which tokens.
//!
//! A tree of blocks. A node is 64 tokens that follow those of its parents (fewer only in a leaf), and the page of each
//! kind of layer that holds them; a kind with a sliding window may have given its page up. Tokens are compared one by
//! one, so what is found is equal.
//!
//! A sequence that holds a page of a node holds those of its parents too (of the kinds that keep everything). So nodes
//! that no sequence uses have no children that one uses, and the least recently used leaf can always go.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    PAGE,
    pool::{PageId, PagePool},
};
use crate::Salt;

/// Index of the node that stands for no tokens, where there is no salt.
const ROOT: usize = 0;

/// Blocks of tokens whose pages are kept for sequences that begin alike.
#[derive(Debug)]
pub struct PrefixTree {
    nodes: Vec<Node>,
    /// The nodes that stand for no tokens of sequences with a salt; each has children.
    salted: BTreeMap<Arc<str>, usize>,
    /// Unused elements of `nodes`.
    vacant: Vec<usize>,
    clock: u64,
}

#[derive(Debug)]
pub(super) struct Node {
    pub tokens: Box<[u32]>,
    /// A page per kind. Empty: a root, or a vacant node.
    pub pages: Box<[Option<PageId>]>,
    parent: usize,
    pub children: Vec<usize>,
    last_use: u64,
}

impl Node {
    fn new(parent: usize, tokens: &[u32], pages: &[Option<PageId>]) -> Self {
        Self { tokens: tokens.into(), pages: pages.into(), parent, children: Vec::new(), last_use: 0 }
    }
    /// Whether a sequence can go on inside or behind this block: no kind has given its page up.
    pub fn is_complete(&self) -> bool {
        self.pages.iter().all(Option::is_some)
    }
    pub fn is_partial(&self) -> bool {
        self.tokens.len() < PAGE
    }
    fn is_root(&self) -> bool {
        self.pages.is_empty()
    }
}

impl Default for PrefixTree {
    fn default() -> Self {
        Self { nodes: vec![Node::new(ROOT, &[], &[])], salted: BTreeMap::new(), vacant: Vec::new(), clock: 0 }
    }
}

impl PrefixTree {
    pub(super) fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// The node that stands for no tokens; `None`: nothing is cached under this salt.
    pub(super) fn root(&self, salt: &Salt) -> Option<usize> {
        salt.as_ref().map_or(Some(ROOT), |salt| self.salted.get(salt).copied())
    }

    /// The same for one that adds to it, and prunes it afterwards.
    pub(super) fn root_for(&mut self, salt: &Salt) -> usize {
        self.root(salt).unwrap_or_else(|| {
            let at = self.place(Node::new(ROOT, &[], &[]));
            self.salted.extend(salt.clone().map(|salt| (salt, at)));
            at
        })
    }

    /// Drops the root of a salt that nothing is cached under.
    fn drop_root(&mut self, at: usize) {
        if at != ROOT && self.nodes[at].is_root() && self.nodes[at].children.is_empty() {
            let before = self.salted.len();
            self.salted.retain(|_, root| *root != at);
            if self.salted.len() < before {
                self.vacant.push(at);
            }
        }
    }

    fn place(&mut self, node: Node) -> usize {
        match self.vacant.pop() {
            Some(at) => {
                self.nodes[at] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }

    /// The child that is this whole block.
    pub(super) fn child(&self, at: usize, block: &[u32]) -> Option<usize> {
        self.nodes[at].children.iter().copied().find(|&child| *self.nodes[child].tokens == *block)
    }

    /// The nodes of the whole blocks that `tokens` begin with, from the first on.
    pub(super) fn path(&self, root: usize, tokens: &[u32]) -> Vec<usize> {
        let mut path = Vec::new();
        for block in tokens.chunks_exact(PAGE) {
            let Some(child) = self.child(path.last().copied().unwrap_or(root), block) else { break };
            path.push(child);
        }
        path
    }

    /// Blocks from the beginning to the end of a node.
    pub(super) fn depth(&self, mut at: usize) -> usize {
        let mut depth = 0;
        while !self.nodes[at].is_root() {
            (at, depth) = (self.nodes[at].parent, depth + 1);
        }
        depth
    }

    /// The child that begins with most tokens of `rest`, and how many these are, if any. Partial leaves first; `to_end`:
    /// only those of which `rest` has all tokens.
    pub(super) fn tail(&self, at: usize, rest: &[u32], to_end: bool) -> Option<(usize, usize)> {
        let shared = |child: usize| self.nodes[child].tokens.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let complete = self.nodes[at].children.iter().copied().filter(|&child| self.nodes[child].is_complete());
        let whole = |child: usize, n| self.nodes[child].is_partial() && n == self.nodes[child].tokens.len();
        let tails = complete.map(|child| (child, shared(child)));
        let tails = tails.filter(|&(child, n)| n > 0 && (!to_end || whole(child, n)));
        tails.max_by_key(|&(child, n)| (n, self.nodes[child].is_partial()))
    }

    /// Notes that nodes are used now.
    pub(super) fn touch(&mut self, nodes: &[usize]) {
        self.clock += 1;
        nodes.iter().for_each(|&at| self.nodes[at].last_use = self.clock);
    }

    /// Adds a child with these pages, which the tree holds from now on.
    pub(super) fn insert(
        &mut self,
        parent: usize,
        tokens: &[u32],
        pages: &[Option<PageId>],
        pools: &mut [PagePool],
    ) -> usize {
        let at = self.place(Node::new(parent, tokens, pages));
        self.nodes[parent].children.push(at);
        pages.iter().zip(&mut *pools).for_each(|(id, pool)| id.iter().for_each(|&id| pool.cache(id)));
        if self.nodes[at].is_complete() {
            // What it says in fewer tokens is said here.
            let shorter = |&child: &usize| {
                child != at && self.nodes[child].is_partial() && tokens.starts_with(&self.nodes[child].tokens)
            };
            let shorter: Vec<usize> = self.nodes[parent].children.iter().copied().filter(shorter).collect();
            shorter.into_iter().for_each(|child| self.remove(child, pools));
        }
        at
    }

    /// Gives a node the page that its kind had given up.
    pub(super) fn set_page(&mut self, at: usize, kind: usize, id: PageId, pool: &mut PagePool) {
        pool.cache(id);
        self.nodes[at].pages[kind] = Some(id);
    }

    /// Removes a node and all below it.
    pub(super) fn remove(&mut self, at: usize, pools: &mut [PagePool]) {
        let parent = self.nodes[at].parent;
        self.nodes[parent].children.retain(|&child| child != at);
        let mut below = vec![at];
        while let Some(at) = below.pop() {
            let node = std::mem::replace(&mut self.nodes[at], Node::new(ROOT, &[], &[]));
            node.pages.iter().zip(&mut *pools).for_each(|(id, pool)| id.iter().for_each(|&id| pool.uncache(id)));
            below.extend(node.children);
            self.vacant.push(at);
        }
        self.drop_root(parent);
    }

    /// Removes leaves from `at` upwards for as long as a sequence could not go on behind them.
    pub(super) fn prune(&mut self, mut at: usize, pools: &mut [PagePool]) {
        while self.nodes[at].children.is_empty() && !self.nodes[at].is_complete() {
            let parent = self.nodes[at].parent;
            self.remove(at, pools);
            at = parent;
        }
        self.drop_root(at);
    }

    /// Frees a page of a kind, the least recently used that no sequence holds: of a leaf, which goes with it, or where
    /// `slides` (the kind has a window) of any node. `false` if there is none.
    pub(super) fn evict(&mut self, kind: usize, slides: bool, pools: &mut [PagePool]) -> bool {
        let unused = |node: &Node| {
            let id = node.pages.get(kind).copied().flatten();
            id.is_some_and(|id| pools[kind].holders(id) == 1) && (slides || node.children.is_empty())
        };
        let oldest = self.nodes.iter().enumerate().filter(|(_, node)| unused(node)).min_by_key(|(_, n)| n.last_use);
        let Some((at, _)) = oldest else { return false };
        let parent = self.nodes[at].parent;
        if slides {
            let id = self.nodes[at].pages[kind].take();
            id.iter().for_each(|&id| pools[kind].uncache(id));
            self.prune(at, pools);
        } else {
            self.remove(at, pools);
            self.prune(parent, pools);
        }
        true
    }

    /// Removes the node that holds a page, and all below it.
    pub(super) fn remove_holder(&mut self, kind: usize, id: PageId, pools: &mut [PagePool]) {
        let holder = self.nodes.iter().position(|node| node.pages.get(kind) == Some(&Some(id)));
        holder.into_iter().for_each(|at| self.remove(at, pools));
    }

    /// Removes what does not begin as `keep` does, or goes on beyond it, and all that has a salt.
    pub(super) fn forget(&mut self, keep: &[u32], pools: &mut [PagePool]) {
        let salted: Vec<usize> = self.salted.values().flat_map(|&root| self.nodes[root].children.clone()).collect();
        salted.into_iter().for_each(|at| self.remove(at, pools));
        let (mut at, mut rest) = (ROOT, keep);
        loop {
            let goes = |&child: &usize| !rest.starts_with(&self.nodes[child].tokens);
            let gone: Vec<usize> = self.nodes[at].children.iter().copied().filter(goes).collect();
            gone.into_iter().for_each(|child| self.remove(child, pools));
            let Some(next) = rest.get(..PAGE).and_then(|block| self.child(at, block)) else { break };
            (at, rest) = (next, &rest[PAGE..]);
        }
        self.prune(at, pools);
    }

    /// Removes the end of these tokens, and what leads to nothing else.
    pub(super) fn erase(&mut self, salt: &Salt, tokens: &[u32], pools: &mut [PagePool]) {
        let Some(root) = self.root(salt) else { return };
        let path = self.path(root, tokens);
        let (at, rest) = (path.last().copied().unwrap_or(root), &tokens[PAGE * path.len()..]);
        let gone = |&child: &usize| self.nodes[child].is_partial() && rest.starts_with(&self.nodes[child].tokens);
        let gone: Vec<usize> = self.nodes[at].children.iter().copied().filter(gone).collect();
        gone.into_iter().for_each(|child| self.remove(child, pools));
        for at in path.into_iter().rev() {
            if !self.nodes[at].children.is_empty() {
                break;
            }
            self.remove(at, pools);
        }
    }

    /// Every page that the tree holds, as (kind, id).
    #[cfg(test)]
    pub(super) fn pages(&self) -> impl Iterator<Item = (usize, PageId)> + '_ {
        self.nodes.iter().flat_map(|n| n.pages.iter().enumerate().filter_map(|(kind, id)| Some((kind, (*id)?))))
    }
}
