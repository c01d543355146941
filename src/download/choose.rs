//! Of a repository's files the one that is meant, as llama.cpp chooses it, with all its shards.

use super::error::DownloadError;

/// What files of a model beside its weights have in their names.
const NOT_MODELS: [&str; 6] = ["mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-"];

/// The tags that are taken where none is asked for, in this order.
const USUAL: [&str; 2] = ["Q4_K_M", "Q8_0"];

/// What is asked of a repository.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// The repository, for errors.
    pub name: &'a str,
    pub tag: Option<&'a str>,
    /// Wins over the tag.
    pub file: Option<&'a str>,
}

/// The paths of the model that is meant, all its shards in their order.
///
/// # Errors
/// There is no such file; the error lists those that there are.
pub fn choose<'a>(paths: &[&'a str], asked: &Asked) -> Result<Vec<&'a str>, DownloadError> {
    let mut models: Vec<&str> = paths.iter().copied().filter(|path| is_model(path)).collect();
    models.sort_unstable();
    let first = match (asked.file, asked.tag) {
        (Some(file), _) => {
            let mut gguf: Vec<&str> = paths.iter().copied().filter(|path| is_gguf(path)).collect();
            gguf.sort_unstable();
            let found = gguf.iter().find(|path| path.eq_ignore_ascii_case(file)).copied();
            let missing =
                || none(asked, format!("file {file:?}"), gguf.iter().map(|path| (*path).to_owned()).collect());
            found.ok_or_else(missing)?
        }
        (None, Some(tag)) => {
            let missing = || none(asked, format!("file with the tag {tag:?}"), tags(&models));
            tagged(&models, tag).ok_or_else(missing)?
        }
        (None, None) => {
            let usual = USUAL.iter().find_map(|tag| tagged(&models, tag));
            let any = || models.iter().copied().find(|path| is_first(path));
            usual.or_else(any).ok_or_else(|| none(asked, "GGUF file of a model".to_owned(), Vec::new()))?
        }
    };
    shards(paths, first, asked)
}

fn none(asked: &Asked, wanted: String, available: Vec<String>) -> DownloadError {
    DownloadError::NoFile { name: asked.name.to_owned(), wanted, available }
}

fn is_gguf(path: &str) -> bool {
    path.to_ascii_lowercase().ends_with(".gguf")
}

fn is_model(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    is_gguf(&file) && !NOT_MODELS.iter().any(|part| file.contains(part))
}

/// The first file that has the tag before a `.`, a `-` or, as a folder's name, a `/`, in any case; one that has it as a
/// word of its own first.
fn tagged<'a>(models: &[&'a str], tag: &str) -> Option<&'a str> {
    let tag = tag.to_ascii_lowercase();
    let has = |path: &str, whole: bool| {
        let path = path.to_ascii_lowercase();
        path.match_indices(&tag).any(|(at, _)| {
            let before = path[..at].chars().next_back();
            path[at + tag.len()..].starts_with(['.', '-', '/'])
                && (!whole || before.is_none_or(|c| !c.is_alphanumeric()))
        })
    };
    let find = |whole| models.iter().copied().find(|path| is_first(path) && has(path, whole));
    find(true).or_else(|| find(false))
}

/// The tags of models, each once; of models without tags their files.
fn tags(models: &[&str]) -> Vec<String> {
    let tag = |path: &&str| {
        let file = path.rsplit('/').next().unwrap_or_default();
        let stem = split(file).map_or_else(|| file[..file.len() - ".gguf".len()].to_owned(), |s| s.0);
        let (_, tag) = stem.rsplit_once(['-', '.'])?;
        tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then(|| tag.to_owned())
    };
    let mut tags: Vec<String> = models.iter().filter(|path| is_first(path)).filter_map(tag).collect();
    tags.sort();
    tags.dedup();
    if tags.is_empty() { models.iter().map(|path| (*path).to_owned()).collect() } else { tags }
}

/// `STEM-NNNNN-of-NNNNN.gguf` as stem, number and count.
fn split(path: &str) -> Option<(String, usize, usize)> {
    let stem = path.get(..path.len().checked_sub(".gguf".len())?)?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| (text.len() == 5).then(|| text.parse::<usize>().ok()).flatten();
    let (number, count) = (digits(number)?, digits(count)?);
    (is_gguf(path) && (1..=count).contains(&number)).then(|| (stem.to_owned(), number, count))
}

fn is_first(path: &str) -> bool {
    split(path).is_none_or(|(_, number, _)| number == 1)
}

