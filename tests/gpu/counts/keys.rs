//! The keys that the shipped machine code is executed for: of a step of decoding on SM 7.5, of a prompt on SM 9.0.

use std::{
    collections::BTreeMap,
    env,
    process::{Child, Command, Stdio},
};

use anyhow::{Result, ensure};
use qrun_cuda::image;
use qrun_emulator::{
    Code, Config,
    isa::cost::{CARDS, bytes_in_flight, estimate, waves},
};
use serde_json::{Map, Value, json};

use crate::{
    MODELS,
    code::{self, Executed, Step},
    models::MIX,
    times::Times,
    weights::Matrices,
};

/// Whose machine code a step of decoding is counted in, and a prompt.
const DECODE: u32 = 75;
const PROMPT: u32 = 90;
/// Tokens of the prompt; and the mixes of a model that have all formats which have a goal.
const TOKENS: u32 = 512;
const PROMPTS: [(&str, &str); 2] = [(MODELS[0], MIX), (MODELS[0], "Q4_0")];

/// Of a launch of decoding so many of the first and of the last blocks are executed: all, but for the head, whose blocks do
/// the same; and of a prompt, where all matrices are of one format.
const DECODE_BLOCKS: u64 = 128;
const PROMPT_BLOCKS: u64 = 2;

/// Keys of a step, each by model; the last two take a while.
const OF_A_STEP: [&str; 8] = [
    "issued_per_weight",
    "sector_efficiency",
    "lines_per_1024_weights",
    "bank_conflicts",
    "waves",
    "bytes_in_flight",
    "predicted_us",
    "predicted_tokens_per_s",
];
const PREDICTED: usize = 2;
const OF_A_PROMPT: &str = "instructions_per_mma";

/// Processes that count while this one does something else: the image is chosen for a process.
pub struct Counting {
    children: [Child; 2],
    predict: bool,
}

impl Counting {
    /// Starts them; whether they predict times, too.
    pub fn start(predict: bool) -> Result<Self> {
        let of = |sm: u32| {
            let mut child = Command::new(env::current_exe()?);
            child.arg("--keys").args((!predict).then_some("--check")).env(image::FORCE, format!("sm_{sm}"));
            child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        };
        Ok(Self { children: [of(DECODE)?, of(PROMPT)?], predict })
    }

    /// What they counted, by key; where they could not, why not.
    pub fn finish(self) -> Result<Map<String, Value>> {
        let [step, prompt] = self.children.map(counted);
        let (step, prompt) = (step?, prompt?);
        let of_each = |key: &str| match &step {
            Value::Object(models) => {
                models.iter().map(|(model, keys)| (model.clone(), keys[key].clone())).collect::<Map<_, _>>().into()
            }
            why => why.clone(),
        };
        let of_a_step = &OF_A_STEP[..OF_A_STEP.len() - if self.predict { 0 } else { PREDICTED }];
        let mut keys: Map<String, Value> = of_a_step.iter().map(|key| ((*key).to_owned(), of_each(key))).collect();
        let fill = CARDS.iter().map(|card| (card.name.to_owned(), json!(card.bytes_to_fill().round())));
        keys.insert("bytes_to_fill".into(), fill.collect::<Map<_, _>>().into());
        let prompt = if prompt.is_object() { json!({ format!("sm_{PROMPT}"): prompt }) } else { prompt };
        keys.insert(OF_A_PROMPT.into(), prompt);
        Ok(keys)
    }
}

fn counted(child: Child) -> Result<Value> {
    let done = child.wait_with_output()?;
    if !done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&done.stdout)?)
}

