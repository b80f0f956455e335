//! An answer over HTTP/1.1: where its head ends and its body, so that one that breaks off is told
//! from one that is over. It knows nothing of what is in it.

use std::io::{self, BufRead, Read};

use anyhow::{Context as _, bail, ensure};

/// The longest head of an answer, and the most fields in it.
const MOST_HEAD_BYTES: u64 = 16 << 10;
const MOST_FIELDS: usize = 64;

/// Where an answer's body ends.
#[derive(Debug, PartialEq)]
enum Framing {
    Chunked,
    Sized(u64),
    UntilTheEnd,
}

/// So many bytes, or an error.
struct Exact<R>(io::Take<R>);

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if self.0.limit() > 0 && !buffer.is_empty() => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            length => Ok(length),
        }
    }
}

/// A body in chunks (RFC 9112, section 7.1). One that breaks off is an error.
struct Chunks<R> {
    stream: R,
    /// What is left of the current chunk.
    left: u64,
    is_over: bool,
}

impl<R: BufRead> Chunks<R> {
    /// A line with its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let mut stream = self.stream.by_ref().take(MOST_HEAD_BYTES);
        stream.read_until(b'\n', &mut line)?;
        match line.ends_with(b"\n") {
            true => Ok(line),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Goes to the next chunk.
    fn advance(&mut self) -> io::Result<()> {
        let line = self.line()?;
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "a strange chunk");
        self.left = match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((_, length))) => length,
            _ => return Err(strange()),
        };
        // Behind the last chunk comes an empty line; netto sends no fields there.
        self.is_over = self.left == 0;
        match self.is_over && !self.line()?.trim_ascii().is_empty() {
            true => Err(strange()),
            false => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.advance()?;
        }
        let length = self.stream.by_ref().take(self.left).read(buffer)?;
        self.left -= length as u64;
        if length == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if length > 0 && self.left == 0 && !self.line()?.trim_ascii().is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(length)
    }
}

/// The head of an answer, with the empty line behind it.
///
/// # Errors
/// If it breaks off, or does not end.
pub(super) fn head(stream: &mut impl BufRead) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut stream = stream.take(MOST_HEAD_BYTES);
    loop {
        let before = head.len();
        stream.read_until(b'\n', &mut head)?;
        match &head[before..] {
            b"\r\n" | b"\n" => return Ok(head),
            line if line.ends_with(b"\n") => {}
            _ => bail!("its answer ends before it begins, or never begins"),
        }
    }
}

/// The status of the answer with this head, and its body.
///
/// # Errors
/// If it is no answer.
pub(super) fn understood(
    head: &[u8],
    stream: impl BufRead + 'static,
) -> anyhow::Result<(u16, Box<dyn Read>)> {
    let (status, framing) = framing(head)?;
    let body: Box<dyn Read> = match framing {
        Framing::Chunked => Box::new(Chunks {
            stream,
            left: 0,
            is_over: false,
        }),
        Framing::Sized(length) => Box::new(Exact(stream.take(length))),
        Framing::UntilTheEnd => Box::new(stream),
    };
    Ok((status, body))
}

fn framing(head: &[u8]) -> anyhow::Result<(u16, Framing)> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(head)?;
    let status = response.code.context("an answer without a status")?;
    let field = |name: &str| {
        let mut fields = response.headers.iter();
        fields.find(|field| field.name.eq_ignore_ascii_case(name))
    };
    let framing = if let Some(coding) = field("transfer-encoding") {
        ensure!(
            coding.value.eq_ignore_ascii_case(b"chunked"),
            "a strange coding"
        );
        Framing::Chunked
    } else if let Some(length) = field("content-length") {
        let length = std::str::from_utf8(length.value)?.trim();
        Framing::Sized(length.parse().context("a strange length")?)
    } else {
        Framing::UntilTheEnd
    };
    Ok((status, framing))
}
