//! The destination of a command's result: standard output, or a file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A destination. Must be finished, or buffered output is lost.
pub(super) struct Output {
    into: BufWriter<Box<dyn Write + Send>>,
    path: Option<PathBuf>,
}

impl Output {
    /// Opens this file, or standard output.
    pub(super) fn to(path: Option<&Path>) -> anyhow::Result<Self> {
        let into: Box<dyn Write + Send> = match path {
            None => Box::new(io::stdout()),
            Some(path) => {
                let file = File::create(path);
                Box::new(file.with_context(|| format!("cannot write {}", path.display()))?)
            }
        };
        Ok(Output {
            into: BufWriter::with_capacity(64 << 10, into),
            path: path.map(Path::to_owned),
        })
    }

    /// Whether it is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.path.is_none() && io::stdout().is_terminal()
    }

    /// Writes buffered output.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.into.flush().context("cannot write the result")
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.into.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

/// Whether a command failed only because the reader of its output closed the pipe.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}
