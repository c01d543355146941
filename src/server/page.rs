//! What stands at `/`.

use super::api::ollama::models::RUNNING;

/// `GET /`: Ollama's greeting for its clients.
pub async fn root() -> &'static str {
    RUNNING
}
