//! Files below `/proc` and `/sys` that say what no kernel says: netto lives on, or ends with
//! a sentence that names the file. It never panics, and never takes what cannot be for a figure.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::child;
use crate::daemon::{self, Daemon};
use crate::trial::tests;

tests! {
    hostile::a_list_of_cpus_that_is_none_is_told_and_the_measurement_goes_on;
    hostile::a_cpu_that_cannot_be_sampled_is_warned_of_once;
    hostile::damage_while_netto_runs_stops_it_with_a_word_or_not_at_all;
    hostile::trees_full_of_nonsense_are_refused_or_survived_from_the_start ["mkfifo"];
}

const ONLINE: &str = "sys/devices/system/cpu/online";

/// `/proc` and `/sys` as they are, but for files of the test's own.
pub struct Tree(TempDir);

impl Tree {
    /// With these files, below `proc` and `sys`, to be written by the test.
    pub fn new(written: &[&str]) -> Result<Self> {
        let tree = Tree(tempfile::tempdir()?);
        for root in ["proc", "sys"] {
            let below: Vec<Vec<&str>> = written
                .iter()
                .filter_map(|path| path.strip_prefix(root)?.strip_prefix('/'))
                .map(|path| path.split('/').collect())
                .collect();
            let below: Vec<&[&str]> = below.iter().map(Vec::as_slice).collect();
            imitate(
                &Path::new("/").join(root),
                &tree.0.path().join(root),
                &below,
            )?;
        }
        Ok(tree)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> Result<()> {
        let path = self.0.path().join(path);
        // Whole at once: a reader sees the old text or the new.
        let new = path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &path).with_context(|| path.display().to_string())
    }

    /// The options that make netto read it.
    pub fn options(&self) -> [String; 4] {
        let root = |name: &str| self.0.path().join(name).display().to_string();
        [
            "--proc-root".to_owned(),
            root("proc"),
            "--sys-root".to_owned(),
            root("sys"),
        ]
    }

    pub fn daemon(&self) -> Result<Daemon> {
        let options = self.options();
        let mut arguments: Vec<&str> = options.iter().map(String::as_str).collect();
        arguments.extend(["--user-period", "50", "--frequency", "100"]);
        Daemon::start(&arguments)
    }
}

/// A folder whose entries are links to another's, but for paths that are made to be written.
fn imitate(real: &Path, copy: &Path, written: &[&[&str]]) -> Result<()> {
    fs::create_dir_all(copy)?;
    for entry in fs::read_dir(real).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Processes of the real tree come and go; the tests' trees need none.
        let is_process = name.to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        let is_written = written
            .iter()
            .any(|path| Some(name.to_string_lossy().as_ref()) == path.first().copied());
        if !is_process && !is_written {
            symlink(entry.path(), copy.join(&name))?;
        }
    }
    let mut folders: Vec<&str> = written
        .iter()
        .filter(|path| path.len() > 1)
        .filter_map(|path| path.first().copied())
        .collect();
    folders.dedup();
    for folder in folders {
        let inside: Vec<&[&str]> = written
            .iter()
            .filter(|path| path.len() > 1 && path[0] == folder)
            .map(|path| &path[1..])
            .collect();
        imitate(&real.join(folder), &copy.join(folder), &inside)?;
    }
    Ok(())
}

fn real_list() -> Result<String> {
    Ok(fs::read_to_string(Path::new("/").join(ONLINE))?)
}

/// Further snapshots are made, and each has the host's CPUs.
fn must_go_on(daemon: &mut Daemon, what: &str) -> Result<()> {
    let cpus = std::thread::available_parallelism()?.get();
    let from = daemon.sequence().with_context(|| what.to_owned())?;
    child::eventually(|| {
        ensure!(daemon.sequence()? >= from + 3, "no further snapshots");
        Ok(())
    })
    .with_context(|| what.to_owned())?;
    let snapshot = daemon.snapshot()?;
    let shown = snapshot["cpus"].as_array().map_or(0, Vec::len);
    ensure!(shown >= 1 && shown <= 4 * cpus, "{what}: {shown} CPUs");
    let interval_ns = snapshot["interval_ns"].as_f64().context("no interval")?;
    let modes = snapshot["cpu_modes"]["host"]
        .as_object()
        .context("no modes")?;
    for (mode, ns) in modes {
        let ns = ns.as_f64().context("no number")?;
        // A counter may lag by ten seconds.
        let most_ns = (2.0 * interval_ns + 1e10) * shown as f64;
        ensure!(ns <= most_ns, "{what}: {mode} {ns} in {interval_ns}");
    }
    daemon.must_live()
}

fn a_list_of_cpus_that_is_none_is_told_and_the_measurement_goes_on() -> Result<()> {
    let tree = Tree::new(&[ONLINE])?;
    tree.write(ONLINE, "5-0\n")?;
    // From the start, and while it runs.
    let mut daemon = tree.daemon()?;
    must_go_on(&mut daemon, "5-0 from the start")?;
    let notes = daemon.info()?.notes.join("\n");
    ensure!(notes.contains("\"5-0\" is no list of CPUs"), "{notes}");
    tree.write(ONLINE, real_list()?)?;
    child::eventually(|| {
        let notes = daemon.info()?.notes.join("\n");
        ensure!(!notes.contains("no list of CPUs"), "{notes}");
        Ok(())
    })?;
    for text in [
        "5-0",
        "",
        "0-",
        "0-4294967295",
        "0-99999999999999999999",
        "-",
        ",",
        "\u{fffd}",
        "65000",
    ] {
        tree.write(ONLINE, text)?;
        // CPUs that this kernel cannot have are ignored; if no other is listed, netto ends.
        if text == "65000" {
            continue;
        }
        must_go_on(&mut daemon, text)?;
    }
    let status = daemon.process.wait()?;
    let stderr = daemon.process.stderr();
    ensure!(status.code() == Some(1), "{status}: {stderr}");
    ensure!(
        stderr.contains("cpu/online") && !stderr.contains("panicked"),
        "{stderr}"
    );
    Ok(())
}

