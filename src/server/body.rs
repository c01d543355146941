//! What comes with a request.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body as Incoming, Bytes, to_bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, StatusCode, header},
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{error::ApiError, fields::brief, state::App};

/// The whole of a body.
///
/// # Errors
/// 413: more than `most` bytes; 408: it does not come within `time`.
pub async fn read(body: Incoming, most: usize, time: Duration) -> Result<Bytes, ApiError> {
    let late = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not come within the time for it");
    let large = || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"));
    timeout(time, to_bytes(body, most)).await.map_err(|_| late())?.map_err(|_| large())
}

/// The field in which the key of a request is handed on, where the cache is each key's own. What a body has there is
/// replaced.
pub const OWNER: &str = "cache_owner";

/// The key that a request shows, if any.
pub fn shown_key(headers: &HeaderMap) -> &[u8] {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes)).unwrap_or_default()
}

/// A JSON object, with the key of its request where that matters.
///
/// # Errors
/// 400: something else.
pub fn object(app: &App, headers: &HeaderMap, bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| ApiError::bad(format!("the body is not JSON: {error}")))?;
    match value {
        Value::Object(mut map) => {
            if app.options.cache_per_key {
                map.insert(OWNER.into(), String::from_utf8_lossy(shown_key(headers)).into());
            }
            Ok(map)
        }
        other => Err(ApiError::bad(format!("the body: expected an object, found {}", brief(&other)))),
    }
}

/// A body that is a JSON object.
pub struct Body(pub Map<String, Value>);

impl FromRequest<Arc<App>> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, app.options.max_body, app.options.timeout).await?;
        object(app, &parts.headers, &bytes).map(Self)
    }
}
