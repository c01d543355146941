//! Flags of llama-quantize, llama-perplexity, llama-tokenize and llama-bench that the jobs answer without having them.

use crate::cli::flags::{
    self,
    Check::Text,
    Flag,
    Takes::{self, Maybe, Nothing, One},
};

const N: Takes = One("N", Text);
const FILE: Takes = One("FILE", Text);
const TYPE: Takes = One("TYPE", Text);
const MIXTURE: &str = "the types of the tensors are those of the recipe (TYPE)";
const IMATRIX: &str = "importance matrices are not implemented";
const TASKS: &str = "only perplexity and the distance from another model (--kl-base) are measured";
const BASE: &str = "--kl-base FILE compares with a model, which is run beside this one";
const STEPS: &str = "the text is read in chunks of -c tokens";
const AFFINITY: &str = "the operating system places threads";
const MAPPED: &str = "the file is always mapped";
const MOE: &str = "partial off-load is not implemented: models with experts run on the CPU";
const ONE_DEVICE: &str = "one device runs the whole model";
const NAME: &str =
    "the name stands in place of the file: USER/REPO[:TAG], USER/REPO:FILE or a URL; a token in HF_TOKEN";
const CONTEXT: &str = "the context is as long as the longest test needs";
const NO_COUNTERPART: &str = "has no counterpart in qrun";
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

#[rustfmt::skip]
const EMBED: &[Flag] = &[
    Flag::used("-ctk, --cache-type-k", TYPE, "type of cached keys", RENAMED),
    Flag::used("-ctv, --cache-type-v", TYPE, "type of cached values", RENAMED),
    Flag::used("-ub, --ubatch-size", N, "tokens that go through the layers together", RENAMED),
    Flag::used("-dev, --device", One("WHERE", Text), "where it runs", RENAMED),
    Flag::noted("-ngl, --gpu-layers, --n-gpu-layers", N, "embeddings are computed on the CPU"),
    Flag::noted("-b, --batch-size", N, "steps are as long as -ub says"),
    Flag::noted("-s, --seed", N, "nothing is drawn at random"),
    Flag::noted("-n, --predict, --n-predict", N, "nothing is written"),
    Flag::noted("-np, --parallel", N, "texts share steps as far as -ub says"),
    Flag::no_op("-e, --escape", Nothing, "\\n \\t \\\" … are expanded"),
    Flag::no_op("--embedding, --embeddings", Nothing, "vectors are all that comes out"),
    Flag::unless("--attention", One("TYPE", Text), "auto", "the model says which tokens see which"),
    Flag::refused("--cls-separator", One("TEXT", Text), "reranking is not implemented"),
];

/// Here what would change the measurement is refused.
#[rustfmt::skip]
const BENCH: &[Flag] = &[
    Flag::used("-pg, --pg", One("PP,TG", Text), "a prompt and then steps", RENAMED),
    Flag::used("-ub, --ubatch-size", N, "tokens that go through the layers together", RENAMED),
    Flag::used("-ctk, --cache-type-k", TYPE, "type of cached keys", RENAMED),
    Flag::used("-ctv, --cache-type-v", TYPE, "type of cached values", RENAMED),
    Flag::used("-ngl, --n-gpu-layers, --gpu-layers", N, "0 is the CPU", RENAMED),
    Flag::used("-dev, --device", One("WHERE", Text), "where it runs", RENAMED),
    Flag::used("-oe, --output-err", One("FORMAT", Text), "rows on stderr", RENAMED),
    Flag::used("-rpk, --repack", N, "weights are repacked at load", RENAMED),
    Flag::noted("-fa, --flash-attn", Maybe(&["on", "off", "auto"]), "attention never stores the whole score matrix"),
    Flag::noted("-sm, --split-mode", One("MODE", Text), ONE_DEVICE),
    Flag::noted("-lm, --load-mode", One("MODE", Text), MAPPED),
    Flag::noted("-lzm, --lazy-mode", One("MODE", Text), MAPPED),
    Flag::noted("-mmp, --mmap", N, MAPPED),
    Flag::noted("-dio, --direct-io", N, MAPPED),
    Flag::noted("--prio", N, AFFINITY),
    Flag::noted("--poll", N, AFFINITY),
    Flag::noted("--numa", One("TYPE", Text), AFFINITY),
    Flag::noted("-C, --cpu-mask", One("M", Text), AFFINITY),
    Flag::noted("--cpu-strict", N, AFFINITY),
    Flag::noted("-fitt, --fit-target", N, CONTEXT),
    Flag::noted("-fitc, --fit-ctx", N, CONTEXT),
    Flag::noted("-nopo, --no-op-offload", N, NO_COUNTERPART),
    Flag::noted("--no-host", N, NO_COUNTERPART),
    Flag::noted("-v, --verbose", Nothing, "everything there is to say is said"),
    Flag::noted("--progress", Nothing, "a terminal shows progress in any case"),
    Flag::unless("-mg, --main-gpu", N, "0", ONE_DEVICE),
    Flag::unless("-ts, --tensor-split", One("N0/N1/…", Text), "0", ONE_DEVICE),
    Flag::unless("-nkvo, --no-kv-offload", N, "0", "the cache lives where the model runs"),
    Flag::unless("-embd, --embeddings", N, "0", "embeddings are not implemented"),
    Flag::unless("-ncmoe, --n-cpu-moe", N, "0", MOE),
    Flag::refused("-ot, --override-tensor", One("PATTERN=DEVICE", Text), MOE),
    Flag::refused("-rpc, --rpc", One("SERVERS", Text), "remote back ends are not implemented"),
];

