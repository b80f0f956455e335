//! The client of a running daemon: its address, requests over HTTP, and the WebSocket of
//! dashboards. Shared by commands that read a daemon from outside, including its error messages.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use netto_questions::figures::plain;
use netto_questions::values::UNIX;
use percent_encoding::percent_decode_str;
use ureq::http::Uri;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector as _, DefaultConnector};
use ureq::{Agent, Timeout};

mod presence;
mod tls;
mod unix;
mod websocket;

use presence::Watching;
use unix::Socket;
pub use websocket::Connection;

/// The default daemon.
pub const DEFAULT_URL: &str = "http://127.0.0.1:10880";
/// Timeout of each step of connecting.
const CONNECT_LIMIT: Duration = Duration::from_millis(2_500);
/// Silence after which a daemon is asked whether it is there, and time for its answer.
const BEAT: Duration = Duration::from_secs(1);
/// Timeout of an answer by a daemon that is there: it may have to wait for its turn.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of a refusal shown.
const MOST_REFUSAL_BYTES: u64 = 300;

/// The address of a daemon, and the credentials.
#[derive(Debug, Clone, PartialEq)]
pub struct Daemon {
    host: String,
    port: u16,
    /// The common prefix of its paths.
    base: String,
    is_tls: bool,
    authorization: Option<String>,
    ca_file: Option<PathBuf>,
    /// The UNIX socket to connect to, instead of host and port.
    socket: Option<PathBuf>,
}

impl Daemon {
    /// The daemon with this address, as in a browser: `http://user:password@host:10880`.
    ///
    /// # Errors
    /// If it is not the address of a daemon.
    pub fn at(url: &str, ca_file: Option<&Path>) -> anyhow::Result<Daemon> {
        if let Some(path) = url.strip_prefix(UNIX) {
            // What is behind a question mark is of the daemon's own --address.
            let path = path.split('?').next().unwrap_or_default();
            ensure!(
                path.starts_with('/'),
                "{url} is not the address of a daemon: an absolute path follows {UNIX}"
            );
            return Ok(Daemon {
                // Requests name a host, and netto answers to its addresses.
                host: "127.0.0.1".to_owned(),
                port: 80,
                base: String::new(),
                is_tls: false,
                authorization: None,
                ca_file: None,
                socket: Some(path.into()),
            });
        }
        let example = "it looks like http://127.0.0.1:10880 or unix:/run/netto.sock";
        let uri: Uri = url
            .parse()
            .map_err(|error| anyhow!("{url} is not the address of a daemon: {error}; {example}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("{url} is not the address of a daemon: it begins with http:// or https://"),
        };
        let authority = uri.authority().context("an address without a host")?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        ensure!(!host.is_empty(), "{url} names no host; {example}");
        let authorization = authority.as_str().rsplit_once('@').map(|(user, _)| {
            // Credentials of basic authentication are bytes; a URL writes some of them as %40.
            let plain: Vec<u8> = percent_decode_str(user).collect();
            format!("Basic {}", STANDARD.encode(plain))
        });
        Ok(Daemon {
            host,
            port: authority
                .port_u16()
                .unwrap_or(if is_tls { 443 } else { 10880 }),
            base: uri.path().trim_end_matches('/').to_owned(),
            is_tls,
            authorization,
            ca_file: ca_file.map(Path::to_owned),
            socket: None,
        })
    }

    /// Its name for people, without the password.
    pub fn name(&self) -> String {
        match &self.socket {
            Some(path) => format!("{UNIX}{}", path.display()),
            None => self.authority(),
        }
    }

    /// Host and port of a URL.
    fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        format!("{host}:{}", self.port)
    }

    /// The URL of one of its paths, by `http` or `ws`.
    fn url(&self, protocol: &str, path: &str) -> String {
        let secure = if self.is_tls { "s" } else { "" };
        format!(
            "{protocol}{secure}://{}{}{path}",
            self.authority(),
            self.base
        )
    }

    /// The message for a server that is not netto.
    fn stranger(&self) -> String {
        let name = self.name();
        if self.is_tls || self.socket.is_some() {
            format!("the server at {name} is not netto")
        } else {
            format!("the server at {name} is not netto, or needs https://")
        }
    }

    fn unreachable(&self) -> String {
        format!("cannot reach a netto at {}", self.name())
    }

    /// Requests one of its paths, and returns the body of the answer.
    ///
    /// # Errors
    /// Why there is no answer, and a remedy.
    pub fn get(&self, path: &str) -> anyhow::Result<impl Read + use<>> {
        let agent = self.agent().with_context(|| self.unreachable())?;
        let mut request = agent.get(self.url("http", path));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let answer = request.call().map_err(|error| self.explained(error))?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body().into_reader();
        if status != 200 {
            let mut said = Vec::new();
            // A refusal with an incomplete body is a refusal, too.
            let _ = body
                .by_ref()
                .take(MOST_REFUSAL_BYTES)
                .read_to_end(&mut said);
            bail!(
                "{} refuses with {status}: {}",
                self.name(),
                refusal(status, &said)
            );
        }
        Ok(body)
    }

