//! Every kernel against an obvious reference: on emulated GPUs, or with `QRUN_GPU=1` on a real one.

// The lints against printing are for libraries; tests say what they measured and what they skip.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod attention;
mod attention_rope;
#[path = "../blocks.rs"]
mod blocks;
mod cache;
#[path = "../card.rs"]
mod card;
mod embed;
mod experts;
mod formats;
mod gemm;
mod gemv;
mod glu;
mod glu_act;
mod group_norm;
mod harness;
mod image;
mod join_hidden;
mod latent;
mod mma;
mod norm;
mod norm_product;
mod norm_route;
mod operands;
mod probe;
mod product;
mod recurrent;
mod rope_kv;
mod sample;
mod sample_mask;
mod scale;
#[path = "../skip.rs"]
mod skip;
