//! A compressed file as a body that is unpacked while it is sent: a client that does not accept
//! gzip, or reads nothing at all, costs a small window and not the file.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;
use flate2::read::GzDecoder;

/// Bytes unpacked at a time.
const PIECE_BYTES: usize = 16 << 10;

/// The body; see the head of this file.
pub struct Unpacked {
    decoder: GzDecoder<&'static [u8]>,
    length: u64,
}

impl Unpacked {
    /// Unpacks this file, which is shorter than 4 GiB.
    pub fn new(gzip: &'static [u8]) -> Self {
        // The last four bytes of a gzip file are its unpacked length (RFC 1952, section 2.3.1).
        let length = match gzip.last_chunk() {
            Some(bytes) => u64::from(u32::from_le_bytes(*bytes)),
            None => 0,
        };
        Unpacked {
            decoder: GzDecoder::new(gzip),
            length,
        }
    }
}

impl MessageBody for Unpacked {
    type Error = std::io::Error;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.length)
    }

    fn poll_next(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let mut piece = vec![0; PIECE_BYTES];
        Poll::Ready(match self.get_mut().decoder.read(&mut piece) {
            Ok(0) => None,
            Ok(read) => {
                piece.truncate(read);
                Some(Ok(piece.into()))
            }
            Err(error) => Some(Err(error)),
        })
    }
}

#[cfg(test)]
mod tests {
    use actix_web::body::to_bytes;

    use super::*;
    use netto_assets::ASSETS;

    #[actix_web::test]
    async fn every_file_unpacks_to_its_announced_length() {
        assert!(!ASSETS.is_empty());
        for asset in ASSETS {
            let body = Unpacked::new(asset.gzip);
            let BodySize::Sized(length) = body.size() else {
                panic!("no length");
            };
            let bytes = to_bytes(body).await.unwrap();
            assert_eq!(bytes.len() as u64, length, "{}", asset.path);
        }
    }
}
