//! The types (BTF) of a guest's kernel: taken out of its image, reduced to what netto's BPF objects
//! ask for, and written to where the tests of `netto-relocation` have them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::kernels::{self, Choice, Kernel};
use crate::{build, process};

/// Where the types of kernels are kept.
const FOLDER: &str = "netto/crates/relocation/kernels";
/// An example of that crate.
const REDUCER: &str = "minimal_types";
/// From which packages: kernel and package in each line.
const PACKAGES: &str = "packages.txt";

/// Places in an image for x86 (`Documentation/arch/x86/boot.rst`): sectors before the kernel itself,
/// and where in it the compressed one begins and how long that is.
const SECTORS_AT: usize = 0x1f1;
const PAYLOAD_AT: usize = 0x248;
const SECTOR_BYTES: usize = 512;
/// What unpacks it, by how it begins.
const UNPACKERS: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x1f\x8b", "gzip"),
    (b"\x02\x21\x4c\x18", "lz4"),
];

/// Writes the types of these kernels anew.
///
/// # Errors
/// A kernel is not to be had, or is not what it should be; the others are written.
pub fn write(root: &Path, folder: &Path, choice: &Choice) -> Result<()> {
    let list = root.join(FOLDER).join(PACKAGES);
    let text =
        fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let listed = text.lines().filter_map(|line| line.split(' ').next());
    let listed = listed.map(str::parse::<Choice>).collect::<Result<_, _>>();
    let listed: Vec<Choice> = listed.map_err(anyhow::Error::msg)?;
    let wanted = if choice.kernels() == kernels::MATRIX {
        listed.iter().flat_map(Choice::kernels).copied().collect()
    } else {
        choice.kernels().to_vec()
    };
    ensure!(
        !wanted.contains(&Kernel::Newest),
        "types are kept by version: say which one is the newest"
    );
    let reducer = reducer(root)?;
    let (mut packages, mut failures) = (text, Vec::new());
    for kernel in wanted {
        let name = kernel.name();
        match write_one(root, folder, &reducer, kernel) {
            Ok(package) => packages = with_package(&packages, &name, &package),
            Err(error) => failures.push(format!("{name}: {error:#}")),
        }
    }
    fs::write(&list, packages).with_context(|| format!("cannot write {}", list.display()))?;
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// The program that reduces types to what objects ask for.
fn reducer(root: &Path) -> Result<PathBuf> {
    let mut cargo = build::cargo_for_tests(root)?;
    // Of the workspace, as all tests are: see `Programs::compile`.
    cargo
        .args(["build", "--workspace", "--example", REDUCER])
        .args(["--message-format", "json-render-diagnostics"])
        .stdout(Stdio::piped());
    let messages = process::output(&mut cargo)?;
    super::executable(&messages, "example", REDUCER)
        .with_context(|| format!("cargo does not say where it put {REDUCER}"))
}

/// Writes the types of one kernel, and says of which package.
fn write_one(root: &Path, folder: &Path, reducer: &Path, kernel: Kernel) -> Result<String> {
    let name = kernel.name();
    let (image, package) = kernels::fetch_image(folder, kernel)?;
    let (elf, whole) = (folder.join("vmlinux"), folder.join(format!("{name}.btf")));
    let bytes = fs::read(&image).with_context(|| format!("cannot read {}", image.display()))?;
    let unpacked = unpack(&bytes).with_context(|| format!("cannot unpack {}", image.display()))?;
    fs::write(&elf, unpacked).with_context(|| format!("cannot write {}", elf.display()))?;
    let mut section = std::ffi::OsString::from(".BTF=");
    section.push(&whole);
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--dump-section").arg(section);
    process::run(objcopy.arg(&elf).arg("/dev/null"))?;

    let place = root.join(FOLDER).join(format!("{name}.btf"));
    process::run(Command::new(reducer).arg(&whole).arg(place))?;
    Ok(package)
}

/// The list with the package of a kernel, sorted by version.
fn with_package(list: &str, kernel: &str, package: &str) -> String {
    let added = format!("{kernel} {package}");
    let others = list
        .lines()
        .filter(|line| line.split(' ').next() != Some(kernel));
    let mut lines: Vec<&str> = others.chain([added.as_str()]).collect();
    lines.sort_by_key(|line| kernels::numbers(line));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The kernel that an image unpacks when it boots.
fn unpack(image: &[u8]) -> Result<Vec<u8>> {
    let payload = payload(image).context("it is no image for x86")?;
    let unpacker = UNPACKERS
        .iter()
        .find(|(begin, _)| payload.starts_with(begin));
    let (_, program) = unpacker.context("how it is compressed is not known")?;
    let mut child = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Unpackers complain about the length that follows the compressed kernel.
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut input = child.stdin.take().context("no input")?;
    let output = std::thread::scope(|scope| {
        // An unpacker that stops reading has all it needs; whether that is so is checked by its output.
        scope.spawn(move || input.write_all(payload).ok());
        child.wait_with_output()
    });
    let output = output.with_context(|| format!("{program} failed"))?;
    ensure!(
        output.stdout.starts_with(b"\x7fELF"),
        "{program} finds no kernel in it"
    );
    Ok(output.stdout)
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let word = image.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*word) as usize)
    };
    let kernel = (usize::from(*image.get(SECTORS_AT)?) + 1) * SECTOR_BYTES;
    let begin = kernel.checked_add(word(PAYLOAD_AT)?)?;
    image.get(begin..begin.checked_add(word(PAYLOAD_AT + 4)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_found_in_its_image_and_nothing_else_is_taken_for_one() {
        let mut image = vec![0; 4 * SECTOR_BYTES];
        image[SECTORS_AT] = 1;
        image[PAYLOAD_AT..][..8].copy_from_slice(&[3, 0, 0, 0, 2, 0, 0, 0]);
        image[2 * SECTOR_BYTES + 3..][..2].copy_from_slice(b"XZ");
        assert_eq!(payload(&image), Some(&b"XZ"[..]));
        assert!(unpack(&image).is_err());
        image[PAYLOAD_AT + 7] = 0xff;
        assert_eq!(payload(&image), None, "it is cut");
    }

    #[test]
    fn packages_are_listed_by_version() {
        let list = with_package("6.1 a\n6.12 b\n", "6.9", "c");
        assert_eq!(list, "6.1 a\n6.9 c\n6.12 b\n");
        assert_eq!(with_package(&list, "6.9", "d"), "6.1 a\n6.9 d\n6.12 b\n");
    }
}
