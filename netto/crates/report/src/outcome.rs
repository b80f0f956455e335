//! The result of a command; `main` converts it to an exit code.

/// The result of a command.
#[derive(Debug)]
pub enum Outcome {
    /// Success.
    Done,
    /// The command failed.
    Failed(anyhow::Error),
    /// The user's request is invalid.
    Usage(String),
}
