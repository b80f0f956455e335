//! Where to push metrics, as resolved from three options.

use std::time::Duration;

use super::file::FileOptions;
use super::given::{given, in_range};
use super::{ConfigError, OTLP_INTERVAL_S};
use crate::cli::RunArgs;
use netto_metrics::otlp;
use netto_metrics::otlp::target::{self, Target};

/// From one push to the next.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// The receiver, if one is named; takes the three keys out of the file.
pub(super) fn target(
    args: &RunArgs,
    file: &mut FileOptions,
) -> Result<Option<Target>, ConfigError> {
    let (host, keys) = (
        &args.host,
        (file.otlp_endpoint.take(), file.otlp_headers.take()),
    );
    let (place, interval) = (&file.place, file.otlp_interval.take());
    let endpoint = given(
        "otlp_endpoint",
        host,
        args.otlp.otlp_endpoint.clone(),
        keys.0,
        place,
    );
    let headers = Some(args.otlp.otlp_headers.clone()).filter(|headers| !headers.is_empty());
    let headers = given("otlp_headers", host, headers, keys.1, place);
    // Wrong ones are told of even where nothing is pushed.
    let headers = match headers {
        Some(given) => given.understood(|texts| {
            let texts = texts.iter().filter(|text| !text.trim().is_empty());
            texts.map(|text| target::header(text)).collect()
        })?,
        None => Vec::new(),
    };
    let interval = match given(
        "otlp_interval",
        host,
        args.otlp.otlp_interval,
        interval,
        place,
    ) {
        Some(seconds) => Duration::from_secs(in_range(seconds, &OTLP_INTERVAL_S, "s")?),
        None => DEFAULT_INTERVAL,
    };
    let Some(endpoint) = endpoint else {
        return Ok(None);
    };
    let url = endpoint.understood(|endpoint| {
        if !otlp::IS_BUILT_IN {
            return Err("needs a netto that was built with the feature otlp".to_owned());
        }
        target::url(endpoint.trim())
    })?;
    Ok(Some(Target {
        url,
        headers,
        interval,
    }))
}

#[cfg(test)]
#[cfg(feature = "otlp")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse_file;

    fn resolved(args: &RunArgs, text: &str) -> Result<Option<Target>, String> {
        let mut file = parse_file(text, Path::new("netto.toml")).unwrap();
        target(args, &mut file).map_err(|error| error.to_string())
    }

    fn with_endpoint(url: &str) -> RunArgs {
        let mut args = RunArgs::default();
        args.otlp.otlp_endpoint = Some(url.to_owned());
        args
    }

    #[test]
    fn three_keys_make_a_target() {
        let text = "otlp-endpoint = \"https://x.example\"\notlp-headers = [\"a=b%20c\"]\notlp-interval = 60";
        let found = resolved(&RunArgs::default(), text).unwrap().unwrap();
        assert_eq!(found.url, "https://x.example/v1/metrics");
        assert_eq!(found.headers, [("a".to_owned(), "b c".to_owned())]);
        assert_eq!(found.interval, Duration::from_secs(60));
        assert_eq!(resolved(&RunArgs::default(), ""), Ok(None));
    }

    #[test]
    fn an_argument_goes_before_the_file_and_its_interval_is_ten_seconds() {
        let args = with_endpoint("http://127.0.0.1:4318");
        let found = resolved(&args, "otlp-endpoint = \"x\"").unwrap().unwrap();
        assert_eq!(found.url, "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(found.interval, DEFAULT_INTERVAL);
    }

    #[test]
    fn what_is_impossible_is_blamed_on_whoever_gave_it() {
        for (text, expected) in [
            (
                "otlp-endpoint = \"x\"",
                "netto.toml, line 1: otlp-endpoint takes a URL",
            ),
            (
                "\notlp-headers = [\"x\"]",
                "netto.toml, line 2: otlp-headers takes name=value",
            ),
            (
                "otlp-interval = 0",
                "line 1: otlp-interval must be 1 to 3600 s, not 0",
            ),
        ] {
            let error = resolved(&RunArgs::default(), text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let args = with_endpoint("ftp://x");
        let error = resolved(&args, "").unwrap_err();
        assert!(
            error.starts_with("--otlp-endpoint takes http://"),
            "{error}"
        );
    }
}
