//! How a command of the user ended; `main` makes an exit code of it.

/// How a command ended.
#[derive(Debug)]
pub enum Outcome {
    /// All went well.
    Done,
    /// It could not be done.
    Failed(anyhow::Error),
    /// The user asked for something impossible.
    Usage(String),
}
