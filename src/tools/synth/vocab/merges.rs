//! Byte-pair merges, learnt word by word.

use rustc_hash::FxHashMap;

use super::words;

/// Pieces and the rules that make them.
pub struct Merges {
    /// The alphabet, then merged pieces in the order in which they were learnt.
    pub pieces: Vec<String>,
    /// Rules by rank: which two pieces become one.
    pub rules: Vec<(u32, u32)>,
    ids: FxHashMap<String, u32>,
    ranks: FxHashMap<(u32, u32), u32>,
    limit: usize,
}

impl Merges {
    /// An alphabet without rules; rules are learnt until there are `limit` pieces.
    pub fn new(alphabet: &[char], limit: usize) -> Self {
        let pieces: Vec<String> = alphabet.iter().take(limit).map(char::to_string).collect();
        let ids = pieces.iter().enumerate().map(|(i, p)| (p.clone(), i as u32)).collect();
        Self { pieces, rules: Vec::new(), ids, ranks: FxHashMap::default(), limit }
    }

    /// Learns `c` 2 to 16 times over.
    pub fn learn_runs(&mut self, c: char) {
        (2..=16).for_each(|n| self.word(&c.to_string().repeat(n)));
    }

    /// Learns every character behind the mark that opens a word.
    pub fn learn_beginnings(&mut self, mark: char) {
        let characters: Vec<String> = self.pieces.iter().filter(|p| !p.starts_with(mark)).cloned().collect();
        characters.iter().for_each(|character| self.word(&format!("{mark}{character}")));
    }

    /// Learns words, with and without the `space` that opens one, until the limit is reached.
    pub fn learn_words(&mut self, space: char) {
        let common = || words::COMMON.iter().flat_map(|line| line.split(' '));
        let capitals = common().map(|w| w[..1].to_ascii_uppercase() + &w[1..]);
        for word in common().map(str::to_owned).chain(capitals) {
            self.word(&format!("{space}{word}"));
            self.word(&word);
        }
        for letters in 1..=4 {
            self.combinations(letters, space);
        }
    }

    /// All words of so many letters, those of frequent letters first.
    fn combinations(&mut self, letters: u32, space: char) {
        let alphabet = words::LETTERS.len();
        for sum in 0..=letters as usize * (alphabet - 1) {
            // All but the last letter are free; the last one makes the sum.
            for free in 0..alphabet.pow(letters - 1) {
                if self.pieces.len() >= self.limit {
                    return;
                }
                let digits = (0..letters - 1).map(|place| free / alphabet.pow(place) % alphabet);
                let used: usize = digits.clone().sum();
                let Some(last) = sum.checked_sub(used).filter(|&l| l < alphabet) else { continue };
                let word: String = digits.chain([last]).map(|d| words::LETTERS[d] as char).collect();
                self.word(&format!("{space}{word}"));
                self.word(&word);
            }
        }
    }

    /// Makes `word` a piece: merges it by the rules there are, then joins what is left from the left.
    /// New rules rank below all others, so they never keep an older piece from being made.
    fn word(&mut self, word: &str) {
        let mut parts = Vec::with_capacity(word.len());
        for c in word.chars() {
            let Some(&id) = self.ids.get(c.encode_utf8(&mut [0; 4]) as &str) else { return };
            parts.push(id);
        }
        while let Some((_, at)) =
            (1..parts.len()).filter_map(|i| self.ranks.get(&(parts[i - 1], parts[i])).map(|&rank| (rank, i))).min()
        {
            self.merge(&mut parts, at);
        }
        while parts.len() > 1 && self.pieces.len() < self.limit {
            self.ranks.insert((parts[0], parts[1]), self.rules.len() as u32);
            self.rules.push((parts[0], parts[1]));
            self.merge(&mut parts, 1);
        }
    }

    /// Replaces `parts[at - 1]` and `parts[at]` by their piece.
    fn merge(&mut self, parts: &mut Vec<u32>, at: usize) {
        let right = parts.remove(at) as usize;
        let text = format!("{}{}", self.pieces[parts[at - 1] as usize], self.pieces[right]);
        let next = self.pieces.len() as u32;
        parts[at - 1] = *self.ids.entry(text).or_insert_with_key(|text| {
            self.pieces.push(text.clone());
            next
        });
    }
}

/// The printable characters that stand for the 256 bytes in byte-level BPE, in the order of their ids.
pub fn byte_alphabet() -> Vec<char> {
    let printable = |b: &u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let shown = (0..256).filter(printable).filter_map(char::from_u32);
    // The others, in order of their bytes, are the characters from U+0100 on.
    let hidden = (0..256u32).filter(|b| !printable(b)).count() as u32;
    shown.chain((0x100..0x100 + hidden).filter_map(char::from_u32)).collect()
}

/// Characters of a SentencePiece vocabulary of `size` tokens: ASCII always, other scripts in large ones.
pub fn characters(size: usize) -> Vec<char> {
    let mut out = vec!['▁'];
    out.extend('!'..='~');
    if size >= 16_384 {
        let scripts =
            ['¡'..='ɏ', 'Ͱ'..='Ͽ', 'Ѐ'..='ӿ', 'א'..='ת', 'ء'..='ي', 'अ'..='ह', 'ก'..='ฮ', '‐'..='⁄', '←'..='⇿'];
        let more =
            ['─'..='◿', '、'..='〟', 'ぁ'..='ん', 'ァ'..='ヺ', '一'..='鿌', '가'..='힣', '🌀'..='🙏', '🚀'..='🛅'];
        out.extend(scripts.into_iter().chain(more).flatten().filter(|&c| c != '▁').take(size / 8));
    }
    out
}
