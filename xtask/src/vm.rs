//! `cargo xtask vm`: the root tests on other kernels, each in a virtual machine
//! of its own, and what they find out about each kernel.
//!
//! The guests run the same binaries as the host, or, on another architecture, the same compiled for
//! it; nothing is installed in them.

mod architecture;
mod cpio;
mod image;
mod kernels;
mod modules;
mod qemu;
mod record;
mod system;
mod types;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::slowest::Slowest;
use crate::tally::Tally;
use crate::tiers::TABLE;
use crate::{build, process, setup};

pub use kernels::Kernel;

use architecture::Architecture;
use kernels::Choice;
use record::GuestReport;
use system::System;

/// Guests take minutes; this is for those that hang.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The same of those that take longer: with counted instructions, or with another architecture.
const SLOW_LIMIT: Duration = Duration::from_secs(45 * 60);
/// The test that tells what it finds out about the kernel.
const RECORDING_TEST: &str = "kernels::socket_calls_are_attached_as_this_kernel_allows";

/// What can be asked for.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which kernel: 5.10, 6.1, 6.12, rt, rt-6.12, arm64-6.12, all (6.1 and 6.12), newest, or a
    /// version that Debian's backports have now, such as 6.16
    #[arg(long, default_value = "all")]
    kernel: Choice,
    /// Let one guest nanosecond be one instruction, on one CPU: slower, repeatable
    #[arg(long)]
    icount: bool,
    /// Measure the probes, with --icount, and write docs/KERNELS.md anew
    #[arg(long, conflicts_with = "args")]
    update_docs: bool,
    /// Run nothing, but write anew those of the kernel's types that netto's BPF objects ask for, with
    /// which tests compare the objects; all: of each kernel of which there are such already
    #[arg(long, conflicts_with_all = ["args", "update_docs"])]
    types: bool,
    /// A program of this machine that the guests get, too, such as bpftrace; or a file, by a path
    /// with a /, which they find in /root
    #[arg(long = "tool", value_name = "PROGRAM")]
    tools: Vec<String>,
    /// Words for the command line of the guests' kernels, such as "isolcpus=1 nohz_full=1"
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// Arguments for the tests, e.g. part of a test's name
    #[arg(last = true)]
    args: Vec<String>,
}

/// Runs the tests in the guests that were asked for.
///
/// # Errors
/// A guest could not be built; failed tests are an exit code.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let kernels = options.kernel.kernels();
    let is_described = |kernel| kernels::MATRIX.contains(kernel);
    ensure!(
        !options.update_docs || kernels.iter().all(is_described),
        "docs/KERNELS.md has no tables of this kernel's probes: --update-docs is for {}",
        kernels::MATRIX
            .iter()
            .map(|kernel| kernel.name())
            .collect::<Vec<_>>()
            .join(" and ")
    );
    setup::ensure(root, setup::Purpose::Test)?;
    if options.types {
        types::write(root, &folder(root)?, &options.kernel)?;
        return Ok(ExitCode::SUCCESS);
    }
    let programs = Programs::build(root, kernels)?;
    let args = if options.update_docs {
        vec!["--exact".to_owned(), RECORDING_TEST.to_owned()]
    } else {
        options.args.clone()
    };
    let wanted = Wanted {
        programs: &programs,
        args: &args,
        tools: &options.tools,
        append: &options.append,
        icount: options.icount || options.update_docs,
        is_shared_out: false,
    };
    let mut tally = Tally::default();
    for (kernel, report) in side_by_side(root, kernels, &wanted, &mut tally)? {
        if options.update_docs {
            record::update(root, kernel, &report)?;
        }
    }
    println!("{tally}");
    Ok(if tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Fetches the kernels of the matrix, if there are guests of them here.
///
/// # Errors
/// A package is not to be had.
pub fn fetch(root: &Path) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        return Ok(());
    }
    let folder = folder(root)?;
    let mut kernels = kernels::MATRIX.iter();
    kernels.try_for_each(|kernel| kernels::fetch(&folder, *kernel).map(drop))
}

