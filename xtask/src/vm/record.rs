//! docs/KERNELS.md: what the guests found out about each kernel, between marks.
//!
//! How events are attached must not differ from what a guest finds; what probes
//! cost is measured anew only when asked for, because it is never twice the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::kernels::Kernel;

/// Begins every line that a guest says to us and not to the user.
const FACT: &str = "kernel fact: ";
const END: &str = "<!-- end of what the guest says -->";

/// What a guest said of its kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GuestReport {
    release: String,
    /// By event: how it is measured.
    events: Vec<(String, String)>,
    /// By event: the functions and tracepoints of its probes, with their way.
    probes: BTreeMap<String, Vec<(String, String)>>,
    /// By point of latency: how it is measured, and the functions and tracepoints of its probes.
    points: Vec<(String, String, Vec<String>)>,
    programs: Vec<Program>,
}

/// Programs that do the same on different functions.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: String,
    verified_instructions: u64,
    run_time_ns: u64,
    runs: u64,
}

impl GuestReport {
    /// Reads a line of the guest's output; `false` if it holds no fact.
    pub fn read_line(&mut self, line: &str) -> bool {
        let Some(fact) = line.strip_prefix(FACT) else {
            return false;
        };
        let words: Vec<&str> = fact.split(' ').collect();
        match words[..] {
            ["release", release] => self.release = release.to_owned(),
            ["event", slug, method] => self.events.push((slug.to_owned(), method.to_owned())),
            ["probe", slug, method, name] => self
                .probes
                .entry(slug.to_owned())
                .or_default()
                .push((method.to_owned(), name.to_owned())),
            ["point", slug, method, ref hooks @ ..] => {
                let hooks = hooks.iter().map(|hook| (*hook).to_owned());
                self.points
                    .push((slug.to_owned(), method.replace(',', ", "), hooks.collect()));
            }
            ["program", name, instructions, run_time_ns, runs] => {
                let number = |text: &str| text.parse().ok();
                let (Some(verified_instructions), Some(run_time_ns), Some(runs)) =
                    (number(instructions), number(run_time_ns), number(runs))
                else {
                    return false;
                };
                self.programs.push(Program {
                    name: name.to_owned(),
                    verified_instructions,
                    run_time_ns,
                    runs,
                });
            }
            _ => return false,
        }
        true
    }

    /// How events and points are attached, as tables: the same for every run on a kernel.
    fn attachment(&self) -> String {
        let mut table = "| event | way | attached to |\n|---|---|---|\n".to_owned();
        for (slug, way) in &self.events {
            let names: Vec<String> = self
                .probes
                .get(slug)
                .into_iter()
                .flatten()
                .map(|(_, name)| format!("`{name}`"))
                .collect();
            // Formatting into a string cannot fail.
            let _ = writeln!(table, "| `{slug}` | {way} | {} |", names.join(" "));
        }
        if self.points.is_empty() {
            return table;
        }
        table.push_str("\n| point of latency | way | attached to |\n|---|---|---|\n");
        for (slug, way, hooks) in &self.points {
            let hooks: Vec<String> = hooks.iter().map(|hook| format!("`{hook}`")).collect();
            let _ = writeln!(table, "| `{slug}` | {way} | {} |", hooks.join(" "));
        }
        table
    }

    /// What the probes cost, as a table.
    fn cost(&self) -> String {
        let mut table =
            "| program | instructions verified | instructions per run |\n|---|--:|--:|\n"
                .to_owned();
        for program in &self.programs {
            let per_run = match program.runs {
                0 => "did not run".to_owned(),
                runs => (program.run_time_ns / runs).to_string(),
            };
            let _ = writeln!(
                table,
                "| `{}` | {} | {per_run} |",
                program.name, program.verified_instructions
            );
        }
        table
    }
}

/// Fails unless the document says of this kernel's probes what the guest said.
///
/// # Errors
/// What differs, and how to set it right.
pub fn check(root: &Path, kernel: Kernel, report: &GuestReport) -> Result<()> {
    ensure!(!report.events.is_empty(), "the guest said nothing of it");
    let text = read(root)?;
    let section = &text[section(&text, kernel)?];
    ensure!(
        section.contains(&report.attachment()),
        "the guest says otherwise; to write it down: cargo xtask vm --kernel {} --update-docs\n{}",
        kernel.name(),
        report.attachment()
    );
    Ok(())
}

