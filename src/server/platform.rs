//! What a system has of its own: Unix sockets, signals that end a program, a limit of open files.

#[cfg(unix)]
mod unix {
    use std::{
        fs::Permissions,
        io,
        os::unix::fs::{FileTypeExt, PermissionsExt},
        path::Path,
    };

    use tokio::{
        net::UnixListener,
        signal::unix::{Signal, SignalKind, signal},
    };

    /// Lets this process have as many open files as the system allows it: a connection is one, and a shell gives 1,024.
    pub fn open_files() {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
            // Without it connections beyond those few wait.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
        }
    }

    /// A socket that only its owner may use; one that an earlier server left behind is replaced.
    ///
    /// # Errors
    /// `AddrInUse` where a server listens there; else the path cannot be bound, or its rights cannot be set.
    pub fn socket(path: &str) -> io::Result<UnixListener> {
        if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(Path::new(path))?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// SIGINT and SIGTERM.
    pub struct Signals {
        interrupt: Signal,
        terminate: Signal,
    }

    impl Signals {
        /// Listens for both from now on.
        ///
        /// # Errors
        /// The system refuses a handler.
        pub fn new() -> io::Result<Self> {
            Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
        }

        /// Waits for Ctrl-C or SIGTERM.
        pub async fn next(&mut self) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
        }
    }
}

#[cfg(not(unix))]
mod unix {
    use std::io;

    use tokio::net::TcpStream;

    /// There is no limit to raise.
    pub fn open_files() {}

    /// A listener that there is none of.
    pub enum Listener {}

    impl Listener {
        /// Waits for a connection.
        ///
        /// # Errors
        /// None: there is no listener to ask.
        pub async fn accept(&self) -> io::Result<(TcpStream, ())> {
            match *self {}
        }
    }

    /// There are none that tokio knows.
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub fn socket(_: &str) -> io::Result<Listener> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no Unix sockets on this system; --host 127.0.0.1 --port N"))
    }

    /// Ctrl-C.
    pub struct Signals;

    impl Signals {
        /// Ctrl-C is listened for as it is waited for.
        ///
        /// # Errors
        /// None.
        pub fn new() -> io::Result<Self> {
            Ok(Self)
        }

        /// Waits for Ctrl-C.
        pub async fn next(&mut self) {
            // Where it cannot be heard the system ends the program by itself.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

pub use unix::{Signals, open_files, socket};