fn a_cpu_that_cannot_be_sampled_is_warned_of_once() -> Result<()> {
    let tree = Tree::new(&[ONLINE])?;
    tree.write(ONLINE, real_list()?)?;
    let mut daemon = tree.daemon()?;
    let possible = daemon.info()?.possible_cpus;
    let online = std::thread::available_parallelism()?.get() as u32;
    if possible <= online {
        let lack = format!("all {possible} CPUs that this kernel can have are online");
        return Err(crate::trial::NotOnThisKernel(lack).into());
    }
    tree.write(ONLINE, format!("0-{}", possible - 1))?;
    must_go_on(&mut daemon, "a CPU that is offline")?;
    let notes = daemon.info()?.notes.join("\n");
    ensure!(notes.contains("not sampled"), "{notes}");
    // A cause that has gone and come again is no news either.
    tree.write(ONLINE, real_list()?)?;
    must_go_on(&mut daemon, "without it")?;
    tree.write(ONLINE, format!("0-{}", possible - 1))?;
    must_go_on(&mut daemon, "again")?;
    let (_, stderr) = daemon.terminate()?;
    let warnings = stderr.matches("not sampled").count();
    ensure!(warnings == 1, "{warnings} warnings: {stderr}");
    Ok(())
}

const STAT: &str = "proc/stat";
const ENERGY: &str = "sys/class/powercap/intel-rapl:0/energy_uj";

/// Readings that leap, go back, or are not there for an interval.
fn damage_while_netto_runs_stops_it_with_a_word_or_not_at_all() -> Result<()> {
    let name = "sys/class/powercap/intel-rapl:0/name";
    let most = "sys/class/powercap/intel-rapl:0/max_energy_range_uj";
    let tree = Tree::new(&[STAT, ENERGY, name, most])?;
    let stat = fs::read_to_string("/proc/stat")?;
    tree.write(STAT, &stat)?;
    tree.write(name, "package-0\n")?;
    tree.write(most, "5")?;
    tree.write(ENERGY, "7")?;
    let mut daemon = tree.daemon()?;
    must_go_on(&mut daemon, "as it was")?;
    for (path, text) in [
        (STAT, stat.replace("cpu ", "cpu 18446744073709551615 ")),
        (STAT, stat.clone()),
        (STAT, format!("{stat}cpu4294967295 1 2 3 4 5 6 7 8\n{stat}")),
        (ENERGY, "18446744073709551615".to_owned()),
        (ENERGY, "0".to_owned()),
        (ENERGY, "many".to_owned()),
        (most, "18446744073709551615".to_owned()),
        (name, "x".repeat(1 << 20)),
    ] {
        tree.write(path, &text)?;
        must_go_on(&mut daemon, &format!("{path}: {text:.60}"))?;
    }
    // Without a line that must be there netto cannot go on, and says of which file.
    tree.write(STAT, "cpu 1 2 three\n")?;
    let status = daemon.process.wait()?;
    let stderr = daemon.process.stderr();
    ensure!(
        status.code() == Some(1) && stderr.contains("/proc/stat") && !stderr.contains("panicked"),
        "{status}: {stderr}"
    );
    Ok(())
}

/// The text of every file in a tree.
const NONSENSE: [&[u8]; 6] = [
    b"",
    b"\0\0\0\0",
    b"\xff\xfe\xfd",
    b"18446744073709551615-0,1\n",
    b"cpu 1 2 3 4 5 6 7 8\n",
    b"0000000000000000 T a\nffffffffffffffff t net_rx_action\n",
];

fn trees_full_of_nonsense_are_refused_or_survived_from_the_start() -> Result<()> {
    let files = [
        STAT,
        "proc/kallsyms",
        "proc/modules",
        "proc/1/comm",
        "proc/sys/kernel/random/boot_id",
        ONLINE,
        "sys/devices/system/node/node0/cpulist",
        "sys/devices/system/node/node4294967295/cpulist",
        "sys/class/net/eth0/device/irq",
        ENERGY,
    ];
    for nonsense in NONSENSE {
        let tree = Tree::new(&files)?;
        for path in files {
            tree.write(path, nonsense)?;
        }
        let shown = String::from_utf8_lossy(nonsense).into_owned();
        let options = tree.options();
        for command in ["check", "list"] {
            let mut arguments = vec![command];
            arguments.extend(options.iter().map(String::as_str));
            let (status, _, stderr) = daemon::run_to_end(&arguments)?;
            ensure!(
                status.code().is_some_and(|code| code < 2) && !stderr.contains("panicked"),
                "{command} with {shown:?} gave {status}: {stderr}"
            );
        }
        // Only a tree that says which CPUs there are can be measured with.
        tree.write(STAT, fs::read("/proc/stat")?)?;
        must_go_on(&mut tree.daemon()?, &shown)?;
    }
    // netto does not wait for a pipe in place of a file.
    let tree = Tree::new(&[STAT, "proc/kallsyms"])?;
    for path in [STAT, "proc/kallsyms"] {
        let path = tree.0.path().join(path);
        child::run(std::process::Command::new("mkfifo").arg(path))?;
    }
    let options = tree.options();
    let mut arguments = vec!["check"];
    arguments.extend(options.iter().map(String::as_str));
    let (status, _, stderr) = daemon::run_to_end(&arguments)?;
    ensure!(
        status.code() == Some(1) && !stderr.contains("panicked"),
        "{status}: {stderr}"
    );
    Ok(())
}
