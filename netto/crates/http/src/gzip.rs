//! Compressed responses, for clients that accept them.

use actix_web::http::header::{self, HeaderMap};
use actix_web::web::Bytes;
use netto_pipeline::compression::gzip;

use netto_pipeline::single_flight::SingleFlight;

/// The newest response of one kind, compressed once for all clients.
#[derive(Debug, Default)]
pub struct Gzipped(SingleFlight<Bytes, Result<Bytes, String>>);

impl Gzipped {
    /// Returns the compressed form of this response.
    ///
    /// # Errors
    /// Why it cannot be compressed, for people.
    pub async fn of(&self, plain: Bytes) -> Result<Bytes, String> {
        let now = plain.clone();
        // The source is kept with its compressed form, so that no other can have its address.
        let is_same = |of: &Bytes| (of.as_ptr(), of.len()) == (now.as_ptr(), now.len());
        let made = self.0.get(is_same, move || {
            let packed = gzip(&plain);
            (plain, packed)
        });
        made.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// Whether a client takes this coding, by its `Accept-Encoding` (RFC 9110, section 12.5.3).
pub fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let codings = headers
        .get_all(header::ACCEPT_ENCODING)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut otherwise = false;
    for coding in codings {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts
            .filter_map(|parameter| parameter.split_once('='))
            .filter(|(key, _)| key.eq_ignore_ascii_case("q"))
            .any(|(_, weight)| weight.parse().is_ok_and(|weight: f32| weight <= 0.0));
        // The coding's own name takes precedence over `*`.
        if name.eq_ignore_ascii_case(wanted) {
            return !refused;
        }
        otherwise |= name == "*" && !refused;
    }
    otherwise
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        let takes = |value: &str| {
            let request = TestRequest::default()
                .insert_header(("Accept-Encoding", value))
                .to_http_request();
            accepts(request.headers(), "gzip")
        };
        assert!(takes("gzip"));
        assert!(takes("br;q=1.0, GZIP;q=0.5"));
        assert!(takes("*"));
        assert!(!takes("br"));
        assert!(!takes("gzip;q=0"));
        assert!(!takes("*, gzip;Q=0.000"));
        assert!(takes("*;q=0, gzip"));
        assert!(!takes(""));
    }

    #[actix_web::test]
    async fn what_was_compressed_once_is_handed_to_all_until_the_answer_changes() {
        let gzipped = Gzipped::default();
        let plain = Bytes::from("a page ".repeat(10_000));
        let packed = gzipped.of(plain.clone()).await.unwrap();
        assert!(packed.len() < plain.len() / 10);
        let again = gzipped.of(plain.clone()).await.unwrap();
        assert_eq!(again.as_ptr(), packed.as_ptr());
        let other = gzipped.of(Bytes::from_static(b"another")).await.unwrap();
        let unpacked = |packed: &[u8]| {
            let mut out = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(packed);
            decoder.read_to_end(&mut out).unwrap();
            out
        };
        assert_eq!(unpacked(&packed), plain);
        assert_eq!(unpacked(&other), b"another");
    }
}
