//! `/set`: sampling parameters by the names of their flags.

use qrun::sampler::{Sampler, SamplerParams};

use crate::cli::{args::Args, flags, open::random_seed};

/// Flags that may change in the middle of a chat.
const SETTABLE: [&str; 11] = [
    "temp",
    "top-k",
    "top-p",
    "min-p",
    "typical",
    "repeat-penalty",
    "repeat-last-n",
    "presence-penalty",
    "frequency-penalty",
    "seed",
    "predict",
];

/// Changes the parameter that `rest` names to the value behind the name. Returns what to say.
///
/// # Errors
/// A name or a value that is not valid; nothing changes then.
pub fn set(params: &mut SamplerParams, limit: &mut Option<usize>, rest: &str) -> Result<String, String> {
    let (name, value) = rest.split_once([' ', '=']).ok_or_else(|| format!("/set {rest}: a value is missing"))?;
    let (name, value) = (name.trim_start_matches('-'), value.trim());
    let found = flags::find(&format!("--{name}")).or_else(|| flags::find(&format!("-{name}")));
    let settable = found.filter(|(flag, _)| SETTABLE.contains(&flag.id()));
    let (flag, _) = settable.ok_or_else(|| format!("/set {name}: no such parameter\n{}", list(params, *limit)))?;
    let wrong = |expected| format!("/set {name}: {expected}, found {value:?}");
    let read = flag.takes.read(value.as_ref()).map_err(wrong)?;
    // The flag has its effect on a command line that says nothing else.
    let mut args = Args::default();
    args.sampling.params = params.clone();
    (flag.apply)(&mut args, read);
    let (mut changed, mut shown) = (args.sampling.params, value.to_owned());
    if flag.id() == "seed" {
        let seed = args.sampling.seed.unwrap_or_else(random_seed);
        changed.seed = seed.into();
        shown = seed.to_string();
    }
    Sampler::new(changed.clone(), 1 << 22).map_err(|e| e.to_string())?;
    *params = changed;
    if flag.id() == "predict" {
        *limit = usize::try_from(args.sampling.n_predict).ok();
    }
    Ok(format!("{name} = {shown}"))
}

/// The parameters and their values.
pub fn list(p: &SamplerParams, limit: Option<usize>) -> String {
    let n = limit.map_or("-1".into(), |n| n.to_string());
    format!(
        "temp {}  top-k {}  top-p {}  min-p {}  typical {}  repeat-penalty {}  repeat-last-n {}\n\
         presence-penalty {}  frequency-penalty {}  seed {}  n {n}",
        p.temperature,
        p.top_k,
        p.top_p,
        p.min_p,
        p.typical_p,
        p.repeat_penalty,
        p.repeat_last_n,
        p.presence_penalty,
        p.frequency_penalty,
        p.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_before_they_hold() {
        let (mut params, mut limit) = (SamplerParams::default(), None);
        assert!(set(&mut params, &mut limit, "temp 0.1").is_ok());
        assert_eq!(params.temperature, 0.1);
        assert!(set(&mut params, &mut limit, "n 5").is_ok());
        assert_eq!(limit, Some(5));
        for bad in ["temp nan", "temp", "top-k x", "min-p 2", "frobnicate 1", "repeat-penalty -1"] {
            let before = params.clone();
            assert!(set(&mut params, &mut limit, bad).is_err(), "{bad}");
            assert_eq!(params, before, "{bad}");
        }
    }
}
