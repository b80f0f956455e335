//! `cargo xtask screenshots`: pictures of the dashboard for the documentation.
//!
//! The browser tests know how to drive a browser and what a good picture is;
//! this only tells them where to leave theirs, in `docs/screenshots`.

use std::path::Path;

use anyhow::Result;

use crate::{build, process};

/// The variable by which the tests are told the folder.
const VARIABLE: &str = "NETTO_SCREENSHOTS";

/// Takes every picture anew, of a made-up host.
///
/// # Errors
/// If Chromium or its driver is missing, or a picture is not as it should be.
pub fn capture(root: &Path) -> Result<()> {
    let folder = root.join("docs/screenshots");
    process::run(
        build::cargo_for_tests(root)?
            .args(["test", "--package", "netto", "--test", "dashboard"])
            .args(["--", "pictures::"])
            // Without a browser this must fail, and not be skipped.
            .env("CI", "true")
            .env(VARIABLE, &folder),
    )?;
    eprintln!("xtask: the pictures are in {}", folder.display());
    Ok(())
}
