//! The least HTTP client: one request per connection, for loopback only.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const LIMIT: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub struct Response {
    /// 200 and so on.
    pub status: u16,
    /// Headers as they came.
    pub head: String,
    /// All of the body.
    pub body: String,
}

impl Response {
    /// The body as JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.body)
            .with_context(|| format!("status {} with a body that is no JSON", self.status))
    }
}

/// A new connection with a limit on every wait.
pub fn connect(at: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, LIMIT)
        .with_context(|| format!("cannot connect to {at}"))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Fetches a path.
pub fn get(at: SocketAddr, path: &str) -> Result<Response> {
    request(at, "GET", path, None)
}

/// Fetches a path that must exist.
pub fn get_ok(at: SocketAddr, path: &str) -> Result<Response> {
    let response = get(at, path)?;
    if response.status != 200 {
        bail!("GET {path} gave {}: {}", response.status, response.body);
    }
    Ok(response)
}

/// Sends a request with an optional JSON body. As HTTP/1.0, so that the answer
/// ends with the connection and comes in one piece.
pub fn request(
    at: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
) -> Result<Response> {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: {at}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    raw(at, request.as_bytes())
}

/// Sends these very bytes and reads the answer.
pub fn raw(at: SocketAddr, request: &[u8]) -> Result<Response> {
    let mut stream = connect(at)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let wanted = |answer: &[u8]| {
        let head_end = find(answer, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&answer[..head_end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))?
            .trim()
            .parse::<usize>()
            .ok()?;
        Some(head_end + 4 + length)
    };
    let mut chunk = [0; 16 << 10];
    // Not every server closes the connection because it was asked to.
    while wanted(&answer).is_none_or(|length| answer.len() < length) {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
            Err(error) => return Err(error).context("no whole answer came"),
        }
    }
    let Some(head_end) = find(&answer, b"\r\n\r\n") else {
        bail!(
            "no HTTP answer: {:?}",
            String::from_utf8_lossy(&answer[..answer.len().min(200)])
        );
    };
    let head = String::from_utf8_lossy(&answer[..head_end]).into_owned();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .with_context(|| format!("no status in {head:?}"))?;
    Ok(Response {
        status,
        head,
        body: String::from_utf8_lossy(&answer[head_end + 4..]).into_owned(),
    })
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
