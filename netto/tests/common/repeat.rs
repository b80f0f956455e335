//! A test of a live kernel or browser that fails once proves little on a busy host: it is tried
//! again, until two tries agree. One that fails with probability p then fails with about 3p².
//! What failed is printed in full, and where the test held in the end, a line says so that
//! `cargo xtask test` counts.

use anyhow::{Result, bail};

use super::trial;

/// Number of equal outcomes that decide, if the first try failed.
const MAJORITY: usize = 2;

/// Tries until most tries agree, and prints what failed.
///
/// # Errors
/// As [`majority`].
pub fn run(name: &str, attempt: impl FnMut() -> Result<()>) -> Result<()> {
    // The runner has begun a line with the name of the test.
    majority(name, attempt, |message| println!("\n{message}"))
}

/// Tries until most tries agree, and reports failed ones.
///
/// # Errors
/// Most failed: the causes of all of these. A first try that is a skip is passed on as such,
/// but a later one leaves the failure before it.
pub fn majority(
    name: &str,
    mut attempt: impl FnMut() -> Result<()>,
    mut tell: impl FnMut(&str),
) -> Result<()> {
    let (mut held, mut causes) = (0, Vec::new());
    loop {
        match attempt() {
            Ok(()) if causes.is_empty() => return Ok(()),
            Ok(()) => held += 1,
            Err(error) if !trial::is_skip(&error) => {
                let cause = format!("{error:#}");
                tell(&format!(
                    "{name} failed at try {}: {cause}",
                    held + causes.len() + 1
                ));
                causes.push(cause);
            }
            Err(skip) if causes.is_empty() => return Err(skip),
            Err(skip) => bail!(
                "{}\n(it cannot be tried again: {skip:#})",
                causes.join("\n")
            ),
        }
        let tries = held + causes.len();
        if causes.len() == MAJORITY {
            bail!("{MAJORITY} of {tries} tries failed:\n{}", causes.join("\n"));
        }
        if held == MAJORITY {
            let cause = causes.iter().flat_map(|cause| cause.lines()).next();
            tell(&format!(
                "UNSTEADY: {name} failed {} of {tries} tries: {}",
                causes.len(),
                cause.unwrap_or_default()
            ));
            return Ok(());
        }
    }
}
