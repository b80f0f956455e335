//! A compressed file as a body that is unpacked while it is sent: a client that does not accept
//! gzip, or reads nothing at all, costs a small window and not the file.

use std::io::{self, Read};

use actix_web::body::SizedStream;
use actix_web::web::Bytes;
use flate2::read::GzDecoder;
use futures_util::Stream;
use futures_util::stream::try_unfold;

/// Bytes unpacked at a time.
const PIECE_BYTES: usize = 16 << 10;

/// Unpacks this file, which is shorter than 4 GiB.
pub fn unpacked(gzip: &'static [u8]) -> SizedStream<impl Stream<Item = io::Result<Bytes>> + Unpin> {
    // The last four bytes of a gzip file are its unpacked length (RFC 1952, section 2.3.1).
    let length = gzip
        .last_chunk()
        .map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let pieces = try_unfold(GzDecoder::new(gzip), |mut decoder| async move {
        let mut piece = vec![0; PIECE_BYTES];
        let read = decoder.read(&mut piece)?;
        piece.truncate(read);
        Ok((read > 0).then(|| (piece.into(), decoder)))
    });
    SizedStream::new(u64::from(length), Box::pin(pieces))
}

#[cfg(test)]
mod tests {
    use actix_web::body::{BodySize, MessageBody, to_bytes};

    use super::*;
    use netto_assets::ASSETS;

    #[actix_web::test]
    async fn every_file_unpacks_to_its_announced_length() {
        assert!(!ASSETS.is_empty());
        for asset in ASSETS {
            let body = unpacked(asset.gzip);
            let BodySize::Sized(length) = body.size() else {
                panic!("no length");
            };
            let bytes = to_bytes(body).await.unwrap();
            assert_eq!(bytes.len() as u64, length, "{}", asset.path);
        }
    }
}
