//! Pre-tokenizers against the `tokenizers` crate, built from the published expressions. The vocabulary has a token for
//! every two bytes that can stand together, joined in no order to speak of: another cut gives other tokens.

use std::collections::BTreeSet;

use qrun::text::tokenizer::{Encode, Tokenizer};
use qrun_quant::gguf::Array;
use tokenizers::{
    Model, NormalizedString, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
    models::bpe::BPE,
    pre_tokenizers::{byte_level::ByteLevel, split::Split, split::SplitPattern},
};

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const MINICPM5: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const HAN_AND_KANA: &str = r"[一-龥\u{3040}-ゟ゠-ヿ]+";
const CJK: &str = r"[一-龥ࠀ-一가-\u{d7ff}]+";

const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const YOUTU: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const EAST_ASIAN: &str = r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-\u{303f}︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+";

/// What is put around a text or taken as it is, beside the cuts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    /// Words that are tokens are not merged.
    Whole,
    /// The same, with BOS.
    WholeBos,
    /// With a separator at the end.
    Sep,
}
use Way::{Plain, Sep, Whole, WholeBos};

/// Values of `tokenizer.ggml.pre`, how they differ, and the expressions one after the other.
const ROWS: [(&[&str], Way, &[&str]); 20] = [
    (&["llama-bpe", "lfm2"], WholeBos, &[LLAMA3]),
    (&["glm4", "glm5"], Whole, &[LLAMA3]),
    (&["smaug-bpe", "dbrx", "chatglm-bpe"], Plain, &[LLAMA3]),
    (&["qwen2", "kormo", "f2llmv2", "solar-open"], Plain, &[QWEN2]),
    (&["qwen35"], Plain, &[QWEN35]),
    (&["gpt-4o", "llama4", "kanana2"], Plain, &[GPT4O]),
    (&["tiny_aya", "cohere2moe"], Plain, &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O]),
    (&["kimi-k2"], Plain, &[KIMI]),
    (&["youtu"], Whole, &[EAST_ASIAN, YOUTU]),
    (&["tekken"], WholeBos, &[TEKKEN]),
    (&["deepseek-v3", "hunyuan-dense"], Plain, &[r"\p{N}{1,3}", HAN_AND_KANA, DEEPSEEK]),
    (&["deepseek-coder"], Plain, &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"]),
    (&["minicpm5"], Whole, &[r"\p{N}{1,3}", MINICPM5]),
    (&["seed-coder"], Plain, &[SEED]),
    (&["laguna"], Plain, &[r"[^\n]+|[\n]+", QWEN2]),
    (&["gpt-2", "exaone4", "modern-bert", "granite-docling"], Plain, &[GPT2]),
    (&["bloom", "poro-chat", "gpt3-finnish"], Plain, &[BLOOM]),
    (&["viking"], Plain, &[BLOOM, r"\p{N}"]),
    (&["superbpe"], Plain, &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
    (&["roberta-bpe", "jina-v2-code"], Sep, &[GPT2]),
];
/// starcoder's rules, which cut gpt2's way after the digits.
const MELLUM2: (&[&str], Way, &[&str]) = (&["starcoder", "mellum2"], Plain, &[r"\p{N}", GPT2]);

#[rustfmt::skip]
const PIECES: &[&str] = &[
    // Contractions.
    "don't", "I'LL", "we'Ve", "it'S", "they're", "'tis", "'s", "O'Neil's", "x'd", "ſ'ſ", "rock'n'roll", "''", "Ça'm", "日'd", "IT'S",
    // Numbers.
    "1", "12", "123", "1234", "12345", "1234567_", "٣٤٥٦٧", "3.14159", "1,000,000", "½", "Ⅷ", "٣٤٥٦", "a1b22c333d4444", "0x1F", "1e-9", "２０２６年", "x²",
    // Scripts.
    "你好世界", "中文abc", "こんにちは世界", "カタカナー", "々龥龦", "〇九", "ㄱㄴㅏ", "ㄅㄆㄇ", "安hello安", "Aあa", "안녕하세요", "مرحبا", "ไทย", "ελληνικά", "Привет", "߷ࠀ", "ǅungla", "ʰª",
    // Combining marks.
    "e\u{301}", "n\u{303}o", "\u{301}x", "\u{903}", "नमस्ते", "क्षत्रिय", "แล้ว", "مُحَمَّد", "A\u{300}B\u{300}c", "1\u{20dd}",
    // Emoji and what has no class of its own.
    "😀", "👩\u{200d}👩\u{200d}👧", "🇩🇪", "✅ok", "\u{200d}a", "\u{feff}", "\u{7f}", "\u{0}a", "\u{ad}",
    // White space.
    "\t", "\n", "\r\n", "    ", " \n ", "\n\n\n", "\t\tx", "\u{a0}y", "\u{3000}", "\u{85}z", " \t x", "\n  x",
    // Mixed case.
    "HelloWorld", "iPhone", "ABCdef", "XMLHttpRequest", "HELLO", "hello", "straßE", "ŠČ", "İstanbul",
    // Signs.
    "...", "!?!?", "/*//*/", "a->b", "x+=1;", "$$$", "€5", "<|x|>", "```", "——", "“q”", "(foo)", "#include", "@user", "_id", "a/b/c",
    "https://a.b/c?d=e&f", "=\n", ";\r\n/", "+a", "。！", "、foo", "`b`", "^^~~||",
];

/// All pieces alone, with white space around, one behind the other, and in longer rows.
pub fn texts() -> Vec<String> {
    let around = [("", ""), (" ", ""), ("", " "), ("  ", "\n\n"), ("\t", "\n x"), ("x", "y")];
    let mut texts: Vec<String> =
        around.iter().flat_map(|(a, b)| PIECES.iter().map(move |piece| format!("{a}{piece}{b}"))).collect();
    for step in [1, 7, 23] {
        let next = |i: usize| PIECES[(i + step) % PIECES.len()];
        texts.extend((0..PIECES.len()).map(|i| format!("{}{}", PIECES[i], next(i))));
        texts.extend((0..PIECES.len()).step_by(5).map(|i| (0..8).map(|k| next(i + k * step)).collect::<String>()));
    }
    texts
}

fn spelled(text: &str) -> String {
    let mut parts = PreTokenizedString::from(NormalizedString::from(text));
    ByteLevel::new(false, true, false).pre_tokenize(&mut parts).unwrap();
    parts.get_splits(OffsetReferential::Original, OffsetType::Byte).iter().map(|(part, ..)| *part).collect()
}

/// Tokens and merges: two control tokens, all bytes, all pairs of those that follow each other, and whole pieces that no
/// merge makes.
fn vocabulary(texts: &[String]) -> (Vec<String>, Vec<(String, String)>) {
    let pairs: BTreeSet<(char, char)> = texts
        .iter()
        .flat_map(|text| spelled(text).chars().collect::<Vec<_>>().windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>())
        .collect();
    let mut pairs: Vec<(char, char)> = pairs.into_iter().collect();
    let mut random = super::generator(5);
    (1..pairs.len()).rev().for_each(|i| pairs.swap(i, random(i + 1)));
    let bytes: BTreeSet<char> = ByteLevel::alphabet().into_iter().collect();
    let mut tokens: Vec<String> = ["<begin>", "<sep>"].map(String::from).to_vec();
    tokens.extend(bytes.iter().map(char::to_string));
    tokens.extend(pairs.iter().map(|(a, b)| format!("{a}{b}")));
    let whole: BTreeSet<String> = PIECES.iter().map(|p| spelled(p)).filter(|p| p.chars().count() > 2).collect();
    tokens.extend(whole);
    (tokens, pairs.into_iter().map(|(a, b)| (a.to_string(), b.to_string())).collect())
}

#[test]
fn every_row_cuts_as_the_tokenizers_crate() {
    let texts = texts();
    assert!(texts.len() >= 200);
    let (tokens, merges) = vocabulary(&texts);
    let model = |whole: bool| {
        let vocab =
            tokens.iter().enumerate().map(|(i, t)| (t.clone(), i as u32)).collect::<tokenizers::models::bpe::Vocab>();
        BPE::builder().vocab_and_merges(vocab, merges.clone()).ignore_merges(whole).build().unwrap()
    };
    let (whole, merged) = (model(true), model(false));
    let mut kinds = vec![1i32; tokens.len()];
    kinds[..2].fill(3);
    for (names, way, patterns) in ROWS.iter().chain([&MELLUM2]) {
        let splits = patterns
            .iter()
            .map(|p| Split::new(SplitPattern::Regex((*p).into()), SplitDelimiterBehavior::Isolated, false).unwrap());
        let splits: Vec<Split> = splits.collect();
        let model = if matches!(way, Whole | WholeBos) { &whole } else { &merged };
        let expected = |text: &String| -> Vec<u32> {
            let mut parts = PreTokenizedString::from(NormalizedString::from(text.as_str()));
            splits.iter().for_each(|split| split.pre_tokenize(&mut parts).unwrap());
            ByteLevel::new(false, true, false).pre_tokenize(&mut parts).unwrap();
            let parts = parts.get_splits(OffsetReferential::Original, OffsetType::Byte);
            parts.iter().flat_map(|(part, ..)| model.tokenize(part).unwrap()).map(|token| token.id).collect()
        };
        let expected: Vec<Vec<u32>> = texts.iter().map(expected).collect();
        for name in *names {
            let keys = vec![
                ("model", "gpt2".into()),
                ("pre", (*name).into()),
                ("tokens", Array::of_strings(&tokens).into()),
                ("merges", Array::of_strings(merges.iter().map(|(a, b)| format!("{a} {b}"))).into()),
                ("token_type", Array::of(&kinds).into()),
                ("bos_token_id", 0u32.into()),
                ("seperator_token_id", 1u32.into()),
            ];
            let tokenizer = Tokenizer::from_gguf(&super::file(keys)).unwrap();
            for (text, expected) in texts.iter().zip(&expected) {
                let ids = tokenizer.encode(text, Encode::PLAIN).unwrap();
                assert_eq!(&ids, expected, "{name}: {text:?}");
                assert_eq!(&tokenizer.decode(&ids), text, "{name}");
            }
            let added = tokenizer.encode("x", Encode::default()).unwrap();
            let ends = (added.first() == Some(&0), added.last() == Some(&1));
            assert_eq!(ends, (*way == WholeBos, *way == Sep), "{name}: {added:?}");
        }
    }
}
