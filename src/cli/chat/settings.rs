//! `/set`: sampling parameters by the names of their flags.

use qrun::sampler::{Sampler, SamplerParams};

use crate::cli::open::random_seed;

/// Changes the parameter that `rest` names to the value behind the name. Returns what to say.
///
/// # Errors
/// A name or a value that is not valid; nothing changes then.
pub fn set(params: &mut SamplerParams, limit: &mut Option<usize>, rest: &str) -> Result<String, String> {
    let (name, value) = rest.split_once([' ', '=']).ok_or_else(|| format!("/set {rest}: a value is missing"))?;
    let (name, value) = (name.trim_start_matches('-').replace('_', "-"), value.trim());
    let (mut changed, mut shown) = (params.clone(), value.to_owned());
    let wrong = |expected: &str| format!("/set {name}: expected {expected}, found {value:?}");
    let real = || value.parse::<f32>().ok().filter(|v| v.is_finite()).ok_or_else(|| wrong("a number"));
    let whole = || value.parse::<i32>().map_err(|_| wrong("a whole number"));
    match name.as_str() {
        "temp" | "temperature" => changed.temperature = real()?,
        "top-k" => changed.top_k = whole()?,
        "top-p" => changed.top_p = real()?,
        "min-p" => changed.min_p = real()?,
        "typical" => changed.typical_p = real()?,
        "repeat-penalty" => changed.repeat_penalty = real()?,
        "repeat-last-n" => changed.repeat_last_n = whole()?,
        "presence-penalty" => changed.presence_penalty = real()?,
        "frequency-penalty" => changed.frequency_penalty = real()?,
        "seed" if value == "-1" => {
            changed.seed = random_seed().into();
            shown = changed.seed.to_string();
        }
        "seed" => changed.seed = value.parse::<u32>().map_err(|_| wrong("a whole number"))?.into(),
        "n" | "predict" | "n-predict" => *limit = usize::try_from(whole()?).ok(),
        _ => return Err(format!("/set {name}: no such parameter\n{}", list(params, *limit))),
    }
    Sampler::new(changed.clone(), 1 << 22).map_err(|e| e.to_string())?;
    *params = changed;
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
