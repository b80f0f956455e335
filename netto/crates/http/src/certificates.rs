//! Problems with the validity dates of a TLS certificate, in words.
//!
//! Clients refuse a certificate that is not valid now, but a server can offer it: netto starts, and
//! warns. Pure; `web_config` reads the files.

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// Days before expiry from which on netto warns.
const SOON_DAYS: i64 = 14;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Warnings about the dates of these certificates at this time (seconds since the Unix epoch), one
/// sentence each.
///
/// # Errors
/// If one of them is no X.509 certificate.
pub fn warnings(chain: &[CertificateDer<'_>], now_unix_s: i64) -> anyhow::Result<Vec<String>> {
    let now = ASN1Time::from_timestamp(now_unix_s)?;
    let mut warnings = Vec::new();
    for der in chain {
        let (_, certificate) = X509Certificate::from_der(der)?;
        let validity = certificate.validity();
        let left_s = validity.not_after.timestamp() - now_unix_s;
        let subject = certificate.subject();
        if now < validity.not_before {
            warnings.push(format!(
                "the certificate of \"{subject}\" is not valid before {}: until then clients refuse it; \
                 is this host's clock right?",
                validity.not_before
            ));
        } else if now > validity.not_after {
            warnings.push(format!(
                "the certificate of \"{subject}\" expired on {}: clients refuse it; renew it",
                validity.not_after
            ));
        } else if left_s < SOON_DAYS * DAY_SECONDS {
            warnings.push(format!(
                "the certificate of \"{subject}\" expires on {}, in {} days: renew it and restart netto",
                validity.not_after,
                left_s / DAY_SECONDS
            ));
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    /// Valid in 2025.
    fn certificate() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2025, 1, 1);
        params.not_after = date_time_ymd(2026, 1, 1);
        params
            .distinguished_name
            .push(DnType::CommonName, "netto.example");
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().into()
    }

    fn warnings_on(year: i32, month: u8, day: u8) -> Vec<String> {
        let now = date_time_ymd(year, month, day).unix_timestamp();
        warnings(&[certificate()], now).unwrap()
    }

    #[test]
    fn a_warning_comes_before_and_after_the_validity_of_a_certificate_and_shortly_before_its_end() {
        assert!(warnings_on(2025, 6, 1).is_empty());
        for (date, expected) in [
            ((2024, 12, 31), "is not valid before Jan  1"),
            ((2025, 12, 25), "in 7 days"),
            ((2026, 1, 2), "expired on Jan  1"),
        ] {
            let said = warnings_on(date.0, date.1, date.2);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains(expected), "{said:?}");
            assert!(said[0].contains("netto.example"), "{said:?}");
        }
    }

    #[test]
    fn every_certificate_of_a_chain_is_looked_at() {
        let chain = [certificate(), certificate()];
        assert_eq!(warnings(&chain, i64::from(i32::MAX)).unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_certificate_is_an_error() {
        assert!(warnings(&[CertificateDer::from(vec![1, 2, 3])], 0).is_err());
    }
}
