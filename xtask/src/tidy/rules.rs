//! The rules themselves. Pure: a path and a text in, findings out.

use super::Finding;
use super::code::{self, Views};

/// Longer files hold more than one idea.
const LONGEST_FILE_LINES: usize = 450;
/// A table is one idea however many rows it has.
const TABLES: &[&str] = &["metrics-common/src/component.rs"];
/// `main.rs` parses, runs, and returns an exit code; nothing else.
const LONGEST_MAIN_LINES: usize = 40;
/// How far above an `unsafe` its argument may begin.
const SAFETY_DISTANCE_LINES: usize = 8;

/// What the pure half of the daemon must not touch, and what that is.
const IMPURE: &[(&str, &str)] = &[
    ("libbpf", "BPF"),
    ("std::fs", "files"),
    ("fs::read", "files"),
    ("File::open", "files"),
    ("std::net", "the network"),
    ("std::process", "processes"),
    ("actix", "actors"),
    ("tokio", "an event loop"),
    ("Instant", "a clock"),
    ("SystemTime", "a clock"),
];

/// The folder of the instruments.
const INSTRUMENTS: &str = "netto/src/instruments/";
/// Where unsafe code and libbpf may be, for people.
const PRIVILEGED: &str = "netto/src/kernel or an instrument's kernel";
/// What instruments stand on, and what shows their findings.
const NEVER_INSTRUMENTS: &[&str] = &[
    "netto/src/kernel/",
    "netto/src/analysis/",
    "netto/src/ground/",
    "netto/src/sinks/",
    "netto/src/actors/",
];

/// Names that only generated files have; they belong in cargo's `OUT_DIR`.
const GENERATED: &[&str] = &[".skel.rs", ".bpf.o", "/bindings.rs", "/vmlinux.h", ".wasm"];

/// Whether the rules about text apply to this file.
pub fn is_source(path: &str) -> bool {
    is_code(path)
        || [
            ".md", ".toml", ".html", ".css", ".js", ".sh", ".yml", ".yaml",
        ]
        .iter()
        .any(|ending| path.ends_with(ending))
}

fn is_code(path: &str) -> bool {
    [".rs", ".c", ".h"]
        .iter()
        .any(|ending| path.ends_with(ending))
}

/// The rule about names: what is generated is not kept.
pub fn check_name(path: &str) -> Option<Finding> {
    let generated = GENERATED.iter().find(|ending| path.ends_with(*ending))?;
    Some(Finding {
        path: path.to_owned(),
        line: 1,
        message: format!("*{generated} is generated: it belongs in OUT_DIR, not in the source"),
    })
}

/// Every other rule.
pub fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let mut check = Check {
        path,
        text,
        views: code::views(text),
        findings: Vec::new(),
    };
    check.unfinished();
    if is_code(path) {
        check.length();
        check.walls();
    }
    if path.ends_with(".rs") {
        check.heading();
        check.unsafe_code();
    }
    check.findings
}

