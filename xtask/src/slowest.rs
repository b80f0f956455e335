//! Which tests take the longest, by when test programs report them. Pure.
//!
//! Of a program that runs one test at a time, which those with daemons and browsers do, that is
//! what a test took; of one that runs several, the time since the report before.

use std::fmt;

/// So many are told.
const TOLD: usize = 20;

/// Tests so far, with their seconds.
#[derive(Debug, Clone, Default)]
pub struct Slowest {
    took: Vec<(f64, String)>,
    /// When the last report came.
    last_seconds: f64,
    /// A test whose name was reported and whose verdict was not yet.
    pending: Option<String>,
}

impl Slowest {
    /// Reads a line of a test program's output, which came at this time.
    pub fn line(&mut self, line: &str, now_seconds: f64) {
        let line = line.trim_end();
        let is_verdict = |word: &str| ["ok", "FAILED", "ignored"].contains(&word);
        let reported = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ..."));
        if line.starts_with("running ") {
            self.last_seconds = now_seconds;
        } else if let Some((name, verdict)) = reported {
            self.pending = Some(name.to_owned());
            if verdict.split([' ', ',']).any(is_verdict) {
                self.end(now_seconds);
            }
        } else if is_verdict(line) {
            self.end(now_seconds);
        }
    }

    fn end(&mut self, now_seconds: f64) {
        if let Some(name) = self.pending.take() {
            self.took.push((now_seconds - self.last_seconds, name));
            self.last_seconds = now_seconds;
        }
    }
}

impl fmt::Display for Slowest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut took: Vec<&(f64, String)> = self.took.iter().collect();
        took.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        writeln!(f, "The slowest tests, seconds:")?;
        for (seconds, name) in took.into_iter().take(TOLD) {
            writeln!(f, "{seconds:8.1}  {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_takes_from_the_report_before_it_to_its_verdict() {
        let mut slowest = Slowest::default();
        for (now_seconds, line) in [
            (100.0, "running 3 tests"),
            (102.0, "test quick ... ok"),
            (103.0, "test hidden::a ... "),
            (104.0, "hidden::a failed at try 1: 0.1"),
            (112.0, "ok"),
            (112.5, "test other ... ignored, five minutes"),
            (150.0, "ok"),
        ] {
            slowest.line(line, now_seconds);
        }
        assert_eq!(
            slowest.to_string(),
            "The slowest tests, seconds:\n    10.0  hidden::a\n     2.0  quick\n     0.5  other\n"
        );
    }
}
