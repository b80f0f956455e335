//! A question about the past as it stands in an address. Pure.

use std::time::Duration;

use actix_web::http::header::{self, HeaderMap};
use jiff::Timestamp;

use crate::paced::Complaint;
use netto_questions::cpus::CpuSet;
use netto_questions::times::duration_ns;

/// Runs of CPUs that one list may have.
const MOST_RUNS: usize = 1024;
/// Names that one question may have: more than there are.
const MOST_NAMES: usize = 256;
/// The longest step; no ring covers as much.
const LONGEST_STEP: Duration = Duration::from_secs(24 * 3_600);
/// The latest moment, seconds since the Unix epoch: that of the year 5138.
const LATEST_UNIX_SECONDS: f64 = 1e11;

/// What a client wants to know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// Components and other series by name; empty: the outermost components.
    pub names: Vec<String>,
    /// Which CPUs; `None`: the host.
    pub cpus: Option<CpuSet>,
    /// Only what ends after this.
    pub from: Option<When>,
    /// Only what ends by then.
    pub to: Option<When>,
    /// From one row to the next, seconds.
    pub step_seconds: Option<f64>,
    /// In which form.
    pub form: Form,
}

/// Forms of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// An object.
    #[default]
    Json,
    /// A line for each row.
    Csv,
}

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// Milliseconds since the Unix epoch.
    At(f64),
    /// Milliseconds before the end of the ring.
    Before(f64),
}

impl When {
    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(self, end_unix_ms: f64) -> f64 {
        match self {
            When::At(ms) => ms,
            When::Before(ms) => end_unix_ms - ms,
        }
    }
}

/// What a query asks for; the headers say in which form if it does not.
///
/// # Errors
/// If any of it is not understood.
pub fn question(query: &str, headers: &HeaderMap) -> Result<Question, Complaint> {
    let mut question = Question::default();
    let (mut cpus, mut form) = (Vec::new(), None);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let twice = |is_there: bool| match is_there {
            true => Err(Complaint(format!("{key} is given twice: give it once"))),
            false => Ok(()),
        };
        match key.as_ref() {
            "component" => {
                for name in value.split(',').map(str::trim) {
                    if question.names.len() == MOST_NAMES {
                        return Err(format!("{MOST_NAMES} components are the most").into());
                    }
                    if !question.names.iter().any(|known| known == name) {
                        question.names.push(name.to_owned());
                    }
                }
            }
            "cpu" => cpus.push(value.into_owned()),
            "from" => {
                twice(question.from.is_some())?;
                question.from = Some(when("from", &value)?);
            }
            "to" => {
                twice(question.to.is_some())?;
                question.to = Some(when("to", &value)?);
            }
            "step" => {
                twice(question.step_seconds.is_some())?;
                question.step_seconds = Some(step(&value)?);
            }
            "format" => {
                twice(form.is_some())?;
                form = Some(match value.as_ref() {
                    "json" => Form::Json,
                    "csv" => Form::Csv,
                    other => {
                        let other = shortened(other);
                        return Err(format!("format is json or csv, not \"{other}\"").into());
                    }
                });
            }
            other => {
                return Err(format!(
                    "\"{}\" is nothing that one can ask of the past: there are component, cpu, \
                     from, to, step and format",
                    shortened(other)
                )
                .into());
            }
        }
    }
    if !cpus.is_empty() {
        question.cpus = Some(cpu_set(&cpus.join(","))?);
    }
    question.form = form.unwrap_or_else(|| accepted(headers));
    Ok(question)
}

fn cpu_set(text: &str) -> Result<CpuSet, Complaint> {
    if text.split(',').count() > MOST_RUNS {
        return Err(format!("cpu is a list of at most {MOST_RUNS} CPUs or ranges of them").into());
    }
    text.parse().map_err(|help| {
        Complaint(format!(
            "cpu is a list of CPUs, not \"{}\": {help}, or leave it out for the host",
            shortened(text)
        ))
    })
}

fn when(key: &str, text: &str) -> Result<When, Complaint> {
    let text = text.trim();
    if let Some(length) = text.strip_prefix('-')
        && let Ok(ns) = duration_ns(length)
    {
        return Ok(When::Before(ns as f64 / 1e6));
    }
    if let Ok(seconds) = text.parse::<f64>() {
        if (0.0..=LATEST_UNIX_SECONDS).contains(&seconds) {
            return Ok(When::At(seconds * 1e3));
        }
    } else if let Some(timestamp) = rfc3339(text) {
        return Ok(When::At(timestamp.as_nanosecond() as f64 / 1e6));
    }
    Err(format!(
        "{key} is a moment, not \"{}\": write Unix seconds (1777646400.5), 2026-05-01T14:30:00Z, \
         or -5m for five minutes before the end",
        shortened(text)
    )
    .into())
}

