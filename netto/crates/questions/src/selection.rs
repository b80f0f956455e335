//! The selection in a query: times, lengths, steps, CPUs, series, limits and the format of the
//! answer. Pure.

use jiff::Timestamp;

use crate::cpus::CpuSet;
use crate::times::duration_ns;

/// Most runs in a list of CPUs.
const MOST_RUNS: usize = 1024;
/// Most names in a query: more than exist.
const MOST_NAMES: usize = 256;
/// The longest time and step, nanoseconds: a day, more than the daemon keeps.
const LONGEST_NS: u64 = 86_400_000_000_000;
/// The latest time, seconds since the Unix epoch: that of the year 5138.
const LATEST_UNIX_SECONDS: f64 = 1e11;
/// The largest limit.
const MOST_LIMIT: usize = 500;

/// The error in a query, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Complaint(pub String);

impl From<String> for Complaint {
    fn from(text: String) -> Self {
        Complaint(text)
    }
}

/// The selection of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Components and other series by name; empty: the outermost components.
    pub names: Vec<String>,
    /// The CPUs; `None`: the host.
    pub cpus: Option<CpuSet>,
    /// Only intervals that end after this.
    pub from: Option<When>,
    /// Only intervals that end by then.
    pub to: Option<When>,
    /// How far back, nanoseconds before the end of the newest snapshot.
    pub last_ns: u64,
    /// Whether the query says how far back.
    pub has_last: bool,
    /// Whether the client goes on listening for what is new.
    pub follows: bool,
    /// Length of a row, seconds.
    pub step_seconds: Option<f64>,
    /// Most items listed individually; the rest is summed.
    pub limit: usize,
    /// What items are sorted by.
    pub sort: Sort,
    /// The format.
    pub form: Form,
}

impl Default for Selection {
    fn default() -> Self {
        Selection {
            names: Vec::new(),
            cpus: None,
            from: None,
            to: None,
            last_ns: 60_000_000_000,
            has_last: false,
            follows: false,
            step_seconds: None,
            limit: 50,
            sort: Sort::Bytes,
            form: Form::Json,
        }
    }
}

/// Formats of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An object.
    Json,
    /// A line for each row.
    Csv,
}

impl Form {
    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// What items are sorted by, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// CPU time.
    Cpu,
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// Milliseconds since the Unix epoch.
    At(f64),
    /// Milliseconds before the end of the history.
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

impl Selection {
    /// Parses a query with these keys, some of `component`, `cpu`, `from`, `to`, `last`, `step`,
    /// `limit`, `sort`, `follow` and `format`. The HTTP header `accept` determines the format if the query does not.
    ///
    /// # Errors
    /// If any part is invalid.
    pub fn parse(
        query: &str,
        accept: &str,
        subject: &str,
        keys: &[&'static str],
    ) -> Result<Selection, Complaint> {
        let mut selection = Selection::default();
        let (mut cpus, mut given) = (Vec::new(), Vec::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let key = keys.iter().find(|key| **key == name);
            let key = *key.ok_or_else(|| unknown(&name, subject, keys))?;
            match (given.contains(&key), key) {
                (false, _) => given.push(key),
                (true, "component" | "cpu") => {}
                (true, _) => return Err(format!("{key} is given twice: give it once").into()),
            }
            match key {
                "component" => selection.add_names(&value)?,
                "cpu" => cpus.push(value.into_owned()),
                "from" => selection.from = Some(when(key, &value)?),
                "to" => selection.to = Some(when(key, &value)?),
                "last" => {
                    (selection.last_ns, selection.has_last) = (last(&value)?, true);
                }
                "follow" => selection.follows = follows(&value)?,
                "step" => selection.step_seconds = Some(step(&value)?),
                "limit" => selection.limit = limit(&value)?,
                "sort" => selection.sort = sort(&value)?,
                "format" => selection.form = form(&value)?,
                _ => return Err(unknown(key, subject, keys)),
            }
        }
        if !cpus.is_empty() {
            selection.cpus = Some(cpu_set(&cpus.join(","))?);
        }
        if keys.contains(&"format") && !given.contains(&"format") {
            selection.form = accepted(accept);
        }
        Ok(selection)
    }

    fn add_names(&mut self, names: &str) -> Result<(), Complaint> {
        for name in names.split(',').map(str::trim) {
            if self.names.len() == MOST_NAMES {
                return Err(format!("{MOST_NAMES} components are the most").into());
            }
            if !self.names.iter().any(|known| known == name) {
                self.names.push(name.to_owned());
            }
        }
        Ok(())
    }
}

fn unknown(name: &str, subject: &str, keys: &[&str]) -> Complaint {
    let known = match keys.split_last() {
        None => "there is nothing to ask for".to_owned(),
        Some((only, [])) => format!("there is {only}"),
        Some((last, others)) => format!("there are {} and {last}", others.join(", ")),
    };
    Complaint(format!(
        "\"{}\" is nothing that one can ask of {subject}: {known}",
        shortened(name)
    ))
}

fn follows(text: &str) -> Result<bool, Complaint> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        other => Err(Complaint(format!(
            "follow is 1 or 0, not \"{}\"",
            shortened(other)
        ))),
    }
}

