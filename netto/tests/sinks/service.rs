//! netto as a service of systemd, whose side of each protocol is the test's own.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::Process;
use crate::support::{LIMIT, eventually, get, request, until};

const DIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist");
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/systemd");

/// What comes until a message has this in it.
fn told_until(socket: &UnixDatagram, part: &str) -> String {
    let mut all = String::new();
    eventually(part, || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).ok()?;
        all += &String::from_utf8_lossy(&buffer[..length]);
        all += "\n";
        all.contains(part).then_some(())
    });
    all
}

#[test]
fn it_says_when_it_is_ready_makes_progress_reads_settings_again_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let variables = format!(
        "export NOTIFY_SOCKET='{}' WATCHDOG_USEC=100000;",
        path.display()
    );
    let process = Process::start(&variables, "--user-period 50");
    let ready = told_until(&socket, "READY=1");
    let at = format!("STATUS=dashboard at http://{}/", process.address);
    assert!(ready.contains(&at), "{ready}");
    // Intervals may last four seconds.
    told_until(&socket, "WATCHDOG_USEC=12000000");
    told_until(&socket, "WATCHDOG=1");
    process.signal("HUP");
    let reload = told_until(&socket, "READY=1");
    assert!(reload.contains("RELOADING=1\nMONOTONIC_USEC="), "{reload}");
    process.signal("TERM");
    let end = told_until(&socket, "STOPPING=1");
    assert!(end.contains("STATUS=netto received SIGTERM"), "{end}");
}

/// A shell that gives netto what is its standard input as the first socket of systemd's.
const ACTIVATED: &str = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1;";

fn activated(given: OwnedFd) -> Command {
    let mut command = Command::new("sh");
    let line = format!("{ACTIVATED} exec '{}' demo", env!("CARGO_BIN_EXE_netto"));
    command.args(["-c", &line]).stdin(Stdio::from(given));
    command
}

#[test]
fn it_serves_on_the_socket_that_systemd_listens_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut child = activated(listener.into())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let answer = std::panic::catch_unwind(|| {
        // Connections wait from the beginning.
        until("ready", || get(address, "/readyz", &[]).status == 200);
    });
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert!(answer.is_ok());
}

#[test]
fn it_serves_on_a_unix_socket_that_systemd_listens_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut child = activated(listener.into())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let answer = std::panic::catch_unwind(|| {
        until("ready", || {
            let stream = UnixStream::connect(&path).expect("connected");
            request(stream, "GET", "/readyz", &[]).status == 200
        });
    });
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert!(answer.is_ok());
    assert!(path.exists(), "it is systemd's");
}

#[test]
fn a_socket_of_another_kind_is_refused() {
    let output = activated(UnixDatagram::unbound().expect("a socket").into())
        .output()
        .expect("a shell");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("ListenStream="), "{stderr}");
}

#[test]
fn lines_for_the_journal_have_a_priority_and_no_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let file = std::fs::File::create(&log).expect("a file");
    let line = format!(
        "export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec '{}' demo --port 0",
        env!("CARGO_BIN_EXE_netto")
    );
    let mut child = Command::new("sh")
        .args(["-c", &line])
        .stderr(file)
        .spawn()
        .expect("a shell");
    let text = std::panic::catch_unwind(|| {
        eventually("a line", || {
            let text = std::fs::read_to_string(&log).ok()?;
            text.contains("dashboard at").then_some(text)
        })
    });
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let text = text.expect("it said where the dashboard is");
    assert!(text.lines().all(|line| line.starts_with('<')), "{text}");
    assert!(text.contains("<6>dashboard at http://127.0.0.1:"), "{text}");
}

