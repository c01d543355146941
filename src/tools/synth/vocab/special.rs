//! The fixed tokens of each family, and the order in which its vocabulary is laid out.

use super::{
    Kind, Token,
    merges::{self, Merges},
};

/// Gemma 3: ids 0 to 493.
pub fn gemma() -> Vec<Token> {
    let mut out: Vec<Token> = ["<pad>", "<eos>", "<bos>"].map(|t| Token::new(t, Kind::Control)).into();
    out.push(Token::new("<unk>", Kind::Unknown));
    out.extend(["<mask>", "[multimodal]"].map(|t| Token::new(t, Kind::Control)));
    out.extend((0..99).map(|i| Token::new(format!("<unused{i}>"), Kind::Unused)));
    out.extend(["<start_of_turn>", "<end_of_turn>"].map(|t| Token::new(t, Kind::Control)));
    out.extend((1..32).map(|n| Token::new("\n".repeat(n), Kind::UserDefined)));
    // Runs of spaces are merged like words, one step at a time.
    out.extend((2..32).map(|n| Token { score: -(n as f32), ..Token::new("▁".repeat(n), Kind::Normal) }));
    for tag in TAGS {
        out.extend([format!("<{tag}>"), format!("</{tag}>")].map(|t| Token::new(t, Kind::UserDefined)));
    }
    out.extend(byte_tokens());
    out
}

const TAGS: [&str; 35] = [
    "table",
    "caption",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "th",
    "td",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "blockquote",
    "strong",
    "em",
    "b",
    "i",
    "u",
    "s",
    "sub",
    "sup",
    "code",
    "a",
    "p",
    "img",
    "span",
    "ul",
    "ol",
    "li",
    "div",
    "pre",
    "footer",
    "article",
];

/// Tokens of Gemma 3 at fixed ids far up, where the vocabulary reaches so far.
pub fn gemma_late() -> Vec<(usize, Token)> {
    let tokens = [(255_999, "<start_of_image>"), (256_000, "<end_of_image>")];
    tokens.map(|(id, text)| (id, Token::new(text, Kind::Control))).into()
}

/// Llama 2: ids 0 to 258.
pub fn llama2() -> Vec<Token> {
    let mut out = vec![Token::new("<unk>", Kind::Unknown)];
    out.extend(["<s>", "</s>"].map(|t| Token::new(t, Kind::Control)));
    out.extend(byte_tokens());
    out
}

/// Llama 3: the last 256 ids (128,000 on).
pub fn llama3() -> Vec<Token> {
    const NAMED: [(usize, &str); 8] = [
        (0, "<|begin_of_text|>"),
        (1, "<|end_of_text|>"),
        (4, "<|finetune_right_pad_id|>"),
        (6, "<|start_header_id|>"),
        (7, "<|end_header_id|>"),
        (8, "<|eom_id|>"),
        (9, "<|eot_id|>"),
        (10, "<|python_tag|>"),
    ];
    let mut reserved = 0;
    let token = |id| {
        if let Some((_, text)) = NAMED.iter().find(|n| n.0 == id) {
            return Token::new(*text, Kind::Control);
        }
        reserved += 1;
        Token::new(format!("<|reserved_special_token_{}|>", reserved - 1), Kind::Control)
    };
    (0..256).map(token).collect()
}

/// Qwen 3: the last 293 ids (151,643 on).
pub fn qwen() -> Vec<Token> {
    const CONTROL: [&str; 14] = [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|object_ref_start|>",
        "<|object_ref_end|>",
        "<|box_start|>",
        "<|box_end|>",
        "<|quad_start|>",
        "<|quad_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|vision_pad|>",
        "<|image_pad|>",
        "<|video_pad|>",
    ];
    const USER_DEFINED: [&str; 12] = [
        "<tool_call>",
        "</tool_call>",
        "<|fim_prefix|>",
        "<|fim_middle|>",
        "<|fim_suffix|>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<tool_response>",
        "</tool_response>",
        "<think>",
        "</think>",
    ];
    let mut out: Vec<Token> = CONTROL.map(|t| Token::new(t, Kind::Control)).into();
    out.extend(USER_DEFINED.map(|t| Token::new(t, Kind::UserDefined)));
    out.extend((out.len()..293).map(|i| Token::new(format!("[PAD{i}]"), Kind::Unused)));
    out
}

/// BERT without capitals: ids 0 to 103. Published vocabularies have more unused ones behind them.
pub fn bert() -> Vec<Token> {
    let mut out = vec![Token::new("[PAD]", Kind::Control)];
    out.extend((0..99).map(|i| Token::new(format!("[unused{i}]"), Kind::Unused)));
    out.extend(["[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(|t| Token::new(t, Kind::Control)));
    out
}

/// ModernBERT: ids 50,280 to 50,367, the last ones unused.
pub fn modern_bert() -> Vec<Token> {
    let mut out: Vec<Token> =
        ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"].map(|t| Token::new(t, Kind::Control)).into();
    out.extend((0..83).map(|i| Token::new(format!("[unused{i}]"), Kind::Unused)));
    out
}

fn byte_tokens() -> impl Iterator<Item = Token> {
    (0..=255u8).map(|b| Token::new(format!("<0x{b:02X}>"), Kind::Byte))
}

/// A SentencePiece vocabulary: the fixed tokens first, then characters and merged pieces by falling
/// score, with the `late` tokens at their ids.
pub fn sentencepiece(fixed: Vec<Token>, late: Vec<(usize, Token)>, size: usize) -> Vec<Token> {
    let late: Vec<_> = late.into_iter().filter(|(id, _)| *id < size).collect();
    let mut learnt = Merges::new(&merges::characters(size), size - fixed.len() - late.len());
    learnt.learn_words('▁');
    let mut out = fixed;
    out.extend(learnt.pieces.into_iter().enumerate().map(|(rank, text)| Token {
        // Below the runs of spaces.
        score: -((rank + 32) as f32),
        ..Token::new(text, Kind::Normal)
    }));
    for (id, token) in late {
        out.insert(id, token);
    }
    out
}
