//! How many rows there is room for.

use crate::{Config, Gives, Options};

/// Rows of logits that go to the host at once.
pub const LOGIT_ROWS: usize = 16;

/// Most rows of a recorded step. Their logits stay on the device, where the next tokens are sampled from them.
pub const STEP_ROWS: usize = 32;

/// Rows that go through the layers together.
pub fn rows(o: &Options) -> usize {
    o.n_ubatch.min(o.n_ctx).max(step_rows(o))
}

/// Most guesses of a sequence in a step: those of all sequences go through the layers in one launch, and give logits in one turn.
pub fn n_draft(o: &Options) -> usize {
    match o.gives {
        Gives::Logits => o.n_draft.min(LOGIT_ROWS - 1).min((STEP_ROWS / o.n_seq.max(1)).saturating_sub(1)),
        Gives::Hidden => 0,
    }
}

/// Rows that have logits at once: those of the largest step that so many sequences take, or of a turn for the host.
pub fn step_rows(o: &Options) -> usize {
    if o.n_seq * (1 + n_draft(o)) > LOGIT_ROWS { STEP_ROWS } else { LOGIT_ROWS }
}

/// Rows whose outputs go to the host at once; a batch with more of them takes turns.
pub fn output_rows(o: &Options) -> usize {
    match o.gives {
        Gives::Logits if n_draft(o) > 0 => step_rows(o),
        Gives::Logits => LOGIT_ROWS,
        // Those of a text are wanted all, and are as small as what goes through the layers.
        Gives::Hidden => rows(o),
    }
}

/// Elements of what a row gives.
pub fn given(c: &Config, o: &Options) -> usize {
    match o.gives {
        Gives::Logits => c.n_vocab,
        Gives::Hidden => c.n_embd,
    }
}