fn rfc3339(text: &str) -> Option<Timestamp> {
    // A plus in an address stands for a space.
    let spaced = || {
        text.rsplit_once(' ')
            .map(|(time, zone)| format!("{time}+{zone}"))
    };
    text.parse().ok().or_else(|| spaced()?.parse().ok())
}

fn step(text: &str) -> Result<f64, Complaint> {
    let text = text.trim();
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => Some(seconds),
        Err(_) => duration_ns(text).ok().map(|ns| ns as f64 / 1e9),
    };
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_STEP.as_secs_f64())
        .ok_or_else(|| {
            Complaint(format!(
                "step is a length of time, not \"{}\": write seconds (0.5), 10s or 2m, a day at most",
                shortened(text)
            ))
        })
}

/// What a client takes by its `Accept`: JSON unless it names CSV and not JSON.
fn accepted(headers: &HeaderMap) -> Form {
    let names = |kind: &str| {
        let values = headers.get_all(header::ACCEPT);
        let values = values.filter_map(|value| value.to_str().ok());
        let mut kinds = values.flat_map(|value| value.split(','));
        kinds.any(|one| {
            one.split(';')
                .next()
                .is_some_and(|name| name.trim() == kind)
        })
    };
    match names("text/csv") && !names("application/json") {
        true => Form::Csv,
        false => Form::Json,
    }
}

/// What a client wrote, as far as it is worth repeating.
pub fn shortened(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(40).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use proptest::prelude::*;

    use super::*;

    fn asked(query: &str) -> Result<Question, Complaint> {
        question(query, &HeaderMap::new())
    }

    #[test]
    fn a_question_is_written_in_several_ways() {
        let question = asked(
            "component=rx_softirq,gro&component=gro&cpu=0-3&cpu=8&from=-5m&to=1777646400.5&step=10s&format=csv",
        );
        let expected = Question {
            names: vec!["rx_softirq".to_owned(), "gro".to_owned()],
            cpus: Some("0-3,8".parse().unwrap()),
            from: Some(When::Before(300_000.0)),
            to: Some(When::At(1_777_646_400_500.0)),
            step_seconds: Some(10.0),
            form: Form::Csv,
        };
        assert_eq!(question, Ok(expected));
        let moments = [
            "2026-05-01T14:40:00Z",
            "2026-05-01T16:40:00%2B02:00",
            "2026-05-01T16:40:00+02:00",
            "1777646400",
            "1777646400.0",
        ];
        for text in moments {
            let question = asked(&format!("from={text}")).unwrap();
            assert_eq!(question.from, Some(When::At(1_777_646_400_000.0)), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told_with_what_would_be() {
        for (query, help) in [
            ("from=yesterday", "-5m"),
            ("from=-5", "-5m"),
            ("from=nan", "Unix seconds"),
            ("from=inf", "Unix seconds"),
            ("from=-1e9", "Unix seconds"),
            ("to=1e300", "Unix seconds"),
            ("to=1&to=2", "once"),
            ("step=0", "step"),
            ("step=-1", "step"),
            ("step=nan", "step"),
            ("step=2d", "step"),
            ("cpu=", "0-3,8"),
            ("cpu=3-1", "0-3,8"),
            ("cpu=all", "0-3,8"),
            ("format=xml", "json or csv"),
            ("componet=gro", "component"),
        ] {
            let complaint = asked(query).unwrap_err().to_string();
            assert!(complaint.contains(help), "{query}: {complaint}");
        }
        let many = format!("cpu={}", "1,".repeat(5_000));
        assert!(asked(&many).unwrap_err().to_string().contains("1024"));
        let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let many = format!("component={}", names.join(","));
        assert!(asked(&many).unwrap_err().to_string().contains("256"));
        let long = format!("from={}", "x".repeat(10_000));
        assert!(asked(&long).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn the_form_is_that_of_the_address_or_else_what_the_client_takes() {
        let form = |query: &str, accept: &str| {
            let request = TestRequest::default().insert_header(("Accept", accept));
            let headers = request.to_http_request().headers().clone();
            question(query, &headers).unwrap().form
        };
        assert_eq!(form("", "*/*"), Form::Json);
        assert_eq!(form("", "text/csv; q=0.9, */*"), Form::Csv);
        assert_eq!(form("", "application/json, text/csv"), Form::Json);
        assert_eq!(form("format=json", "text/csv"), Form::Json);
        assert_eq!(form("format=csv", "application/json"), Form::Csv);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_is_answered_or_refused(query in ".{0,200}") {
            let _ = asked(&query);
        }
    }
}