/// In such a process: the counts of its image.
pub fn count(predict: bool) -> Result<Value> {
    let sm = image::target(0)?.sm;
    ensure!([DECODE, PROMPT].contains(&sm), "sm_{sm}: expected sm_{DECODE} or sm_{PROMPT}");
    let device = Config { sm, code: Code::Sass, ..Config::default() };
    if sm == PROMPT {
        let device = Config { blocks: PROMPT_BLOCKS, ..device };
        let of_mix = |model| {
            code::execute(model, device.clone(), Step::Prompt(TOKENS), |executed| {
                Ok(Matrices::of(model, executed.decoder)?.per_mma(executed))
            })
        };
        let mut all = Map::new();
        for prompt in PROMPTS {
            all.extend(of_mix(prompt)?);
        }
        return Ok(all.into());
    }
    let device = Config { blocks: DECODE_BLOCKS, ..device };
    let of_model = |name: &str| -> Result<Value> {
        let model = (name, MIX);
        let mut keys = code::execute(model, device.clone(), Step::DECODE, |executed| {
            Ok(of_step(executed, &Matrices::of(model, executed.decoder)?, predict))
        })?;
        if predict {
            keys["predicted_tokens_per_s"] = tokens_per_s(model, &device)?;
        }
        Ok(keys)
    };
    MODELS.iter().map(|name| Ok(((*name).to_owned(), of_model(name)?))).collect::<Result<Map<_, _>>>().map(Into::into)
}

/// By step and card: at the high end of the times, and at the low one.
fn tokens_per_s(model: (&str, &str), device: &Config) -> Result<Value> {
    let of = |step: Step| {
        // Behind a text all blocks are executed: what comes before the step has to succeed.
        let blocks = if matches!(step, Step::Prompt(_)) { PROMPT_BLOCKS } else { 0 };
        let device = Config { blocks, memory: 64 << 30, ..device.clone() };
        let times = code::execute(model, device, step, |executed| Ok(code::times(executed)))?;
        Ok((step.name(), times.per_second(step.tokens())))
    };
    let steps = Step::DECODES.into_iter().chain([Step::Prompt(TOKENS)]);
    Ok(Value::Object(steps.map(of).collect::<Result<_>>()?))
}

/// The keys of a step of decoding.
fn of_step(executed: &Executed, matrices: &Matrices, predict: bool) -> Value {
    let [issued, efficiency, lines] = matrices.counts(executed);
    let mut keys = json!({
        "issued_per_weight": issued,
        "sector_efficiency": efficiency,
        "lines_per_1024_weights": lines,
        "bank_conflicts": bank_conflicts(executed),
        "waves": {},
        "bytes_in_flight": {},
    });
    let mut times = BTreeMap::<String, Times>::new();
    for launch in &executed.counts.launches {
        let multiplies = matrices.multiplies(launch).map(|(part, formats)| format!("{part} {formats}"));
        let name = multiplies.clone().unwrap_or_else(|| launch.kernel.clone());
        let hot = |sector| executed.hot(sector);
        let work = code::work(launch, &hot);
        for card in CARDS.iter().filter(|card| card.sm == launch.sm) {
            let mut least = |key: &str, value: f64| {
                let known = &mut keys[key][&name][card.name];
                *known = json!(known.as_f64().map_or(value, |known| known.min(value)));
            };
            least("waves", (waves(&work, card) * 100.0).round() / 100.0);
            if multiplies.is_some() {
                least("bytes_in_flight", bytes_in_flight(&work, card).round());
            }
            if predict && let Some(found) = estimate(&work, card) {
                times.entry(name.clone()).or_default().add(card, &found, executed.times(launch));
            }
        }
    }
    keys["predicted_us"] = times.iter().map(|(name, times)| (name.clone(), times.ends())).collect::<Map<_, _>>().into();
    keys
}

/// Passes over the banks of shared memory over those without conflicts, by kernel that uses it.
fn bank_conflicts(executed: &Executed) -> Value {
    let mut kernels = BTreeMap::<&String, [f64; 2]>::new();
    for launch in &executed.counts.launches {
        let (all, times) = (launch.counts.sum(&[]), executed.times(launch) * code::blocks(launch));
        let [passes, ideal] = kernels.entry(&launch.kernel).or_default();
        *passes += all.passes as f64 * times;
        *ideal += all.ideal_passes as f64 * times;
    }
    let used = kernels.into_iter().filter(|(_, [_, ideal])| *ideal > 0.0);
    let ratio = |[passes, ideal]: [f64; 2]| json!((passes / ideal * 1e3).round() / 1e3);
    used.map(|(kernel, sums)| (kernel.clone(), ratio(sums))).collect::<Map<_, _>>().into()
}
