//! What comes with a request.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body as Incoming, Bytes, to_bytes},
    extract::{FromRequest, Request},
    http::StatusCode,
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

/// A body that is a JSON object.
pub struct Body(pub Map<String, Value>);

impl FromRequest<Arc<App>> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let bytes = read(request.into_body(), app.options.max_body, app.options.timeout).await?;
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| ApiError::bad(format!("the body is not JSON: {error}")))?;
        match value {
            Value::Object(map) => Ok(Self(map)),
            other => Err(ApiError::bad(format!("the body: expected an object, found {}", brief(&other)))),
        }
    }
}
