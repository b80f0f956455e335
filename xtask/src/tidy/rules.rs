//! The rules about one file. Pure: a path and a text in, findings out.

use super::Finding;

/// Names that only generated files have; they belong in cargo's `OUT_DIR`.
const GENERATED: &[&str] = &[".skel.rs", ".bpf.o", "/bindings.rs", "/vmlinux.h", ".wasm"];
/// Files with a text that people wrote.
const SOURCE: &[&str] = &[
    ".rs", ".c", ".h", ".md", ".toml", ".html", ".css", ".js", ".sh", ".yml", ".yaml",
];
/// Marks of unfinished work, written apart: this file has to keep its own rule.
const UNFINISHED: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Whether the rules about text apply to this file.
pub fn is_source(path: &str) -> bool {
    SOURCE.iter().any(|ending| path.ends_with(ending))
}

/// What is generated is not kept.
pub fn check_name(path: &str) -> Option<Finding> {
    let generated = GENERATED.iter().find(|ending| path.ends_with(*ending))?;
    let message = format!("*{generated} is generated: it belongs in OUT_DIR, not in the source");
    Some(Finding::new(path, 1, message))
}

/// A file of code says what it owns, nothing is left unfinished, and an example of its
/// documentation is no code: `cargo xtask test` runs none of those.
pub fn check_text(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.ends_with(".rs") && !text.starts_with("//!") {
        let message = "a file begins with //!: what it owns, and what it must never touch";
        findings.push(Finding::new(path, 1, message));
    }
    let mut is_in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        if path.ends_with(".rs")
            && let Some(kind) = block_of_documentation(line)
        {
            if !is_in_block && kind.trim_end() != "text" {
                let message = "a block in documentation is ```text: no test would run its code";
                findings.push(Finding::new(path, number, message));
            }
            is_in_block = !is_in_block;
        }
        for mark in UNFINISHED.into_iter().filter(|mark| has_word(line, mark)) {
            let message = format!("{mark}: finish it, or open an issue");
            findings.push(Finding::new(path, number, message));
        }
    }
    findings
}

/// What kind of block a line of documentation begins or ends.
fn block_of_documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let documentation = line.strip_prefix("///").or(line.strip_prefix("//!"))?;
    documentation.trim_start().strip_prefix("```")
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check_text(path, text).iter().map(|f| f.line).collect()
    }

    #[test]
    fn unfinished_work_is_found_and_names_that_hold_the_mark_are_not() {
        let [mark, other] = UNFINISHED;
        let text = format!("//! X.\n// {mark}: later\nlet {mark}S = 1; // {other}\n");
        assert_eq!(found("x.rs", &text), [2, 3]);
        assert_eq!(found("x.md", &format!("a\n{other}")), [2]);
    }

    #[test]
    fn a_file_of_rust_has_a_heading_and_others_need_none() {
        assert_eq!(found("x.rs", "fn f() {}\n"), [1]);
        assert!(found("x.rs", "//! Owns nothing.\n").is_empty());
        assert!(found("x.h", "int x;\n").is_empty());
    }

    #[test]
    fn code_in_documentation_is_found_and_a_drawing_is_not() {
        let with = |kind| format!("//! X.\n/// ```{kind}\n/// f();\n/// ```\nfn f() {{}}\n");
        assert_eq!(found("x.rs", &with("")), [2]);
        assert!(found("x.rs", &with("text")).is_empty());
    }

    #[test]
    fn generated_files_are_known_by_their_names() {
        assert!(check_name("netto/crates/sys/src/bpf/netto.skel.rs").is_some());
        assert!(check_name("netto/crates/sys/src/bpf/vmlinux.h").is_some());
        assert!(check_name("netto/crates/sys/src/bpf/kernel.h").is_none());
    }
}
