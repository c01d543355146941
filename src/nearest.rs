//! The name that was probably meant by a word that is none.

/// The name nearest to a word, if one is near enough to be meant; `bare` takes off what does not count.
pub fn of<'a>(names: impl Iterator<Item = &'a str>, word: &str, bare: impl Fn(&str) -> &str) -> Option<&'a str> {
    let word = bare(word);
    let (best, far) = names.map(|n| (n, edits(word, bare(n)))).min_by_key(|n| n.1)?;
    (far <= 1 + word.chars().count() / 3).then_some(best)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(row[j - 1] + 1).min(rows[i - 1][j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
