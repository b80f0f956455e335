//! Running other programs: say what is run, run it, make failures readable.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that started xtask, so that a chosen tool chain stays chosen. It is told nothing of the
/// package xtask: ring's build script asks for that, and ring and all that needs it would be built
/// anew whenever a cargo from a shell follows one from xtask.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    command
}

/// The same command, which has what time of the CPUs others leave.
pub fn yielding(command: &Command) -> Command {
    let mut yielding = Command::new("nice");
    yielding.args(["-n", "19"]).arg(command.get_program());
    yielding.args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => yielding.env(name, value),
            None => yielding.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        yielding.current_dir(folder);
    }
    yielding
}

/// The command as a person would type it.
pub fn display(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs to the end, after saying what; fails unless it exits with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = display(command);
    eprintln!("xtask: {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Standard output of a command that must succeed, without the last line break.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = display(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    let text = String::from_utf8(output.stdout)
        .with_context(|| format!("`{shown}` wrote something that is not UTF-8"))?;
    Ok(text.trim_end().to_owned())
}

/// Runs a command, shows each line of its output to `see` as it comes, with its line break, and says
/// whether it exits with 0.
///
/// # Errors
/// The command cannot be run, or `see` fails.
pub fn each_line(
    command: &mut Command,
    mut see: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut reader = BufReader::new(child.stdout.take().context("no output to read")?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        see(&line)?;
        line.clear();
    }
    Ok(child.wait()?.success())
}

/// Whether this process runs as root; the owner of `/proc/self` is its effective user.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Finds a program in PATH, and in the folders where Debian keeps the
/// administrator's programs, which a user's PATH often leaves out.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

/// Whether this is a file that may be executed.
pub fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Becomes this program, through sudo unless root already. Returns only on failure.
pub fn exec_as_root(program: &Path, args: &[String]) -> anyhow::Error {
    let mut command = if is_root() {
        Command::new(program)
    } else {
        eprintln!("xtask: netto loads BPF programs, which needs root: running it through sudo");
        let mut sudo = Command::new("sudo");
        sudo.arg(program);
        sudo
    };
    command.args(args);
    let shown = display(&command);
    let error = command.exec();
    if error.kind() == io::ErrorKind::NotFound && !is_root() {
        return anyhow::anyhow!(
            "there is no sudo here; run this as root: {} {}",
            program.display(),
            args.join(" ")
        );
    }
    anyhow::Error::new(error).context(format!("cannot run `{shown}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed_without_its_folder() {
        let mut command = Command::new("/usr/bin/apt-get");
        command.args(["install", "clang"]);
        assert_eq!(display(&command), "apt-get install clang");
    }

    #[test]
    fn the_shell_is_found_and_an_invented_program_is_not() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-anywhere").is_none());
    }

    #[test]
    fn a_failing_command_names_itself() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(
            error.to_string().contains("`sh -c exit 3` failed"),
            "{error}"
        );
    }

    #[test]
    fn output_is_seen_line_by_line_and_the_verdict_is_the_programs() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; printf '\\377two\\n'; exit 1"]);
        let passed = each_line(&mut command, |line| {
            seen.push(line.to_owned());
            Ok(())
        });
        assert!(!passed.unwrap());
        assert_eq!(seen, [b"one\n".to_vec(), b"\xfftwo\n".to_vec()]);
    }
}
