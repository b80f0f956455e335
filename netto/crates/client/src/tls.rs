//! TLS to a daemon: trusted certificates, and explanations of certificate errors. The handshake is
//! done before any request, so that its errors are distinct from those of a server that is not
//! netto.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::Socket;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::presence::is_silence;

/// Trust stores of distributions.
const TRUSTED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Does the TLS handshake with the host of this name; `wait` says whether silence is waited for.
///
/// # Errors
/// Why it failed, and a remedy.
pub(super) fn encrypted(
    mut stream: Socket,
    host: &str,
    ca_file: Option<&Path>,
    wait: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<StreamOwned<ClientConnection, Socket>> {
    let mut roots = RootCertStore::empty();
    // A long list may contain certificates of unknown kinds.
    roots.add_parsable_certificates(trusted(ca_file)?);
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).context("no name for TLS")?;
    let mut session = ClientConnection::new(Arc::new(config), name)?;
    while session.is_handshaking() {
        match session.complete_io(&mut stream) {
            Err(error) if is_silence(error.kind()) => wait()?,
            done => drop(done.map_err(explained)?),
        }
    }
    Ok(StreamOwned::new(session, stream))
}

/// The same for requests over HTTP.
///
/// # Errors
/// If there are no trusted certificates.
pub(super) fn of_agent(ca_file: Option<&Path>) -> anyhow::Result<TlsConfig> {
    let roots: Vec<_> = trusted(ca_file)?
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots))
        .build())
}

/// Explains an error of the handshake; other errors are returned as they are.
pub(super) fn explained(error: io::Error) -> anyhow::Error {
    match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        Some(cause) => anyhow!("{}", wording(cause)),
        None => error.into(),
    }
}

/// Explains an error for people.
fn wording(error: &rustls::Error) -> String {
    use CertificateError as Certificate;
    let words = match error {
        rustls::Error::InvalidMessage(_) => "it does not speak TLS; try http://",
        rustls::Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            "this host does not trust its certificate; name a file with it, or with its issuer's \
             certificate, by --ca-file"
        }
        rustls::Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => "its certificate is for another name; use that in the address",
        rustls::Error::InvalidCertificate(
            Certificate::Expired
            | Certificate::ExpiredContext { .. }
            | Certificate::NotValidYet
            | Certificate::NotValidYetContext { .. },
        ) => "its certificate is not valid at this time; is this host's clock right?",
        // This error is only identified by its text.
        rustls::Error::InvalidCertificate(Certificate::Other(other))
            if format!("{other:?}").contains("CaUsedAsEndEntity") =>
        {
            "its certificate is a CA certificate (CA:TRUE), which a server may not use; give it \
             one with basicConstraints=CA:FALSE"
        }
        other => return format!("TLS fails: {other}"),
    };
    words.to_owned()
}

/// The trusted certificates.
fn trusted(file: Option<&Path>) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let usual = TRUSTED.iter().map(Path::new).find(|path| path.exists());
    let path = file
        .or(usual)
        .context("this host has no list of trusted certificates; name one with --ca-file")?;
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found =
        read.with_context(|| format!("cannot read the certificates in {}", path.display()))?;
    ensure!(
        !found.is_empty(),
        "there is no certificate in {}",
        path.display()
    );
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::Daemon;

    #[test]
    fn who_speaks_no_tls_is_told_from_who_cannot_be_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut hello = [0; 1024];
                assert!(stream.read(&mut hello).unwrap() > 0);
                stream
                    .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    .unwrap();
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let ca_file = folder.path().join("ca.pem");
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&ca_file, signed.cert.pem()).unwrap();
        let daemon = Daemon::at(&format!("https://{address}"), Some(&ca_file)).unwrap();
        for error in [daemon.get("/x").err(), daemon.connect().err()] {
            let error = format!("{:#}", error.unwrap());
            assert!(error.contains("try http://"), "{error}");
            assert!(error.contains("cannot reach"), "{error}");
        }
        server.join().unwrap();
    }

    #[test]
    fn a_certificate_is_refused_with_what_to_do() {
        for (cause, word) in [
            (CertificateError::UnknownIssuer, "--ca-file"),
            (CertificateError::NotValidForName, "another name"),
            (CertificateError::Expired, "clock"),
            (CertificateError::BadSignature, "TLS fails"),
        ] {
            let words = wording(&rustls::Error::InvalidCertificate(cause));
            assert!(words.contains(word), "{words}");
        }
    }
}