struct Check<'a> {
    path: &'a str,
    text: &'a str,
    views: Views,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn report(&mut self, line: usize, message: impl Into<String>) {
        self.findings.push(Finding {
            path: self.path.to_owned(),
            line,
            message: message.into(),
        });
    }

    fn is_below(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/")
    }

    fn unfinished(&mut self) {
        // Written apart, or this file would break its own rule.
        for mark in [concat!("TO", "DO"), concat!("FIX", "ME")] {
            for line in lines_with_word(self.text, mark) {
                self.report(line, format!("{mark}: do it, or open an issue"));
            }
        }
    }

    fn length(&mut self) {
        let lines = self.text.lines().count();
        if lines > LONGEST_FILE_LINES && !TABLES.contains(&self.path) {
            self.report(
                LONGEST_FILE_LINES,
                format!("{lines} lines: a file holds one idea in at most {LONGEST_FILE_LINES}"),
            );
        }
        if self.path == "netto/src/main.rs" && lines >= LONGEST_MAIN_LINES {
            self.report(
                LONGEST_MAIN_LINES,
                format!(
                    "{lines} lines: main.rs parses, runs and exits, in fewer than {LONGEST_MAIN_LINES}"
                ),
            );
        }
    }

    fn heading(&mut self) {
        if !self.text.starts_with("//!") {
            self.report(
                1,
                "a file begins with //!: what it owns, and what it must never touch",
            );
        }
    }

    fn unsafe_code(&mut self) {
        let lines: Vec<&str> = self.text.lines().collect();
        let allowed = self.is_privileged() || self.is_test();
        for line in lines_with_word(&self.views.code, "unsafe") {
            if !allowed {
                self.report(line, format!("unsafe code belongs in {PRIVILEGED}"));
            }
            let above = line.saturating_sub(1 + SAFETY_DISTANCE_LINES);
            if !lines[above..line]
                .iter()
                .any(|l| l.contains("SAFETY:") || l.contains("# Safety"))
            {
                self.report(line, "unsafe without a SAFETY comment that argues for it");
            }
        }
    }

    /// Where the kernel is touched: the ground's folder, and each instrument's own part.
    fn is_privileged(&self) -> bool {
        self.is_below("netto/src/kernel/") || self.is_part_of_instrument("kernel")
    }

    fn is_analysis(&self) -> bool {
        let offline = ["summary", "compare", "stacks"].map(|part| format!("offline/{part}"));
        (offline.iter().map(String::as_str).chain(["analysis"]))
            .any(|part| self.is_below(&format!("netto/src/{part}/")))
            || self.is_part_of_instrument("analysis")
    }

    /// Whether it is this part, a file or a folder, of an instrument.
    fn is_part_of_instrument(&self, part: &str) -> bool {
        let rest = self.instrument().map(|(_, rest)| rest);
        rest.is_some_and(|rest| {
            rest == format!("{part}.rs") || rest.starts_with(&format!("{part}/"))
        })
    }

    /// Name of the instrument that it belongs to, and its path in there.
    fn instrument(&self) -> Option<(&str, &str)> {
        self.path.strip_prefix(INSTRUMENTS)?.split_once('/')
    }

    fn walls(&mut self) {
        if self.is_analysis() {
            for (word, what) in IMPURE {
                for line in lines_with(&self.views.code, word) {
                    self.report(line, format!("{word}: analysis is pure, it has no {what}"));
                }
            }
            for line in lines_with_path(&self.views.strings) {
                self.report(line, "analysis is pure, it opens nothing in /proc or /sys");
            }
        }
        let is_daemon = self.is_below("netto/src/") && self.path.ends_with(".rs");
        if is_daemon && !self.is_privileged() && !self.is_analysis() {
            for line in lines_with(&self.views.code, "libbpf_") {
                self.report(line, format!("libbpf is touched in {PRIVILEGED} only"));
            }
        }
        self.directions();
    }

    /// Who may know whom.
    fn directions(&mut self) {
        if NEVER_INSTRUMENTS.iter().any(|folder| self.is_below(folder)) {
            for line in lines_with(&self.views.code, "instruments::") {
                self.report(
                    line,
                    "ground and sinks know no instrument: these stand on them",
                );
            }
        }
        for (folder, modules, what) in [
            (INSTRUMENTS, "instruments::", "instrument"),
            ("web-frontend/src/views/", "views::", "view"),
        ] {
            let own = self.path.strip_prefix(folder);
            let Some((own, _)) = own.and_then(|rest| rest.split_once('/')) else {
                continue;
            };
            for (line, other) in named_after(&self.views.code, modules) {
                if other != own {
                    self.report(
                        line,
                        format!("no {what} knows another: {own} names {other}"),
                    );
                }
            }
        }
    }
}

/// The modules named behind this prefix, with the numbers of their lines, from 1.
fn named_after(text: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(prefix) {
            let rest = &line[at + prefix.len()..];
            let word: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            let is_module = !rest[word.len()..].starts_with(|c: char| c.is_alphanumeric());
            if is_module && !word.is_empty() {
                found.push((index + 1, word));
            }
        }
    }
    found
}

/// Numbers, from 1, of the lines that hold this text.
fn lines_with<'a>(text: &'a str, part: &'a str) -> Vec<usize> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| line.contains(part))
        .map(|(index, _)| index + 1)
        .collect()
}

/// Numbers, from 1, of the lines with a string literal that is a path below `/proc`
/// or `/sys`. A sentence that begins with one is for people, and fine.
fn lines_with_path(strings: &str) -> Vec<usize> {
    strings
        .lines()
        .enumerate()
        .filter(|(_, line)| {
            line.split('"').any(|literal| {
                ["/proc/", "/sys/"]
                    .iter()
                    .any(|root| format!("{literal}/").starts_with(root))
                    && !literal.contains(' ')
            })
        })
        .map(|(index, _)| index + 1)
        .collect()
}

