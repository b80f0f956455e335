//! The connection of `netto top` to a running daemon: the WebSocket that dashboards use.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use metrics_common::codec::{self, ServerMessage};
use percent_encoding::percent_decode_str;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::{HeaderValue, Uri, header};
use tungstenite::{Message, WebSocket};

use super::feed::Event;

/// The daemon that is asked when none is named.
pub const DEFAULT_URL: &str = "http://127.0.0.1:10880";
/// How long each step of connecting may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A daemon that says nothing for so long is gone: it pings every ten seconds.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Where distributions keep the certificates that they trust.
const TRUSTED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Where a daemon is and who asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Daemon {
    host: String,
    port: u16,
    /// Path of the WebSocket.
    path: String,
    is_tls: bool,
    authorization: Option<String>,
    ca_file: Option<PathBuf>,
}

trait Stream: std::io::Read + std::io::Write + Send {}
impl<T: std::io::Read + std::io::Write + Send> Stream for T {}

/// An open connection.
pub struct Connection(WebSocket<Box<dyn Stream>>);

impl Daemon {
    /// The daemon with this address, as in a browser: `http://user:password@host:10880`.
    ///
    /// # Errors
    /// If that is no address of a daemon.
    pub fn at(url: &str, ca_file: Option<&Path>) -> anyhow::Result<Daemon> {
        let example = "it looks like http://127.0.0.1:10880";
        let uri: Uri = url
            .parse()
            .map_err(|error| anyhow!("{url} is no address of a daemon: {error}; {example}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("{url} is no address of a daemon: it begins with http:// or https://"),
        };
        let authority = uri.authority().context("an address without a host")?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        ensure!(!host.is_empty(), "{url} names no host; {example}");
        let authorization = authority.as_str().rsplit_once('@').map(|(user, _)| {
            // Basic authentication is of bytes, and an address writes some of them as %40.
            let plain: Vec<u8> = percent_decode_str(user).collect();
            format!("Basic {}", STANDARD.encode(plain))
        });
        Ok(Daemon {
            host,
            port: authority
                .port_u16()
                .unwrap_or(if is_tls { 443 } else { 10880 }),
            path: format!("{}/ws", uri.path().trim_end_matches('/')),
            is_tls,
            authorization,
            ca_file: ca_file.map(Path::to_owned),
        })
    }

    /// Its name for people, without passwords.
    pub fn name(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("{host}:{}", self.port)
    }

    /// Connects.
    ///
    /// # Errors
    /// Why that is not possible, with what to do.
    pub fn connect(&self) -> anyhow::Result<Connection> {
        let name = self.name();
        let stream = self
            .reach()
            .with_context(|| format!("cannot reach a netto at {name}"))?;
        let scheme = if self.is_tls { "wss" } else { "ws" };
        let url = format!("{scheme}://{name}{}", self.path);
        let mut request = url.into_client_request()?;
        if let Some(authorization) = &self.authorization {
            let value = HeaderValue::from_str(authorization)?;
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Connection(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                let remedy = match answer.status().as_u16() {
                    401 => "give user and password as in http://user:password@host:10880",
                    404 => "is that a netto?",
                    421 => "start that netto with --allowed-host, or use its address",
                    503 => "all its dashboards are taken, or it is ending",
                    _ => "see that netto's log",
                };
                bail!("{name} refuses with {}: {remedy}", answer.status())
            }
            Err(error) => bail!("what answers at {name} is no netto: {error}"),
        }
    }

    fn reach(&self) -> anyhow::Result<Box<dyn Stream>> {
        let mut last = anyhow!("the name {} has no address", self.host);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            let stream = match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error.into();
                    continue;
                }
            };
            stream.set_read_timeout(Some(SILENCE_LIMIT))?;
            stream.set_write_timeout(Some(CONNECT_LIMIT))?;
            return match self.is_tls {
                true => self.encrypted(stream),
                false => Ok(Box::new(stream)),
            };
        }
        Err(last)
    }

    fn encrypted(&self, stream: TcpStream) -> anyhow::Result<Box<dyn Stream>> {
        let config = ClientConfig::builder()
            .with_root_certificates(trusted(self.ca_file.as_deref())?)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).context("no name for TLS")?;
        let session = ClientConnection::new(Arc::new(config), name)?;
        Ok(Box::new(StreamOwned::new(session, stream)))
    }
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

impl Connection {
    /// The next thing that concerns a terminal.
    ///
    /// # Errors
    /// Why there are no more.
    pub fn next_event(&mut self) -> anyhow::Result<Event> {
        loop {
            let bytes = match self.0.read() {
                Ok(Message::Binary(bytes)) => bytes,
                Ok(Message::Close(Some(frame))) => bail!("{}", frame.reason),
                Ok(Message::Close(None)) => bail!("the daemon has closed the connection"),
                Ok(_) => continue,
                Err(tungstenite::Error::Io(error))
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    bail!("nothing has come for {} s", SILENCE_LIMIT.as_secs())
                }
                Err(error) => return Err(error.into()),
            };
            let message = codec::decode(&bytes)
                .context("the daemon is of another version, or what answers is none")?;
            match message {
                ServerMessage::Hello(info) => return Ok(Event::Info(info)),
                ServerMessage::Snapshot(snapshot) => return Ok(Event::Snapshot(snapshot)),
                ServerMessage::Bye(reason) => bail!("{reason}"),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_as_in_a_browser() {
        let daemon = Daemon::at("http://me:p%40ss@netto.example/sub/", None).unwrap();
        assert_eq!(
            (daemon.host.as_str(), daemon.port),
            ("netto.example", 10880)
        );
        assert_eq!(daemon.path, "/sub/ws");
        let expected = format!("Basic {}", STANDARD.encode("me:p@ss"));
        assert_eq!(daemon.authorization.as_deref(), Some(expected.as_str()));
        assert_eq!(daemon.name(), "netto.example:10880", "without the password");
        let daemon = Daemon::at("https://[::1]:8443", None).unwrap();
        assert_eq!(
            (daemon.name().as_str(), daemon.is_tls),
            ("[::1]:8443", true)
        );
        assert_eq!(daemon.path, "/ws");
    }

    #[test]
    fn what_is_no_address_is_told() {
        for url in [
            "",
            "ftp://x",
            "127.0.0.1:10880",
            "http://",
            "http://:80",
            "http://a b",
        ] {
            assert!(Daemon::at(url, None).is_err(), "{url}");
        }
    }
}
