//! What comes with a request.

use std::sync::Arc;

use axum::{
    body::to_bytes,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{error::ApiError, fields::brief, state::App};

/// A body that is a JSON object.
pub struct Body(pub Map<String, Value>);

impl FromRequest<Arc<App>> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let most = app.options.max_body;
        let read = timeout(app.options.timeout, to_bytes(request.into_body(), most + 1)).await;
        let late = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not come within the time for it");
        let large = || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"));
        let bytes = read.map_err(|_| late())?.map_err(|_| large())?;
        if bytes.len() > most {
            return Err(large());
        }
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| ApiError::bad(format!("the body is not JSON: {error}")))?;
        match value {
            Value::Object(map) => Ok(Self(map)),
            other => Err(ApiError::bad(format!("the body: expected an object, found {}", brief(&other)))),
        }
    }
}
