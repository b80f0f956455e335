//! Compresses data for clients and collectors.

use std::io::Write as _;

use actix_web::web::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The lowest level: it shrinks a page of metrics to an eighth; the next level takes four times as
/// long for little more.
const LEVEL: Compression = Compression::new(1);
/// Least ratio by which pages of metrics shrink.
const EXPECTED_RATIO: usize = 6;

/// Compresses these bytes.
///
/// # Errors
/// Why that is not possible, for people.
pub fn gzip(plain: &[u8]) -> Result<Bytes, String> {
    let room = Vec::with_capacity(plain.len() / EXPECTED_RATIO);
    let mut encoder = GzEncoder::new(room, LEVEL);
    let packed = encoder.write_all(plain).and_then(|()| encoder.finish());
    packed
        .map(Bytes::from)
        .map_err(|error| format!("cannot compress it: {error}"))
}
