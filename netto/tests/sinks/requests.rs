//! Which clients may send which requests over HTTP.

use std::io::{Read, Write};
use std::sync::Arc;

use netto::config::Config;

use crate::support::*;

#[test]
fn strangers_are_turned_away() {
    let config = Config {
        allowed_hosts: vec!["netto.example.com".to_owned()],
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    daemon.ready();
    let status = |path, headers: &[_]| get(daemon.address, path, headers).status;
    for path in ["/", "/metrics", "/api/v1/snapshot", "/ws"] {
        assert_eq!(status(path, &[("Host", "evil.example")]), 421, "{path}");
    }
    for host in ["testhost:10880", "netto.example.com", "[::1]:1", "10.0.0.1"] {
        assert_eq!(status("/api/v1/snapshot", &[("Host", host)]), 200, "{host}");
    }
    let from = |path, origin| status(path, &[("Host", "localhost:1"), ("Origin", origin)]);
    assert_eq!(from("/api/v1/snapshot", "http://localhost:1"), 200);
    assert_eq!(from("/api/v1/snapshot", "https://netto.example.com"), 200);
    assert_eq!(from("/api/v1/snapshot", "http://evil.example"), 403);
    assert_eq!(from("/api/v1/info", "null"), 403);
    assert_eq!(from("/ws", "http://localhost:2"), 403);
}

#[test]
fn impossible_requests_are_refused() {
    let daemon = Daemon::start(&config(), endless());
    assert_eq!(get(daemon.address, "/favicon.png", &[]).status, 404);
    assert_eq!(get(daemon.address, "/../../etc/passwd", &[]).status, 404);
    let answer = request(connect(daemon.address), "POST", "/metrics", &[]);
    assert_eq!(answer.status, 405);
    assert!(answer.head.to_lowercase().contains("allow: get, head"));
    assert_eq!(get(daemon.address, "/ws", &[]).status, 400);
    let head = request(connect(daemon.address), "HEAD", "/metrics", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    // Not even HTTP.
    let mut garbage = connect(daemon.address);
    garbage
        .write_all(b"\x16\x03\x01\x00\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    garbage.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[test]
fn pages_are_compressed_for_clients_that_accept_it() {
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    for path in ["/metrics", "/api/v1/snapshot", "/api/v1/info"] {
        let asked = |accept: &str| get(daemon.address, path, &[("Accept-Encoding", accept)]);
        for accept in ["gzip", "br, gzip;q=0.5", "*"] {
            let answer = asked(accept);
            let head = answer.head.to_lowercase();
            assert!(head.contains("content-encoding: gzip"), "{path}: {head}");
            assert!(head.contains("vary: accept-encoding"), "{path}: {head}");
            let mut text = String::new();
            flate2::read::GzDecoder::new(answer.body.as_slice())
                .read_to_string(&mut text)
                .expect("it unpacks");
            let begin = if path == "/metrics" { "# HELP" } else { "{" };
            assert!(text.starts_with(begin), "{path}: {text}");
            assert!(text.len() > answer.body.len(), "{path}");
        }
        for accept in ["", "identity", "gzip;q=0", "*, gzip; q=0.0", "br"] {
            let answer = asked(accept);
            let head = answer.head.to_lowercase();
            assert!(!head.contains("content-encoding"), "{path}: {head}");
            assert!(head.contains("vary: accept-encoding"), "{path}: {head}");
            assert!(answer.text().contains("rx_softirq"), "{path}");
        }
        assert!(get(daemon.address, path, &[]).text().len() > 500, "{path}");
    }
}

#[test]
fn folded_stacks_come_with_what_they_stand_for() {
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    let answer = get(daemon.address, "/api/v1/flamegraph", &[]);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, b"rx_softirq;net_rx_action;leaf 7\n");
    let head = answer.head.to_lowercase();
    for line in [
        "content-type: text/plain",
        "x-netto-window-seconds: 45.5",
        "x-netto-samples: 7",
        "x-netto-samples-left-out: 2",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
}

#[test]
fn a_profile_comes_as_scrapers_of_pprof_expect_it() {
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    let answer = get(daemon.address, "/debug/pprof/profile?seconds=1", &[]);
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with(&[0x1f, 0x8b]), "gzip");
    let head = answer.head.to_lowercase();
    assert!(
        head.contains("content-type: application/octet-stream"),
        "{head}"
    );
    assert!(!head.contains("content-encoding"), "{head}");
    for (query, expected) in [("seconds=0", "1 to 60"), ("seconds=x", "not x")] {
        let refused = get(
            daemon.address,
            &format!("/debug/pprof/profile?{query}"),
            &[],
        );
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(expected), "{}", refused.text());
    }
}

#[test]
fn the_page_is_served_as_browsers_like_it() {
    let daemon = Daemon::start(&config(), endless());
    let plain = get(daemon.address, "/", &[]);
    assert_eq!(plain.status, 200);
    let head = plain.head.to_lowercase();
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(head.contains("'wasm-unsafe-eval'"), "{head}");
    assert!(plain.text().contains("netto"), "{}", plain.text());
    let packed = get(daemon.address, "/", &[("Accept-Encoding", "gzip")]);
    assert!(
        packed
            .head
            .to_lowercase()
            .contains("content-encoding: gzip")
    );
    assert_eq!(packed.body[..2], [0x1f, 0x8b]);
    let all = get(
        daemon.address,
        "/",
        &[("Accept-Encoding", "gzip, deflate, br")],
    );
    let head = all.head.to_lowercase();
    assert!(head.contains("content-encoding: br"), "{head}");
}

#[test]
fn passwords_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yml");
    let hash = bcrypt::hash("open sesame", 4).expect("a hash");
    std::fs::write(&file, format!("basic_auth_users:\n  ali: {hash}\n")).expect("written");
    let config = Config {
        web_config_file: Some(file),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    for path in [
        "/",
        "/metrics",
        "/healthz",
        "/ws",
        "/api/v1/info",
        "/nothing",
    ] {
        let answer = get(daemon.address, path, &[]);
        assert_eq!(answer.status, 401, "{path}");
        assert!(
            answer
                .head
                .to_lowercase()
                .contains("www-authenticate: basic")
        );
    }
    // "ali:open sesame" and "ali:close sesame".
    let right = [("Authorization", "Basic YWxpOm9wZW4gc2VzYW1l")];
    let wrong = [("Authorization", "Basic YWxpOmNsb3NlIHNlc2FtZQ==")];
    assert_eq!(get(daemon.address, "/healthz", &right).status, 200);
    assert_eq!(get(daemon.address, "/metrics", &right).status, 200);
    assert_eq!(get(daemon.address, "/metrics", &wrong).status, 401);
}

#[test]
fn tls_is_spoken_with_the_given_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let write = |name: &str, text: String| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    write("cert.pem", made.cert.pem());
    write("key.pem", made.signing_key.serialize_pem());
    write(
        "web.yml",
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem, min_version: TLS13}"
            .to_owned(),
    );
    let config = Config {
        web_config_file: Some(folder.path().join("web.yml")),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let session = rustls::ClientConnection::new(Arc::new(client), name).expect("a session");
    let stream = rustls::StreamOwned::new(session, connect(daemon.address));
    let answer = request(stream, "GET", "/healthz", &[]);
    assert_eq!(answer.status, 200);
    daemon.stop().expect("a clean end");
}
