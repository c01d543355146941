//! What goes wrong with a request, and how each dialect says it.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use crate::generate::GenerateError;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    /// Says what was expected, what was found, and what to do.
    pub message: String,
    /// The field that is wrong.
    pub param: Option<String>,
    /// Tokens of a prompt that is too long, and of the context.
    too_long: Option<Box<[usize; 2]>>,
    /// Seconds after which it may be tried again.
    pub retry_after: Option<u64>,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, too_long: None, retry_after: None }
    }
    /// 400: the request is wrong.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
    /// 400: a field is wrong.
    pub fn field(param: &str, expected: &str, found: impl std::fmt::Display) -> Self {
        Self::bad(format!("{param}: expected {expected}, found {found}")).about(param)
    }
    /// 400: a field that must be there is not.
    pub fn missing(param: &str) -> Self {
        Self::bad(format!("{param} is missing")).about(param)
    }
    /// Names the field that is wrong.
    pub fn about(mut self, param: &str) -> Self {
        self.param = Some(param.into());
        self
    }
    /// 400: a field asks for what qrun does not have.
    pub fn unsupported(param: &str, why: &str) -> Self {
        Self::bad(format!("{param}: {why}")).about(param)
    }
    /// 501: qrun does not do that.
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, message)
    }
    /// 503: not now.
    pub fn unavailable(message: impl Into<String>, retry_after: u64) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }
    /// 500: our fault, or the device's.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            _ if self.too_long.is_some() => "exceed_context_size_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 | 405 => "not_found_error",
            501 => "not_supported_error",
            503 => "unavailable_error",
            500..=599 => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The reason as a log may tell it: of a wrong request only the field, as its values are people's texts.
    pub fn logged(&self) -> Option<&str> {
        match self.status {
            StatusCode::BAD_REQUEST => self.param.as_deref(),
            _ => Some(&self.message),
        }
    }

    /// The JSON that clients of a dialect expect of an error.
    pub fn body(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::OpenAi => {
                let mut error = Map::new();
                error.insert("message".into(), self.message.clone().into());
                error.insert("type".into(), self.kind().into());
                error.insert("param".into(), self.param.clone().into());
                match self.too_long.as_deref() {
                    None => drop(error.insert("code".into(), self.status.as_u16().into())),
                    Some([tokens, n_ctx]) => {
                        error.insert("code".into(), "context_length_exceeded".into());
                        error.insert("n_prompt_tokens".into(), (*tokens).into());
                        error.insert("n_ctx".into(), (*n_ctx).into());
                    }
                }
                json!({ "error": error })
            }
            Dialect::Anthropic => {
                let kind = match self.status.as_u16() {
                    400 | 405 => "invalid_request_error",
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    503 => "overloaded_error",
                    _ => "api_error",
                };
                json!({ "type": "error", "error": { "type": kind, "message": self.message } })
            }
            Dialect::Ollama => json!({ "error": self.message }),
        }
    }

    /// The whole answer in a dialect.
    pub fn response(&self, dialect: Dialect) -> Response {
        let mut response = (self.status, Json(self.body(dialect))).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Whose clients ask at a path, which decides the shape of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's, and llama-server's own.
    OpenAi,
    Anthropic,
    Ollama,
}

impl Dialect {
    /// The dialect of a path.
    pub fn of(path: &str) -> Self {
        match path {
            _ if path.starts_with("/v1/messages") => Self::Anthropic,
            _ if path.starts_with("/api/") => Self::Ollama,
            _ => Self::OpenAi,
        }
    }
}

/// The error travels beside the body: `guard` writes it in the dialect of the path.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.response(Dialect::OpenAi);
        response.extensions_mut().insert(self);
        response
    }
}

impl From<GenerateError> for ApiError {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::PromptTooLong { tokens, max } => Self {
                too_long: Some(Box::new([tokens, max + 1])),
                ..Self::bad(format!(
                    "the prompt exceeds the available context size: {tokens} tokens, and at most {max} fit; shorten it, or start the server with a larger -c"
                ))
            },
            GenerateError::EmptyPrompt => Self::bad(error.to_string()),
            GenerateError::Sampler(crate::sampler::SamplerError::Parameter { .. }) => Self::bad(error.to_string()),
            error => Self::internal(error.to_string()),
        }
    }
}
