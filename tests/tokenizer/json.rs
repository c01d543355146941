//! An external `tokenizer.json` behind the same interface.

use qrun::text::tokenizer::{Encode, TokenKind, Tokenizer};
use qrun_quant::Gguf;
use tokenizers::{AddedToken, decoders::byte_level::ByteLevel, processors::template::TemplateProcessing};

/// Writes tiny-llama3 in the other format, with a template that puts BOS first.
fn write(path: &std::path::Path) {
    let g = Gguf::open(&super::data("tiny-llama3.gguf")).unwrap();
    let oracle = super::oracle::Oracle::new(&g);
    let mut external = tokenizers::Tokenizer::new(oracle.model);
    let steps = vec![oracle.split.into(), oracle.bytes.into()];
    external.with_pre_tokenizer(Some(tokenizers::pre_tokenizers::sequence::Sequence::new(steps)));
    external.with_decoder(Some(ByteLevel::default()));
    let special = |text: &str| AddedToken::from(text, true);
    external.add_special_tokens(vec![special("<|begin|>"), special("<|eot_id|>")]).unwrap();
    let template = TemplateProcessing::builder()
        .try_single("<|begin|> $A")
        .unwrap()
        .special_tokens(vec![("<|begin|>", 0)])
        .build()
        .unwrap();
    external.with_post_processor(Some(template));
    external.save(path, false).unwrap();
}

#[test]
fn an_external_file_gives_the_tokens_of_the_gguf() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    write(&path);
    let (ours, external) = (super::tiny("tiny-llama3"), Tokenizer::from_json(&path).unwrap());
    assert_eq!((external.n_vocab(), external.bos(), external.eos()), (ours.n_vocab(), ours.bos(), None));
    assert_eq!(external.eot(), ours.eot());
    assert!(external.add_bos() && external.is_eog(ours.eot().unwrap()));
    let special = ["<|begin|>Hello<|eot_id|>", "<|eot_id|>", ""].map(str::to_owned);
    for text in super::oracle::texts(500).chain(special) {
        for (add_special, parse_special) in [(false, false), (true, false), (false, true), (true, true)] {
            let how = Encode { add_special, parse_special };
            let ids = external.encode(&text, how).unwrap();
            assert_eq!(ids, ours.encode(&text, how).unwrap(), "{how:?}: {text:?}");
            assert_eq!(external.decode(&ids), ours.decode(&ids), "{text:?}");
        }
    }
    for id in 0..ours.n_vocab() as u32 {
        assert_eq!((external.text(id), external.piece(id)), (ours.text(id), ours.piece(id)), "token {id}");
        assert_eq!(external.kind(id), ours.kind(id), "token {id}");
    }
    assert_eq!(external.kind(0), TokenKind::Control);
}

#[test]
fn a_bad_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    std::fs::write(&path, "{\"model\": 1}").unwrap();
    let error = Tokenizer::from_json(&path).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}
