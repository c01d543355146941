//! The rules against the regular expressions that they stand for.

use fancy_regex::Regex;

use super::{super::classes::Class, PreTokenizer};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";

/// The published expressions of each row, applied one after the other.
const PUBLISHED: [(&str, &[&str]); 24] = [
    ("llama-bpe", &[LLAMA3]),
    ("smaug-bpe", &[LLAMA3]),
    ("glm4", &[LLAMA3]),
    ("qwen2", &[QWEN2]),
    (
        "qwen35",
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    (
        "seed-coder",
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    ("laguna", &[r"[^\n]+|[\n]+", QWEN2]),
    (
        "minicpm5",
        &[
            r"\p{N}{1,3}",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    ("gpt-2", &[GPT2]),
    ("roberta-bpe", &[GPT2]),
    (
        "tekken",
        &[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    ("gpt-4o", &[GPT4O]),
    ("tiny_aya", &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O]),
    (
        "kimi-k2",
        &[
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    (
        "youtu",
        &[
            r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-\u{303f}︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    ("smollm", &[r"\p{N}", GPT2]),
    (
        "deepseek-llm",
        &[
            r"[\r\n]",
            "", // cased letters: made from the table below
            r"\s?[!-/:-~！-／：-～‘-‟\u{3000}-。]+",
            r"\s+$",
            r"[一-龥ࠀ-一가-\u{d7ff}]+",
            r"\p{N}+",
        ],
    ),
    ("deepseek-coder", &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-\u{d7ff}]+", r"\p{N}"]),
    (
        "deepseek-v3",
        &[
            r"\p{N}{1,3}",
            r"[一-龥\u{3040}-ゟ゠-ヿ]+",
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
        ],
    ),
    ("bloom", &[BLOOM]),
    ("viking", &[BLOOM, r"\p{N}"]),
    ("superbpe", &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
    ("falcon", &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    ("default", &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
];

fn compile(pattern: &str) -> Regex {
    if !pattern.is_empty() {
        return Regex::new(pattern).unwrap();
    }
    let ranges: String = super::scripts::CASED.iter().map(|(a, b)| format!("{a}-{b}")).collect();
    Regex::new(&format!(r"\s?[A-Za-z{ranges}]+")).unwrap()
}

/// What stands between matches is a word, too.
fn split<'t>(rules: &[Regex], text: &'t str, out: &mut Vec<&'t str>) {
    let Some((rule, later)) = rules.split_first() else { return out.push(text) };
    let mut end = 0;
    for found in rule.find_iter(text) {
        let found = found.unwrap();
        if end < found.start() {
            split(later, &text[end..found.start()], out);
        }
        // Some match nothing, and cut.
        if !found.as_str().is_empty() {
            split(later, found.as_str(), out);
        }
        end = found.end();
    }
    if end < text.len() {
        split(later, &text[end..], out);
    }
}

/// Characters of every class, and those that rules single out.
const CHARACTERS: [&str; 64] = [
    "a", "b", "s", "t", "r", "e", "l", "A", "B", "S", "T", "LL", "ſ", "é", "ß", "Ж", "ж", "ǅ", "ʰ", "ª", "中", "文",
    "あ", "ア", "ー", "々", "〇", "ㄱ", "가", "ا", "\u{301}", "\u{903}", "'", "'", "\"", ".", "/", "/", "$", "+", "`",
    "€", "。", "！", "‘", "1", "2", "3", "½", "Ⅷ", "٣", " ", " ", " ", "\t", "\n", "\r", "\r\n", "\u{a0}", "\u{85}",
    "\u{3000}", "😀", "\u{200d}", "\u{7f}",
];

/// The same numbers in every run (xorshift64*).
fn generator(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}

#[test]
fn characters_of_the_script_han() {
    let han = Regex::new(r"\p{Han}").unwrap();
    for c in '\0'..=char::MAX {
        assert_eq!(super::rules::is_han(c), han.is_match(c.encode_utf8(&mut [0; 4])).unwrap(), "{:x}", c as u32);
    }
}

#[test]
fn digits_and_characters_of_words() {
    let [digit, word] = [r"\d", r"\w"].map(|class| Regex::new(class).unwrap());
    for c in '\0'..=char::MAX {
        let is = |class: &Regex| class.is_match(c.encode_utf8(&mut [0; 4])).unwrap();
        assert_eq!(super::rules::is_digit(c), is(&digit), "{:x}", c as u32);
        // What a newer Unicode has assigned besides belongs to no class here.
        if Class::of(c) != Class::Other {
            assert_eq!(super::rules::is_word(c), is(&word), "{:x}", c as u32);
        }
    }
}

#[test]
fn every_row_has_a_published_expression() {
    for (row, (name, _)) in super::TABLE.iter().zip(PUBLISHED) {
        assert_eq!(row.names[0], name);
    }
    assert_eq!(super::TABLE.len(), PUBLISHED.len());
}

#[test]
fn rules_cut_where_the_published_expressions_cut() {
    let mut random = generator(1);
    let mut texts: Vec<String> = (0..6000)
        .map(|i| {
            // Few different characters in every second text, so that runs are long.
            let (from, of) = if i % 2 == 0 { (0, CHARACTERS.len()) } else { (random(CHARACTERS.len() - 6), 6) };
            (0..1 + random(24)).map(|_| CHARACTERS[from + random(of)]).collect()
        })
        .collect();
    texts.extend(CHARACTERS.iter().flat_map(|a| CHARACTERS.iter().map(move |b| format!("{a}{b}x"))));
    for (name, patterns) in PUBLISHED {
        let rules: Vec<Regex> = patterns.iter().map(|p| compile(p)).collect();
        let row = PreTokenizer::named(name).unwrap();
        for text in &texts {
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            row.split(text, &mut |word| found.push(word));
            split(&rules, text, &mut expected);
            assert_eq!(found, expected, "{name}: {text:?}");
        }
    }
}