/// Writes what the guest said into the document.
///
/// # Errors
/// The guest said nothing, or the document has no place for this kernel.
pub fn update(root: &Path, kernel: Kernel, report: &GuestReport) -> Result<()> {
    ensure!(
        !report.events.is_empty(),
        "the guest said nothing of itself"
    );
    let text = read(root)?;
    let old = section(&text, kernel)?;
    let (before, after) = (&text[..old.start], &text[old.end..]);
    let new = format!(
        "\nLinux {}:\n\n{}\n{}\n",
        report.release,
        report.attachment(),
        report.cost()
    );
    let path = path(root);
    std::fs::write(&path, format!("{before}{new}{after}"))
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!(
        "xtask: wrote what {} said to {}",
        kernel.name(),
        path.display()
    );
    Ok(())
}

fn path(root: &Path) -> PathBuf {
    root.join("docs/KERNELS.md")
}

fn read(root: &Path) -> Result<String> {
    let path = path(root);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Where between the marks of this kernel the text stands, the line breaks next to them included.
fn section(text: &str, kernel: Kernel) -> Result<Range<usize>> {
    let begin = format!("<!-- what the guest {} says -->", kernel.name());
    let place = || {
        let start = text.find(&begin)? + begin.len();
        let length = text[start..].find(END)?;
        Some(start..start + length)
    };
    place().with_context(|| format!("docs/KERNELS.md has no place between {begin} and {END}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> GuestReport {
        let mut report = GuestReport::default();
        for line in [
            "kernel fact: release 6.1.0-1-amd64",
            "kernel fact: probe tx_syscall fentry inet_sendmsg",
            "kernel fact: probe tx_syscall fentry inet6_sendmsg",
            "kernel fact: event tx_syscall fentry",
            "kernel fact: event rx_softirq tp_btf",
            "kernel fact: program netto_fentry 120 9000 90",
        ] {
            assert!(report.read_line(line), "{line}");
        }
        report
    }

    /// The same kernel, found otherwise.
    fn other() -> GuestReport {
        let mut other = report();
        other.events[0].1 = "sampling".to_owned();
        other
    }

    const DOCUMENT: &str =
        "before\n<!-- what the guest 6.1 says -->\n<!-- end of what the guest says -->\nafter\n";

    #[test]
    fn only_facts_are_taken_from_the_output() {
        let mut report = GuestReport::default();
        for line in [
            "test a ... ok",
            "kernel fact: ",
            "kernel fact: program a b c d",
        ] {
            assert!(!report.read_line(line), "{line}");
        }
        assert_eq!(report, GuestReport::default());
    }

    #[test]
    fn events_stand_in_the_guests_order_with_their_probes() {
        assert_eq!(
            report().attachment(),
            "| event | way | attached to |\n|---|---|---|\n\
             | `tx_syscall` | fentry | `inet_sendmsg` `inet6_sendmsg` |\n\
             | `rx_softirq` | tp_btf |  |\n"
        );
        assert!(report().cost().contains("| `netto_fentry` | 120 | 100 |"));
    }

    #[test]
    fn points_stand_below_events() {
        let mut report = report();
        assert!(report.read_line("kernel fact: point qdisc tp_btf,fentry qdisc_enqueue x"));
        let tables = report.attachment();
        let below = "\n\n| point of latency | way | attached to |\n|---|---|---|\n\
                     | `qdisc` | tp_btf, fentry | `qdisc_enqueue` `x` |\n";
        assert!(tables.ends_with(below), "{tables}");
    }

    #[test]
    fn what_was_written_down_is_found_right_and_anything_else_is_not() {
        let root = std::env::temp_dir().join(format!("netto-record-{}", std::process::id()));
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(path(&root), DOCUMENT).unwrap();
        let before = check(&root, Kernel::V6_1, &report());
        update(&root, Kernel::V6_1, &other()).unwrap();
        update(&root, Kernel::V6_1, &report()).unwrap();
        let after = check(&root, Kernel::V6_1, &report());
        let differing = check(&root, Kernel::V6_1, &other());
        let absent = check(&root, Kernel::V6_12, &report());
        let text = read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();

        assert!(before.is_err());
        after.unwrap();
        assert!(differing.unwrap_err().to_string().contains("--update-docs"));
        assert!(absent.is_err());
        assert!(
            text.starts_with("before\n") && text.ends_with("after\n"),
            "{text}"
        );
        assert!(!text.contains("sampling"), "{text}");
    }

    #[test]
    fn a_guest_that_said_nothing_is_not_right() {
        assert!(check(Path::new("/"), Kernel::V6_1, &GuestReport::default()).is_err());
    }
}
