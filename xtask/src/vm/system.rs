//! Where the programs of guests come from, with the libraries that they need: this machine, or a
//! system of another architecture, unpacked below `target/vm`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// A system that guests are made of.
#[derive(Debug)]
pub enum System {
    /// This machine.
    ThisMachine,
    /// One that cannot run here.
    Unpacked {
        /// Its folder.
        root: PathBuf,
        /// GNU's name of its architecture, which a folder with libraries has.
        gnu: &'static str,
    },
}

/// Shared libraries and loaders: where they are in a guest, and here.
pub type Libraries = BTreeMap<String, PathBuf>;

/// The tools of the tests, as far as guests need them.
pub const TOOLS: &[&str] = &["ip", "bridge", "tc", "nft", "ethtool", "wg", "setpriv"];
/// What guests have beside these: the shell, and what that stands for.
pub const SHELL: &str = "busybox";

/// Folders of programs. Debian's own links are in the later ones.
const FOLDERS: [&str; 4] = ["bin", "usr/bin", "sbin", "usr/sbin"];

impl System {
    /// A program of it.
    ///
    /// # Errors
    /// It is missing.
    pub fn find(&self, program: &str) -> Result<PathBuf> {
        match self {
            System::ThisMachine => process::find_program(program).with_context(|| {
                format!("the program {program} is missing; `cargo xtask setup` brings it")
            }),
            System::Unpacked { root, .. } => FOLDERS
                .iter()
                .map(|folder| root.join(folder).join(program))
                .find(|place| process::is_executable(place))
                .with_context(|| {
                    let root = root.display();
                    format!("the program {program} is not in {root}; remove that to fetch it anew")
                }),
        }
    }

    /// Adds the shared libraries of a program and their loader.
    ///
    /// # Errors
    /// One is missing.
    pub fn add_libraries(&self, program: &Path, found: &mut Libraries) -> Result<()> {
        match self {
            System::ThisMachine => {
                let output = Command::new("ldd")
                    .arg(program)
                    .output()
                    .context("cannot start ldd, which finds a program's libraries")?;
                // The exit code is ignored, because ldd fails for a static program, which has no libraries.
                let libraries = parse_ldd(&String::from_utf8_lossy(&output.stdout))
                    .with_context(|| format!("{} does not run here", program.display()))?;
                for library in libraries {
                    let place = library
                        .to_str()
                        .context("a library has a path that is not UTF-8")?;
                    found.insert(place.trim_start_matches('/').to_owned(), library);
                }
                Ok(())
            }
            System::Unpacked { root, gnu } => add_needed(root, gnu, program, found),
        }
    }
}

/// Adds what `ldd` would find, if the program could run here.
fn add_needed(root: &Path, gnu: &str, program: &Path, found: &mut Libraries) -> Result<()> {
    let shown = process::output(Command::new("readelf").arg("-dW").arg(program))?;
    for name in needed(&shown) {
        let folders = [
            "lib".to_owned(),
            format!("lib/{gnu}"),
            format!("usr/lib/{gnu}"),
        ];
        let place = folders
            .iter()
            .map(|folder| format!("{folder}/{name}"))
            .find(|place| root.join(place).exists())
            .with_context(|| format!("library {name} is missing in {}", root.display()))?;
        let library = root.join(&place);
        if found.insert(place, library.clone()).is_none() {
            add_needed(root, gnu, &library, found)?;
        }
    }
    Ok(())
}

/// The libraries that readelf's table of a program's dynamic section names.
fn needed(table: &str) -> impl Iterator<Item = &str> {
    let lines = table.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0))
}

fn parse_ldd(text: &str) -> Result<BTreeSet<PathBuf>> {
    let mut libraries = BTreeSet::new();
    for line in text.lines() {
        if line.contains("=> not found") {
            bail!("library {} is missing", line.trim());
        }
        let place = line.split("=> ").last().unwrap_or_default().trim();
        if let Some((path, _)) = place.split_once(" (").filter(|(p, _)| p.starts_with('/')) {
            libraries.insert(PathBuf::from(path));
        }
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_loader_are_found_and_what_the_kernel_provides_is_not() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                    \tlibelf.so.1 => /lib/x86_64-linux-gnu/libelf.so.1 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<PathBuf> = parse_ldd(text).unwrap().into_iter().collect();
        assert_eq!(
            found,
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libelf.so.1"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert!(parse_ldd("\tstatically linked\n").unwrap().is_empty());
        assert!(parse_ldd("\tlibx.so => not found\n").is_err());
    }

    #[test]
    fn libraries_of_a_program_that_does_not_run_here_are_those_that_it_names() {
        let table = " 0x0000000000000001 (NEEDED)   Shared library: [libelf.so.1]\n \
                     0x0000000000000001 (NEEDED)   Shared library: [libc.so.6]\n \
                     0x000000000000000e (SONAME)   Library soname: [libx.so.1]\n";
        let found: Vec<&str> = needed(table).collect();
        assert_eq!(found, ["libelf.so.1", "libc.so.6"]);
    }

    #[test]
    fn an_unpacked_system_has_its_own_programs_only() {
        let root = std::env::temp_dir().join(format!("netto-system-{}", std::process::id()));
        std::fs::create_dir_all(root.join("sbin")).unwrap();
        std::fs::copy("/bin/true", root.join("sbin/tc")).unwrap();
        let system = System::Unpacked {
            root: root.clone(),
            gnu: "no-architecture",
        };
        let (in_root, of_this_machine) = (system.find("tc"), system.find("sh"));
        let mut libraries = Libraries::new();
        let missing = system.add_libraries(&root.join("sbin/tc"), &mut libraries);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(in_root.unwrap(), root.join("sbin/tc"));
        assert!(of_this_machine.is_err());
        assert!(missing.unwrap_err().to_string().contains("libc.so.6"));
    }
}
