//! 300 texts whose tokens come from sentencepiece, tokenizers and llama.cpp (`make.py` beside the data).

use qrun::text::tokenizer::Encode;

use super::published::{NAMES, Vocabulary};

/// As `make.py` writes it: number of tokens and FNV-1a over them.
fn fingerprint(ids: &[u32]) -> String {
    let mut hash = 0x811c_9dc5u32;
    for byte in ids.iter().flat_map(|id| id.to_le_bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{}:{hash:08x}", ids.len())
}

/// Compares the column `name` of the table with what `encode` makes of each text.
fn compare(name: &str, encode: impl Fn(&str) -> Vec<u32>) {
    let table = std::fs::read_to_string(super::data("expected.tsv")).unwrap();
    let mut lines = table.lines();
    let column = lines.next().unwrap().split('\t').position(|n| n == name).expect("a column of the table");
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 300);
    for row in rows {
        let text: String = serde_json::from_str(row[0]).unwrap();
        let ids = encode(&text);
        assert_eq!(fingerprint(&ids), row[column], "{name}: {text:?} became {ids:?}");
    }
}

#[test]
fn texts_have_the_tokens_of_the_public_packages() {
    for name in super::TINY {
        let tokenizer = super::tiny(name);
        compare(name, |text| {
            let ids = tokenizer.encode(text, Encode::PLAIN).unwrap();
            if !text.contains('\u{2581}') {
                assert_eq!(tokenizer.decode(&ids), text, "{name}: {ids:?}");
            }
            ids
        });
    }
    for name in NAMES {
        let vocabulary = Vocabulary::stripped(name);
        compare(name, |text| vocabulary.encode(text));
    }
}

#[test]
#[ignore = "reads 20 MB of vocabularies that are not in the repository: QRUN_SHARED names the folder with vocab/*.gguf"]
fn texts_have_the_tokens_of_the_public_packages_in_whole_vocabularies() {
    for name in NAMES {
        let vocabulary = Vocabulary::whole(name);
        compare(name, |text| vocabulary.encode(text));
    }
}