/// How llama.cpp's tools name a model of a hub.
#[rustfmt::skip]
const HUB: &[Flag] = &[
    Flag::refused("-hf, -hfr, --hf-repo", One("REPO", Text), NAME),
    Flag::refused("-hff, --hf-file", FILE, NAME),
    Flag::refused("-hft, --hf-token", One("TOKEN", Text), NAME),
    Flag::refused("-mu, --model-url", One("URL", Text), NAME),
    Flag::refused("-cl, --cache-list", Nothing, "qrun models lists the models in the cache"),
];

/// The rows for a job: its own, then those of llama.cpp's programs in general (the benchmark has other ones).
pub fn rows(job: &str) -> impl Iterator<Item = &'static Flag> + Clone + use<> {
    let own = match job {
        "quantize" => QUANTIZE,
        "perplexity" => PERPLEXITY,
        "tokenize" => TOKENIZE,
        "embed" => EMBED,
        "bench" => BENCH,
        _ => &[],
    };
    let general = (job != "bench").then(flags::foreign);
    own.iter().chain(HUB).chain(general.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bench(line: &str) -> Result<(String, usize), String> {
        let words: Vec<_> = line.split(' ').map(Into::into).collect();
        let (argv, notes) = crate::cli::jobs::normalise(&words).map_err(|exit| exit.message)?;
        let argv: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        Ok((argv.join(" "), notes.len()))
    }

    #[test]
    fn the_benchmark_takes_lines_as_people_type_them() {
        for (typed, words, notes) in [
            ("bench -m m.gguf -p 512 -pg 8,4", "bench -m m.gguf -p 512 --pg=8,4", 0),
            (
                "bench -ngl -1 -fa 1 -ctk q8_0 -ctv=f16 m",
                "bench --n-gpu-layers=-1 --cache-type-k=q8_0 --cache-type-v=f16 m",
                1,
            ),
            ("bench -fa -p 4", "bench -p 4", 1),
            ("bench -sm none --poll 0 --prio -1 -mg 0 -p 4", "bench -p 4", 3),
            ("bench -mmp 0 --mmap 1 -v -oe csv", "bench --output-err=csv", 3),
            ("bench -- -fa", "bench -- -fa", 0),
        ] {
            assert_eq!(of_bench(typed), Ok((words.into(), notes)), "{typed}");
        }
        for typed in ["-mg 1", "-nkvo 1", "-hf a/b", "-ot x=y", "-embd 1", "-xyz 1"] {
            let said = of_bench(&format!("bench {typed}")).expect_err(typed);
            assert!(said.contains(typed.split(' ').next().unwrap_or_default()), "{typed}: {said}");
        }
    }

    #[test]
    fn rows_take_nothing_away_from_a_job() {
        use clap::Subcommand;
        let jobs = crate::cli::jobs::Job::augment_subcommands(clap::Command::new("qrun"));
        for job in jobs.get_subcommands() {
            for arg in job.get_arguments().filter_map(clap::Arg::get_long) {
                let found = flags::find_in(rows(job.get_name()), &format!("--{arg}"));
                let renamed = |flag: &Flag| flag.status == flags::Status::Used && flag.id() == arg;
                assert!(found.is_none_or(|(flag, _)| renamed(flag)), "{} --{arg}", job.get_name());
            }
        }
    }
}
