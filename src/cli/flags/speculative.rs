//! Flags of speculative decoding.

use qrun_models::kv::MOST_DRAFTED;

use super::{
    super::args::SpecType,
    flag::Flag,
    value::{
        Check::{Real, Text, Whole, Word},
        Takes::{Nothing, One},
    },
};

const WHY: &str =
    "a draft model of its own is not implemented; --spec-type draft-mtp uses the head in the model's file";
const OTHER: &str = "of the ways to guess from the text --spec-type ngram-simple is implemented";
const CACHE: &str = "the draft head's cache has the types of the model's (-ctk, -ctv)";
const REMOVED: &str = "removed from llama.cpp too: --spec-draft-n-max, --spec-draft-n-min";
const SIZES: &str = "removed from llama.cpp too: --spec-ngram-simple-size-n, --spec-ngram-simple-size-m";

#[rustfmt::skip]
pub const USED: &[Flag] = &[
    Flag::used("--spec-type", One("TYPE", Word(&SpecType::NAMES)), "guess tokens ahead; the text stays the same: draft-mtp (the model's head), ngram-simple [none]", |a, v| a.speculation.kind = SpecType::named(&v.text())).env("LLAMA_ARG_SPEC_TYPE"),
    Flag::used("--spec-draft-n-max", One("N", Whole(0, MOST_DRAFTED as i64)), "most tokens that the head guesses [3]", |a, v| a.speculation.n_max = v.count()).env("LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    Flag::used("--spec-draft-n-min", One("N", Whole(0, MOST_DRAFTED as i64)), "its shorter drafts are not used [0]", |a, v| a.speculation.head.n_min = v.count()).env("LLAMA_ARG_SPEC_DRAFT_N_MIN"),
    Flag::used("--spec-draft-p-min, --draft-p-min", One("P", Real(0.0, 1.0)), "a token less probable to the head ends a draft [0]", |a, v| a.speculation.head.p_min = v.real()).env("LLAMA_ARG_SPEC_DRAFT_P_MIN"),
    Flag::used("--spec-ngram-simple-size-n", One("N", Whole(1, 1024)), "ngram-simple: so many last tokens have to have come before [12]", |a, v| a.speculation.n_grams.size_n = v.count()),
    Flag::used("--spec-ngram-simple-size-m", One("N", Whole(1, 1024)), "ngram-simple: most tokens of what followed then [48]; 63 at most are used, on a GPU 15", |a, v| a.speculation.n_grams.size_m = v.count()),
];

#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::refused("--spec-draft-type-k, -ctkd, --cache-type-k-draft", One("TYPE", Text), CACHE),
    Flag::refused("--spec-draft-type-v, -ctvd, --cache-type-v-draft", One("TYPE", Text), CACHE),
    Flag::refused("--spec-draft-hf, -hfd, -hfrd, --hf-repo-draft", One("user/model[:quant]", Text), WHY),
    Flag::refused("--spec-draft-threads, -td, --threads-draft", One("N", Text), WHY),
    Flag::refused("--spec-draft-threads-batch, -tbd, --threads-batch-draft", One("N", Text), WHY),
    Flag::refused("--spec-draft-cpu-mask, -Cd, --cpu-mask-draft", One("M", Text), WHY),
    Flag::refused("--spec-draft-cpu-range, -Crd, --cpu-range-draft", One("lo-hi", Text), WHY),
    Flag::refused("--spec-draft-cpu-strict, --cpu-strict-draft", One("0|1", Text), WHY),
    Flag::refused("--spec-draft-prio, --prio-draft", One("N", Text), WHY),
    Flag::refused("--spec-draft-poll, --poll-draft", One("0|1", Text), WHY),
    Flag::refused("--spec-draft-cpu-mask-batch, -Cbd, --cpu-mask-batch-draft", One("M", Text), WHY),
    Flag::refused("--spec-draft-cpu-strict-batch, --cpu-strict-batch-draft", One("0|1", Text), WHY),
    Flag::refused("--spec-draft-prio-batch, --prio-batch-draft", One("N", Text), WHY),
    Flag::refused("--spec-draft-poll-batch, --poll-batch-draft", One("0|1", Text), WHY),
    Flag::refused("--spec-draft-override-tensor, -otd, --override-tensor-draft", One("VALUE", Text), WHY),
    Flag::refused("--spec-draft-cpu-moe, -cmoed, --cpu-moe-draft", Nothing, WHY),
    Flag::refused("--spec-draft-n-cpu-moe, --spec-draft-ncmoe, -ncmoed, --n-cpu-moe-draft", One("N", Text), WHY),
    Flag::refused("--spec-synth-len", One("L", Text), WHY),
    Flag::refused("--spec-synth-rates", One("P0,P1,...", Text), WHY),
    Flag::noted("--spec-draft-p-split, --draft-p-split", One("P", Text), "a draft is one sequence of tokens"),
    Flag::noted("--spec-draft-backend-sampling, --no-spec-draft-backend-sampling", Nothing, "drafts are chosen where they are computed"),
    Flag::refused("--spec-draft-device, -devd, --device-draft", One("dev1,dev2,..", Text), WHY),
    Flag::refused("--spec-draft-ngl, -ngld, --gpu-layers-draft, --n-gpu-layers-draft", One("N", Text), WHY),
    Flag::refused("--spec-draft-model, -md, --model-draft", One("FNAME", Text), WHY),
    Flag::refused("--spec-ngram-mod-n-min", One("N", Text), OTHER),
    Flag::refused("--spec-ngram-mod-n-max", One("N", Text), OTHER),
    Flag::refused("--spec-ngram-mod-n-match", One("N", Text), OTHER),
    Flag::unless("--spec-ngram-simple-min-hits", One("N", Text), "1", "what followed the last time is the draft"),
    Flag::refused("--spec-ngram-map-k-size-n", One("N", Text), OTHER),
    Flag::refused("--spec-ngram-map-k-size-m", One("N", Text), OTHER),
    Flag::refused("--spec-ngram-map-k-min-hits", One("N", Text), OTHER),
    Flag::refused("--spec-ngram-map-k4v-size-n", One("N", Text), OTHER),
    Flag::refused("--spec-ngram-map-k4v-size-m", One("N", Text), OTHER),
    Flag::refused("--spec-ngram-map-k4v-min-hits", One("N", Text), OTHER),
    Flag::refused("--draft, --draft-n, --draft-max", One("N", Text), REMOVED),
    Flag::refused("--draft-min, --draft-n-min", One("N", Text), REMOVED),
    Flag::refused("--spec-default", Nothing, OTHER),
    Flag::refused("--spec-ngram-size-n", One("N", Text), SIZES),
    Flag::refused("--spec-ngram-size-m", One("N", Text), SIZES),
    Flag::refused("--spec-ngram-min-hits", One("N", Text), SIZES),
];
