//! One connection: HTTP while anybody asks, its bare socket while nobody does.
//!
//! hyper keeps the buffers of a connection, 12 KB, for as long as it serves it. So a connection whose answer is written is
//! taken back from it and waits as a socket; with the next byte it is served again.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::Request,
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    sync::watch,
    time::{sleep, timeout},
};
use tower::ServiceExt;

/// How long the head of a request may take, from its first byte or from the beginning of the connection on.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may be idle between requests.
const IDLE: Duration = Duration::from_secs(120);

/// Answers what comes on a connection until either side ends it; once `stopped`, after the answer that runs.
pub async fn serve<S>(stream: S, router: Router, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut socket = Socket { stream, before: Bytes::new(), seen: Arc::default() };
    loop {
        // In a box: while the socket waits, none of it is there.
        let Some(quiet) = Box::pin(answer(socket, router.clone(), stopped.clone())).await else { return };
        socket = quiet;
        if !socket.before.is_empty() {
            continue;
        }
        let mut first = [0];
        tokio::select! {
            read = timeout(IDLE, socket.stream.read(&mut first)) => match read {
                Ok(Ok(1)) => socket.before = Bytes::copy_from_slice(&first),
                _ => return,
            },
            _ = stopped.changed() => return,
        }
    }
}

/// Answers requests until one is answered and no other has come, which gives the socket, or the connection ends.
async fn answer<S>(socket: Socket<S>, router: Router, mut stopped: watch::Receiver<bool>) -> Option<Socket<S>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let seen = socket.seen.clone();
    *seen.lock() = State::default();
    let service = {
        let seen = seen.clone();
        service_fn(move |request: Request<Incoming>| {
            seen.lock().begin();
            let (router, seen) = (router.clone(), seen.clone());
            async move {
                let request = request.map(|body| Body::new(Asked { body, ended: false, seen: seen.clone() }));
                let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
                Ok::<_, Infallible>(response.map(|body| Answer { body, seen }))
            }
        })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // As most servers write them: some clients look for `Process-Start-Time-Unix` in this very spelling.
        .title_case_headers(true)
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(socket), service);
    let late = async {
        sleep(HEAD).await;
        if seen.lock().begun {
            std::future::pending::<()>().await;
        }
    };
    tokio::pin!(late);
    loop {
        tokio::select! {
            // In this order: what the connection has just done decides whether it is quiet.
            biased;
            // Errors of a connection are its peer's.
            _ = &mut connection => return None,
            () = poll_fn(|_| if seen.lock().is_quiet() { Poll::Ready(()) } else { Poll::Pending }) => {
                let parts = connection.into_parts();
                return Some(Socket { before: parts.read_buf, ..parts.io.into_inner() });
            }
            Ok(()) = stopped.changed() => Pin::new(&mut connection).graceful_shutdown(),
            () = &mut late => return None,
        }
    }
}

/// What has been seen of a connection.
#[derive(Default)]
struct Seen(Mutex<State>);

#[derive(Default)]
struct State {
    /// A request has come.
    begun: bool,
    /// Not all of its body was read: what follows is no request.
    unread: bool,
    /// The last answer has ended, and no other request has begun since.
    answered: bool,
    /// The peer is behind: not all of an answer is written.
    behind: bool,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self) {
        self.begun = true;
        self.unread = true;
        self.answered = false;
    }

    /// Whether the connection's last poll has left an answer that is written to its end.
    fn is_quiet(&self) -> bool {
        self.answered && !self.unread && !self.behind
    }
}

/// The body of a request, which tells whether it was read to its end.
struct Asked {
    body: Incoming,
    ended: bool,
    seen: Arc<Seen>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.seen.lock().unread = !(self.ended || self.body.is_end_stream());
    }
}

impl HttpBody for Asked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.ended |= matches!(frame, Poll::Ready(None));
        frame
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which tells when it ends.
struct Answer {
    body: Body,
    seen: Arc<Seen>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.seen.lock().answered = true;
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells whether its writer waits.
struct Socket<S> {
    stream: S,
    /// Read already, and still to be given to hyper.
    before: Bytes,
    seen: Arc<Seen>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.before.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let n = self.before.len().min(buf.remaining());
        buf.put_slice(&self.before.split_to(n));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Socket<S> {
    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        self.seen.lock().behind = written.is_pending();
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note(written)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
