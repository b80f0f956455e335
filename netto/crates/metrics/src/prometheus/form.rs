//! The formats of a scrape, and which one a scraper prefers.

/// The format of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Prometheus' text, with classic histograms.
    Text,
    /// The text of OpenMetrics 1.0, with classic histograms.
    OpenMetrics,
    /// Messages ([`super::protobuf`]), with native histograms, too.
    Messages,
}

impl Form {
    /// The media type of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Text => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Messages => super::protobuf::CONTENT_TYPE,
        }
    }

    /// The one that a request with this `Accept` header prefers; of equals the one that says most.
    pub fn preferred(accept: &str) -> Form {
        let mut qualities = [
            (Form::Messages, 0.0),
            (Form::OpenMetrics, 0.0),
            (Form::Text, 0.0),
        ];
        for range in accept.split(',') {
            let Some((form, quality)) = understood(range) else {
                continue;
            };
            for (accepted, best) in &mut qualities {
                if *accepted == form {
                    *best = f64::max(*best, quality);
                }
            }
        }
        let preferred = qualities
            .into_iter()
            .fold((Form::Text, 0.0), |best, quality| {
                if quality.1 > best.1 { quality } else { best }
            });
        preferred.0
    }
}

/// A media range of a request: the form that it is, and how welcome that is.
fn understood(range: &str) -> Option<(Form, f64)> {
    let mut parts = range.split(';').map(str::trim);
    let form = match parts.next()? {
        "application/vnd.google.protobuf" => Form::Messages,
        "application/openmetrics-text" => Form::OpenMetrics,
        "text/plain" => Form::Text,
        _ => return None,
    };
    let mut quality = 1.0;
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        let is_ours = match (form, key.trim(), value.trim()) {
            (_, "q", value) => {
                quality = value.parse().unwrap_or(0.0);
                true
            }
            (Form::Messages, "proto", value) => value == super::protobuf::MESSAGE,
            (Form::Messages, "encoding", value) => value == "delimited",
            (Form::OpenMetrics, "version", value) => value == "1.0.0",
            _ => true,
        };
        if !is_ours {
            return None;
        }
    }
    Some((form, quality))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_it_prefers() {
        let ours = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let open = "application/openmetrics-text;version=1.0.0";
        let text = "text/plain;version=0.0.4";
        for (accept, expected) in [
            (format!("{ours},{text};q=0.3,*/*;q=0.1"), Form::Messages),
            (format!("{ours};q=0.2,{text};q=0.3"), Form::Text),
            (format!("{ours};q=0"), Form::Text),
            (format!("{ours},{open},{text}"), Form::Messages),
            (
                format!(
                    "{open};q=0.5,application/openmetrics-text;version=0.0.1;q=0.9,{text};q=0.4"
                ),
                Form::OpenMetrics,
            ),
            (format!("{open};q=0.4,{text};q=0.5"), Form::Text),
            ("*/*".to_owned(), Form::Text),
            (
                "application/vnd.google.protobuf;encoding=text".to_owned(),
                Form::Text,
            ),
            (String::new(), Form::Text),
        ] {
            assert_eq!(Form::preferred(&accept), expected, "{accept}");
        }
    }
}
