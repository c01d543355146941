//! What every request must pass before its route: the name of the host, the origin of the page, the key. What every answer
//! gets: its id, the headers for pages, errors in the dialect of the path, a line in the log.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::ConstantTimeEq;

use super::{
    body::{read, shown_key},
    error::{ApiError, Dialect},
    log::Line,
    state::App,
};

/// Paths that say whether requests are taken, and whether the process answers: they do to the end.
const STATE: &[&str] = &["/health", "/v1/health", "/livez"];
/// Paths that are answered without a key: they tell nothing, or are the page that asks for it.
const OPEN: &[&str] = &["/health", "/v1/health", "/livez", "/openapi.json", "/", "/index.html"];
/// Bytes of a body that are read of someone who is not let in, and the time for them.
const STRANGER: (usize, Duration) = (256 << 10, Duration::from_secs(1));
/// Below it are the files of the page.
const PAGE: &str = "/ui/";

/// Lets a request through, or answers it.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = request.headers().get(header::ORIGIN).cloned();
    let id = app.id("req_");
    let line = Line::new(&app.log, &id, method.clone(), &path);
    let (parts, body) = request.into_parts();
    let checked = check(&app, &parts);
    // A body that nobody has read closes the connection under the answer: it is read here, of strangers a little of it.
    let known = checked.as_ref().err().is_none_or(|error| error.retry_after.is_some());
    let (most, time) = if known { (app.options.max_body, app.options.timeout) } else { STRANGER };
    let mut response = match (checked, read(body, most, time).await) {
        (Err(error), _) | (Ok(()), Err(error)) => error.into_response(),
        (Ok(()), Ok(_)) if method == Method::OPTIONS => StatusCode::OK.into_response(),
        (Ok(()), Ok(bytes)) => line.scope(next.run(Request::from_parts(parts, Body::from(bytes)))).await,
    };
    let error = match response.extensions_mut().remove::<ApiError>() {
        None if response.status().is_client_error() => Some(refusal(&mut response).await),
        error => error,
    };
    if let Some(error) = &error {
        line.why(error.logged());
        response = error.response(Dialect::of(&path));
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        // Anthropic's clients read it under the shorter name.
        headers.insert("request-id", id.clone());
        headers.insert("x-request-id", id);
    }
    if let Some(origin) = origin.filter(|origin| is_allowed_origin(&app, origin)) {
        allow(headers, origin);
    }
    line.status(response.status().as_u16());
    response
}

/// What the router refuses by itself (a path or a query that is no UTF-8), as it says it.
async fn refusal(response: &mut Response) -> ApiError {
    let text = to_bytes(std::mem::take(response.body_mut()), 4096).await.unwrap_or_default();
    ApiError::new(response.status(), String::from_utf8_lossy(&text))
}

fn check(app: &App, request: &Parts) -> Result<(), ApiError> {
    let headers = &request.headers;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_allowed_host(app, host) {
        let message = format!("Host {host:?} is not a name of this server; --allowed-hosts adds names");
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    if let Some(origin) = headers.get(header::ORIGIN).filter(|origin| !is_allowed_origin(app, origin)) {
        let message = format!("pages of {origin:?} may not call this server; --cors-origins adds origins");
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    let path = request.uri.path();
    let open = request.method == Method::OPTIONS || OPEN.contains(&path) || path.starts_with(PAGE);
    if !open && !app.options.api_keys.is_empty() && !shows_key(&app.options.api_keys, headers) {
        let message = "Invalid API Key: send one of the server's as Authorization: Bearer KEY, or x-api-key: KEY";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, message));
    }
    if STATE.contains(&path) { Ok(()) } else { app.takes_requests() }
}

/// Whether one of the keys is shown. Takes as long for each of them as for the right one.
fn shows_key(keys: &[String], headers: &HeaderMap) -> bool {
    let shown = shown_key(headers);
    keys.iter().fold(false, |found, key| found | bool::from(key.as_bytes().ct_eq(shown)))
}

/// A page that reaches us under a name of its own (DNS rebinding) is not let in: on a loopback address only localhost and IP
/// addresses are our names, and those that the options add.
fn is_allowed_host(app: &App, host: &str) -> bool {
    let name = without_port(host);
    let local = app.options.hosts.iter().all(|host| is_loopback(host));
    let allowed = |a: &String| a == "*" || a.eq_ignore_ascii_case(name);
    !local || is_own_name(name) || name.is_empty() || app.options.allowed_hosts.iter().any(allowed)
}

fn is_allowed_origin(app: &App, origin: &HeaderValue) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    let listed = || app.options.cors_origins.iter().any(|allowed| allowed == "*" || allowed == origin);
    let name = origin.split_once("://").map(|(_, rest)| without_port(rest));
    listed() || name.is_some_and(|name| name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// Whether an address is this machine's alone.
pub fn is_loopback(host: &str) -> bool {
    let name = bare(host);
    host.ends_with(".sock") || name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// `[::1]` → `::1`.
pub fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_own_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// `[::1]:8080` → `::1`, `localhost:8080` → `localhost`.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Headers by which a browser lets a page of `origin` read the answer.
fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    let fixed: [(HeaderName, &'static str); 4] = [
        (header::VARY, "Origin"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE, OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization"),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn loopback_addresses_are_known_in_brackets_too() {
        for host in ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "/run/qrun.sock"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["0.0.0.0", "::", "[::]", "10.0.0.7", "[fe80::1]", "example.org"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
