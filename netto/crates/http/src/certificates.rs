//! Problems with the validity dates of a TLS certificate, in words.
//!
//! Clients refuse a certificate that is not valid now, but a server can offer it: netto starts, and
//! warns. Pure; `web_config` reads the files.

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// How long before expiry netto warns.
const SOON: Duration = Duration::from_secs(14 * DAY_SECONDS);
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// Warnings about the dates of these certificates at this time (since the Unix epoch), one sentence
/// each.
///
/// # Errors
/// If one of them is no X.509 certificate.
pub fn warnings(chain: &[CertificateDer<'_>], now: Duration) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    for der in chain {
        let certificate = Certificate::from_der(der)?.tbs_certificate;
        let (subject, validity) = (certificate.subject, certificate.validity);
        let (begin, end) = (validity.not_before, validity.not_after);
        if now < begin.to_unix_duration() {
            warnings.push(format!(
                "the certificate of \"{subject}\" is not valid before {begin}: until then clients refuse it; \
                 is this host's clock right?"
            ));
            continue;
        }
        match end.to_unix_duration().checked_sub(now) {
            None => warnings.push(format!(
                "the certificate of \"{subject}\" expired on {end}: clients refuse it; renew it"
            )),
            Some(left) if left < SOON => warnings.push(format!(
                "the certificate of \"{subject}\" expires on {end}, in {} days: renew it and restart netto",
                left.as_secs() / DAY_SECONDS
            )),
            Some(_) => {}
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
        warnings(&[certificate()], Duration::from_secs(now.unsigned_abs())).unwrap()
    }

    #[test]
    fn a_warning_comes_before_and_after_the_validity_of_a_certificate_and_shortly_before_its_end() {
        assert!(warnings_on(2025, 6, 1).is_empty());
        for (date, expected) in [
            ((2024, 12, 31), "is not valid before 2025-01-01"),
            ((2025, 12, 25), "in 7 days"),
            ((2026, 1, 2), "expired on 2026-01-01"),
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
        assert_eq!(
            warnings(&chain, Duration::from_secs(1 << 31))
                .unwrap()
                .len(),
            2
        );
    }

    #[test]
    fn what_is_no_certificate_is_an_error() {
        assert!(warnings(&[CertificateDer::from(vec![1, 2, 3])], Duration::ZERO).is_err());
    }
}
