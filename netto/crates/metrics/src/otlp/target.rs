//! The destination of exports: endpoint and headers as given by the user, validated.
//!
//! Pure, and part of every build, so that a wrong value is reported at the start even without the
//! feature `otlp`.

use std::fmt;
use std::time::Duration;

use actix_web::http::Uri;
use actix_web::http::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

/// The path of metrics below an endpoint, by OTLP/HTTP.
const PATH: &str = "/v1/metrics";
/// The usual port of gRPC receivers.
const GRPC_PORT: u16 = 4317;
/// Headers that the exporter sets itself.
const OWN_HEADERS: [&str; 5] = [
    "host",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
];

/// A receiver of OTLP over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The full URL, path included.
    pub url: String,
    /// Additional headers of each request, such as a token.
    pub headers: Vec<(String, String)>,
    /// Time from one export to the next.
    pub interval: Duration,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        // Header values are secrets.
        f.debug_struct("Target")
            .field("url", &self.url)
            .field("headers", &names)
            .field("interval", &self.interval)
            .finish()
    }
}

impl Target {
    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// A warning for a user who has probably meant another port.
    pub fn warning(&self) -> Option<String> {
        let port = self.url.parse::<Uri>().ok()?.port_u16()?;
        (port == GRPC_PORT).then(|| {
            format!(
                "port {GRPC_PORT} is usually OTLP by gRPC, and netto speaks HTTP with protobuf, \
                 which receivers usually take on port 4318"
            )
        })
    }
}

/// The full URL of an endpoint.
///
/// # Errors
/// The problem, for people.
pub fn url(endpoint: &str) -> Result<String, String> {
    let uri: Uri = endpoint.parse().map_err(|error| {
        format!("takes a URL such as http://127.0.0.1:4318, not \"{endpoint}\" ({error})")
    })?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(format!(
            "takes a URL with its scheme, such as http://127.0.0.1:4318, not \"{endpoint}\""
        ));
    };
    if !["http", "https"].contains(&scheme) {
        return Err(format!(
            "takes http:// or https://, not {scheme}://: netto speaks OTLP over HTTP"
        ));
    }
    if authority.as_str().contains('@') {
        return Err("takes no user and password in the URL: put them into --otlp-headers, as authorization=Basic%20…".to_owned());
    }
    // The parser accepts ports that are not numbers.
    let has_wrong_port = authority.as_str() != authority.host() && uri.port_u16().is_none();
    if authority.host().is_empty() || has_wrong_port || uri.query().is_some() {
        return Err(format!(
            "takes a URL with a host, perhaps a port, and no query, not \"{endpoint}\""
        ));
    }
    let folder = uri.path().trim_end_matches('/');
    let path = if folder.ends_with(PATH) {
        folder.to_owned()
    } else {
        format!("{folder}{PATH}")
    };
    Ok(format!("{scheme}://{authority}{path}"))
}

/// Parses a header written as `name=value`, with a percent-encoded value.
///
/// # Errors
/// The problem, for people; never the value, which may be a secret.
pub fn header(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err("takes name=value, separated by commas; one of them has no \"=\"".to_owned());
    };
    let name = name.trim().to_ascii_lowercase();
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!(
            "takes name=value, and \"{name}\" is no name of a header"
        ));
    }
    if OWN_HEADERS.contains(&name.as_str()) {
        return Err(format!("cannot set {name}, which netto says itself"));
    }
    let value = percent_decode_str(value.trim())
        .decode_utf8()
        .ok()
        .filter(|value| HeaderValue::from_str(value).is_ok())
        .ok_or_else(|| format!("takes name=value, and the value of {name} is no header's value"))?;
    Ok((name, value.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_go_to_their_path_below_the_endpoint() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://[::1]:4318/", "http://[::1]:4318/v1/metrics"),
            (
                "https://x.example/otlp",
                "https://x.example/otlp/v1/metrics",
            ),
            (
                "https://x.example/a/v1/metrics",
                "https://x.example/a/v1/metrics",
            ),
        ] {
            assert_eq!(url(endpoint).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn an_impossible_endpoint_is_told_of() {
        for (endpoint, expected) in [
            ("", "takes a URL"),
            ("collector:4318", "takes a URL"),
            ("127.0.0.1", "with its scheme"),
            ("grpc://x:4317", "not grpc://"),
            ("http://me:secret@x", "no user and password"),
            ("http://x/?a=b", "no query"),
            ("http://x:99999", "perhaps a port"),
            ("http://x:", "perhaps a port"),
            ("http://a b", "takes a URL"),
        ] {
            let error = url(endpoint).unwrap_err();
            assert!(error.contains(expected), "{endpoint}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn headers_are_names_and_values_and_a_wrong_value_is_not_repeated() {
        let is = |text: &str, name: &str, value: &str| {
            assert_eq!(header(text), Ok((name.to_owned(), value.to_owned())));
        };
        is(
            "Authorization=Bearer%20abc=",
            "authorization",
            "Bearer abc=",
        );
        is(" x-scope = a%2Cb ", "x-scope", "a,b");
        for (text, expected) in [
            ("secret", "has no \"=\""),
            ("a b=secret", "no name of a header"),
            ("x=secret%0Ahost:%20y", "no header's value"),
            ("Content-Type=secret", "netto says itself"),
        ] {
            let error = header(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn secrets_are_in_no_debug_output() {
        let target = Target {
            url: "http://x/v1/metrics".to_owned(),
            headers: vec![("authorization".to_owned(), "secret".to_owned())],
            interval: Duration::from_secs(1),
        };
        assert!(!format!("{target:?}").contains("secret"));
        assert_eq!(target.warning(), None);
        let grpc = Target {
            url: "http://x:4317/v1/metrics".to_owned(),
            ..target
        };
        assert!(
            grpc.warning()
                .is_some_and(|warning| warning.contains("4318"))
        );
    }
}
