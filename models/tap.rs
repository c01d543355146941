//! Intermediate results of the forward pass, by name.

/// Receives intermediate results of the rows that go through the layers together: `(layer, name,
/// values[rows][width])`; no layer for those outside the layers. Names are llama.cpp's: `inp_embd`; in each layer
/// `attn_norm`, `Qcur`, `Kcur`, `Vcur` (after RoPE), `kqv_out`, `attn_out`, `ffn_norm`, `ffn_act`, `ffn_out`, `l_out`; and
/// of the rows that want an output `result_norm`, `result_output`; of guesses `draft_output`.
pub type Tap = Box<dyn FnMut(Option<usize>, &'static str, &[f32]) + Send>;
