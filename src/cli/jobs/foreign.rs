//! Flags of llama-quantize, llama-perplexity and llama-tokenize that the jobs answer without having them.

use crate::cli::flags::{
    self,
    Check::Text,
    Flag,
    Takes::{self, Nothing, One},
};

const N: Takes = One("N", Text);
const FILE: Takes = One("FILE", Text);
const TYPE: Takes = One("TYPE", Text);
const MIXTURE: &str = "the types of the tensors are those of the recipe (TYPE)";
const IMATRIX: &str = "importance matrices are not implemented";
const TASKS: &str = "only perplexity and the distance from another model (--kl-base) are measured";
const BASE: &str = "--kl-base FILE compares with a model, which is run beside this one";
const STEPS: &str = "the text is read in chunks of -c tokens";
const SPECIAL: &str = "special tokens are parsed unless --no-parse-special is given";

/// The job itself reads these: only the spelling is another one.
const RENAMED: flags::Apply = |_, _| {};

#[rustfmt::skip]
const QUANTIZE: &[Flag] = &[
    Flag::refused("--imatrix", FILE, IMATRIX),
    Flag::refused("--include-weights, --exclude-weights", One("TENSOR", Text), IMATRIX),
    Flag::refused("--pure, --leave-output-tensor", Nothing, MIXTURE),
    Flag::refused("--output-tensor-type, --token-embedding-type", TYPE, MIXTURE),
    Flag::refused("--tensor-type", One("TENSOR=TYPE", Text), MIXTURE),
    Flag::refused("--tensor-type-file", FILE, MIXTURE),
    Flag::refused("--prune-layers", One("L0,L1,…", Text), "all layers are written"),
    Flag::refused("--keep-split", Nothing, "one file is written"),
    Flag::refused("--dry-run", Nothing, "qrun info FILE shows the sizes of a file that exists"),
];

#[rustfmt::skip]
const PERPLEXITY: &[Flag] = &[
    Flag::used("-ctk, --cache-type-k", TYPE, "type of cached keys", RENAMED),
    Flag::used("-ctv, --cache-type-v", TYPE, "type of cached values", RENAMED),
    Flag::used("-dev, --device", One("WHERE", Text), "where it runs", RENAMED),
    Flag::noted("-ngl, --gpu-layers, --n-gpu-layers", N, "--device says where it runs"),
    Flag::noted("-b, --batch-size", N, STEPS),
    Flag::noted("-ub, --ubatch-size", N, STEPS),
    Flag::noted("-s, --seed", N, "nothing is drawn at random"),
    Flag::refused("--ppl-stride", N, "chunks do not overlap; the second half of each is scored"),
    Flag::refused("--ppl-output-type", N, "the result is one line, or one JSON object (--json)"),
    Flag::refused("--kl-divergence", Nothing, BASE),
    Flag::refused("--kl-divergence-base, --save-all-logits", FILE, BASE),
    Flag::refused("--hellaswag, --winogrande, --multiple-choice", Nothing, TASKS),
    Flag::refused("--hellaswag-tasks, --winogrande-tasks, --multiple-choice-tasks", N, TASKS),
];

#[rustfmt::skip]
const TOKENIZE: &[Flag] = &[
    Flag::no_op("--parse-special", Nothing, SPECIAL),
    Flag::no_op("--log-disable", Nothing, "nothing is said beside the tokens"),
    Flag::noted("--no-escape", Nothing, "the text is taken as it is, its backslashes too"),
];

/// The rows for a job: its own, then those of llama.cpp's programs in general.
pub fn rows(job: &str) -> impl Iterator<Item = &'static Flag> + Clone + use<> {
    let own = match job {
        "quantize" => QUANTIZE,
        "perplexity" => PERPLEXITY,
        "tokenize" => TOKENIZE,
        _ => &[],
    };
    own.iter().chain(flags::foreign())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_take_nothing_away_from_a_job() {
        use clap::Subcommand;
        let jobs = crate::cli::jobs::Job::augment_subcommands(clap::Command::new("qrun"));
        for job in jobs.get_subcommands().filter(|job| job.get_name() != "bench") {
            for arg in job.get_arguments().filter_map(clap::Arg::get_long) {
                let found = flags::find_in(rows(job.get_name()), &format!("--{arg}"));
                let renamed = |flag: &Flag| flag.status == flags::Status::Used && flag.id() == arg;
                assert!(found.is_none_or(|(flag, _)| renamed(flag)), "{} --{arg}", job.get_name());
            }
        }
    }
}
