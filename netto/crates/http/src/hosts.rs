//! The host names under which netto may be addressed.
//!
//! A foreign page may make a browser send requests here under a name that its owner has pointed at
//! this host (DNS rebinding), or open a WebSocket across sites. Such requests carry the foreign
//! name in `Host` or `Origin`, and are refused. This file knows no HTTP library.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The names that are accepted besides address literals and `localhost`.
#[derive(Debug, Clone, Default)]
pub struct HostPolicy {
    hostname: String,
    allowed: Vec<String>,
}

impl HostPolicy {
    /// Accepts the machine's own name and those allowed by the user.
    pub fn new(hostname: &str, allowed: &[String]) -> Self {
        HostPolicy {
            hostname: normalise(hostname),
            allowed: allowed.iter().map(|name| normalise(name)).collect(),
        }
    }

    /// Whether a request with this `Host` header (or authority) is meant for this host.
    pub fn accepts_host(&self, authority: &str) -> bool {
        let Some((host, _)) = split(authority) else {
            return false;
        };
        let host = normalise(host);
        is_address(&host)
            || host == "localhost"
            || (!host.is_empty() && host == self.hostname)
            || self.allowed.contains(&host)
    }

    /// Whether a page of this `Origin` may access the host that it addressed.
    pub fn accepts_origin(&self, origin: &str, authority: &str) -> bool {
        let (default_port, rest) = if let Some(rest) = origin.strip_prefix("http://") {
            (80, rest)
        } else if let Some(rest) = origin.strip_prefix("https://") {
            (443, rest)
        } else {
            // `null` and schemes of browser extensions name no host.
            return false;
        };
        let (Some((page, page_port)), Some((host, host_port))) = (split(rest), split(authority))
        else {
            return false;
        };
        let page = normalise(page);
        let same_port = page_port.unwrap_or(default_port) == host_port.unwrap_or(default_port);
        (page == normalise(host) && same_port) || self.allowed.contains(&page)
    }
}

/// Host and port of an authority; `None` if it is malformed.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = if authority.starts_with('[') {
        authority.split_at(authority.find(']')? + 1)
    } else {
        authority.split_at(authority.find(':').unwrap_or(authority.len()))
    };
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port.parse().ok()?))),
        None if rest.is_empty() => Some((host, None)),
        None => None,
    }
}

fn normalise(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|v6| v6.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> HostPolicy {
        HostPolicy::new("Router7", &["netto.example.com".to_owned()])
    }

    #[test]
    fn own_names_and_addresses_are_accepted() {
        for host in [
            "127.0.0.1:10880",
            "10.0.0.7",
            "[::1]:10880",
            "[fe80::1]",
            "localhost",
            "LOCALHOST:10880",
            "router7:10880",
            "Netto.Example.com.:443",
        ] {
            assert!(policy().accepts_host(host), "{host}");
        }
    }

    #[test]
    fn strange_names_are_refused() {
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:10880",
            "router7.evil.example",
            "localhost.evil.example",
            "",
            ":10880",
            "[::1",
            "[::1]x",
            "localhost:port",
            "2130706433",
        ] {
            assert!(!policy().accepts_host(host), "{host}");
        }
        assert!(!HostPolicy::default().accepts_host(""));
    }

    #[test]
    fn a_page_may_talk_to_its_own_host_only() {
        let accepts = |origin, host| policy().accepts_origin(origin, host);
        assert!(accepts("http://localhost:10880", "localhost:10880"));
        assert!(accepts("http://10.0.0.7", "10.0.0.7:80"));
        assert!(accepts("https://router7", "router7"));
        assert!(accepts("https://netto.example.com", "10.0.0.7:10880"));
        assert!(!accepts("http://localhost:8000", "localhost:10880"));
        assert!(!accepts("http://evil.example", "localhost:10880"));
        assert!(!accepts("null", "localhost:10880"));
        assert!(!accepts(
            "moz-extension://localhost:10880",
            "localhost:10880"
        ));
    }
}