#[test]
fn the_units_are_correct_and_their_exposure_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("netto.service");
    let text = std::fs::read_to_string(Path::new(UNITS).join("netto.service")).expect("a unit");
    let here = format!("ExecStart={} ", env!("CARGO_BIN_EXE_netto"));
    let text = text.replace("ExecStart=/usr/bin/netto ", &here);
    assert!(text.contains(&here));
    let hides = "ProtectKernelTunables=yes";
    assert!(!text.contains(hides), "{hides} hides /proc/kallsyms");
    std::fs::write(&unit, text).expect("written");
    let socket = Path::new(UNITS).join("netto.socket");
    let analyze = |arguments: &[&str], files: &[&Path]| {
        let output = Command::new("systemd-analyze")
            .args(arguments)
            .args(files)
            .output()
            .expect("systemd-analyze runs");
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        assert!(output.status.success(), "{arguments:?}: {printed}");
        printed
    };
    let warnings = analyze(&["verify"], &[&unit, &socket]);
    assert!(!warnings.contains("netto."), "{warnings}");
    // The exposure is from 0 to 10; the threshold is ten times as much.
    analyze(
        &["security", "--offline=true", "--threshold=37", "--no-pager"],
        &[&unit],
    );
}

/// A file of `dist`.
fn shipped(name: &str) -> String {
    std::fs::read_to_string(Path::new(DIST).join(name)).expect("a file of dist")
}

#[test]
fn netto_the_unit_and_the_chart_name_the_same_capabilities() {
    let unit = shipped("systemd/netto.service");
    let needed: BTreeSet<String> = netto_sys::privileges::NEEDED
        .iter()
        .map(ToString::to_string)
        .collect();
    for setting in ["CapabilityBoundingSet=", "AmbientCapabilities="] {
        let named = unit.lines().find_map(|line| line.strip_prefix(setting));
        let named = named.expect(setting).split(' ').map(str::to_owned);
        assert_eq!(named.collect::<BTreeSet<_>>(), needed, "{setting}");
    }
    let chart = shipped("helm/netto/templates/daemonset.yaml");
    let added = chart
        .lines()
        .find_map(|line| line.trim().strip_prefix("add: [")?.strip_suffix(']'))
        .expect("the chart adds them");
    // Kubernetes leaves out the beginning of the names.
    let added = added.split(", ").map(|name| format!("CAP_{name}"));
    assert_eq!(added.collect::<BTreeSet<_>>(), needed);
    assert!(chart.contains("drop: [ALL]"));
}

#[test]
fn the_chart_has_netto_s_version_and_its_values_are_yaml() {
    let yaml = |name| {
        let value: serde_yaml_ng::Value = serde_yaml_ng::from_str(&shipped(name)).expect(name);
        value
    };
    let chart = yaml("helm/netto/Chart.yaml");
    for key in ["version", "appVersion"] {
        assert_eq!(chart[key].as_str(), Some(env!("CARGO_PKG_VERSION")));
    }
    let values = yaml("helm/netto/values.yaml");
    assert_eq!(values["port"].as_u64(), Some(10880));
    assert_eq!(values["serviceMonitor"]["enabled"].as_bool(), Some(false));
    assert_eq!(values["networkPolicy"]["enabled"].as_bool(), Some(false));
}

#[test]
fn the_configuration_that_packages_install_can_be_used_with_and_without_its_examples() {
    let shipped = shipped("netto.toml");
    let keys = shipped.lines().filter_map(|line| {
        let key = line.strip_prefix("# ")?;
        // This one names a file that only its reader has.
        (key.contains(" = ") && !key.starts_with("web-config-file")).then_some(key)
    });
    let everything = keys.collect::<Vec<_>>().join("\n");
    assert!(everything.lines().count() >= 8, "{everything}");
    let folder = tempfile::tempdir().expect("a folder");
    let everything = everything.replace("/var/log", folder.path().to_str().expect("a path"));
    for text in [shipped.as_str(), everything.as_str()] {
        let file = folder.path().join("netto.toml");
        std::fs::write(&file, text).expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_netto"))
            .arg("config")
            .arg("--config")
            .arg(&file)
            .output()
            .expect("netto runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}{text}");
    }
}
