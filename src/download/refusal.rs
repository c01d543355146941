//! What a server's no means to who asked it for a model: what was asked, what it answered, what to do.

use super::{
    error::DownloadError,
    http::{Fault, Refusal},
    name::Source,
};

/// What was asked for, and whom; for messages.
pub struct Asked<'a> {
    pub source: Source,
    /// The repository or the file, as people type it.
    pub shown: &'a str,
    /// `USER/REPO` of the hub.
    pub repo: &'a str,
    /// URL of the hub.
    pub hub: &'a str,
    /// The server has listed it: what it refuses is the file.
    pub listed: bool,
}

/// What a fault means to who asked.
pub fn of_fault(fault: Fault, asked: &Asked) -> DownloadError {
    let (file, kept) = (asked.shown.to_owned(), String::new());
    match fault {
        Fault::Unreachable { host, reason } | Fault::Cut { host, reason } => {
            DownloadError::Network { file, host, reason, kept }
        }
        Fault::NoRanges { host } => {
            DownloadError::Network { file, host, reason: "it gives no ranges".to_owned(), kept }
        }
        Fault::Changed { host, expected, found } => DownloadError::BadAnswer { host, expected, found },
        Fault::Status(refusal) => of_refusal(&refusal, asked),
    }
}

fn of_refusal(refusal: &Refusal, asked: &Asked) -> DownloadError {
    let code = refusal.code.as_str();
    if let (429 | 503, Some(after)) = (refusal.status, refusal.retry_after) {
        return status(refusal, asked, &format!(" (try again in {} s)", after.as_secs()));
    }
    match (refusal.status, asked.source) {
        // Only the hub has codes, also behind a mirror of it; where there are none, files lie elsewhere.
        (401 | 403 | 404 | 410, _) if code.is_empty() && refusal.asked != refusal.host => {
            let hint = format!("; {} has led there: try again, its address may have expired", refusal.asked);
            status(refusal, asked, &hint)
        }
        (401 | 403 | 404 | 410, Source::Hub) => of_hub(refusal, asked),
        (404 | 410, Source::Url) => absent(refusal, asked, "file", "is the address right?"),
        (404 | 410, _) if asked.listed => unlisted(refusal, asked),
        (404 | 410, Source::Ollama) => {
            absent(refusal, asked, "model", "are its name and tag right (ollama://NAME:TAG)?")
        }
        (404 | 410, _) => absent(refusal, asked, "repository", "is the name right (ms:USER/REPO, case counts)?"),
        (401 | 403, _) if refusal.token => token(refusal, asked),
        (401 | 403, Source::Url) => {
            let hint = "; qrun sends no token there (HF_TOKEN is for the hub): fetch the file by other means, and name \
                        its path";
            status(refusal, asked, hint)
        }
        (401 | 403, _) => status(refusal, asked, "; qrun sends no token there: only what is public can be fetched"),
        _ => status(refusal, asked, ""),
    }
}

fn of_hub(refusal: &Refusal, asked: &Asked) -> DownloadError {
    let code = refusal.code.as_str();
    let said_gated = refusal.status == 403 && refusal.said.to_ascii_lowercase().contains("gated");
    match refusal.status {
        401 | 403 if code == "GatedRepo" || said_gated => gated(refusal, asked),
        401 | 403 if refusal.token => token(refusal, asked),
        404 | 410 if asked.listed && matches!(code, "" | "EntryNotFound") => unlisted(refusal, asked),
        401 if code == "RepoNotFound" || code.is_empty() && !asked.listed => {
            let hint = "where it is private or gated: set HF_TOKEN (or -hft) to a token that may read it";
            absent(refusal, asked, "repository", hint)
        }
        404 | 410 if matches!(code, "" | "RepoNotFound") => {
            absent(refusal, asked, "repository", "is the name right (USER/REPO, case counts)?")
        }
        401 | 403 => {
            let hint = "; where it is private or gated: set HF_TOKEN (or -hft) to a token that may read it";
            status(refusal, asked, hint)
        }
        _ => status(refusal, asked, ""),
    }
}

fn gated(refusal: &Refusal, asked: &Asked) -> DownloadError {
    // A mirror leads to the hub itself, where the licence is.
    let led = refusal.asked != refusal.host;
    let hub = if led { format!("https://{}", refusal.host) } else { asked.hub.to_owned() };
    let found = if refusal.token { " (the token that was sent may not read it)" } else { " (no token was sent)" };
    let page = format!("{hub}/{}", asked.repo);
    DownloadError::Gated { name: asked.shown.to_owned(), page, found: found.to_owned() }
}

fn token(refusal: &Refusal, asked: &Asked) -> DownloadError {
    let (name, place) = (asked.shown.to_owned(), refusal.host.clone());
    DownloadError::Token { name, place, reason: said(refusal) }
}

/// It is in a listing of the same server.
fn unlisted(refusal: &Refusal, asked: &Asked) -> DownloadError {
    absent(refusal, asked, "file", "its listing has it: try again later")
}

fn absent(refusal: &Refusal, asked: &Asked, what: &'static str, hint: &str) -> DownloadError {
    let (name, place) = (asked.shown.to_owned(), refusal.host.clone());
    DownloadError::NotFound { name, place, what, hint: format!("; {hint}") }
}

fn status(refusal: &Refusal, asked: &Asked, hint: &str) -> DownloadError {
    let (file, host, status) = (asked.shown.to_owned(), refusal.host.clone(), refusal.status);
    DownloadError::Status { file, host, status, reason: format!("{}{hint}", said(refusal)) }
}

/// The server's own words, behind a colon.
fn said(refusal: &Refusal) -> String {
    if refusal.said.is_empty() { String::new() } else { format!(": {}", refusal.said) }
}
