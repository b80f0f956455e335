//! TLS to a daemon: whom to trust, and in words what is wrong with a certificate. It is agreed on
//! before anything is asked, so that what fails here is told from what is no netto.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::Stream;

/// Where distributions keep the certificates that they trust.
const TRUSTED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Agrees on TLS with the host of this name.
///
/// # Errors
/// Why that is not possible, with what to do.
pub(super) fn encrypted(
    mut stream: TcpStream,
    host: &str,
    ca_file: Option<&Path>,
) -> anyhow::Result<Box<dyn Stream>> {
    let config = ClientConfig::builder()
        .with_root_certificates(trusted(ca_file)?)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).context("no name for TLS")?;
    let mut session = ClientConnection::new(Arc::new(config), name)?;
    while session.is_handshaking() {
        session
            .complete_io(&mut stream)
            .map_err(|error| match inner(&error) {
                Some(cause) => anyhow!("{}", wording(cause)),
                None => error.into(),
            })?;
    }
    Ok(Box::new(StreamOwned::new(session, stream)))
}

fn inner(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// What went wrong, for people.
fn wording(error: &rustls::Error) -> String {
    use CertificateError as Certificate;
    let told = match error {
        rustls::Error::InvalidMessage(_) => "it does not speak TLS; is it http:// there?",
        rustls::Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            "its certificate is by nobody whom this host trusts; name a file that holds it, or its \
             issuer's, with --ca-file"
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
        // The only name of this one is in the text.
        rustls::Error::InvalidCertificate(Certificate::Other(other))
            if format!("{other:?}").contains("CaUsedAsEndEntity") =>
        {
            "its certificate is an issuer's (CA:TRUE), which may not be used by a server; give it \
             one with basicConstraints=CA:FALSE"
        }
        other => return format!("TLS fails: {other}"),
    };
    told.to_owned()
}

/// The certificates by which a daemon may prove who it is.
fn trusted(file: Option<&Path>) -> anyhow::Result<RootCertStore> {
    let usual = TRUSTED.iter().map(Path::new).find(|path| path.exists());
    let path = file
        .or(usual)
        .context("this host has no list of trusted certificates; name one with --ca-file")?;
    let mut roots = RootCertStore::empty();
    let unreadable = || format!("cannot read the certificates in {}", path.display());
    for certificate in CertificateDer::pem_file_iter(path).with_context(unreadable)? {
        // A list of many may hold some of a kind that is not known.
        let _ = roots.add(certificate.with_context(unreadable)?);
    }
    ensure!(
        !roots.is_empty(),
        "there is no certificate in {}",
        path.display()
    );
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::commands::daemon::Daemon;

    #[test]
    fn who_speaks_no_tls_is_told_from_who_cannot_be_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; 1024];
            assert!(stream.read(&mut hello).unwrap() > 0);
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let ca_file = folder.path().join("ca.pem");
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&ca_file, signed.cert.pem()).unwrap();
        let daemon = Daemon::at(&format!("https://{address}"), Some(&ca_file)).unwrap();
        let Err(error) = daemon.reach() else {
            panic!("there is no TLS");
        };
        let error = format!("{error:#}");
        assert!(error.contains("http:// there"), "{error}");
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
            let told = wording(&rustls::Error::InvalidCertificate(cause));
            assert!(told.contains(word), "{told}");
        }
    }
}
