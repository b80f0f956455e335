//! The socket that clients connect to: of an address, of a path with its permissions, or one that a
//! service manager has opened.

use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Group;
use socket2::{Domain, SockAddr, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// At an address.
    Tcp(TcpListener),
    /// In the file system.
    Unix(UnixListener),
}

impl Listener {
    /// The TCP or UNIX socket that a service manager has opened and listens on for this process.
    ///
    /// # Errors
    /// The descriptor is no such socket.
    pub fn inherited(descriptor: RawFd) -> anyhow::Result<Listener> {
        // SAFETY: the service manager gives each of its descriptors (from 3 on) to this process,
        // which opens none before main, and takes each once, at the start.
        let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        ensure!(
            getsockopt(&socket, sockopt::AcceptConn)? && socket.r#type()? == Type::STREAM,
            "nobody listens"
        );
        match socket.domain()? {
            Domain::IPV4 | Domain::IPV6 => Ok(Listener::Tcp(socket.into())),
            Domain::UNIX => Ok(Listener::Unix(socket.into())),
            _ => bail!("it is of another family"),
        }
    }
}

/// The file of a UNIX socket, removed with it unless something else is there.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    /// Released last.
    _lock: Lock,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| identity(&there) == self.identity) {
            // What cannot be removed is taken for stale by the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// A locked file beside a socket, as long as somebody listens or looks whether the socket is stale:
/// of two that start at the same moment, the later would remove the new socket of the other.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    /// Locked until it is closed, after the file is gone.
    _file: File,
}

impl Lock {
    /// Takes it; `None` if somebody else has it.
    fn take(socket: &Path) -> anyhow::Result<Option<Lock>> {
        let mut name = socket.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        loop {
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(&path)
                .with_context(|| format!("cannot open {}", path.display()))?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
                Ok(()) => {}
            }
            // Its owner may have removed it before it was locked here.
            let there = fs::symlink_metadata(&path);
            if there.is_ok_and(|there| {
                file.metadata()
                    .is_ok_and(|metadata| identity(&metadata) == identity(&there))
            }) {
                return Ok(Some(Lock { path, _file: file }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // What cannot be removed is locked anew by the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens at a path, for those whom mode and group let write to it.
///
/// # Errors
/// Something else is there, or somebody listens on it; or it cannot be made so.
pub fn listen_at(
    path: &Path,
    mode: u32,
    group: Option<&str>,
) -> anyhow::Result<(UnixListener, SocketFile)> {
    let name = path.display();
    let lock = Lock::take(path)?;
    let lock = lock.with_context(|| is_taken(path))?;
    remove_stale(path)?;
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket
        .bind(&address)
        .with_context(|| format!("cannot make the socket {name}"))?;
    // Not by its path: whoever may write to the folder could put something else there. Nobody can
    // connect until it listens.
    let made = File::options()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)?;
    let about = made.metadata()?;
    ensure!(
        about.file_type().is_socket(),
        "{name} was replaced by something else"
    );
    let place = SocketFile {
        path: path.to_owned(),
        identity: identity(&about),
        _lock: lock,
    };
    let itself = format!("/proc/self/fd/{}", made.as_raw_fd());
    if let Some(group) = group {
        let known = Group::from_name(group)?;
        let known = known.with_context(|| format!("{name}: this host has no group {group}"))?;
        chown(&itself, None, Some(known.gid.as_raw()))
            .with_context(|| format!("cannot give {name} to the group {group}"))?;
    }
    fs::set_permissions(&itself, Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {name}"))?;
    socket.listen(BACKLOG)?;
    Ok((socket.into(), place))
}

/// Removes a socket that was left by a process that has ended.
fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let name = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => bail!("cannot use {name}: {error}"),
        Ok(about) => ensure!(
            about.file_type().is_socket(),
            "{name} exists and is no socket; choose another path with --address"
        ),
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A listener that accepts nothing must not hold up the start.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).with_context(|| format!("cannot remove the old socket {name}"))
        }
        Err(error) if error.kind() != ErrorKind::WouldBlock => {
            bail!("cannot see whether somebody listens on {name}: {error}")
        }
        Ok(()) | Err(_) => bail!(is_taken(path)),
    }
}

fn is_taken(path: &Path) -> String {
    format!(
        "somebody listens on {}: another netto running? choose another path with --address",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn said(path: &Path) -> String {
        format!("{:#}", listen_at(path, 0o600, None).unwrap_err())
    }

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        for mode in [0o600, 0o666] {
            let (listener, place) = listen_at(&path, mode, None).unwrap();
            let found = fs::metadata(&path).unwrap().mode() & 0o777;
            assert_eq!(found, mode, "whatever the umask is");
            UnixStream::connect(&path).unwrap();
            // Somebody listens.
            assert!(said(&path).contains("--address"), "{}", said(&path));
            drop((listener, place));
            assert_eq!(
                fs::read_dir(folder.path()).unwrap().count(),
                0,
                "no lock either"
            );
        }
    }

    #[test]
    fn of_those_that_start_at_the_same_moment_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        for _ in 0..100 {
            drop(UnixListener::bind(&path).unwrap());
            // A child that another test starts has the socket, too, until it executes its program.
            while UnixStream::connect(&path).is_ok() {
                thread::yield_now();
            }
            let start = Barrier::new(4);
            let started: Vec<_> = thread::scope(|scope| {
                let one = || {
                    start.wait();
                    listen_at(&path, 0o600, None)
                };
                let all = [0; 4].map(|_| scope.spawn(one));
                all.map(|one| one.join().unwrap()).into()
            });
            assert_eq!(started.iter().filter(|one| one.is_ok()).count(), 1);
            UnixStream::connect(&path).unwrap();
            let others = started.iter().filter_map(|one| one.as_ref().err());
            others.for_each(|error| assert!(error.to_string().contains("--address"), "{error:#}"));
            drop(started);
            assert!(!path.exists());
        }
    }

    #[test]
    fn only_a_socket_that_nobody_answers_on_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "it is stale");
        let (_listener, place) = listen_at(&path, 0o600, None).unwrap();
        // Of another netto, which has replaced it.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        drop(place);
        assert!(said(&path).contains("is no socket"), "{}", said(&path));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
        fs::remove_file(&path).unwrap();
        let _datagrams = UnixDatagram::bind(&path).unwrap();
        assert!(said(&path).contains("cannot see"), "{}", said(&path));
        assert!(path.exists());
    }

    #[test]
    fn a_group_that_is_not_there_leaves_no_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sock");
        let error = listen_at(&path, 0o660, Some("no-such-group")).unwrap_err();
        assert!(error.to_string().contains("no-such-group"), "{error:#}");
        assert!(!path.exists());
    }
}
