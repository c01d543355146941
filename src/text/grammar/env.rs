//! A vocabulary as llguidance sees it.

use std::sync::Arc;

use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::text::tokenizer::{TokenKind, Tokenizer};

/// The bytes of every token, as a trie. Control tokens begin with 0xFF, which no text contains.
pub struct Vocabulary {
    trie: TokTrie,
    /// Tokens of the tokenizer; the trie has one more where nothing ends a turn.
    n_vocab: usize,
    /// What ends a turn.
    eog: Vec<u32>,
}

impl Vocabulary {
    pub fn new(tokenizer: &Tokenizer) -> Arc<Self> {
        let n_vocab = tokenizer.n_vocab();
        let eog: Vec<u32> = tokenizer.eog().collect();
        let mut words: Vec<Vec<u8>> = (0..n_vocab as u32).map(|id| word(tokenizer, id)).collect();
        // Without a token that ends a turn one beyond the vocabulary stands for it: no model can choose it.
        let ends = if eog.is_empty() { vec![n_vocab as u32] } else { eog.clone() };
        if eog.is_empty() {
            words.push(b"\xff<|end|>".to_vec());
        }
        let info = TokRxInfo::new(words.len() as u32, ends[0]);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&ends);
        Arc::new(Self { trie, n_vocab, eog })
    }

    /// The form in which llguidance takes it.
    pub fn env(self: Arc<Self>) -> TokEnv {
        Arc::new(Env(self))
    }

    /// Tokens of the tokenizer.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Whether a token ends the turn.
    pub fn ends(&self, token: u32) -> bool {
        self.eog.contains(&token)
    }

    /// The bytes of a token as a chat's answer shows them: control tokens in their written form.
    pub fn written(&self, token: u32) -> &[u8] {
        if token as usize >= self.n_vocab {
            return &[];
        }
        let bytes = self.trie.token(token);
        bytes.strip_prefix(&[TokTrie::SPECIAL_TOKEN_MARKER]).unwrap_or(bytes)
    }

    /// The control token of that text.
    pub fn control(&self, text: &str) -> Option<u32> {
        let word = [&[TokTrie::SPECIAL_TOKEN_MARKER], text.as_bytes()].concat();
        self.trie.token_id(&word)
    }

    /// Tokens that spell these bytes, longest first. No control tokens.
    pub fn spell(&self, bytes: &[u8]) -> Vec<u32> {
        self.trie.greedy_tokenize(bytes)
    }
}

/// The bytes that a token stands for in the trie; none for those that no text may contain.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    match tokenizer.kind(id) {
        TokenKind::Control | TokenKind::Unknown => {
            [&[TokTrie::SPECIAL_TOKEN_MARKER], tokenizer.text(id).as_bytes()].concat()
        }
        _ if tokenizer.is_eog(id) => [&[TokTrie::SPECIAL_TOKEN_MARKER], tokenizer.text(id).as_bytes()].concat(),
        _ => tokenizer.piece(id).into_owned(),
    }
}

/// Never canonical: tokens are not forced, the model chooses among those that fit.
struct Env(Arc<Vocabulary>);

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.0.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.0.trie.greedy_tokenize(bytes)
    }

    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}