    fn agent(&self) -> anyhow::Result<Agent> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT_LIMIT))
            .timeout_per_write(Some(CONNECT_LIMIT));
        if self.is_tls {
            config = config.tls_config(tls::of_agent(self.ca_file.as_deref())?);
        }
        let config = config.build();
        let watching = Watching(self.clone());
        Ok(match &self.socket {
            // Hosts are addresses here, and need no name server.
            Some(path) => Agent::with_parts(
                config,
                Socket(path.clone()).chain(watching),
                DefaultResolver::default(),
            ),
            None => Agent::with_parts(
                config,
                DefaultConnector::default().chain(watching),
                DefaultResolver::default(),
            ),
        })
    }

    /// Explains why a request has no answer.
    fn explained(&self, error: ureq::Error) -> anyhow::Error {
        let broken = || {
            if self.is_tls || self.socket.is_some() {
                format!("{} closed the connection", self.name())
            } else {
                format!("{} closed the connection, or needs https://", self.name())
            }
        };
        match error {
            ureq::Error::Io(error) if is_end(&error) => anyhow::Error::new(error).context(broken()),
            ureq::Error::Io(error) => tls::explained(error).context(self.unreachable()),
            ureq::Error::HostNotFound => {
                anyhow!("the name {} has no address", self.host).context(self.unreachable())
            }
            ureq::Error::ConnectionFailed
            | ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect)
            | ureq::Error::Tls(_)
            | ureq::Error::Rustls(_) => anyhow::Error::new(error).context(self.unreachable()),
            ureq::Error::Timeout(_) => anyhow::Error::new(error).context(broken()),
            ureq::Error::Other(error) => anyhow!("{error}"),
            error => anyhow::Error::new(error).context(self.stranger()),
        }
    }
}

/// Whether the server closed the connection within an answer.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// The remedy for a refusal, by its status.
fn remedy(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => "give user and password as in http://user:password@host:10880",
        421 => "start that netto with --allowed-host, or use its address",
        _ => return None,
    })
}

/// Why a request was refused: by status, or else the daemon's text.
fn refusal(status: u16, said: &[u8]) -> String {
    if let Some(remedy) = remedy(status) {
        return remedy.to_owned();
    }
    let said = String::from_utf8_lossy(said);
    let line = said.lines().next().unwrap_or_default();
    if line.is_empty() {
        "see that netto's log".to_owned()
    } else {
        plain(line)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn an_address_is_as_in_a_browser() {
        let daemon = Daemon::at("http://me:p%40ss@netto.example/sub/", None).unwrap();
        assert_eq!(
            (daemon.host.as_str(), daemon.port),
            ("netto.example", 10880)
        );
        assert_eq!(daemon.url("ws", "/ws"), "ws://netto.example:10880/sub/ws");
        let expected = format!("Basic {}", STANDARD.encode("me:p@ss"));
        assert_eq!(daemon.authorization.as_deref(), Some(expected.as_str()));
        assert_eq!(daemon.name(), "netto.example:10880", "without the password");
        let daemon = Daemon::at("https://[::1]:8443", None).unwrap();
        assert_eq!(
            (daemon.name().as_str(), daemon.is_tls),
            ("[::1]:8443", true)
        );
        assert_eq!(daemon.url("ws", "/ws"), "wss://[::1]:8443/ws");
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

    /// Answers one request with this, byte for byte.
    fn answering(answer: &'static [u8]) -> Daemon {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /x HTTP/1.1\r\n"));
            stream.write_all(answer).unwrap();
        });
        Daemon::at(&format!("http://{address}"), None).unwrap()
    }

    fn answered(answer: &'static [u8]) -> anyhow::Result<String> {
        let mut body = answering(answer).get("/x")?;
        let mut text = String::new();
        body.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn an_answer_is_read_however_it_is_framed() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nabc",
        ] {
            assert_eq!(answered(answer).unwrap(), "abc");
        }
    }

    #[test]
    fn an_answer_that_breaks_off_or_is_none_is_an_error() {
        for (answer, why) in [
            (
                &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"[..],
                "",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
                "",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", ""),
            (b"HTTP/1.1 200 OK\r\nContent-", "closed the connection"),
            (b"", "closed the connection"),
            // The answer of a TLS server to a malformed record.
            (b"\x15\x03\x03\x00\x02\x02\x46", "https://"),
            (b"SSH-2.0-OpenSSH\r\n\r\n", "is not netto"),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc",
                "is not netto",
            ),
            (b"HTTP/1.1 401 No\r\n\r\nno", "user:password"),
            (
                b"HTTP/1.1 404 No\r\n\r\nno \x1bsuch page\nat all",
                "no \u{fffd}such page",
            ),
            (b"HTTP/1.1 503 No\r\n\r\n", "log"),
        ] {
            let error = format!("{:#}", answered(answer).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
        let endless: &'static [u8] = Box::leak(vec![b'x'; 1 << 20].into_boxed_slice());
        assert!(answered(endless).is_err());
    }
}
