//! The Python with the programs that read what netto exports, which `cargo xtask test` installs.

use std::path::{Path, PathBuf};

/// Its path; `None` if it is not installed, which is printed, and fails in CI.
pub fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join("target/tools/python/bin/python3");
    if python.exists() {
        return Some(python);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "CI allows no skipping: {} is missing",
        python.display()
    );
    eprintln!("SKIPPED: needs the Python that `cargo xtask test` installs");
    None
}
