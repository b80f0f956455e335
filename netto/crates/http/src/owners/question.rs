//! A question about owners as it stands in an address. Pure.

use crate::history::question::shortened;
use crate::paced::Complaint;
use netto_questions::times::duration_ns;

/// What is asked about if nothing is said, nanoseconds.
const DEFAULT_NS: u64 = 60_000_000_000;
/// No ring covers as much, nanoseconds.
const LONGEST_NS: u64 = 86_400_000_000_000;
/// So many owners stand by themselves if nothing is said.
const DEFAULT_LIMIT: usize = 50;
/// And so many at the most.
const MOST_LIMIT: usize = 500;

/// What a client wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// How far back, nanoseconds before the end of the newest snapshot.
    pub last_ns: u64,
    /// How many owners stand by themselves; all others are one.
    pub limit: usize,
}

/// What a query asks for.
///
/// # Errors
/// If any of it is not understood.
pub fn question(query: &str) -> Result<Question, Complaint> {
    let (mut last_ns, mut limit) = (None, None);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let is_known = match key.as_ref() {
            "last" => last_ns.replace(last(&value)?).is_some(),
            "limit" => limit.replace(number(&value)?).is_some(),
            other => {
                return Err(format!(
                    "\"{}\" is nothing that one can ask of owners: there are last and limit",
                    shortened(other)
                )
                .into());
            }
        };
        if is_known {
            return Err(format!("{key} is given twice: give it once").into());
        }
    }
    Ok(Question {
        last_ns: last_ns.unwrap_or(DEFAULT_NS),
        limit: limit.unwrap_or(DEFAULT_LIMIT),
    })
}

/// A length of time before now.
///
/// # Errors
/// If it is none.
pub fn last(text: &str) -> Result<u64, Complaint> {
    let ns = duration_ns(text.trim()).ok();
    let ns = ns.filter(|ns| (1..=LONGEST_NS).contains(ns));
    ns.ok_or_else(|| {
        Complaint(format!(
            "last is a length of time, not \"{}\": write 60s or 5m, a day at most",
            shortened(text)
        ))
    })
}

fn number(text: &str) -> Result<usize, Complaint> {
    let number = text.trim().parse().ok();
    let number = number.filter(|number| (1..=MOST_LIMIT).contains(number));
    number.ok_or_else(|| {
        Complaint(format!(
            "limit is a number of owners, not \"{}\": 1 to {MOST_LIMIT}",
            shortened(text)
        ))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_a_word_it_is_about_the_last_minute_and_fifty_owners() {
        let of = |last_ns, limit| Ok(Question { last_ns, limit });
        assert_eq!(question(""), of(60_000_000_000, 50));
        assert_eq!(question("last=5m&limit=3"), of(300_000_000_000, 3));
    }

    #[test]
    fn what_is_not_understood_is_told_with_what_would_be() {
        for (query, help) in [
            ("last=60", "60s"),
            ("last=0s", "60s"),
            ("last=-5m", "60s"),
            ("last=9999h", "a day"),
            ("last=1s&last=2s", "once"),
            ("limit=0", "1 to 500"),
            ("limit=501", "1 to 500"),
            ("limit=many", "1 to 500"),
            ("from=-5m", "last and limit"),
        ] {
            let complaint = question(query).unwrap_err().to_string();
            assert!(complaint.contains(help), "{query}: {complaint}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_is_answered_or_refused(query in ".{0,200}") {
            let _ = question(&query);
        }
    }
}