/// Numbers, from 1, of the lines that hold this word.
fn lines_with_word(text: &str, word: &str) -> Vec<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.lines()
        .enumerate()
        .filter(|(_, line)| {
            line.match_indices(word).any(|(at, _)| {
                !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
            })
        })
        .map(|(index, _)| index + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "//! Owns nothing.\n";

    /// The lines found in this text, below a proper heading.
    fn found(path: &str, text: &str) -> Vec<usize> {
        check_text(path, &format!("{HEAD}{text}"))
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn unsafe_code_stays_in_the_kernel_folder_and_argues_for_itself() {
        let argued = "// SAFETY: it is.\nunsafe { f() }\n";
        assert!(found("netto/src/kernel/perf.rs", argued).is_empty());
        assert!(found("netto/tests/root/bpf.rs", argued).is_empty());
        assert_eq!(found("netto/src/actors/a.rs", argued), [3]);
        assert_eq!(found("netto/src/kernel/perf.rs", "unsafe { f() }\n"), [2]);
        assert!(found("netto/src/actors/a.rs", "// unsafe\nlet unsafely = 1;\n").is_empty());
    }

    #[test]
    fn an_argument_far_away_does_not_count() {
        let text = format!("// SAFETY: it is.\n{}unsafe {{ f() }}\n", "\n".repeat(20));
        assert_eq!(found("netto/src/kernel/perf.rs", &text), [22 + 1]);
    }

    #[test]
    fn analysis_has_no_files_no_clock_and_no_actors() {
        for impure in [
            "use libbpf_rs::Map;",
            "use std::fs;",
            "let t = Instant::now();",
            "use actix::Actor;",
            "f(\"/proc/kallsyms\");",
            "f(\"/sys/kernel\");",
        ] {
            assert_eq!(found("netto/src/analysis/x.rs", impure), [2], "{impure}");
            assert_eq!(found("netto/src/offline/summary/x.rs", impure), [2]);
        }
        for pure in [
            "f(\"/system.slice\"); // std::fs",
            "let help = \"see /proc/kallsyms\";",
            "#[error(\"/proc/stat: {0}\")]",
            "use std::time::Duration;",
        ] {
            assert!(found("netto/src/analysis/x.rs", pure).is_empty(), "{pure}");
        }
    }

    #[test]
    fn only_the_kernel_folder_touches_libbpf() {
        assert_eq!(found("netto/src/sinks/http.rs", "use libbpf_rs::Map;"), [2]);
        assert_eq!(found("netto/src/actors/t.rs", "use libbpf_rs::Map;"), [2]);
        assert!(found("netto/src/kernel/session.rs", "use libbpf_rs::Map;").is_empty());
        assert!(found("netto/src/sinks/http.rs", "// libbpf").is_empty());
    }

    #[test]
    fn an_instrument_has_a_part_that_is_privileged_and_one_that_is_pure() {
        let argued = "// SAFETY: it is.\nunsafe { f() }\n";
        for (path, is_fine) in [
            ("netto/src/instruments/x/kernel.rs", true),
            ("netto/src/instruments/x/kernel/maps.rs", true),
            ("netto/src/instruments/x/mod.rs", false),
            ("netto/src/instruments/kernel.rs", false),
        ] {
            assert_eq!(found(path, argued).is_empty(), is_fine, "{path}");
            assert_eq!(
                found(path, "use libbpf_rs::Map;").is_empty(),
                is_fine,
                "{path}"
            );
        }
        for path in [
            "netto/src/instruments/x/analysis.rs",
            "netto/src/instruments/x/analysis/y.rs",
        ] {
            assert_eq!(found(path, "use std::fs;"), [2], "{path}");
        }
        assert!(found("netto/src/instruments/x/mod.rs", "use std::fs;").is_empty());
    }

    #[test]
    fn what_instruments_stand_on_and_what_shows_them_names_none() {
        let named = "use crate::instruments::cost::Thing;";
        for folder in ["kernel", "analysis", "ground", "sinks", "actors"] {
            assert_eq!(
                found(&format!("netto/src/{folder}/x.rs"), named),
                [2],
                "{folder}"
            );
        }
        assert!(found("netto/src/measurement.rs", named).is_empty());
        assert!(found("netto/src/instruments/cost/mod.rs", named).is_empty());
        assert_eq!(found("netto/src/instruments/power/mod.rs", named), [2]);
        let shared = "use crate::instruments::Instrument;";
        assert!(found("netto/src/instruments/power/mod.rs", shared).is_empty());
        assert_eq!(
            found(
                "web-frontend/src/views/now/page.rs",
                "crate::views::time::f()"
            ),
            [2]
        );
        assert!(
            found(
                "web-frontend/src/views/now/page.rs",
                "use crate::views::View;"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_file_begins_by_saying_what_it_owns() {
        assert_eq!(check_text("xtask/src/x.rs", "fn f() {}\n").len(), 1);
        assert!(check_text("netto/src/bpf/x.h", "int x;\n").is_empty());
    }

    #[test]
    fn long_files_and_a_long_main_are_found() {
        assert!(found("netto/src/cli.rs", &"\n".repeat(LONGEST_FILE_LINES - 1)).is_empty());
        let too_many = "\n".repeat(LONGEST_FILE_LINES);
        assert_eq!(found("netto/src/cli.rs", &too_many), [LONGEST_FILE_LINES]);
        assert!(found("netto/src/main.rs", &"\n".repeat(38)).is_empty());
        assert_eq!(found("netto/src/main.rs", &"\n".repeat(39)), [40]);
    }

    #[test]
    fn unfinished_work_is_found_in_every_kind_of_text() {
        let mark = concat!("TO", "DO");
        for path in ["README.md", "netto/src/cli.rs", "netto/src/bpf/x.c"] {
            assert_eq!(found(path, &format!("// {mark}: later\n")), [2], "{path}");
        }
        assert!(found("README.md", &format!("{mark}S\n")).is_empty());
    }

    #[test]
    fn generated_files_are_not_kept() {
        assert!(check_name("netto/src/bpf/netto.skel.rs").is_some());
        assert!(check_name("netto/src/bpf/vmlinux.h").is_some());
        assert!(check_name("netto/src/bpf/abi.h").is_none());
    }
}
