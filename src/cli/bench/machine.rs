//! Where and how a model runs: lists for llama-bench's rows, one value of each for the other modes.

use qrun::{bench::rows::Setting, engine::DevicePreference};
use qrun_models::KvType;

use super::numbers::{self, Numbers};
use crate::cli::{
    exit::Exit,
    values::{cache_type, device, threads},
};

/// Tokens that llama-bench hands over together, unless it is told otherwise.
const BATCH: usize = 2048;
/// Tokens that go through the layers together.
const UBATCH: usize = 512;
/// The most combinations of one command line.
pub const MOST: usize = 10_000;

/// Where and how it runs; llama-bench's rows take lists, 4,8 or 1-16*2.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model and machine")]
pub struct Machine {
    /// auto (the GPU if the model runs there), cuda or cpu
    #[arg(long, value_name = "WHERE", value_delimiter = ',', value_parser = device)]
    device: Vec<DevicePreference>,
    /// 0: the CPU; any other number of layers: the GPU, as --device says (-ngl)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::layers)]
    n_gpu_layers: Vec<Numbers>,
    /// CPU threads [physical cores]
    #[arg(short, long, value_name = "N", value_parser = numbers::threads)]
    threads: Vec<Numbers>,
    /// Tokens of a prompt that are handed over together [2048]: at most so many go through the layers together
    #[arg(short, long, value_name = "N", value_parser = numbers::from_one)]
    batch_size: Vec<Numbers>,
    /// Tokens that go through the layers together in a prompt [512] (-ub)
    #[arg(long, value_name = "N", value_parser = numbers::from_one)]
    ubatch_size: Vec<Numbers>,
    /// Type of cached keys: f32, f16 or q8_0 [f16] (-ctk)
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = cache_type)]
    cache_type_k: Vec<KvType>,
    /// Type of cached values (-ctv)
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = cache_type)]
    cache_type_v: Vec<KvType>,
    /// Repack weights at load: 1 (as without the flag) or 0
    #[arg(long, value_name = "0|1", value_delimiter = ',', value_parser = switch)]
    repack: Vec<bool>,
    /// Do not repack weights at load
    #[arg(long, conflicts_with = "repack")]
    no_repack: bool,
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" | "off" => Ok(false),
        "1" | "on" => Ok(true),
        _ => Err("expected 0 or 1".into()),
    }
}

impl Machine {
    /// Every combination, in llama-bench's order: what is named first here changes last.
    pub fn settings(&self) -> Result<Vec<Setting>, Exit> {
        let combinations = self.given().fold(1usize, |product, (_, _, n)| product.saturating_mul(n.max(1)));
        if combinations > MOST {
            return Err(Exit::usage(format!("{combinations} combinations of settings; at most {MOST} are run")));
        }
        let mut settings = vec![Setting {
            device: DevicePreference::Auto,
            n_gpu_layers: -1,
            n_batch: BATCH,
            n_ubatch: UBATCH,
            threads: threads(None),
            type_k: KvType::F16,
            type_v: KvType::F16,
            repack: !self.no_repack,
        }];
        each(&mut settings, &all(&self.n_gpu_layers), |s, n| s.n_gpu_layers = n);
        each(&mut settings, &self.device, |s, device| s.device = device);
        each(&mut settings, &self.repack, |s, repack| s.repack = repack);
        each(&mut settings, &counts(&self.batch_size), |s, n| s.n_batch = n);
        each(&mut settings, &counts(&self.ubatch_size), |s, n| s.n_ubatch = n);
        each(&mut settings, &self.cache_type_k, |s, ty| s.type_k = ty);
        each(&mut settings, &self.cache_type_v, |s, ty| s.type_v = ty);
        each(&mut settings, &counts(&self.threads), |s, n| s.threads = n);
        Ok(settings)
    }

    /// The only combination.
    pub fn setting(&self) -> Result<Setting, Exit> {
        if let Some((_, flag, n)) = self.given().find(|(_, _, n)| *n > 1) {
            return Err(Exit::usage(format!("{flag}: {n} values, but only llama-bench's rows take more than one")));
        }
        Ok(self.settings()?.remove(0))
    }

    /// Fields of a row that flags were given for.
    pub fn asked(&self) -> Vec<&'static str> {
        self.given().filter(|(_, _, n)| *n > 0).map(|(field, ..)| field).collect()
    }

    /// Field, flag, and how many values it was given.
    fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, usize)> {
        [
            ("devices", "--device", self.device.len()),
            ("n_gpu_layers", "--n-gpu-layers", all(&self.n_gpu_layers).len()),
            ("n_threads", "--threads", all(&self.threads).len()),
            ("n_batch", "--batch-size", all(&self.batch_size).len()),
            ("n_ubatch", "--ubatch-size", all(&self.ubatch_size).len()),
            ("type_k", "--cache-type-k", self.cache_type_k.len()),
            ("type_v", "--cache-type-v", self.cache_type_v.len()),
            ("repack", "--repack", self.repack.len().max(usize::from(self.no_repack))),
        ]
        .into_iter()
    }
}

/// The numbers of all occurrences of a flag.
pub fn all(given: &[Numbers]) -> Vec<i64> {
    given.iter().flat_map(|numbers| numbers.0.iter().copied()).collect()
}

/// The same where none is negative.
pub fn counts(given: &[Numbers]) -> Vec<usize> {
    all(given).into_iter().filter_map(|n| usize::try_from(n).ok()).collect()
}

/// Every setting with each of the values; as they are where no value was given.
fn each<T: Copy>(settings: &mut Vec<Setting>, values: &[T], set: impl Fn(&mut Setting, T)) {
    if values.is_empty() {
        return;
    }
    let with = |setting: &Setting, &value: &T| {
        let mut setting = setting.clone();
        set(&mut setting, value);
        setting
    };
    *settings = settings.iter().flat_map(|s| values.iter().map(move |v| (s, v))).map(|(s, v)| with(s, v)).collect();
}
