//! A test, and when it is skipped: never silently, and in CI not at all.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use libtest_mimic::{Completion, Failed, Trial};

/// One statement about the world.
pub struct Test {
    /// Begins with the theme, so that a filter can pick all tests of one.
    pub name: &'static str,
    /// Programs without which it cannot be tried.
    pub tools: &'static [&'static str],
    /// Fails if the statement is wrong.
    pub body: fn() -> anyhow::Result<()>,
}

/// Returned by a test that is impossible on this kernel, whatever is installed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotOnThisKernel(pub String);

/// Returned where something passing is in the way of a test: a skip, and in CI a failure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotNow(pub String);

/// The tests of a file, `TESTS`: `theme::statement [programs that it needs];`, tried by the function of
/// that name, or by what is given. Those of the page (`page;` first) need a browser.
macro_rules! tests {
    (page; $($theme:ident :: $says:ident $(= $body:expr)?;)+) => {
        $crate::trial::tests! { $($theme::$says ["chromium", "chromedriver"] $(= $body)?;)+ }
    };
    ($($theme:ident :: $says:ident $([$($tool:literal),+])? $(= $body:expr)?;)+) => {
        pub const TESTS: &[$crate::trial::Test] = &[$($crate::trial::Test {
            name: concat!(stringify!($theme), "::", stringify!($says)),
            tools: &[$($($tool),+)?],
            body: $crate::trial::tests!(@body $says $($body)?),
        }),+];
    };
    (@body $says:ident) => { $says };
    (@body $says:ident $body:expr) => { $body };
}
pub(crate) use tests;

impl Test {
    /// The test as the runner wants it. `run` decides when its body runs, and how often.
    pub fn to_trial(&'static self, run: fn(&Test) -> anyhow::Result<()>) -> Trial {
        let lack = || {
            let is_missing =
                (!is_root()).then(|| "needs root for BPF and network namespaces".to_owned());
            is_missing.or_else(|| self.missing_tool())
        };
        Trial::ignorable_test(self.name, move || self.run(lack(), run))
    }

    /// The same of one that needs no root.
    #[allow(dead_code, reason = "those of the page are such")]
    pub fn to_trial_of_anybody(&'static self) -> Trial {
        Trial::ignorable_test(self.name, || {
            self.run(self.missing_tool(), |test| {
                super::repeat::run(test.name, test.body)
            })
        })
    }

    fn run(
        &self,
        lack: Option<String>,
        run: fn(&Test) -> anyhow::Result<()>,
    ) -> Result<Completion, Failed> {
        if let Some(lack) = lack {
            if must_run() {
                return Err(format!("{lack}, and CI=true allows no skipping").into());
            }
            return Ok(skipped(lack));
        }
        match run(self) {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => outcome(error, must_run()).map(skipped),
        }
    }

    fn missing_tool(&self) -> Option<String> {
        let missing = self
            .tools
            .iter()
            .find(|tool| find_program(tool).is_none())?;
        Some(format!("needs the program {missing}"))
    }
}

/// Whether a test that ended with this error failed at nothing.
pub fn is_skip(error: &anyhow::Error) -> bool {
    error.is::<NotOnThisKernel>() || error.is::<NotNow>()
}

/// Says that a test is skipped, and why.
fn skipped(lack: String) -> Completion {
    println!("SKIPPED: {lack}");
    Completion::ignored_with(lack)
}

/// Why a test is skipped that ended with this error.
///
/// # Errors
/// It is a failure.
pub fn outcome(error: anyhow::Error, must_run: bool) -> Result<String, Failed> {
    match (
        error.downcast_ref::<NotOnThisKernel>(),
        error.downcast_ref::<NotNow>(),
    ) {
        (Some(lack), _) => Ok(lack.to_string()),
        (None, Some(now)) if !must_run => Ok(now.to_string()),
        (None, Some(now)) => Err(format!("{now}, and CI=true allows no skipping").into()),
        // Causes only: a backtrace of the test runner does not help.
        (None, None) => Err(format!("{error:#}").into()),
    }
}

/// Whether a test may not be skipped for want of something that can be installed.
pub fn must_run() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// The owner of `/proc/self` is the effective user of this process.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Where in PATH, or among the administrator's programs, this one is.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| {
            std::fs::metadata(file)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}
