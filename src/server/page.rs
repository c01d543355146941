//! The chat page, and what stands at `/` without it.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{api::ollama::models::RUNNING, error::ApiError, state::App};

/// A file of the page: its name behind `/ui/`, its type, its bytes.
type File = (&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const FILES: &[File] = &[
    ("index.html", HTML, include_bytes!("page/index.html")),
    ("style.css", "text/css; charset=utf-8", include_bytes!("page/style.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("page/icon.svg")),
    ("app.js", SCRIPT, include_bytes!("page/app.js")),
    ("markdown.js", SCRIPT, include_bytes!("page/markdown.js")),
    ("stream.js", SCRIPT, include_bytes!("page/stream.js")),
    ("store.js", SCRIPT, include_bytes!("page/store.js")),
    ("view.js", SCRIPT, include_bytes!("page/view.js")),
];

/// Nothing from elsewhere, nothing written into the page itself; no page of others around it.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /`: the page for browsers, Ollama's greeting for its clients.
pub async fn root(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match FILES.first().filter(|_| app.options.ui && accepts.contains("text/html")) {
        Some(file) => answer(file),
        None => RUNNING.into_response(),
    }
}

/// `GET /ui/{name}`: a file of the page.
///
/// # Errors
/// 404: it has no such file, or the server was started without it.
pub async fn file(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let file = FILES.iter().find(|file| file.0 == name).filter(|_| app.options.ui);
    file.map(answer).ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, format!("/ui/{name}: there is no such path")))
}

fn answer(&(_, kind, bytes): &File) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The files change with the program, under the same names.
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "Accept"),
    ];
    (headers, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of all files together.
    const MOST: usize = 150 << 10;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        let sum: usize = FILES.iter().map(|file| file.2.len()).sum();
        assert!(sum <= MOST, "{sum} bytes");
        for (name, _, bytes) in FILES {
            // The name of SVG's namespace is an address; nobody asks there.
            let text = std::str::from_utf8(bytes).expect("text").replace("xmlns=\"http://", "");
            for word in [
                "http://",
                "https://",
                "innerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                " style=",
                "<style",
            ] {
                assert!(!text.contains(word), "{name} has {word}");
            }
        }
    }

    #[test]
    fn every_file_that_the_page_names_is_there() {
        let index = std::str::from_utf8(FILES[0].2).expect("text");
        assert!(FILES[0].0 == "index.html" && index.contains("/ui/app.js"));
        let mut named = 0;
        for (of, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).expect("text");
            let links = text.split("\"/ui/").skip(1).chain(text.split("from \"./").skip(1));
            for name in links.filter_map(|rest| rest.split('"').next()) {
                named += 1;
                assert!(FILES.iter().any(|file| file.0 == name), "{of} names {name}");
            }
        }
        assert!(named >= FILES.len() - 1, "{named}");
    }
}
