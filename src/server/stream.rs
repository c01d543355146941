//! Answers as they come: server-sent events, or a JSON object per line.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use hyper::body::Frame;
use serde_json::Value;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::timeout,
};

use super::{error::ApiError, fields::Fields, job::Jobs, state::App};
use crate::generate::Chunk;

/// What a dialect makes of the chunks of its answers, as they come.
pub trait Writer: Send + 'static {
    /// What stands before the first chunk.
    fn begin(&mut self) -> Vec<Piece> {
        Vec::new()
    }
    /// What a chunk of answer `index` becomes.
    ///
    /// # Errors
    /// How the answer failed; it ends the stream.
    fn chunk(&mut self, index: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError>;
    /// What stands after the last one.
    fn end(&mut self) -> Vec<Piece> {
        Vec::new()
    }
    /// What an error in the middle becomes.
    fn error(&mut self, error: &ApiError) -> Piece;
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The name of the event, where the dialect has names.
    pub event: Option<Cow<'static, str>>,
    /// Its data: JSON, or the mark of the end.
    pub data: String,
}

impl Piece {
    pub fn json(value: &Value) -> Self {
        Self { event: None, data: value.to_string() }
    }
    pub fn named(event: impl Into<Cow<'static, str>>, value: &Value) -> Self {
        Self { event: Some(event.into()), data: value.to_string() }
    }
}

/// How events are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `data: …`, an empty line; comments where nothing happens.
    ServerSentEvents,
    /// A line of JSON each, as Ollama streams.
    Lines,
}

impl Framing {
    fn write(self, pieces: &[Piece]) -> String {
        let mut text = String::new();
        for piece in pieces {
            if let (Self::ServerSentEvents, Some(event)) = (self, &piece.event) {
                text.push_str("event: ");
                text.push_str(event);
                text.push('\n');
            }
            let (before, after) = match self {
                Self::ServerSentEvents => ("data: ", "\n\n"),
                Self::Lines => ("", "\n"),
            };
            text.push_str(before);
            text.push_str(&piece.data);
            text.push_str(after);
        }
        text
    }
}

/// The silence after which a comment is sent: `sse_ping_interval`, in seconds, none where that is not above 0; else the
/// server's own.
///
/// # Errors
/// 400: it is no whole number from −1 on.
pub fn ping(app: &App, fields: Fields) -> Result<Option<Duration>, ApiError> {
    let asked = fields.whole("sse_ping_interval", -1..=i64::from(i32::MAX))?;
    let seconds = |n: i64| u64::try_from(n).ok().filter(|&n| n > 0).map(Duration::from_secs);
    Ok(asked.map_or(app.options.ping_interval, seconds))
}

/// Pieces that a reader may be behind.
const BEHIND: usize = 64;

/// The answer to a request that wants its text as it comes.
pub fn respond(app: &Arc<App>, jobs: Jobs, writer: impl Writer, framing: Framing, ping: Option<Duration>) -> Response {
    let (sender, receiver) = channel(BEHIND);
    let pace = Pace { reader: app.options.timeout, ping };
    tokio::spawn(write(jobs, writer, framing, sender, pace));
    let mut response = Body::new(Chunks(receiver)).into_response();
    let kind = match framing {
        Framing::ServerSentEvents => "text/event-stream",
        Framing::Lines => "application/x-ndjson",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Pace {
    /// How long a reader may take.
    reader: Duration,
    /// Silence that is filled with a comment.
    ping: Option<Duration>,
}

/// Writes until the answers end or the reader is gone; dropping the jobs ends them.
async fn write(mut jobs: Jobs, mut writer: impl Writer, framing: Framing, sender: Sender<Bytes>, pace: Pace) {
    let send = async |text: String| {
        text.is_empty() || matches!(timeout(pace.reader, sender.send(text.into())).await, Ok(Ok(())))
    };
    if !send(framing.write(&writer.begin())).await {
        return;
    }
    loop {
        let next = tokio::select! {
            next = async {
                match pace.ping.filter(|_| framing == Framing::ServerSentEvents) {
                    Some(silence) => timeout(silence, jobs.next()).await,
                    None => Ok(jobs.next().await),
                }
            } => next,
            () = sender.closed() => return,
        };
        let text = match next {
            Err(_) => Ok(":\n\n".to_owned()),
            Ok(None) => break,
            Ok(Some((index, chunk))) => writer.chunk(index, chunk).map(|pieces| framing.write(&pieces)),
        };
        match text {
            Ok(text) => {
                if !send(text).await {
                    return;
                }
            }
            Err(error) => {
                send(framing.write(&[writer.error(&error)])).await;
                return;
            }
        }
    }
    send(framing.write(&writer.end())).await;
}

/// A body of what comes through a channel.
struct Chunks(Receiver<Bytes>);

impl HttpBody for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
