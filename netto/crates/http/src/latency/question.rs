//! A question about latency as it stands in an address. Pure.

use crate::history::question::shortened;
use crate::owners::question::last;
use crate::paced::Complaint;

/// What is asked about if nothing is said, nanoseconds.
const DEFAULT_NS: u64 = 60_000_000_000;

/// What a client wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// How far back, nanoseconds before the end of the newest snapshot.
    pub last_ns: u64,
}

/// What a query asks for.
///
/// # Errors
/// If any of it is not understood.
pub fn question(query: &str) -> Result<Question, Complaint> {
    let mut last_ns = None;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key != "last" {
            return Err(Complaint(format!(
                "\"{}\" is nothing that one can ask of latency: there is last",
                shortened(&key)
            )));
        }
        if last_ns.replace(last(&value)?).is_some() {
            return Err(Complaint("last is given twice: give it once".to_owned()));
        }
    }
    Ok(Question {
        last_ns: last_ns.unwrap_or(DEFAULT_NS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_word_it_is_about_the_last_minute_and_what_is_wrong_is_told() {
        let of = |last_ns| Ok(Question { last_ns });
        assert_eq!(question(""), of(60_000_000_000));
        assert_eq!(question("last=5s"), of(5_000_000_000));
        for (query, help) in [
            ("last=60", "60s"),
            ("last=1s&last=2s", "once"),
            ("point=ip-start", "there is last"),
        ] {
            let complaint = question(query).unwrap_err().to_string();
            assert!(complaint.contains(help), "{query}: {complaint}");
        }
    }
}
