//! The least HTTP client: one request per connection, for loopback only.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const LIMIT: Duration = Duration::from_secs(60);

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

/// Fetches what is not text.
pub fn get_bytes(at: SocketAddr, path: &str) -> Result<Vec<u8>> {
    let mut stream = connect(at)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head_end = find(&answer, END_OF_HEAD).context("no HTTP answer")?;
    let head = String::from_utf8_lossy(&answer[..head_end]);
    if !head.starts_with("HTTP/1.1 200 ") {
        bail!("GET {path} gave {head}");
    }
    Ok(answer.split_off(head_end + END_OF_HEAD.len()))
}

/// Fetches a path that must exist.
pub fn get_ok(at: SocketAddr, path: &str) -> Result<Response> {
    let response = get(at, path)?;
    if response.status != 200 {
        bail!("GET {path} gave {}: {}", response.status, response.body);
    }
    Ok(response)
}

/// Sends a request with an optional JSON body.
pub fn request(
    at: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
) -> Result<Response> {
    exchange(connect(at)?, &text(at, method, path, body))
}

/// The same of a request that takes a server this long.
#[allow(dead_code, reason = "one program asks for what takes long")]
pub fn request_within(
    limit: Duration,
    at: SocketAddr,
    method: &str,
    path: &str,
) -> Result<Response> {
    let stream = connect(at)?;
    stream.set_read_timeout(Some(limit))?;
    exchange(stream, &text(at, method, path, None))
}

fn text(at: SocketAddr, method: &str, path: &str, body: Option<&serde_json::Value>) -> Vec<u8> {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    request.into_bytes()
}

/// Sends these very bytes and reads the answer.
pub fn raw(at: SocketAddr, request: &[u8]) -> Result<Response> {
    exchange(connect(at)?, request)
}

fn exchange(mut stream: TcpStream, request: &[u8]) -> Result<Response> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 << 10];
    // Not every server closes the connection because it was asked to.
    while !is_whole(&answer) {
        match stream.read(&mut chunk).context("no whole answer came")? {
            0 => break,
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
    let Some(head_end) = find(&answer, END_OF_HEAD) else {
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
    let body = &answer[head_end + END_OF_HEAD.len()..];
    let body = if is_chunked(&head) {
        join_chunks(body).context("a damaged chunk")?
    } else {
        body.to_vec()
    };
    Ok(Response {
        status,
        body: String::from_utf8_lossy(&body).into_owned(),
        head,
    })
}

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

fn is_chunked(head: &str) -> bool {
    head.to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
}

/// Whether nothing more is to come, as far as the head tells.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head_end) = find(answer, END_OF_HEAD) else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..head_end]).to_ascii_lowercase();
    if is_chunked(&head) {
        return answer.ends_with(b"0\r\n\r\n");
    }
    head.lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
        .is_some_and(|length: usize| answer.len() >= head_end + END_OF_HEAD.len() + length)
}

/// The body without the lengths between its pieces; `None` if they do not fit it.
fn join_chunks(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::new();
    loop {
        let line_end = find(body, b"\r\n")?;
        let length = std::str::from_utf8(&body[..line_end]).ok()?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(joined);
        }
        let data = body.get(line_end + 2..)?;
        joined.extend_from_slice(data.get(..length)?);
        body = data.get(length + 2..)?;
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
