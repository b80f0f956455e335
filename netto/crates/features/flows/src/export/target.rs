//! Where records are exported to, as users write it. Pure.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use netto_feature::values::{Impossible, Refused};

/// IANA's port of IPFIX.
const PORT: u16 = 4739;

/// A collector or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Udp(Host),
    Tcp(Host),
    File(PathBuf),
}

/// A host as its user names it, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// A name or an address; one of IPv6 without its brackets.
    pub name: String,
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Udp(host) => write!(f, "udp://{host}"),
            Target::Tcp(host) => write!(f, "tcp://{host}"),
            Target::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, port) = rest.split_once(']')?;
                name.parse::<Ipv6Addr>().ok()?;
                (name, port)
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port {
            "" => PORT,
            port => port
                .strip_prefix(':')?
                .parse()
                .ok()
                .filter(|port| *port > 0)?,
        };
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/@?#[]".contains(c);
        let name = (!name.is_empty() && !name.contains(is_odd)).then(|| name.to_owned())?;
        Some(Host { name, port })
    }
}

impl Target {
    /// What a user has written.
    pub(crate) fn parse(text: &str) -> Result<Target, Refused> {
        let parsed = match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Some(Target::File(path.into())),
            Some((scheme, rest)) => {
                let host = rest.strip_prefix("//").and_then(Host::parse);
                match scheme {
                    "udp" => host.map(Target::Udp),
                    "tcp" => host.map(Target::Tcp),
                    _ => None,
                }
            }
            None => None,
        };
        parsed.ok_or_else(|| {
            let message = format!(
                "takes udp://HOST:PORT or tcp://HOST:PORT, such as udp://collector:{PORT} or \
                 tcp://[2001:db8::1]:{PORT}, or file:PATH, not \"{text}\""
            );
            Impossible(message).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_collector_with_its_port_or_a_file() {
        for (text, shown) in [
            ("udp://collector", "udp://collector:4739"),
            ("udp://10.0.0.1:9995", "udp://10.0.0.1:9995"),
            ("tcp://[2001:db8::1]", "tcp://[2001:db8::1]:4739"),
            ("tcp://[::1]:1", "tcp://[::1]:1"),
            ("file:flows.ipfix", "file:flows.ipfix"),
            ("file:/var/lib/a:b", "file:/var/lib/a:b"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_taken() {
        for text in [
            "",
            "collector:4739",
            "file:",
            "udp:collector",
            "udp://",
            "udp://:4739",
            "udp://collector:",
            "udp://collector:0",
            "udp://collector:70000",
            "udp://collector/path",
            "udp://2001:db8::1",
            "udp://[collector]",
            "udp://[::1]4739",
            "sctp://collector",
        ] {
            let refusal = Target::parse(text).unwrap_err().to_string();
            assert!(refusal.contains("udp://HOST:PORT"), "{text}: {refusal}");
        }
    }
}
