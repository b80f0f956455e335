//! netto on a UNIX socket: who may connect, who is whom, and what is left in the file system.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::{LIMIT, request, until};

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n";

fn netto(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netto"));
    command.args(arguments);
    command
}

/// A netto on a socket in a folder that every user may enter; killed when dropped.
struct Served {
    child: Child,
    path: PathBuf,
    folder: tempfile::TempDir,
}

impl Served {
    fn start(suffix: &str) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("set");
        let path = folder.path().join("netto.sock");
        let child = started(&path, suffix);
        let served = Served {
            child,
            path,
            folder,
        };
        served.ready();
        served
    }

    fn ready(&self) {
        until("ready", || status(&self.path, "/readyz") == Some(200));
    }

    fn url(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    fn end(&mut self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.expect("kill runs").success());
        until("its end", || {
            self.child.try_wait().expect("waited").is_some()
        });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn started(path: &Path, suffix: &str) -> Child {
    let address = format!("unix:{}{suffix}", path.display());
    netto(&[
        "demo",
        "--cpus",
        "2",
        "--max-clients",
        "4",
        "--address",
        &address,
    ])
    .stderr(Stdio::null())
    .spawn()
    .expect("netto starts")
}

fn status(path: &Path, resource: &str) -> Option<u16> {
    let stream = UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    Some(request(stream, "GET", resource, &[]).status)
}

/// A connection of another user, for which the test must be root.
fn connect_as(user: u32, path: &Path) -> std::io::Result<UnixStream> {
    let path = path.to_owned();
    let connected = std::thread::spawn(move || {
        // SAFETY: the system call changes this thread only, which ends here.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
        assert_eq!(changed, 0, "only root can be another user");
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(stream)
    });
    connected.join().expect("no panic")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &output.stderr].concat()).into_owned()
}

#[test]
fn commands_speak_it() {
    let served = Served::start("");
    let dump = served.folder.path().join("x.log");
    let url = served.url();
    let output = netto(&["dump", "--connect", &url, "--output"])
        .arg(&dump)
        .output()
        .expect("netto runs");
    assert!(output.status.success(), "{}", printed(&output));
    let report = netto(&["report"]).arg(&dump).output().expect("netto runs");
    assert!(report.status.success(), "{}", printed(&report));
    let output = netto(&["latency", "--once", "--seconds", "1", "--connect", &url])
        .output()
        .expect("netto runs");
    // By the WebSocket; the made-up host measures no latency unless asked.
    assert!(printed(&output).contains("latency"), "{}", printed(&output));
    let absent = netto(&["dump", "--connect", "unix:/nonexistent", "--output", "-"])
        .stdout(Stdio::piped())
        .output()
        .expect("netto runs");
    assert!(
        printed(&absent).contains("unix:/nonexistent"),
        "{}",
        printed(&absent)
    );
}

#[test]
fn its_mode_says_who_may_connect() {
    let served = Served::start("?mode=600");
    assert_eq!(
        fs::metadata(&served.path).expect("there").mode() & 0o777,
        0o600
    );
    let refused = connect_as(10_001, &served.path).expect_err("another user");
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
}

#[test]
fn one_user_with_all_dashboards_makes_room_for_another() {
    let served = Served::start("?mode=666");
    let open = |user| {
        let mut stream = connect_as(user, &served.path).expect("connected");
        stream.write_all(UPGRADE.as_bytes()).expect("sent");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("an answer");
        (head.ends_with(b"101"), stream)
    };
    let all: Vec<_> = (0..5).map(|_| open(10_001)).collect();
    let are_open: Vec<_> = all.iter().map(|(is_open, _)| *is_open).collect();
    assert_eq!(are_open, [true, true, true, true, false]);
    let (is_open, _stream) = open(10_002);
    assert!(is_open, "another user has its share");
}

#[test]
fn it_goes_with_its_netto_and_a_stale_one_is_replaced() {
    let mut served = Served::start("");
    let second = netto(&["demo", "--address", &served.url()]).output();
    let second = second.expect("netto runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(
        printed(&second).contains("somebody listens on"),
        "{}",
        printed(&second)
    );
    assert_eq!(status(&served.path, "/healthz"), Some(200), "it goes on");
    served.end("KILL");
    assert!(served.path.exists(), "nobody has removed it");
    served.child = started(&served.path, "");
    served.ready();
    served.end("TERM");
    assert!(!served.path.exists());
}
