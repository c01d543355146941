//! Finds entries of a list by name.

/// The places of a list's entries in the order of their names.
#[derive(Debug, Clone, Default)]
pub struct Index(Vec<u32>);

impl Index {
    /// Indexes `entries` by their names.
    ///
    /// # Errors
    /// A name that two entries have.
    pub fn new<T>(entries: &[T], name: impl Fn(&T) -> &String) -> Result<Self, &String> {
        let mut order: Vec<u32> = (0..entries.len() as u32).collect();
        order.sort_unstable_by_key(|&i| name(&entries[i as usize]));
        let mut pairs = order.windows(2).map(|p| [name(&entries[p[0] as usize]), name(&entries[p[1] as usize])]);
        match pairs.find(|[a, b]| a == b) {
            Some([twice, _]) => Err(twice),
            None => Ok(Self(order)),
        }
    }

    /// The entry of this name in the list that was indexed.
    pub fn find<'a, T>(&self, entries: &'a [T], name: impl Fn(&T) -> &String, wanted: &str) -> Option<&'a T> {
        let found = self.0.binary_search_by(|&i| name(&entries[i as usize]).as_str().cmp(wanted));
        found.ok().map(|at| &entries[self.0[at] as usize])
    }
}
