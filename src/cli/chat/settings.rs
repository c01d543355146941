//! `/set`: sampling parameters by the names of their flags.

use crate::sampler::{Sampler, SamplerParams};

use crate::cli::{
    args::{Args, Sampling},
    flags,
    open::random_seed,
};

/// Columns of the list of parameters.
const WIDTH: usize = 78;

/// Changes the parameter that `rest` names to the value behind the name. Returns what to say.
///
/// # Errors
/// A name or a value that is not valid; nothing changes then.
pub fn set(params: &mut SamplerParams, limit: &mut Option<usize>, rest: &str) -> Result<String, String> {
    let (name, value) = rest.split_once([' ', '=']).ok_or_else(|| format!("/set {rest}: a value is missing"))?;
    let (name, value) = (name.trim_start_matches('-'), value.trim());
    let found = flags::find(&format!("--{name}")).or_else(|| flags::find(&format!("-{name}")));
    let settable = found.and_then(|(flag, _)| Some((flag, flag.value?)));
    let (flag, shown) = settable.ok_or_else(|| format!("/set {name}: no such parameter\n{}", list(params, *limit)))?;
    let wrong = |expected| format!("/set {name}: {expected}, found {value:?}");
    let read = flag.takes.read(value.as_ref()).map_err(wrong)?;
    // The flag has its effect on a command line that says what is in effect now.
    let mut args = Args { sampling: in_effect(params, *limit), ..Args::default() };
    (flag.apply)(&mut args, read);
    let mut changed = args.sampling;
    if flag.id() == "seed" {
        changed.params.seed = changed.seed.unwrap_or_else(random_seed).into();
    }
    Sampler::new(changed.params.clone(), 1 << 22).map_err(|e| e.to_string())?;
    let said = format!("{name} = {}", shown(&changed));
    (*params, *limit) = (changed.params, usize::try_from(changed.n_predict).ok());
    Ok(said)
}

/// The parameters and their values, by the names of their flags.
pub fn list(params: &SamplerParams, limit: Option<usize>) -> String {
    let sampling = in_effect(params, limit);
    let settable = flags::all().filter_map(|flag| Some(format!("{} {}", flag.id(), flag.value?(&sampling))));
    settable.fold(String::new(), |mut text, item| {
        let column = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
        text += if text.is_empty() {
            ""
        } else if column + item.len() < WIDTH {
            "  "
        } else {
            "\n"
        };
        text + &item
    })
}

fn in_effect(params: &SamplerParams, limit: Option<usize>) -> Sampling {
    let n_predict = limit.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    Sampling { n_predict, params: params.clone(), ..Sampling::default() }
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
        assert!(list(&params, limit).starts_with("predict 5  seed "), "{}", list(&params, limit));
        assert_eq!(limit, Some(5));
        for bad in ["temp nan", "temp", "top-k x", "min-p 2", "frobnicate 1", "repeat-penalty -1"] {
            let before = params.clone();
            assert!(set(&mut params, &mut limit, bad).is_err(), "{bad}");
            assert_eq!(params, before, "{bad}");
        }
    }
}
