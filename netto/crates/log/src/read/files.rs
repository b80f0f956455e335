//! The log files of one host: which of them hold intervals, their time spans, and their host.
//! `series` merges them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netto_log_format::LogIndex;

use super::decoder::Event;
use super::file::{KnownFile, LogFile};
use super::findings::{Findings, SeriesError, wording};
use super::series::Series;
use netto_questions::times::Span;

/// Log files of one host, in the order of their first intervals.
#[derive(Debug)]
pub struct Files {
    files: Vec<KnownFile>,
    problems: Vec<String>,
    length_bytes: u64,
    read_bytes: Arc<AtomicU64>,
}

impl Files {
    /// Reads the beginning of each file.
    ///
    /// # Errors
    /// If none of them holds an interval, or they are of different hosts. A file without intervals
    /// among others is a finding.
    pub fn look(paths: &[PathBuf]) -> Result<Files, SeriesError> {
        let mut files = Files {
            files: Vec::new(),
            problems: Vec::new(),
            length_bytes: 0,
            read_bytes: Arc::default(),
        };
        for path in paths {
            match files.look_at(path) {
                Ok(known) => files.files.push(known),
                Err(reason) => files.problems.push(format!("{} {reason}", path.display())),
            }
        }
        if files.files.is_empty() {
            return Err(SeriesError::Nothing(files.problems.join("; ")));
        }
        files.files.sort_by_key(|file| file.first_end_unix_ns);
        let mut named = files
            .files
            .iter()
            .filter_map(|file| Some((file.path.display(), &file.info.as_ref()?.hostname)));
        if let Some((first_path, first)) = named.next()
            && let Some((other_path, other)) = named.find(|(_, other)| *other != first)
        {
            return Err(SeriesError::DifferentHosts {
                first_path: first_path.to_string(),
                first: first.clone(),
                other_path: other_path.to_string(),
                other: other.clone(),
            });
        }
        files.read_bytes.store(0, Ordering::Relaxed);
        Ok(files)
    }

    fn look_at(&mut self, path: &Path) -> Result<KnownFile, String> {
        let file = LogFile::open(path, &self.read_bytes).map_err(|error| error.to_string())?;
        if file.length_bytes() == 0 {
            return Err("is empty: nothing was written to it yet".to_owned());
        }
        self.length_bytes += file.length_bytes();
        let mut events = file.events(Span::EVER).map_err(|error| wording(&error))?;
        while let Some(event) = events.next() {
            let (Event::Interval(_, first) | Event::Undescribed(first)) =
                event.map_err(|error| wording(&error))?
            else {
                continue;
            };
            let decoder = events.decoder();
            let info = decoder.info().filter(|_| !decoder.is_guess());
            return Ok(KnownFile {
                path: path.to_owned(),
                first_end_unix_ns: first.time_unix_ns,
                first_begin_unix_ns: first.time_unix_ns.saturating_sub(first.interval_ns),
                info: info.cloned(),
            });
        }
        Err("holds no interval".to_owned())
    }

    /// Begin of the first interval, nanoseconds since the Unix epoch.
    pub fn begin_unix_ns(&self) -> u64 {
        let begins = self.files.iter().map(|file| file.first_begin_unix_ns);
        begins.min().unwrap_or(0)
    }

    /// End of the last interval, nanoseconds since the Unix epoch. Reads files whose blocks do not
    /// tell it.
    pub fn end_unix_ns(&self) -> u64 {
        let mut end = self.begin_unix_ns();
        for known in &self.files {
            // Problems of a file are reported when its intervals are read.
            let Ok(file) = LogFile::open(&known.path, &self.read_bytes) else {
                continue;
            };
            let index = file.index().ok().filter(LogIndex::is_known);
            if let Some((_, last)) = index.and_then(|index| index.span_unix_ns()) {
                end = end.max(last);
                continue;
            }
            let events = file.events(Span::EVER).into_iter().flatten();
            for event in events.map_while(Result::ok) {
                if let Event::Interval(_, snapshot) | Event::Undescribed(snapshot) = event {
                    end = end.max(snapshot.time_unix_ns);
                }
            }
        }
        self.read_bytes.store(0, Ordering::Relaxed);
        end
    }

    /// Length of all files, bytes.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Counts the bytes that a series of them has read.
    pub fn read_bytes(&self) -> Arc<AtomicU64> {
        self.read_bytes.clone()
    }

    /// The intervals of a span.
    pub fn series(&self, span: Span) -> Series {
        self.read(span, false)
    }

    /// The intervals of a span, replaced by digests where all intervals of a digest belong to the
    /// span and no file holds others in between; without stacks there.
    pub fn series_by_digests(&self, span: Span) -> Series {
        self.read(span, true)
    }

    fn read(&self, span: Span, by_digests: bool) -> Series {
        let files = self.files.iter().cloned();
        let findings = Findings {
            problems: self.problems.clone(),
            ..Findings::default()
        };
        Series::of(files, span, by_digests, findings, self.read_bytes.clone())
    }
}