/// Runs the tests on every kernel of the matrix, as a part of all tests.
///
/// # Errors
/// A guest could not be built.
pub fn matrix(root: &Path, tally: &mut Tally) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        println!("SKIPPED: the kernels for the virtual machines are for x86-64");
        tally.skipped += kernels::MATRIX.len() as u64;
        return Ok(());
    }
    let wanted = Wanted {
        programs: &Programs::build(root, kernels::MATRIX)?,
        args: &[],
        tools: &[],
        append: "",
        icount: false,
        is_shared_out: true,
    };
    for (kernel, report) in side_by_side(root, kernels::MATRIX, &wanted, tally)? {
        let name = kernel.name();
        let check = format!("docs/KERNELS.md tells how probes attach to {name}");
        tally.check(&check, record::check(root, kernel, &report));
    }
    Ok(())
}

/// Begin of the name of the test that compares with bpftrace.
pub const BESIDE_BPFTRACE: &str = "bpftrace::";

/// Runs that test, in the guest that it is made for.
///
/// # Errors
/// The guest could not be built.
pub fn beside_bpftrace(root: &Path, tally: &mut Tally) -> Result<()> {
    let kernels = &[Kernel::V6_12];
    let wanted = Wanted {
        programs: &Programs::build(root, kernels)?,
        args: &[BESIDE_BPFTRACE.to_owned()],
        tools: &["bpftrace".to_owned()],
        append: "",
        icount: true,
        is_shared_out: false,
    };
    side_by_side(root, kernels, &wanted, tally).map(drop)
}

/// What guests are to do.
struct Wanted<'a> {
    programs: &'a Programs,
    /// Arguments for the tests.
    args: &'a [String],
    /// More programs of this machine.
    tools: &'a [String],
    /// More words for the kernel's command line.
    append: &'a str,
    /// Whether a nanosecond is an instruction.
    icount: bool,
    /// Whether tests that are the same on each kernel run in one guest only.
    is_shared_out: bool,
}

/// Arguments that leave out what another guest of the matrix runs.
fn without_others(kernel: Kernel) -> impl Iterator<Item = String> {
    TABLE
        .iter()
        .filter(move |row| !row.kernel.is_empty() && row.kernel != kernel.name())
        .flat_map(|row| ["--skip", row.tests])
        .map(str::to_owned)
}

/// A guest of each kernel, all at the same time: QEMU has one thread for each, whatever its CPUs.
fn side_by_side(
    root: &Path,
    matrix: &[Kernel],
    wanted: &Wanted<'_>,
    tally: &mut Tally,
) -> Result<Vec<(Kernel, GuestReport)>> {
    let folder = folder(root)?;
    for &kernel in matrix {
        kernels::fetch(&folder, kernel)?;
    }
    let verdicts: Vec<Result<(Tally, GuestReport)>> = std::thread::scope(|scope| {
        let start = |kernel: Kernel| {
            scope.spawn(move || {
                let mut tally = Tally::default();
                let report = guest(root, kernel, wanted, &mut tally)?;
                Ok((tally, report))
            })
        };
        let guests: Vec<_> = matrix.iter().map(|kernel| start(*kernel)).collect();
        let ended = guests.into_iter().map(|guest| {
            let panicked = |_| Err(anyhow::anyhow!("the thread that runs it panicked"));
            guest.join().unwrap_or_else(panicked)
        });
        ended.collect()
    });
    let mut reports = Vec::new();
    for (&kernel, verdict) in matrix.iter().zip(verdicts) {
        let (of_guest, report) = verdict.with_context(|| format!("guest {}", kernel.name()))?;
        tally.add(of_guest);
        reports.push((kernel, report));
    }
    Ok(reports)
}

/// When a guest is killed.
fn limit(architecture: Architecture, icount: bool) -> Duration {
    if icount || architecture == Architecture::Arm64 {
        SLOW_LIMIT
    } else {
        LIMIT
    }
}

