//! The file given with `--web.config.file`, in the format of Prometheus'
//! exporter-toolkit: TLS, basic authentication and a few response headers.
//!
//! This file reads and checks it; `live_web_config` decides when. A key that netto does not
//! know is an error: a security setting that is silently ignored is worse than
//! no setting.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_web::http::header::{HeaderName, HeaderValue};
use anyhow::{Context, bail, ensure};
use netto_sys::files;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use serde::Deserialize;
use tokio_rustls::TlsAcceptor;

use super::auth::Auth;
use super::certificates;

/// Headers that may be set, as in exporter-toolkit.
const SETTABLE_HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
];

/// Opening brackets and signs of directives in a file; settings need few or none.
const MOST_MARKS: usize = 1000;

/// The settings, checked and loaded.
#[derive(Default)]
pub struct WebConfig {
    /// TLS, if configured.
    pub tls: Option<TlsAcceptor>,
    /// Users, if there are any.
    pub auth: Option<Arc<Auth>>,
    /// Headers to set on every response.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Settings that work but are probably not meant that way; for people.
    pub warnings: Vec<String>,
    /// The files that it names.
    pub files: Vec<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    tls_server_config: Option<RawTls>,
    http_server_config: Option<RawHttp>,
    basic_auth_users: Option<HashMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTls {
    cert_file: PathBuf,
    key_file: PathBuf,
    #[serde(default)]
    client_auth_type: ClientAuth,
    client_ca_file: Option<PathBuf>,
    #[serde(default)]
    min_version: TlsVersion,
    #[serde(default = "TlsVersion::newest")]
    max_version: TlsVersion,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHttp {
    /// Permits HTTP/2; netto speaks HTTP/1.1, which every client does too.
    #[serde(default, rename = "http2")]
    _http2: bool,
    #[serde(default)]
    headers: HashMap<String, String>,
}

/// The names are those of Go's `tls.ClientAuthType`, without those that accept certificates
/// unchecked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
enum ClientAuth {
    #[default]
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum TlsVersion {
    #[default]
    #[serde(rename = "TLS12")]
    Tls12,
    #[serde(rename = "TLS13")]
    Tls13,
}

impl TlsVersion {
    fn newest() -> Self {
        TlsVersion::Tls13
    }

    fn of(version: &SupportedProtocolVersion) -> Self {
        if version.version == rustls::ProtocolVersion::TLSv1_2 {
            TlsVersion::Tls12
        } else {
            TlsVersion::Tls13
        }
    }
}

impl WebConfig {
    /// Reads the file and all files that it refers to.
    ///
    /// # Errors
    /// If anything in it is missing, unknown or unusable; the message names the file.
    pub fn load(path: &Path) -> anyhow::Result<WebConfig> {
        let text = files::read_settings(path)
            .with_context(|| format!("cannot read the web config file {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        WebConfig::parse(&text, folder)
            .with_context(|| format!("cannot use the web config file {}", path.display()))
    }

    /// Parses the file's text; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// As [`WebConfig::load`].
    pub fn parse(text: &str, folder: &Path) -> anyhow::Result<WebConfig> {
        // The parser's time is quadratic in nested brackets, and in directives (`%TAG`).
        let marks = text.matches(['[', '{', '%']).count();
        ensure!(
            marks <= MOST_MARKS,
            "it has {marks} of the characters [, {{ and %, and more than {MOST_MARKS} are not read"
        );
        // An empty file is a valid one, as in exporter-toolkit.
        let raw: Option<Raw> = serde_yaml_ng::from_str(text)?;
        let raw = raw.unwrap_or_default();
        let (mut warnings, mut files) = (Vec::new(), Vec::new());
        let tls = match raw.tls_server_config {
            Some(tls) => {
                let named = [
                    Some(&tls.cert_file),
                    Some(&tls.key_file),
                    tls.client_ca_file.as_ref(),
                ];
                files.extend(named.into_iter().flatten().map(|file| folder.join(file)));
                let mut config = tls
                    .load(folder, &mut warnings)
                    .context("tls_server_config")?;
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Some(TlsAcceptor::from(Arc::new(config)))
            }
            None => None,
        };
        let auth =
            Auth::new(raw.basic_auth_users.unwrap_or_default()).context("basic_auth_users")?;
        let headers = raw
            .http_server_config
            .unwrap_or_default()
            .headers
            .into_iter()
            .map(header)
            .collect::<anyhow::Result<_>>()
            .context("http_server_config")?;
        Ok(WebConfig {
            tls,
            auth,
            headers,
            warnings,
            files,
        })
    }
}

fn header((name, value): (String, String)) -> anyhow::Result<(HeaderName, HeaderValue)> {
    if !SETTABLE_HEADERS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(&name))
    {
        bail!(
            "the header \"{name}\" cannot be set; those that can are {}",
            SETTABLE_HEADERS.join(", ")
        );
    }
    let value = HeaderValue::from_str(&value)
        .with_context(|| format!("the header \"{name}\" has an impossible value"))?;
    Ok((name.parse()?, value))
}

impl RawTls {
    fn load(&self, folder: &Path, warnings: &mut Vec<String>) -> anyhow::Result<ServerConfig> {
        let cert_file = folder.join(&self.cert_file);
        let key_file = folder.join(&self.key_file);
        let chain = certificates(&cert_file).context("cert_file")?;
        let found = certificates::warnings(&chain, since_epoch()).with_context(|| {
            format!(
                "cert_file: {} holds an unusable certificate",
                cert_file.display()
            )
        })?;
        warnings.extend(
            found
                .into_iter()
                .map(|warning| format!("{}: {warning}", cert_file.display())),
        );
        let no_key = || {
            format!(
                "key_file: cannot read a private key from {}",
                key_file.display()
            )
        };
        let text = files::read_settings(&key_file).with_context(no_key)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).with_context(no_key)?;
        let versions: Vec<_> = rustls::ALL_VERSIONS
            .iter()
            .copied()
            .filter(|version| {
                (self.min_version..=self.max_version).contains(&TlsVersion::of(version))
            })
            .collect();
        if versions.is_empty() {
            bail!("min_version is above max_version");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)?
            .with_client_cert_verifier(self.client_verifier(folder, provider)?)
            .with_single_cert(chain, key)
            .with_context(|| {
                format!(
                    "{} and {} do not make a usable pair",
                    cert_file.display(),
                    key_file.display()
                )
            })
    }

    fn client_verifier(
        &self,
        folder: &Path,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
        let authorities = match (self.client_auth_type, &self.client_ca_file) {
            (ClientAuth::NoClientCert, None) => {
                return Ok(WebPkiClientVerifier::no_client_auth());
            }
            (ClientAuth::NoClientCert, Some(_)) => {
                bail!("client_ca_file has no effect without a client_auth_type that verifies")
            }
            (_, None) => bail!("client_auth_type needs a client_ca_file to verify with"),
            (_, Some(file)) => folder.join(file),
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&authorities).context("client_ca_file")? {
            roots.add(certificate).with_context(|| {
                format!(
                    "client_ca_file: {} holds an unusable certificate",
                    authorities.display()
                )
            })?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if self.client_auth_type == ClientAuth::VerifyClientCertIfGiven {
            builder.allow_unauthenticated()
        } else {
            builder
        };
        Ok(builder.build()?)
    }
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let failed = || format!("cannot read certificates from {}", path.display());
    let text = files::read_settings(path).with_context(failed)?;
    let chain = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .with_context(failed)?;
    if chain.is_empty() {
        bail!("{} holds no certificate", path.display());
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, folder: &Path) -> Result<WebConfig, String> {
        WebConfig::parse(text, folder).map_err(|error| format!("{error:#}"))
    }

    /// A folder with a certificate and its key.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(
            folder.path().join("key.pem"),
            made.signing_key.serialize_pem(),
        )
        .unwrap();
        folder
    }

    const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

    #[test]
    fn an_empty_file_sets_nothing() {
        let config = parse("", Path::new(".")).unwrap();
        assert!(config.tls.is_none() && config.auth.is_none() && config.headers.is_empty());
    }

    #[test]
    fn certificates_are_found_beside_the_file() {
        let folder = folder();
        let config = parse(TLS, folder.path()).unwrap();
        assert!(config.tls.is_some() && config.warnings.is_empty());
        let with_clients = format!(
            "{TLS}  client_ca_file: cert.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
        );
        assert!(parse(&with_clients, folder.path()).unwrap().tls.is_some());
    }

    #[test]
    fn an_expired_certificate_is_used_with_a_warning() {
        let folder = folder();
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let old = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("cert.pem"), old.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
        let config = parse(TLS, folder.path()).unwrap();
        assert!(config.tls.is_some());
        let [warning] = config.warnings.as_slice() else {
            panic!("{:?}", config.warnings);
        };
        assert!(
            warning.contains("cert.pem") && warning.contains("expired on 2021-01-01"),
            "{warning}"
        );
    }

    #[test]
    fn every_mistake_is_named() {
        let folder = folder();
        for (text, expected) in [
            ("basic_auth_user: {}", "basic_auth_user"),
            ("tls_server_config: {cert_file: cert.pem}", "key_file"),
            (
                "tls_server_config: {cert_file: none.pem, key_file: key.pem}",
                "none.pem",
            ),
            (
                "tls_server_config: {cert_file: key.pem, key_file: key.pem}",
                "holds no certificate",
            ),
            (&format!("{TLS}  cipher_suites: []"), "cipher_suites"),
            (
                &format!("{TLS}  min_version: TLS13\n  max_version: TLS12"),
                "min_version",
            ),
            (&format!("{TLS}  min_version: TLS10"), "TLS10"),
            (
                &format!("{TLS}  client_auth_type: RequireAnyClientCert"),
                "RequireAnyClientCert",
            ),
            (
                &format!("{TLS}  client_auth_type: RequireAndVerifyClientCert"),
                "client_ca_file",
            ),
            (
                &format!("{TLS}  client_ca_file: cert.pem"),
                "client_auth_type",
            ),
            ("basic_auth_users: {ada: plain}", "ada"),
            ("http_server_config: {headers: {Server: x}}", "Server"),
        ] {
            let error = parse(text, folder.path()).err().expect(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_of_nothing_but_structure_takes_no_time() {
        let depth = 100_000;
        let tags = (0..40_000).map(|tag| format!("%TAG !a{tag}! tag:b\n"));
        let tags = tags.collect();
        for text in [
            "[".repeat(depth),
            format!("basic_auth_users: {}", "{a: ".repeat(depth)),
            "[ #]\n".repeat(depth),
            "- ".repeat(depth),
            "? ".repeat(depth),
            format!("a: {}", "!b ".repeat(depth)),
            tags,
        ] {
            let begun = std::time::Instant::now();
            let error = parse(&text, Path::new(".")).err().expect("no settings");
            let took = begun.elapsed();
            let begin = text.get(..20);
            assert!(took < Duration::from_secs(5), "{begin:?}: {took:?}");
            assert!(error.len() < 500, "{begin:?}: {error}");
        }
    }

    #[test]
    fn no_message_repeats_a_line_of_the_file() {
        for mistake in [
            "unknown: 1",
            "basic_auth_users: {}",
            "tls_server_config: [",
            "\t- a: b: c",
        ] {
            let text = format!("basic_auth_users:\n  ada: $2y$10$secret\n{mistake}\n");
            let error = parse(&text, Path::new(".")).err().expect(mistake);
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn known_headers_can_be_set() {
        let text = "http_server_config: {http2: true, headers: {X-Frame-Options: deny}}";
        let config = parse(text, Path::new(".")).unwrap();
        assert_eq!(config.headers.len(), 1);
        assert_eq!(config.headers[0].1, "deny");
    }
}