fn form(text: &str) -> Result<Form, Complaint> {
    match text {
        "json" => Ok(Form::Json),
        "csv" => Ok(Form::Csv),
        other => Err(Complaint(format!(
            "format is json or csv, not \"{}\"",
            shortened(other)
        ))),
    }
}

fn sort(text: &str) -> Result<Sort, Complaint> {
    match text {
        "bytes" => Ok(Sort::Bytes),
        "packets" => Ok(Sort::Packets),
        "cpu" => Ok(Sort::Cpu),
        other => Err(Complaint(format!(
            "sort is bytes, packets or cpu, not \"{}\"",
            shortened(other)
        ))),
    }
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
    // A plus in a URL stands for a space.
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
        .filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_NS as f64 / 1e9)
        .ok_or_else(|| {
            Complaint(format!(
                "step is a length of time, not \"{}\": write seconds (0.5), 10s or 2m, a day at most",
                shortened(text)
            ))
        })
}

/// The format accepted by a client: JSON unless it names CSV and not JSON.
fn accepted(accept: &str) -> Form {
    let kinds = accept.split(',').filter_map(|one| one.split(';').next());
    let names = |kind: &str| kinds.clone().any(|name| name.trim() == kind);
    if names("text/csv") && !names("application/json") {
        Form::Csv
    } else {
        Form::Json
    }
}

fn last(text: &str) -> Result<u64, Complaint> {
    let ns = duration_ns(text.trim()).ok();
    ns.filter(|ns| (1..=LONGEST_NS).contains(ns))
        .ok_or_else(|| {
            Complaint(format!(
                "last is a length of time, not \"{}\": write 60s or 5m, a day at most",
                shortened(text)
            ))
        })
}

fn limit(text: &str) -> Result<usize, Complaint> {
    let number = text.trim().parse().ok();
    let number = number.filter(|number| (1..=MOST_LIMIT).contains(number));
    number.ok_or_else(|| {
        Complaint(format!(
            "limit is a number, not \"{}\": 1 to {MOST_LIMIT}",
            shortened(text)
        ))
    })
}

/// A client's text, shortened for an error.
pub fn shortened(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(40).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 6] = ["component", "cpu", "from", "to", "step", "format"];

    fn asked(query: &str) -> Result<Selection, Complaint> {
        Selection::parse(query, "", "history", &KEYS)
    }

    /// Parses a query with a length and a limit.
    fn asked_of_recent(query: &str) -> Result<Selection, Complaint> {
        Selection::parse(query, "text/csv", "things", &["last", "limit"])
    }

    #[test]
    fn a_question_is_written_in_several_ways() {
        let selection = asked(
            "component=rx_softirq,gro&component=gro&cpu=0-3&cpu=8&from=-5m&to=1777646400.5&step=10s&format=csv",
        );
        let expected = Selection {
            names: vec!["rx_softirq".to_owned(), "gro".to_owned()],
            cpus: Some("0-3,8".parse().unwrap()),
            from: Some(When::Before(300_000.0)),
            to: Some(When::At(1_777_646_400_500.0)),
            step_seconds: Some(10.0),
            form: Form::Csv,
            ..Selection::default()
        };
        assert_eq!(selection, Ok(expected));
        let moments = [
            "2026-05-01T14:40:00Z",
            "2026-05-01T16:40:00%2B02:00",
            "2026-05-01T16:40:00+02:00",
            "1777646400",
            "1777646400.0",
        ];
        for text in moments {
            let selection = asked(&format!("from={text}")).unwrap();
            assert_eq!(
                selection.from,
                Some(When::At(1_777_646_400_000.0)),
                "{text}"
            );
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
            Selection::parse(query, accept, "history", &KEYS)
                .unwrap()
                .form
        };
        assert_eq!(form("", "*/*"), Form::Json);
        assert_eq!(form("", "text/csv; q=0.9, */*"), Form::Csv);
        assert_eq!(form("", "application/json, text/csv"), Form::Json);
        assert_eq!(form("format=json", "text/csv"), Form::Json);
        assert_eq!(form("format=csv", "application/json"), Form::Csv);
    }

    #[test]
    fn a_length_and_a_limit_have_defaults_and_bounds() {
        assert_eq!(asked_of_recent(""), Ok(Selection::default()));
        let selection = asked_of_recent("last=5m&limit=3").unwrap();
        assert_eq!((selection.last_ns, selection.limit), (300_000_000_000, 3));
        for (query, help) in [
            ("last=60", "60s"),
            ("last=0s", "60s"),
            ("last=-5m", "60s"),
            ("last=9999h", "a day"),
            ("last=1s&last=2s", "once"),
            ("limit=0", "1 to 500"),
            ("limit=501", "1 to 500"),
            ("limit=many", "1 to 500"),
            ("from=-5m", "things: there are last and limit"),
        ] {
            let complaint = asked_of_recent(query).unwrap_err().to_string();
            assert!(complaint.contains(help), "{query}: {complaint}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_is_answered_or_refused(query in ".{0,200}") {
            let _ = (asked(&query), asked_of_recent(&query));
        }
    }
}
