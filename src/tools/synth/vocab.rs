//! Made-up vocabularies of real size, with the special tokens of the families at their real ids.
//!
//! Text encodes well in them: the alphabet is whole, and the pieces come from merges that were learnt
//! the way byte-pair encoding learns them (from a list of common words first, then from letters by
//! their frequency), so that every piece is reachable.

mod merges;
mod special;
mod words;

use qrun_quant::gguf::{Array, write::Header};

use merges::Merges;

/// A vocabulary of one of the families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vocab {
    /// Tokenizer, special tokens and template.
    pub family: Family,
    /// Tokens of the vocabulary.
    pub size: usize,
}

/// The vocabulary families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// SentencePiece, 262,144 tokens in the original.
    Gemma,
    /// SentencePiece, 32,000 tokens in the original.
    Llama2,
    /// Byte-level BPE, 128,256 tokens in the original.
    Llama3,
    /// Byte-level BPE, 151,936 tokens in the original.
    Qwen,
    /// WordPiece without capitals, 30,522 tokens in the original.
    Bert,
    /// Byte-level BPE with BERT's special tokens, 50,368 tokens in the original.
    ModernBert,
}

/// `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

struct Token {
    text: String,
    kind: Kind,
    score: f32,
}

/// Score of tokens that no merge makes.
const OUTSIDE: f32 = -1000.0;

impl Token {
    fn new(text: impl Into<String>, kind: Kind) -> Self {
        Self { text: text.into(), kind, score: OUTSIDE }
    }
}

impl Vocab {
    /// Sets the tokenizer's keys.
    ///
    /// # Errors
    /// What sizes are possible and which one was asked for, where that is too small for its kind.
    pub(super) fn set(self, h: &mut Header) -> Result<(), (String, String)> {
        let least = match self.family {
            Family::Gemma => 640,
            Family::Llama2 => 384,
            Family::Llama3 | Family::Qwen | Family::ModernBert => 640,
            Family::Bert => 256,
        };
        if self.size < least {
            return Err((format!("at least {least} tokens in a vocabulary of its kind"), self.size.to_string()));
        }
        let (tokens, merges) = match self.family {
            Family::Gemma => (special::sentencepiece(special::gemma(), special::gemma_late(), self.size), None),
            Family::Llama2 => (special::sentencepiece(special::llama2(), Vec::new(), self.size), None),
            Family::Llama3 => byte_level(special::llama3(), self.size),
            Family::Qwen => byte_level(special::qwen(), self.size),
            Family::Bert => (word_pieces(special::bert(), self.size), None),
            Family::ModernBert => byte_level(special::modern_bert(), self.size),
        };
        self.set_ids(h, &tokens);
        if matches!(self.family, Family::Gemma | Family::Llama2) {
            h.set("tokenizer.ggml.scores", Array::of(&tokens.iter().map(|t| t.score).collect::<Vec<_>>()));
        }
        h.set("tokenizer.ggml.token_type", Array::of(&tokens.iter().map(|t| t.kind as i32).collect::<Vec<_>>()));
        h.set("tokenizer.ggml.tokens", Array::of_strings(tokens.iter().map(|t| &t.text)));
        if let Some(merges) = merges {
            h.set("tokenizer.ggml.merges", Array::of_strings(merges));
        }
        Ok(())
    }

    fn set_ids(self, h: &mut Header, tokens: &[Token]) {
        let (model, pre) = match self.family {
            Family::Gemma | Family::Llama2 => ("llama", "default"),
            Family::Llama3 => ("gpt2", "llama-bpe"),
            Family::Qwen => ("gpt2", "qwen2"),
            Family::Bert => ("bert", "bert-bge"),
            Family::ModernBert => ("gpt2", "modern-bert"),
        };
        h.set("tokenizer.ggml.model", model);
        h.set("tokenizer.ggml.pre", pre);
        let ids: &[(&str, &str)] = match self.family {
            Family::Gemma => &[
                ("bos", "<bos>"),
                ("eos", "<eos>"),
                ("eot", "<end_of_turn>"),
                ("unknown", "<unk>"),
                ("padding", "<pad>"),
            ],
            Family::Llama2 => &[("bos", "<s>"), ("eos", "</s>"), ("unknown", "<unk>")],
            Family::Llama3 => &[("bos", "<|begin_of_text|>"), ("eos", "<|eot_id|>")],
            Family::Qwen => &[("bos", "<|endoftext|>"), ("eos", "<|im_end|>"), ("padding", "<|endoftext|>")],
            // The separator is misspelled by the format.
            Family::Bert => &[
                ("cls", "[CLS]"),
                ("seperator", "[SEP]"),
                ("unknown", "[UNK]"),
                ("padding", "[PAD]"),
                ("mask", "[MASK]"),
            ],
            Family::ModernBert => {
                &[("bos", "[CLS]"), ("eos", "[SEP]"), ("unknown", "[UNK]"), ("padding", "[PAD]"), ("mask", "[MASK]")]
            }
        };
        for (role, text) in ids {
            let id = tokens.iter().position(|t| t.text == *text).expect("the family has its special tokens");
            h.set(format!("tokenizer.ggml.{role}_token_id"), id as u32);
        }
        h.set("tokenizer.ggml.add_bos_token", self.family != Family::Qwen);
        h.set("tokenizer.ggml.add_eos_token", self.family == Family::ModernBert);
        if self.family == Family::Gemma {
            h.set("tokenizer.ggml.add_space_prefix", false);
        }
    }
}

/// Bytes, merged pieces, and the special tokens at the end.
fn byte_level(special: Vec<Token>, size: usize) -> (Vec<Token>, Option<Vec<String>>) {
    let mut learnt = Merges::new(&merges::byte_alphabet(), size - special.len());
    learnt.learn_runs('Ġ');
    learnt.learn_words('Ġ');
    let mut tokens: Vec<Token> = learnt.pieces.iter().map(|p| Token::new(p, Kind::Normal)).collect();
    let rules =
        learnt.rules.iter().map(|&(l, r)| format!("{} {}", learnt.pieces[l as usize], learnt.pieces[r as usize]));
    let rules = rules.collect();
    tokens.extend(special);
    (tokens, Some(rules))
}

/// Special tokens, then the characters and merged pieces that go on a word, and with U+2581 in front those that begin one.
/// No text has the runs of punctuation among them: each mark is a word.
fn word_pieces(special: Vec<Token>, size: usize) -> Vec<Token> {
    const BEGINS: char = '▁';
    let lower: Vec<char> = merges::characters(size).into_iter().filter(|c| !c.is_uppercase()).collect();
    // What marks a beginning is no piece by itself.
    let mut learnt = Merges::new(&lower, size - special.len() + 1);
    learnt.learn_beginnings(BEGINS);
    learnt.learn_words(BEGINS);
    let pieces = learnt.pieces.into_iter().filter(|piece| !piece.chars().eq([BEGINS]));
    special.into_iter().chain(pieces.map(|piece| Token::new(piece, Kind::Normal))).collect()
}
