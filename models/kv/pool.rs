//! A fixed number of pages of one kind of layer, counted by who holds them.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Number of a page among those of its kind.
pub type PageId = u32;

/// Pages of one kind: free ones, and for the others the number of holders. Knows no bytes and no device.
#[derive(Debug)]
pub struct PagePool {
    total: usize,
    /// Those that were ever taken: ids are handed out lowest first, so memory can be taken when an id first comes up.
    pages: Vec<Page>,
    free: BinaryHeap<Reverse<PageId>>,
    evictable: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// Sequences that hold it, and one for the prefix cache.
    holders: u32,
    cached: bool,
}

impl PagePool {
    /// `total` free pages.
    pub fn new(total: usize) -> Self {
        Self { total, pages: Vec::new(), free: BinaryHeap::new(), evictable: 0 }
    }

    /// Number of pages, free or not.
    pub fn total(&self) -> usize {
        self.total
    }
    /// Pages that nobody holds.
    pub fn free(&self) -> usize {
        self.total - self.pages.len() + self.free.len()
    }
    /// Pages that the prefix cache alone holds.
    pub fn evictable(&self) -> usize {
        self.evictable
    }
    /// Ids below this were handed out at least once.
    pub fn ever_used(&self) -> usize {
        self.pages.len()
    }
    /// Who holds a page: sequences, and one for the prefix cache.
    pub fn holders(&self, id: PageId) -> u32 {
        self.pages[id as usize].holders
    }
    /// Whether the prefix cache holds a page.
    pub fn is_cached(&self, id: PageId) -> bool {
        self.pages[id as usize].cached
    }

    /// A free page, now held once.
    pub fn take(&mut self) -> Option<PageId> {
        let id = match self.free.pop() {
            Some(Reverse(id)) => id,
            None if self.pages.len() < self.total => {
                self.pages.push(Page::default());
                self.pages.len() as PageId - 1
            }
            None => return None,
        };
        self.hold(id);
        Some(id)
    }

    /// One more sequence holds a page.
    pub fn hold(&mut self, id: PageId) {
        self.change(id, |page| page.holders += 1);
    }
    /// One sequence less holds a page; it is free after the last.
    pub fn let_go(&mut self, id: PageId) {
        self.change(id, |page| page.holders -= 1);
    }
    /// The prefix cache holds a page, too.
    pub fn cache(&mut self, id: PageId) {
        self.change(id, |page| *page = Page { holders: page.holders + 1, cached: true });
    }
    /// The prefix cache no longer holds a page.
    pub fn uncache(&mut self, id: PageId) {
        self.change(id, |page| *page = Page { holders: page.holders - 1, cached: false });
    }

    fn change(&mut self, id: PageId, change: impl FnOnce(&mut Page)) {
        let page = &mut self.pages[id as usize];
        let evictable = |page: &Page| usize::from(page.cached && page.holders == 1);
        self.evictable -= evictable(page);
        change(page);
        self.evictable += evictable(page);
        if page.holders == 0 {
            self.free.push(Reverse(id));
        }
    }
}
