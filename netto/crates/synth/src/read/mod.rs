//! Records as a stream, from whichever format, in bounded memory. A record that is not understood
//! is an item of the stream, too.

pub mod csv;
mod fault;
mod ipfix;
mod log;
mod values;

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

pub use fault::{Fault, Location, RecordError};
use netto_log_format::MAGIC;

use crate::record::FlowRecord;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// IPFIX messages begin with their version, 10.
const IPFIX: [u8; 2] = [0, 10];
/// As many bytes as tell a format.
const MAGIC_BYTES: usize = MAGIC.len();
const BUFFER_BYTES: usize = 256 * 1024;

/// The records of a file.
pub type Records = Box<dyn Iterator<Item = Result<FlowRecord, Fault>> + Send>;

/// Finds out by the first bytes what a file is, and reads it.
///
/// # Errors
/// The beginning cannot be read.
pub fn records(file: impl Read + Send + 'static) -> io::Result<Records> {
    let (magic, file) = begin(file)?;
    if magic.starts_with(&GZIP) {
        return decompressed(flate2::read::MultiGzDecoder::new(file));
    }
    if magic.starts_with(&ZSTD) {
        return decompressed(zstd::Decoder::new(file)?);
    }
    Ok(of_format(&magic, file))
}

fn decompressed(file: impl Read + Send + 'static) -> io::Result<Records> {
    let (magic, file) = begin(file)?;
    Ok(of_format(&magic, file))
}

fn of_format(magic: &[u8], file: impl Read + Send + 'static) -> Records {
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    if magic.starts_with(&IPFIX) {
        return Box::new(ipfix::Ipfix::new(file));
    }
    if magic == MAGIC {
        Box::new(log::Log::new(file))
    } else {
        Box::new(csv::Csv::new(file))
    }
}

type Begun<R> = Chain<Cursor<Vec<u8>>, R>;

/// The first bytes, and the file with them.
fn begin<R: Read>(mut file: R) -> io::Result<(Vec<u8>, Begun<R>)> {
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    file.by_ref()
        .take(MAGIC_BYTES as u64)
        .read_to_end(&mut magic)?;
    Ok((magic.clone(), Cursor::new(magic).chain(file)))
}

/// Reads a line into `line` without its end; of a longer one, only the first bytes. Gives the
/// number of bytes taken, 0 at the end.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>, longest: usize) -> io::Result<usize> {
    line.clear();
    let mut taken = 0;
    loop {
        let chunk = match file.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            return Ok(taken);
        }
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        line.extend_from_slice(&part[..part.len().min(longest - line.len())]);
        let used = part.len() + usize::from(end.is_some());
        file.consume(used);
        taken += used;
        if end.is_some() {
            return Ok(taken);
        }
    }
}

#[cfg(test)]
mod tests;
