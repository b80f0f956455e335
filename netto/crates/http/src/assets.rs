//! Answers requests for a file of the dashboard.

use actix_web::http::header::{self, ETag, EntityTag, Header, IfNoneMatch};
use actix_web::{HttpRequest, HttpResponse};
use netto_assets::Asset;

use crate::gzip::accepts;
use crate::unpacked::unpacked;

/// Answers a request for an asset.
pub fn respond(asset: &'static Asset, request: &HttpRequest) -> HttpResponse {
    let packed = [("br", asset.brotli), ("gzip", asset.gzip)]
        .into_iter()
        .find(|(coding, _)| accepts(request.headers(), coding));
    let etag = etag(asset, packed.map(|(coding, _)| coding));
    let known = match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|tag| tag.weak_eq(&etag)),
        // An unparsable header is ignored.
        Err(_) => false,
    };
    let mut response = if known {
        HttpResponse::NotModified()
    } else {
        HttpResponse::Ok()
    };
    response
        .insert_header(ETag(etag))
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::VARY, "Accept-Encoding"));
    if known {
        return response.finish();
    }
    response.content_type(asset.content_type);
    if let Some((coding, body)) = packed {
        return response
            .insert_header((header::CONTENT_ENCODING, coding))
            .body(body);
    }
    response.body(unpacked(asset.gzip))
}

/// The entity tag of one of the encodings: their bytes differ, so a cache that keeps several must
/// distinguish them (RFC 9110, section 8.8.3).
fn etag(asset: &Asset, coding: Option<&str>) -> EntityTag {
    let version = asset.version;
    EntityTag::new_strong(match coding {
        Some(coding) => format!("{version}-{coding}"),
        None => version.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn the_page_is_embedded_and_unpacks() {
        let page = netto_assets::find("/index.html").expect("the dashboard has a page");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(page.gzip)
            .read_to_end(&mut plain)
            .unwrap();
        assert!(!plain.is_empty());
        assert!(page.content_type.starts_with("text/html"));
    }

    /// Status and `ETag` of the response to a request with these headers.
    fn asked(headers: &[(&'static str, &str)]) -> (u16, String) {
        let page = netto_assets::find("/index.html").expect("the dashboard has a page");
        let request = headers
            .iter()
            .fold(TestRequest::default(), |request, header| {
                request.append_header(*header)
            });
        let answer = respond(page, &request.to_http_request());
        let vary = answer.headers().get("vary").expect("a Vary header");
        assert_eq!(vary, "Accept-Encoding");
        let etag = answer.headers().get("etag").expect("an ETag");
        (answer.status().as_u16(), etag.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_known_version_is_not_sent_again() {
        let (status, tag) = asked(&[]);
        assert_eq!(status, 200);
        for known in [
            tag.clone(),
            format!("W/{tag}"),
            format!("\"other\", {tag}"),
            format!("W/\"other\" ,W/{tag} , \"third\""),
            "*".to_owned(),
        ] {
            let answer = asked(&[("If-None-Match", &known)]);
            assert_eq!(answer, (304, tag.clone()), "{known}");
        }
        let two_lines = [("If-None-Match", "\"other\""), ("If-None-Match", &tag)];
        assert_eq!(asked(&two_lines).0, 304);
        for unknown in ["\"other\"", "", "other", &tag[1..], "\"*\""] {
            assert_eq!(asked(&[("If-None-Match", unknown)]).0, 200, "{unknown}");
        }
    }

    #[test]
    fn each_encoding_has_a_version_of_its_own() {
        let (_, plain) = asked(&[]);
        let gzip = ("Accept-Encoding", "gzip");
        let (_, packed) = asked(&[gzip]);
        let (_, smaller) = asked(&[("Accept-Encoding", "gzip, deflate, br, zstd")]);
        assert_ne!(plain, packed);
        assert_ne!(packed, smaller);
        assert_ne!(plain, smaller);
        assert_eq!(asked(&[("Accept-Encoding", "br;q=0, gzip")]).1, packed);
        assert_eq!(asked(&[gzip, ("If-None-Match", &plain)]).0, 200);
        assert_eq!(
            asked(&[gzip, ("If-None-Match", &packed)]),
            (304, packed.clone())
        );
        assert_eq!(asked(&[("If-None-Match", &packed)]).0, 200);
    }
}
