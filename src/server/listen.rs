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
    guard::{bare, is_loopback},
    key_folders::KeyFolders,
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
    /// The folder for saved slots.
    #[error("--slot-save-path: {0}")]
    Slots(io::Error),
    /// The runtime could not start.
    #[error("threads for HTTP: {0}")]
    Threads(io::Error),
    /// The model could not be loaded; whoever loads knows why.
    #[error("the model was not loaded")]
    Model,
}

/// Listens at once, loads the model meanwhile (`/health` says so), and answers until a signal ends the server: running
/// answers end whole, within the time that the options give. `load` calls what it is given once it knows of nothing that
/// is wrong with the model: only then the log says where the server listens.
///
/// # Errors
/// An address that cannot be had; a folder for slots that cannot be used; `load` gives `None` when it fails.
pub fn serve(
    options: ServerOptions,
    load: impl FnOnce(&dyn Fn()) -> Option<Loaded> + Send + 'static,
    log: Log,
) -> Result<(), ServeError> {
    for host in options.hosts.iter().filter(|host| !is_loopback(host)) {
        if options.api_keys.is_empty() && !options.no_api_key {
            return Err(ServeError::NoKey { host: host.clone() });
        }
    }
    let key_folders = match &options.slot_save_path {
        Some(folder) if options.cache_per_key => Some(KeyFolders::open(folder).map_err(ServeError::Slots)?),
        _ => None,
    };
    open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads_http.max(1))
        .max_blocking_threads(4 + options.hosts.len())
        .thread_name("qrun-http")
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let mut app = App::new(options, log).map_err(|error| ServeError::Threads(io::Error::other(error)))?;
    app.key_folders = key_folders;
    let app = Arc::new(app);
    let result = runtime.block_on(run(app, load));
    // Renderings and compilations that do not end are left behind.
    runtime.shutdown_background();
    result
}

async fn run(app: Arc<App>, load: impl FnOnce(&dyn Fn()) -> Option<Loaded> + Send + 'static) -> Result<(), ServeError> {
    let (stop, stopped) = watch::channel(false);
    let (ended, mut all_ended) = mpsc::channel::<()>(1);
    let listener =
        Arc::new(Listener { router: routes::router(&app), connections: Arc::new(Semaphore::new(CONNECTIONS)) });
    let mut addresses = Vec::new();
    for host in &app.options.hosts {
        addresses.push(listener.clone().open(&app, host, stopped.clone(), ended.clone()).await?);
    }
    drop(ended);
    let loads = {
        let app = app.clone();
        tokio::task::spawn_blocking(move || {
            let say = || addresses.iter().for_each(|address| (app.log)(&format!("listening at {address}")));
            load(&say).map(|loaded| app.ready(loaded)).is_some()
        })
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
    let finished = async {
        // Until then whoever asks is told so: a connection that is refused could as well be a fault of the network.
        app.idle().await;
        let _ = stop.send(true);
        let _ = all_ended.recv().await;
    };
    tokio::select! {
        () = finished => {}
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
    /// Listens at one address, and tells it as clients write it; `ended` is dropped with its last connection.
    async fn open(
        self: Arc<Self>,
        app: &Arc<App>,
        host: &str,
        stopped: watch::Receiver<bool>,
        ended: mpsc::Sender<()>,
    ) -> Result<String, ServeError> {
        let refused = |address: &str| {
            let address = address.to_owned();
            move |reason| ServeError::Address { address, reason }
        };
        if host.ends_with(".sock") {
            let listener = socket(host).map_err(refused(host))?;
            let accept = async move || listener.accept().await.map(|(stream, _)| stream);
            tokio::spawn(self.accept(accept, stopped, ended));
            return Ok(host.to_owned());
        }
        let port = app.options.port;
        let listener = TcpListener::bind((bare(host), port)).await.map_err(refused(&format!("{host}:{port}")))?;
        let address = listener.local_addr().map_err(refused(host))?;
        let accept = async move || {
            let (stream, _) = listener.accept().await?;
            // A token is a packet: waiting for more to send costs 40 ms each.
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        tokio::spawn(self.accept(accept, stopped, ended));
        Ok(format!("http://{address}"))
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
