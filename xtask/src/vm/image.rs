//! Builds a guest's first and only file system: programs of a system with the
//! libraries they need, the modules of the guest's kernel, netto and its tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::cpio::Archive;
use super::kernels::Unpacked;
use super::modules;
use super::system::{Libraries, SHELL, System, TOOLS};

/// What busybox stands for in a guest. Not `ip` and `tc`: its own know too little.
const APPLETS: &[&str] = &[
    "sh", "mount", "cat", "echo", "kill", "sleep", "true", "insmod", "rmmod", "hostname", "sync",
    "poweroff", "dmesg", "ls", "grep",
];

const FOLDERS: &[&str] = &[
    "bin", "dev", "etc", "lib64", "modules", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin",
    "usr/sbin",
];

/// What is to run in a guest.
#[derive(Debug)]
pub struct Payload<'a> {
    /// Where all but netto and its tests come from.
    pub system: &'a System,
    /// netto.
    pub netto: &'a Path,
    /// The root tests.
    pub tests: &'a Path,
    /// Arguments for the tests.
    pub args: &'a [String],
    /// More programs of the system by name, or files by path, which are put into `/root`.
    pub tools: &'a [&'a str],
}

/// The file system as the kernel takes it.
///
/// # Errors
/// A program or library is missing, or cannot be read.
pub fn build(kernel: &Unpacked, payload: &Payload<'_>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let mut folders: BTreeSet<String> = BTreeSet::new();
    for folder in FOLDERS {
        archive.directory(folder);
        folders.insert((*folder).to_owned());
    }
    archive.file("init", include_bytes!("init.sh"));
    archive.file("run-tests", run_tests(payload.args).as_bytes());
    let system = payload.system;
    let busybox = system.find(SHELL).context("the guest's shell")?;
    archive.file("bin/busybox", &read(&busybox)?);
    for applet in APPLETS {
        archive.link(&format!("bin/{applet}"), "busybox");
    }

    let mut programs = vec![
        ("usr/bin/netto".to_owned(), payload.netto.to_owned()),
        ("usr/bin/root-tests".to_owned(), payload.tests.to_owned()),
    ];
    let (files, tools): (Vec<&str>, Vec<&str>) =
        payload.tools.iter().partition(|tool| tool.contains('/'));
    for name in TOOLS.iter().copied().chain(tools) {
        programs.push((format!("usr/sbin/{name}"), system.find(name)?));
    }
    for file in files {
        let path = Path::new(file);
        let name = path.file_name().context("a path without a file's name")?;
        archive.file(&format!("root/{}", name.to_string_lossy()), &read(path)?);
    }
    let mut libraries = Libraries::new();
    system.add_libraries(&busybox, &mut libraries)?;
    for (place, program) in &programs {
        archive.file(place, &read(program)?);
        system.add_libraries(program, &mut libraries)?;
    }
    for (place, library) in libraries {
        add_parents(&mut archive, &mut folders, &place);
        archive.file(&place, &read(&library)?);
    }

    let mut order = String::new();
    let loaded = modules::in_load_order(modules::WANTED, &kernel.modules, &mut read_module)?;
    for (name, content) in loaded {
        archive.file(&format!("modules/{name}.ko"), &content);
        order.push_str(&name);
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes());
    Ok(archive.finish())
}

fn add_parents(archive: &mut Archive, folders: &mut BTreeSet<String>, place: &str) {
    for (at, _) in place.match_indices('/') {
        if folders.insert(place[..at].to_owned()) {
            archive.directory(&place[..at]);
        }
    }
}

/// The guest's script that runs the tests.
fn run_tests(args: &[String]) -> String {
    let mut script =
        "#!/bin/sh\nexport NETTO_BINARY=/usr/bin/netto NETTO_TESTS=guest\nexec /usr/bin/root-tests"
            .to_owned();
    for arg in args {
        script.push(' ');
        script.push_str(&quoted(arg));
    }
    script.push('\n');
    script
}

/// The word as a shell reads it back unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A module as the kernel takes it: not every kernel unpacks them itself.
fn read_module(path: &PathBuf) -> Result<Vec<u8>> {
    if path.extension().is_none_or(|ending| ending != "xz") {
        return read(path);
    }
    let output = Command::new("xz")
        .arg("-dc")
        .arg(path)
        .output()
        .context("cannot start xz, which unpacks kernel modules")?;
    if !output.status.success() {
        bail!("xz cannot unpack {}", path.display());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_reach_the_guest_as_they_were_typed() {
        let script = run_tests(&["--exact".into(), "it's $HOME".into()]);
        assert!(script.ends_with("root-tests '--exact' 'it'\\''s $HOME'\n"));
    }
}
