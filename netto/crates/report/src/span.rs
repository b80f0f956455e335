//! What chooses a part of a log: options, or what stands behind its name.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use netto_questions::times::{self, Moment, Wanted};

/// Which part of a log; all of it if nothing is said.
#[derive(Debug, Clone, Default, Args)]
pub struct SpanArgs {
    /// Start at this time of a log: 2026-05-01T14:30:00Z, 2026-05-01T14:30 or 14:30 (local time;
    /// its first occurrence in the log)
    #[arg(long, value_name = "MOMENT")]
    pub from: Option<Moment>,
    /// End at this time
    #[arg(long, value_name = "MOMENT")]
    pub to: Option<Moment>,
    /// Only the end of the log: 90s, 15m, 2h
    #[arg(
        long,
        value_name = "LENGTH",
        value_parser = times::duration_ns,
        conflicts_with_all = ["from", "to"]
    )]
    pub last: Option<u64>,
}

impl SpanArgs {
    /// The same, to be found in a log.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            from: self.from,
            to: self.to,
            last_ns: self.last,
        }
    }
}

/// A log, or a span of one: LOG@FROM..TO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    pub(crate) path: PathBuf,
    pub(crate) wanted: Wanted,
}

impl FromStr for LogPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A file's name may contain the character, too.
        let Some((path, (from, to))) = text
            .rsplit_once('@')
            .filter(|(_, span)| !span.contains('/'))
            .and_then(|(path, span)| Some((path, span.split_once("..")?)))
        else {
            return Ok(LogPart {
                path: text.into(),
                wanted: Wanted::default(),
            });
        };
        let moment = |text: &str| -> Result<Option<Moment>, String> {
            match text.trim() {
                "" => Ok(None),
                text => text.parse().map(Some),
            }
        };
        Ok(LogPart {
            path: path.into(),
            wanted: Wanted {
                from: moment(from)?,
                to: moment(to)?,
                last_ns: None,
            },
        })
    }
}

impl LogPart {
    /// A parser of arguments, of which not all are text.
    pub fn parser() -> impl TypedValueParser<Value = LogPart> {
        OsStringValueParser::new().try_map(|name| match name.into_string() {
            Ok(text) => text.parse(),
            Err(name) => Ok(LogPart {
                path: name.into(),
                wanted: Wanted::default(),
            }),
        })
    }

    /// The log.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The logs, and which part of them is wanted.
///
/// # Errors
/// A part stands behind the name of one log of several, or besides options that choose one.
pub(crate) fn chosen(logs: &[LogPart], span: &SpanArgs) -> Result<(Vec<PathBuf>, Wanted), String> {
    let paths = logs.iter().map(|log| log.path.clone()).collect();
    let whole = Wanted::default();
    let Some(part) = logs.iter().find(|log| log.wanted != whole) else {
        return Ok((paths, span.wanted()));
    };
    let path = part.path.display();
    if logs.len() > 1 {
        return Err(format!(
            "a part of {path} does not go with other logs: --from and --to choose one of all"
        ));
    }
    if span.wanted() != whole {
        return Err(format!(
            "a part of {path} does not go with --from, --to and --last, which choose one, too"
        ));
    }
    Ok((paths, part.wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_log_or_a_part_of_one() {
        let whole: LogPart = "a@b.log".parse().unwrap();
        assert_eq!(
            (whole.path, whole.wanted),
            ("a@b.log".into(), Wanted::default())
        );
        let part: LogPart = "dir@1/a.log@14:00..15:30".parse().unwrap();
        assert_eq!(part.path, PathBuf::from("dir@1/a.log"));
        assert_eq!(part.wanted.from, Some("14:00".parse().unwrap()));
        assert_eq!(part.wanted.to, Some("15:30".parse().unwrap()));
        let open: LogPart = "a.log@..2026-05-01T00:00:00Z".parse().unwrap();
        assert!(open.wanted.from.is_none() && open.wanted.to.is_some());
        let folder: LogPart = "dir@1/../a.log".parse().unwrap();
        assert_eq!(folder.path, PathBuf::from("dir@1/../a.log"));
        assert!(
            "a.log@noon.."
                .parse::<LogPart>()
                .unwrap_err()
                .contains("14:30")
        );
    }

    #[test]
    fn a_part_is_chosen_once_and_of_a_single_log() {
        let logs = |names: &[&str]| -> Vec<LogPart> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        let none = SpanArgs::default();
        let last = SpanArgs {
            last: Some(1),
            ..SpanArgs::default()
        };
        let (paths, wanted) = chosen(&logs(&["a.log@14:00..14:30"]), &none).unwrap();
        assert_eq!(paths, [PathBuf::from("a.log")]);
        assert_eq!(wanted.from, Some("14:00".parse().unwrap()));
        let (paths, wanted) = chosen(&logs(&["a.log", "b.log"]), &last).unwrap();
        assert_eq!((paths.len(), wanted.last_ns), (2, Some(1)));
        for (names, span, part) in [
            (&["a.log@14:00..", "b.log"][..], &none, "other logs"),
            (&["a.log@14:00.."][..], &last, "--last"),
        ] {
            let error = chosen(&logs(names), span).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
