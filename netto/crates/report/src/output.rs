//! Where the result of a command goes: standard output, or a file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A place for results. Must be finished, or what is left in memory is lost.
pub(super) struct Output {
    into: BufWriter<Box<dyn Write + Send>>,
    path: Option<PathBuf>,
}

impl Output {
    /// This file, or standard output.
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

    /// Whether a person looks at what comes out.
    pub(super) fn is_terminal(&self) -> bool {
        self.path.is_none() && io::stdout().is_terminal()
    }

    /// Writes what is left.
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

/// Whether a command failed only because whoever read its output had enough.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}
