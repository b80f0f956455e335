//! Counts what test programs report in their `test result:` and `UNSTEADY:` lines, and keeps
//! what they say of failures, so that the end of a long output tells all that failed. Pure.

use std::fmt;

/// Lines that are kept of what one test program says of its failures: the last ones.
const KEPT: usize = 120;

/// Tests so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Did what they should.
    pub passed: u64,
    /// Did not.
    pub failed: u64,
    /// Were not run, visibly.
    pub skipped: u64,
    /// Passed only because they were tried again.
    pub unsteady: u64,
    /// What each failure has printed.
    messages: Vec<String>,
    /// Lines of the list of failures that is being printed, if one is.
    list: Option<Vec<String>>,
}

impl Tally {
    /// Adds one check that is no test program, and prints its verdict.
    pub fn check(&mut self, name: &str, verdict: Result<(), impl fmt::Display>) {
        match verdict {
            Ok(()) => {
                self.passed += 1;
                println!("check {name} ... ok");
            }
            Err(error) => {
                self.failed += 1;
                let message = format!("check {name} ... FAILED: {error:#}");
                println!("{message}");
                self.messages.push(message);
            }
        }
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.unsteady += other.unsteady;
        self.messages.extend(other.messages);
    }

    /// All messages of failures, to be printed once more.
    pub fn failures(&self) -> String {
        self.messages.join("\n")
    }

    /// Adds what this line of a test program's output reports, if it reports anything.
    pub fn line(&mut self, line: &str) {
        self.note(line.trim_end());
        let line = line.trim();
        self.unsteady += u64::from(line.starts_with("UNSTEADY: "));
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split(';') {
            let mut words = count.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl Tally {
    /// Keeps the lines from `failures:` to the result.
    fn note(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            let lines = self.list.take().unwrap_or_default();
            if !lines.is_empty() {
                let kept = &lines[lines.len().saturating_sub(KEPT)..];
                self.messages.push(kept.join("\n"));
            }
        } else if let Some(lines) = &mut self.list {
            lines.push(line.to_owned());
        } else if line == "failures:" {
            self.list = Some(Vec::new());
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )?;
        if self.unsteady > 0 {
            write!(f, ", {} unsteady", self.unsteady)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(text: &str) -> Tally {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.line(line));
        tally
    }

    #[test]
    fn the_results_of_several_test_programs_add_up() {
        let tally = tally_of(
            "running 3 tests\n\
             test a ... ok\n\
             test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.00s\n\
             \n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n",
        );
        assert_eq!(tally.to_string(), "4 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn tests_that_were_tried_again_are_told_where_there_are_any() {
        let tally = tally_of(
            "test hidden::a ... \n\
             hidden::a failed at try 1: UNSTEADY: 0.1\n\
             \n\
             UNSTEADY: hidden::a failed 1 of 3 tries: 0.1\n\
             ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(
            tally.to_string(),
            "1 passed, 0 failed, 0 skipped, 1 unsteady"
        );
    }

    #[test]
    fn output_that_only_looks_like_a_result_counts_for_nothing() {
        let tally = tally_of(
            "the test result: ok. 3 passed; 0 failed\n\
             test result: ok\n\
             test result: ok. many passed; -1 failed;\n",
        );
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn a_check_counts_as_one() {
        let mut tally = Tally::default();
        tally.check("one", Ok::<_, String>(()));
        tally.check("two", Err("no such thing"));
        assert_eq!(tally.to_string(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(tally.failures(), "check two ... FAILED: no such thing");
    }

    #[test]
    fn tallies_of_guests_add_up_with_what_they_say() {
        let mut all = tally_of("test result: ok. 2 passed; 0 failed; 1 ignored\n");
        let mut one = tally_of("UNSTEADY: a failed 1 of 3 tries\n");
        one.check("one", Err("gone"));
        all.add(one);
        assert_eq!(all.to_string(), "2 passed, 1 failed, 1 skipped, 1 unsteady");
        assert_eq!(all.failures(), "check one ... FAILED: gone");
    }

    #[test]
    fn what_is_said_of_failures_is_kept_and_nothing_else() {
        let tally = tally_of(
            "test a ... FAILED\n\
             \n\
             failures:\n\
             \n\
             ---- a ----\n\
             left is not right\n\
             \n\
             failures:\n    a\n\
             \n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
             test b ... ok\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        let failures = tally.failures();
        assert!(
            failures.contains("---- a ----\nleft is not right"),
            "{failures}"
        );
        assert!(!failures.contains("test b"), "{failures}");
    }
}
