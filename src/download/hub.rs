//! What a repository has: of the hub, of ModelScope, of a URL.

use serde::Deserialize;

use super::{
    error::DownloadError,
    http::{Fault, Http, escaped, host},
    listing::{Listing, Remote},
    name::{Name, is_inside},
    partial::sha256,
};

/// Why there is no listing.
pub enum Refused {
    /// The server, or the way to it.
    Fault(Fault),
    /// What it said makes no sense.
    Answer(DownloadError),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Refused::Fault(fault)
    }
}

/// An answer that breaks its protocol.
pub fn odd(url: &str, expected: &str, found: impl ToString) -> Refused {
    let found: String = found.to_string().chars().take(200).collect();
    Refused::Answer(DownloadError::BadAnswer { host: host(url), expected: expected.to_owned(), found })
}

/// A JSON answer, and its text. `accept`: the type that is asked for.
///
/// # Errors
/// The server is not reached or refuses, or the answer is not what is `expected`.
pub fn json<T: for<'a> Deserialize<'a>>(
    http: &Http,
    url: &str,
    accept: &str,
    expected: &str,
) -> Result<(T, String), Refused> {
    let text = http.text(url, Some(accept))?;
    let value = serde_json::from_str(&text).map_err(|error| odd(url, expected, error))?;
    Ok((value, text))
}

#[derive(Deserialize)]
struct HubModel {
    sha: String,
    #[serde(default)]
    siblings: Vec<HubFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HubFile {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<HubLfs>,
}

#[derive(Deserialize)]
struct HubLfs {
    // The hub has had both names.
    #[serde(default, alias = "oid")]
    sha256: String,
    size: Option<u64>,
}

/// The hub's listing of a revision.
///
/// # Errors
/// As of [`json`]; a commit that is no hexadecimal number of 40 or 64 digits.
pub fn hub(http: &Http, endpoint: &str, name: &Name, revision: &str) -> Result<Listing, Refused> {
    let url =
        format!("{endpoint}/api/models/{}/revision/{}?blobs=true", name.repo, escaped(revision).replace('/', "%2F"));
    let (model, _): (HubModel, _) = json(http, &url, "application/json", "the hub's JSON about a model")?;
    if !is_id(&model.sha) {
        return Err(odd(&url, "a commit of 40 hexadecimal digits", &model.sha));
    }
    let file = |file: HubFile| {
        let sum = file.lfs.as_ref().map(|lfs| lfs.sha256.to_ascii_lowercase()).filter(|sum| is_sum(sum));
        // A small file that is not in LFS has no SHA-256: its blob is named by git's own sum, and only its size is checked.
        let id = sum.clone().or(file.blob_id).filter(|id| is_id(id))?;
        let size = file.lfs.and_then(|lfs| lfs.size).or(file.size);
        let url = format!("{endpoint}/{}/resolve/{}/{}", name.repo, model.sha, escaped(&file.rfilename));
        remote(file.rfilename, size, sum, id, url)
    };
    Ok(Listing { files: model.siblings.into_iter().filter_map(file).collect(), commit: model.sha.clone() })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ScopeAnswer {
    data: Option<ScopeFiles>,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ScopeFiles {
    #[serde(default)]
    files: Vec<ScopeFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ScopeFile {
    path: String,
    size: Option<u64>,
    #[serde(default)]
    sha256: String,
}

/// ModelScope's listing of a revision. It names no commit: a sum over the listing stands for it.
///
/// # Errors
/// As of [`json`]; an answer without files.
pub fn modelscope(http: &Http, endpoint: &str, name: &Name, revision: &str) -> Result<Listing, Refused> {
    let api = format!("{endpoint}/api/v1/models/{}/repo", name.repo);
    let query = escaped(revision).replace('/', "%2F");
    let url = format!("{api}/files?Revision={query}&Recursive=true");
    let (answer, _): (ScopeAnswer, _) = json(http, &url, "application/json", "ModelScope's JSON about files")?;
    let said = answer.message;
    let files = answer.data.ok_or_else(|| odd(&url, "files of a model", said))?.files;
    let file = |file: ScopeFile| {
        let sum = Some(file.sha256.to_ascii_lowercase()).filter(|sum| is_sum(sum))?;
        let url = format!("{api}?Revision={query}&FilePath={}", escaped(&file.path).replace('/', "%2F"));
        remote(file.path, file.size, Some(sum.clone()), sum, url)
    };
    let files: Vec<Remote> = files.into_iter().filter_map(file).collect();
    let all: String = files.iter().map(|file| format!("{} {}\n", file.path, file.id)).collect();
    Ok(Listing { commit: sha256(all.as_bytes())[..40].to_owned(), files })
}

/// A file at a URL: what the server says about it stands for its sum, which nobody knows.
///
/// # Errors
/// The server is not reached, or refuses.
pub fn url(http: &Http, name: &Name) -> Result<Listing, Refused> {
    let url = &name.repo;
    // Its first byte: an answer with a length, and a connection that can be left.
    let answer = http.get(url, Some("bytes=0-0"), None)?;
    let whole = answer.header("content-range").and_then(|range| range.rsplit_once('/')?.1.trim().parse().ok());
    let size = if answer.status == 206 { whole } else { answer.length() };
    let version = ["etag", "last-modified"].into_iter().find_map(|header| answer.header(header)).map(str::to_owned);
    let lasting = version.is_some();
    let id = sha256(format!("{url}\n{}\n{size:?}", version.unwrap_or_default()).as_bytes());
    let path = name.file.clone().unwrap_or_default();
    let commit = id[..40].to_owned();
    Ok(Listing { commit, files: vec![Remote { path, size, sha256: None, id, lasting, url: url.clone() }] })
}

/// A file of a listing, if it is one that qrun can want and its path is one that a folder can hold.
pub fn remote(path: String, size: Option<u64>, sha256: Option<String>, id: String, url: String) -> Option<Remote> {
    let fits = path.to_ascii_lowercase().ends_with(".gguf") && is_inside(&path);
    fits.then_some(Remote { path, size, sha256, id, lasting: true, url })
}

fn is_hex(word: &str, len: usize) -> bool {
    word.len() == len && word.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a word is a SHA-256 in hexadecimal digits.
pub fn is_sum(word: &str) -> bool {
    is_hex(word, 64)
}

/// What may name a blob or a commit, and so a file here.
fn is_id(word: &str) -> bool {
    is_hex(word, 40) || is_hex(word, 64)
}
