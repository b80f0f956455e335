//! The address of a running daemon, and what is asked of it by HTTP. Commands that look at a
//! daemon from outside share it, with its words for what goes wrong.

use std::io::{BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use tungstenite::http::Uri;

mod answer;
mod tls;

/// The daemon that is asked when none is named.
pub const DEFAULT_URL: &str = "http://127.0.0.1:10880";
/// How long each step of connecting may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A daemon that says nothing for so long is gone: it pings every ten seconds.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// How much of a refusal is repeated, bytes.
const MOST_REFUSAL_BYTES: u64 = 300;
/// Where a daemon is and who asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Daemon {
    host: String,
    port: u16,
    /// What all its paths begin with.
    base: String,
    is_tls: bool,
    authorization: Option<String>,
    ca_file: Option<PathBuf>,
}

/// What a daemon is spoken to by.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

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
            base: uri.path().trim_end_matches('/').to_owned(),
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

    /// One of its paths, without the host.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Whether it is spoken to in secret.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The header by which it knows who asks.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// What to say where something answers that is no netto.
    pub fn stranger(&self) -> String {
        let name = self.name();
        match self.is_tls {
            true => format!("what answers at {name} is no netto"),
            false => format!("what answers at {name} is no netto, or one behind https://"),
        }
    }

    /// Asks for one of its paths, and gives the body of its answer.
    ///
    /// # Errors
    /// Why there is none, with what to do.
    pub fn get(&self, path: &str) -> anyhow::Result<Box<dyn Read>> {
        let name = self.name();
        let mut stream = self.reach()?;
        let mut request = format!(
            "GET {} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n",
            self.path(path)
        );
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        let broken = || match self.is_tls {
            true => format!("{name} breaks off"),
            false => format!("{name} breaks off, or is one behind https://"),
        };
        stream.write_all(request.as_bytes()).with_context(broken)?;
        let mut stream = BufReader::new(stream);
        let head = answer::head(&mut stream).with_context(broken)?;
        let (status, mut body) =
            answer::understood(&head, stream).with_context(|| self.stranger())?;
        if status != 200 {
            let mut said = Vec::new();
            // A refusal that breaks off is a refusal too.
            let _ = body
                .by_ref()
                .take(MOST_REFUSAL_BYTES)
                .read_to_end(&mut said);
            bail!("{name} refuses with {status}: {}", refusal(status, &said));
        }
        Ok(body)
    }

    /// Reaches its socket, and agrees on TLS if need be.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn reach(&self) -> anyhow::Result<Box<dyn Stream>> {
        let unreachable = || format!("cannot reach a netto at {}", self.name());
        self.dial().with_context(unreachable)
    }

    fn dial(&self) -> anyhow::Result<Box<dyn Stream>> {
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
                true => tls::encrypted(stream, &self.host, self.ca_file.as_deref()),
                false => Ok(Box::new(stream)),
            };
        }
        Err(last)
    }
}

/// What a daemon that refuses wants, by the status of its answer.
pub fn remedy(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => "give user and password as in http://user:password@host:10880",
        421 => "start that netto with --allowed-host, or use its address",
        _ => return None,
    })
}

/// Why a request was refused: what is known of it, or else what the daemon says.
fn refusal(status: u16, said: &[u8]) -> String {
    if let Some(remedy) = remedy(status) {
        return remedy.to_owned();
    }
    let said = String::from_utf8_lossy(said);
    let line = said.lines().next().unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.is_empty() {
        true => "see that netto's log".to_owned(),
        false => line,
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
        assert_eq!(daemon.path("/ws"), "/sub/ws");
        let expected = format!("Basic {}", STANDARD.encode("me:p@ss"));
        assert_eq!(daemon.authorization.as_deref(), Some(expected.as_str()));
        assert_eq!(daemon.name(), "netto.example:10880", "without the password");
        let daemon = Daemon::at("https://[::1]:8443", None).unwrap();
        assert_eq!(
            (daemon.name().as_str(), daemon.is_tls),
            ("[::1]:8443", true)
        );
        assert_eq!(daemon.path("/ws"), "/ws");
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
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
                "",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n",
                "",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", ""),
            (b"HTTP/1.1 200 OK\r\nContent-", "breaks off"),
            (b"", "breaks off"),
            // What a server of TLS says to whom it does not understand.
            (b"\x15\x03\x03\x00\x02\x02\x46", "https://"),
            (b"SSH-2.0-OpenSSH\r\n\r\n", "no netto"),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc",
                "no netto",
            ),
            (b"HTTP/1.1 401 No\r\n\r\nno", "user:password"),
            (
                b"HTTP/1.1 404 No\r\n\r\nno \x1bsuch page\nat all",
                "no such page",
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
