//! Sockets, connections, and the end of the server.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{Semaphore, mpsc, watch},
    time::sleep,
};

use super::{
    connection,
    guard::is_loopback,
    options::ServerOptions,
    platform::{Signals, open_files, socket},
    routes,
    state::{App, Loaded, Log},
};

/// Most connections at once.
const CONNECTIONS: usize = 20_000;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that cannot be listened at.
    #[error("{address}: {reason}")]
    Address {
        /// Host and port.
        address: String,
        /// What the system says.
        reason: io::Error,
    },
    /// An address that others reach, and no key.
    #[error("{host} can be reached from other machines: --api-key KEY asks for a key, --no-api-key lets everybody in")]
    NoKey {
        /// The address, as `--host` named it.
        host: String,
    },
    /// The runtime could not start.
    #[error("threads for HTTP: {0}")]
    Threads(io::Error),
    /// The model could not be loaded; whoever loads knows why.
    #[error("the model was not loaded")]
    Model,
}

/// Listens at once, loads the model meanwhile (`/health` says so), and answers until a signal ends the server: running
/// answers end whole, within the time that the options give.
///
/// # Errors
/// An address that cannot be had; `load` gives `None` when it fails.
pub fn serve(
    options: ServerOptions,
    load: impl FnOnce() -> Option<Loaded> + Send + 'static,
    log: Log,
) -> Result<(), ServeError> {
    for host in options.hosts.iter().filter(|host| !is_loopback(host)) {
        if options.api_keys.is_empty() && !options.no_api_key {
            return Err(ServeError::NoKey { host: host.clone() });
        }
    }
    open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads_http.max(1))
        .max_blocking_threads(4 + options.hosts.len())
        .thread_name("qrun-http")
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let app = App::new(options, log).map_err(|error| ServeError::Threads(io::Error::other(error)))?;
    let app = Arc::new(app);
    let result = runtime.block_on(run(app, load));
    // Renderings and compilations that do not end are left behind.
    runtime.shutdown_background();
    result
}

async fn run(app: Arc<App>, load: impl FnOnce() -> Option<Loaded> + Send + 'static) -> Result<(), ServeError> {
    let (stop, stopped) = watch::channel(false);
    let (ended, mut all_ended) = mpsc::channel::<()>(1);
    let listener =
        Arc::new(Listener { router: routes::router(&app), connections: Arc::new(Semaphore::new(CONNECTIONS)) });
    for host in app.options.hosts.clone() {
        listener.clone().open(&app, &host, stopped.clone(), ended.clone()).await?;
    }
    drop(ended);
    let loads = {
        let app = app.clone();
        tokio::task::spawn_blocking(move || load().map(|loaded| app.ready(loaded)).is_some())
    };
    let mut signals = Signals::new().map_err(ServeError::Threads)?;
    tokio::select! {
        loaded = loads => {
            if !matches!(loaded, Ok(true)) {
                return Err(ServeError::Model);
            }
            (app.log)("ready");
            signals.next().await;
        }
        () = signals.next() => return Ok(()),
    }
    app.drain();
    (app.log)("ending: running answers are finished, a second signal ends at once");
    let _ = stop.send(true);
    tokio::select! {
        _ = all_ended.recv() => {}
        () = sleep(app.options.shutdown_timeout) => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// Takes connections to the routes.
struct Listener {
    router: Router,
    connections: Arc<Semaphore>,
}

impl Listener {
    /// Listens at one address; `ended` is dropped with its last connection.
    async fn open(
        self: Arc<Self>,
        app: &Arc<App>,
        host: &str,
        stopped: watch::Receiver<bool>,
        ended: mpsc::Sender<()>,
    ) -> Result<(), ServeError> {
        let refused = |address: &str| {
            let address = address.to_owned();
            move |reason| ServeError::Address { address, reason }
        };
        if host.ends_with(".sock") {
            let listener = socket(host).map_err(refused(host))?;
            (app.log)(&format!("listening at {host}"));
            let accept = async move || listener.accept().await.map(|(stream, _)| stream);
            tokio::spawn(self.accept(accept, stopped, ended));
            return Ok(());
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = app.options.port;
        let listener = TcpListener::bind((bare, port)).await.map_err(refused(&format!("{host}:{port}")))?;
        let address = listener.local_addr().map_err(refused(host))?;
        (app.log)(&format!("listening at http://{address}"));
        let accept = async move || {
            let (stream, _) = listener.accept().await?;
            // A token is a packet: waiting for more to send costs 40 ms each.
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        tokio::spawn(self.accept(accept, stopped, ended));
        Ok(())
    }

    async fn accept<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        self: Arc<Self>,
        accept: impl AsyncFn() -> io::Result<S>,
        mut stopped: watch::Receiver<bool>,
        ended: mpsc::Sender<()>,
    ) {
        loop {
            let Ok(place) = self.connections.clone().acquire_owned().await else { return };
            let stream = tokio::select! {
                stream = accept() => stream,
                _ = stopped.changed() => return,
            };
            // Too many open files: others have to leave first.
            let Ok(stream) = stream else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (connection, ended) = (connection::serve(stream, self.router.clone(), stopped.clone()), ended.clone());
            tokio::spawn(async move {
                connection.await;
                drop((place, ended));
            });
        }
    }
}