/// One guest from building it to its verdict.
fn guest(
    root: &Path,
    kernel: Kernel,
    wanted: &Wanted<'_>,
    tally: &mut Tally,
) -> Result<GuestReport> {
    let folder = folder(root)?;
    let unpacked = kernels::fetch(&folder, kernel)?;
    let tools: Vec<&str> = wanted.tools.iter().map(String::as_str).collect();
    let mut args = wanted.args.to_vec();
    if args.is_empty() {
        args = kernel.tests();
    }
    if wanted.is_shared_out {
        args.extend(without_others(kernel));
    }
    let payload = image::Payload {
        system: &wanted.programs.system,
        netto: &wanted.programs.netto,
        tests: &wanted.programs.tests,
        args: &args,
        tools: &tools,
    };
    let file_system = folder.join(format!("{}.cpio", kernel.name()));
    std::fs::write(&file_system, image::build(&unpacked, &payload)?)
        .with_context(|| format!("cannot write {}", file_system.display()))?;
    let boot = qemu::Boot {
        architecture: kernel.architecture(),
        kernel: &unpacked.image,
        file_system: &file_system,
        console: &folder.join(format!("{}.console", kernel.name())),
        icount: wanted.icount,
        append: wanted.append,
        cpus: None,
        limit: limit(kernel.architecture(), wanted.icount),
    };
    let mut report = GuestReport::default();
    let failed_before = tally.failed;
    let name = format!("guest {}", kernel.name());
    let (begun, mut slowest) = (Instant::now(), Slowest::default());
    let verdict = qemu::run(&boot, |line| {
        if !report.read_line(line) {
            println!("{}: {line}", kernel.name());
        }
        tally.line(line);
        slowest.line(line, begun.elapsed().as_secs_f64());
    });
    println!("\n{}: {slowest}", kernel.name());
    match verdict {
        Ok(0) => {}
        // The tests have said which of them failed.
        Ok(_) if tally.failed > failed_before => {}
        Ok(code) => tally.check(&name, Err(format!("its tests ended with {code}"))),
        Err(error) => tally.check(&name, Err(error)),
    }
    Ok(report)
}

/// A guest that measures what netto costs. Where it has few CPUs, a nanosecond is one instruction.
#[derive(Debug)]
pub struct Bench<'a> {
    /// Its kernel.
    pub kernel: Kernel,
    /// What is measured.
    pub netto: &'a Path,
    /// The root tests, which measure.
    pub tests: &'a Path,
    /// Arguments of `root bench`.
    pub words: Vec<String>,
    /// How many CPUs it has.
    pub cpus: u32,
}

impl Bench<'_> {
    /// QEMU hangs at the start of a guest that has many CPUs and counts their instructions.
    fn counts_instructions(&self) -> bool {
        self.cpus <= 2
    }

    /// Runs the guest and shows each line of its output to `see`.
    ///
    /// # Errors
    /// The guest could not be built, or said that something could not be measured.
    pub fn run(&self, root: &Path, see: impl FnMut(&str)) -> Result<()> {
        let folder = folder(root)?;
        let unpacked = kernels::fetch(&folder, self.kernel)?;
        let mut args = vec!["bench".to_owned()];
        args.extend(self.words.iter().cloned());
        let strip = self.kernel.architecture().strip();
        let payload = image::Payload {
            system: &System::ThisMachine,
            netto: &stripped(strip, self.netto, folder.join("bench-netto"))?,
            tests: &stripped(strip, self.tests, folder.join("bench-root-tests"))?,
            args: &args,
            tools: &["iperf3"],
        };
        let name = format!("bench-{}-{}", self.kernel.name(), self.cpus);
        let file_system = folder.join(format!("{name}.cpio"));
        std::fs::write(&file_system, image::build(&unpacked, &payload)?)
            .with_context(|| format!("cannot write {}", file_system.display()))?;
        let boot = qemu::Boot {
            architecture: self.kernel.architecture(),
            kernel: &unpacked.image,
            file_system: &file_system,
            console: &folder.join(format!("{name}.console")),
            icount: self.counts_instructions(),
            append: "",
            cpus: Some(self.cpus),
            limit: limit(self.kernel.architecture(), self.counts_instructions()),
        };
        match qemu::run(&boot, see)? {
            0 => Ok(()),
            code => anyhow::bail!("the guest's measurement ended with {code}"),
        }
    }
}

/// What guests run, as cargo built it, but for what debuggers read.
struct Programs {
    system: System,
    netto: PathBuf,
    tests: PathBuf,
}

/// The root tests, built for the host, for what measures: without lints, which change a little what the
/// compiler makes of the loads.
pub fn root_tests(root: &Path) -> Result<PathBuf> {
    let cargo = build::cargo_with_dashboard(root)?;
    Programs::compile(cargo, &System::ThisMachine).map(|(_, tests)| tests)
}