/// All shards of the model that `path` belongs to.
fn shards<'a>(paths: &[&'a str], path: &'a str, asked: &Asked) -> Result<Vec<&'a str>, DownloadError> {
    let Some((stem, _, count)) = split(path) else { return Ok(vec![path]) };
    let shard = |number: usize| {
        let is = |path: &&&str| split(path).is_some_and(|s| (s.0.as_str(), s.1, s.2) == (stem.as_str(), number, count));
        let there =
            || paths.iter().filter(|p| split(p).is_some_and(|s| s.0 == stem)).map(|p| (*p).to_owned()).collect();
        paths
            .iter()
            .find(is)
            .copied()
            .ok_or_else(|| none(asked, format!("shard {number} of {count} of {stem}"), there()))
    };
    (1..=count).map(shard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPO: &[&str] = &[
        "README.md",
        "mmproj-F16.gguf",
        "x-BF16.gguf",
        "x-IQ4_XS.gguf",
        "x-Q4_K_M.gguf",
        "x-Q8_0.gguf",
        "x-UD-Q4_K_XL.gguf",
        "Q6_K/x-Q6_K-00002-of-00002.gguf",
        "Q6_K/x-Q6_K-00001-of-00002.gguf",
        "imatrix_x.gguf",
    ];

    fn chosen(paths: &[&str], tag: Option<&str>, file: Option<&str>) -> String {
        match choose(paths, &Asked { name: "u/r", tag, file }) {
            Ok(paths) => paths.join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn tags_choose_as_llama_cpp_does() {
        let six = "Q6_K/x-Q6_K-00001-of-00002.gguf Q6_K/x-Q6_K-00002-of-00002.gguf";
        for (tag, wanted) in [
            (None, "x-Q4_K_M.gguf"),
            (Some("Q8_0"), "x-Q8_0.gguf"),
            (Some("q8_0"), "x-Q8_0.gguf"),
            (Some("bf16"), "x-BF16.gguf"),
            (Some("Q4_K_XL"), "x-UD-Q4_K_XL.gguf"),
            (Some("UD-Q4_K_XL"), "x-UD-Q4_K_XL.gguf"),
            (Some("Q6_K"), six),
            (Some("F16"), "x-BF16.gguf"),
        ] {
            assert_eq!(chosen(REPO, tag, None), wanted, "{tag:?}");
        }
        let old = ["tiny.Q2_K.gguf", "tiny.Q5_K_M.gguf", "tiny.Q8_0.gguf"];
        assert_eq!(chosen(&old, None, None), "tiny.Q8_0.gguf");
        assert_eq!(chosen(&old[..2], None, None), "tiny.Q2_K.gguf", "the first");
        // A tag is a word: the file that has it inside of another one comes second.
        assert_eq!(chosen(&["a-F16.gguf", "x-BF16.gguf"], Some("F16"), None), "a-F16.gguf");
        assert_eq!(chosen(&["a-BF16.gguf", "x-F16.gguf"], Some("F16"), None), "x-F16.gguf");
        assert_eq!(chosen(&["BF16/x.gguf", "Q8_0/x.gguf"], Some("q8_0"), None), "Q8_0/x.gguf");
        assert!(chosen(&["BF16/x.gguf", "Q8_0/x.gguf"], Some("F32"), None).ends_with("BF16/x.gguf, Q8_0/x.gguf"));
    }

    #[test]
    fn files_are_named_in_any_case_and_bring_their_shards() {
        assert_eq!(chosen(REPO, None, Some("X-q8_0.GGUF")), "x-Q8_0.gguf");
        assert_eq!(chosen(REPO, Some("Q8_0"), Some("mmproj-F16.gguf")), "mmproj-F16.gguf");
        let both = chosen(REPO, None, Some("Q6_K/x-Q6_K-00002-of-00002.gguf"));
        assert_eq!(both, "Q6_K/x-Q6_K-00001-of-00002.gguf Q6_K/x-Q6_K-00002-of-00002.gguf");
    }

    #[test]
    fn what_is_missing_is_listed() {
        let said = chosen(REPO, Some("Q5_K_M"), None);
        assert!(said.starts_with("u/r: no file with the tag \"Q5_K_M\"; there are: BF16, IQ4_XS, Q4_K_M"), "{said}");
        assert!(said.contains("Q6_K, Q8_0") && !said.contains("mmproj"), "{said}");
        let said = chosen(REPO, None, Some("y.gguf"));
        assert!(said.contains("no file \"y.gguf\"") && said.contains("x-Q8_0.gguf"), "{said}");
        assert!(chosen(&["README.md"], None, None).contains("no GGUF file of a model"));
        let said = chosen(&["x-Q8_0-00001-of-00003.gguf", "x-Q8_0-00003-of-00003.gguf"], None, None);
        assert!(said.contains("shard 2 of 3"), "{said}");
    }

    /// Names that look almost like shards, and no panic on any.
    #[test]
    fn shards_have_five_digits() {
        for odd in [
            "-of-.gguf",
            "x-1-of-2.gguf",
            "x-00003-of-00002.gguf",
            "x-00000-of-00002.gguf",
            ".gguf",
            "ä",
            "-of-00001.gguf",
        ] {
            assert_eq!(split(odd), None, "{odd}");
        }
        assert_eq!(split("x-00001-of-00002.gguf"), Some(("x".into(), 1, 2)));
    }
}
