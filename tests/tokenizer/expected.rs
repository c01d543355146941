//! 300 texts whose tokens come from sentencepiece, tokenizers and llama.cpp (`make.py` beside the data).

use qrun::tokenizer::Encode;

/// As `make.py` writes it: number of tokens and FNV-1a over them.
fn fingerprint(ids: &[u32]) -> String {
    let mut hash = 0x811c_9dc5u32;
    for byte in ids.iter().flat_map(|id| id.to_le_bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{}:{hash:08x}", ids.len())
}

#[test]
fn texts_have_the_tokens_of_the_public_packages() {
    let table = std::fs::read_to_string(super::data("expected.tsv")).unwrap();
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap().split('\t').skip(1).collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    assert_eq!((names.len(), rows.len()), (8, 300));
    for (column, name) in names.iter().enumerate() {
        let tokenizer = match super::TINY.contains(name) {
            true => super::tiny(name),
            false => match super::shared::tokenizer(name) {
                Some(tokenizer) => tokenizer,
                None => continue,
            },
        };
        for row in &rows {
            let text: String = serde_json::from_str(row[0]).unwrap();
            let ids = tokenizer.encode(&text, Encode::PLAIN).unwrap();
            assert_eq!(fingerprint(&ids), row[column + 1], "{name}: {text:?} became {ids:?}");
            if !text.contains('\u{2581}') {
                assert_eq!(tokenizer.decode(&ids), text, "{name}: {ids:?}");
            }
        }
    }
}