impl Programs {
    /// netto and the tests, where cargo put them.
    fn compile(mut command: Command, system: &System) -> Result<(PathBuf, PathBuf)> {
        // The workspace, as all tests do: for netto alone cargo takes other features of
        // dependencies, and builds most of them and all of netto once more.
        command
            .args(["test", "--workspace", "--test", "root", "--no-run"])
            .args(["--message-format", "json-render-diagnostics"])
            .stdout(Stdio::piped());
        Architecture::compile_for(system, &mut command);
        let messages = process::output(&mut command)?;
        let find = |kind: &str, name: &str| {
            executable(&messages, kind, name)
                .with_context(|| format!("cargo does not say where it put {name}"))
        };
        Ok((find("bin", "netto")?, find("test", "root")?))
    }

    /// Those for these kernels, which are of one architecture.
    fn build(root: &Path, kernels: &[Kernel]) -> Result<Self> {
        let architecture = kernels
            .first()
            .map_or(Architecture::Amd64, |kernel| kernel.architecture());
        let folder = folder(root)?;
        let system = architecture.prepare(&folder)?;
        let cargo = match system {
            System::ThisMachine => build::cargo_for_tests(root)?,
            System::Unpacked { .. } => build::cargo_with_dashboard(root)?,
        };
        let (netto, tests) = Programs::compile(cargo, &system)?;
        let strip = architecture.strip();
        Ok(Programs {
            netto: stripped(strip, &netto, folder.join("netto"))?,
            tests: stripped(strip, &tests, folder.join("root-tests"))?,
            system,
        })
    }
}

/// Where kernels, guests and their messages are kept.
fn folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/vm");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// A copy without what only debuggers read: four fifths of a debug build.
fn stripped(strip: &str, program: &Path, copy: PathBuf) -> Result<PathBuf> {
    process::run(
        Command::new(strip)
            .arg("--strip-debug")
            .arg("-o")
            .arg(&copy)
            .arg(program),
    )?;
    Ok(copy)
}

/// The executable that cargo's messages, one JSON object a line, name for this target.
fn executable(messages: &str, kind: &str, name: &str) -> Option<PathBuf> {
    let message = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .rfind(|message| {
            let target = &message["target"];
            message["reason"] == "compiler-artifact"
                && target["kind"] == json!([kind])
                && target["name"] == name
        })?;
    message["executable"].as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = concat!(
        r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"netto","edition":"2024"},"executable":null,"fresh":true}"#,
        "\n",
        r#"{"reason":"compiler-artifact","target":{"kind":["test"],"crate_types":["bin"],"name":"root","edition":"2024"},"executable":"/t/debug/deps/root-1","fresh":true}"#,
        "\n",
        r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"crate_types":["bin"],"name":"netto","edition":"2024"},"executable":"/t/debug/netto","fresh":true}"#,
        "\n",
        r#"{"reason":"build-finished","success":true}"#,
    );

    #[test]
    fn a_test_of_one_guest_names_a_kernel_of_the_matrix_and_is_left_out_of_the_others() {
        let kernels: Vec<_> = TABLE.iter().map(|row| row.kernel).collect();
        for one in kernels.into_iter().filter(|kernel| !kernel.is_empty()) {
            let rows = kernels::MATRIX.iter();
            assert_eq!(rows.filter(|kernel| kernel.name() == one).count(), 1);
        }
        let left_out: Vec<_> = without_others(Kernel::V6_1).collect();
        assert!(left_out.contains(&"machine::who_is_killed_".to_owned()));
        assert!(!left_out.contains(&"machine::it_sleeps_".to_owned()));
    }

    #[test]
    fn cargos_messages_tell_where_the_programs_are() {
        let found = |kind, name| executable(MESSAGES, kind, name);
        assert_eq!(found("bin", "netto"), Some("/t/debug/netto".into()));
        assert_eq!(found("test", "root"), Some("/t/debug/deps/root-1".into()));
        assert_eq!(found("lib", "netto"), None, "a library is no program");
        assert_eq!(found("bin", "other"), None);
    }
}
