//! Whether these tests run in one of the guests of `cargo xtask vm`.

use anyhow::{Result, bail};

use crate::trial::NotOnThisKernel;

/// Whether this is one of xtask's guests.
pub fn is_one() -> bool {
    std::env::var("NETTO_TESTS").is_ok_and(|value| value == "guest")
}

/// An error outside of a guest: for tests that change the whole machine.
#[allow(dead_code, reason = "`house` shares this file, and has no such test")]
pub fn only() -> Result<()> {
    if is_one() {
        Ok(())
    } else {
        bail!(NotOnThisKernel(
            "it changes the whole machine: run it by `cargo xtask vm`".to_owned()
        ))
    }
}
