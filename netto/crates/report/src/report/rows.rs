//! The export of tables as rows: which ones, of which component, in which steps. Their columns are
//! the features', their encoding that of [`super::csv`] and [`super::parquet`].

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use jiff::civil::Date;
use metrics_common::view::{Cell, Table, Values};
use metrics_common::{Info, Snapshot};
use netto_feature::instruments::Feature;
use netto_log::read::{Findings, SeriesItem};
use netto_log_format::step_number;
use netto_questions::times;

use super::Format;
use super::row_writer::Writer;
use super::source::{Source, with_parts};
use crate::output::Output;

/// The table that is exported unless another one is named.
pub(super) const USUAL: &str = "components";
/// The name of all tables together.
const ALL: &str = "all";
/// The column that `--component` is about.
const COMPONENT: &str = "component";

/// What is exported, and where to.
#[derive(Debug)]
pub(super) struct Export<'a> {
    tables: Vec<&'static Table>,
    /// The sections that they are of, and the one that tells the rows of an undescribed interval.
    sections: Vec<&'static str>,
    /// A folder if all tables are exported.
    output: Option<&'a Path>,
    component: Option<&'a str>,
    step_ns: Option<u64>,
    is_partitioned: bool,
    format: Format,
}

impl<'a> Export<'a> {
    /// What these options ask for.
    ///
    /// # Errors
    /// Why that is not possible, for people.
    pub(super) fn of(
        features: &[Feature],
        args: &'a super::ReportArgs,
    ) -> Result<Export<'a>, String> {
        let known = || features.iter().flat_map(|feature| feature.tables);
        let name = args.table.as_deref().unwrap_or(USUAL);
        let is_wanted = |table: &&Table| name == ALL || table.name == name;
        let tables: Vec<&Table> = known().filter(is_wanted).collect();
        let of_them = |feature: &&Feature| feature.tables.iter().any(|table| is_wanted(&table));
        let sections = features.iter().filter(of_them).map(|feature| feature.name);
        if tables.is_empty() {
            let names: Vec<&str> = known().map(|table| table.name).collect();
            return Err(format!(
                "there is no table {name:?}; there are {} and all",
                names.join(", ")
            ));
        }
        if name == ALL && args.output.is_none() {
            return Err(
                "--table all writes a file for each table: name a folder with --output".to_owned(),
            );
        }
        if args.partitioned && args.output.is_none() {
            return Err(
                "--partitioned writes a file for each day: name a folder with --output".to_owned(),
            );
        }
        let has_components = tables.iter().any(|table| of_components(table).is_some());
        if args.component.is_some() && !has_components {
            return Err(format!(
                "--component does not go with --table {name}, which has no components"
            ));
        }
        Ok(Export {
            tables,
            sections: sections.chain(["cost"]).collect(),
            output: args.output.as_deref(),
            component: args.component.as_deref(),
            step_ns: args.step,
            is_partitioned: args.partitioned,
            format: args.format,
        })
    }

    /// Writes all rows of a series, as they are read.
    pub(super) fn write(&self, source: &Source<'_>) -> anyhow::Result<Findings> {
        let mut writers = Vec::new();
        for table in &self.tables {
            let file = if self.is_partitioned {
                None
            } else {
                Some(TableFile {
                    date: None,
                    writer: self.writer(table)?,
                })
            };
            writers.push((*table, file));
        }
        let mut rows = Rows {
            export: self,
            writers,
            component: self.component,
            info: None,
            wanted: HashSet::new(),
        };
        let mut step = Step::new(self.step_ns);
        let each = |entry| {
            match entry {
                SeriesItem::Described(info) => {
                    // The sum of an open step is in terms of the earlier description.
                    if let Some(sum) = step.end() {
                        rows.interval(&sum)?;
                    }
                    rows.describe(info)?;
                }
                SeriesItem::Interval(snapshot) => {
                    if let Some(sum) = step.add(*snapshot) {
                        rows.interval(&sum)?;
                    }
                }
                SeriesItem::Digest(_) | SeriesItem::Missing(_) | SeriesItem::Stacks(_) => {}
            }
            Ok(())
        };
        let sections = self.sections.clone();
        let is_of_components = self.tables.iter().all(|table| table.name == USUAL);
        let findings = match self.step_ns.filter(|_| is_of_components) {
            Some(step_ns) => {
                source.for_each_of_components(sections, step_ns, self.component, each)?
            }
            None => source.for_each_with(sections, each)?,
        };
        if let Some(sum) = step.end() {
            rows.interval(&sum)?;
        }
        for (_, file) in rows.writers {
            if let Some(file) = file {
                file.writer.finish()?;
            }
        }
        Ok(findings)
    }

    /// The writer of a table, in its file.
    fn writer(&self, table: &'static Table) -> anyhow::Result<Box<dyn Writer>> {
        let path = match (self.output, self.tables.len()) {
            (Some(folder), 2..) => Some(self.file_in(folder, table)?),
            (path, _) => path.map(Path::to_owned),
        };
        self.open(table, path.as_deref())
    }

    fn open(&self, table: &'static Table, path: Option<&Path>) -> anyhow::Result<Box<dyn Writer>> {
        let output = Output::to(path)?;
        match self.format {
            Format::Parquet => super::parquet(output, table),
            _ => Ok(Box::new(super::csv::Csv::new(output, table))),
        }
    }

    /// The writer of a table's rows of a host and day, in folders as Hive has them. The file's name
    /// is that of its first interval's time, so that another span of the day has another file.
    fn partition(
        &self,
        table: &'static Table,
        host: &str,
        (date, time_unix_ns): (Date, u64),
    ) -> anyhow::Result<Box<dyn Writer>> {
        let folder = self.output.unwrap_or(Path::new("."));
        let folder = folder
            .join(table.name)
            .join(format!("host={}", escaped(host)))
            .join(format!("date={date}"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let name = format!("{time_unix_ns}.{}", self.ending());
        self.open(table, Some(&folder.join(name)))
    }

    fn ending(&self) -> &'static str {
        match self.format {
            Format::Parquet => "parquet",
            _ => "csv",
        }
    }

    fn file_in(&self, folder: &Path, table: &Table) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        Ok(folder.join(format!("{}.{}", table.name, self.ending())))
    }
}

/// Which column of a table has its component.
fn of_components(table: &Table) -> Option<usize> {
    let mut columns = table.columns.iter();
    columns.position(|column| column.name == COMPONENT && column.values == Values::Text)
}

/// A host's name as a part of a path.
fn escaped(host: &str) -> String {
    let escaped = host.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}

/// The file of a table that is being written.
struct TableFile {
    /// The day of its rows, if it is of one.
    date: Option<Date>,
    writer: Box<dyn Writer>,
}

/// Writes the rows of intervals.
struct Rows<'a> {
    export: &'a Export<'a>,
    /// The file of each table; none before the first row of a day.
    writers: Vec<(&'static Table, Option<TableFile>)>,
    component: Option<&'a str>,
    info: Option<Arc<Info>>,
    /// The slugs of that component and of its parts.
    wanted: HashSet<String>,
}

impl Rows<'_> {
    /// Sets the meaning of the following intervals.
    fn describe(&mut self, info: Arc<Info>) -> anyhow::Result<()> {
        if self.info.is_none() {
            for (_, file) in &mut self.writers {
                if let Some(file) = file {
                    file.writer.describe(&info)?;
                }
            }
        }
        if let Some(component) = self.component {
            self.wanted = with_parts(&info.components, component);
        }
        self.info = Some(info);
        Ok(())
    }

    fn interval(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let Some(info) = self.info.clone() else {
            return Ok(());
        };
        let first = [
            Cell::Time(snapshot.time_unix_ns),
            Cell::Count(snapshot.interval_ns),
        ];
        if self.export.is_partitioned {
            self.follow_date(&info, snapshot.time_unix_ns)?;
        }
        let (component, wanted) = (self.component, &self.wanted);
        for (table, file) in &mut self.writers {
            let Some(TableFile { writer, .. }) = file else {
                continue;
            };
            let filter = component.and_then(|_| of_components(table));
            let mut failed = Ok(());
            // Many rows in a row are of one component.
            let mut last = (String::new(), false);
            (table.rows)(&info, snapshot, &mut |cells| {
                let is_wanted = match filter.map(|column| cells[column]) {
                    Some(Cell::Text(slug)) => {
                        if slug != last.0 {
                            last = (slug.to_owned(), wanted.contains(slug));
                        }
                        last.1
                    }
                    Some(_) => false,
                    None => true,
                };
                if failed.is_ok() && is_wanted {
                    failed = writer.row(&mut first.iter().chain(table.cells_in_file(cells)));
                }
            });
            failed?;
        }
        Ok(())
    }
}

impl Rows<'_> {
    /// Ends the files of another day, and begins those of this one. A day is in UTC, and an interval
    /// that ends with it is its last.
    fn follow_date(&mut self, info: &Arc<Info>, time_unix_ns: u64) -> anyhow::Result<()> {
        let date = times::utc_date(time_unix_ns.saturating_sub(1));
        for (table, file) in &mut self.writers {
            if file.as_ref().is_some_and(|file| file.date == Some(date)) {
                continue;
            }
            if let Some(before) = file.take() {
                before.writer.finish()?;
            }
            let at = (date, time_unix_ns);
            let mut writer = self.export.partition(table, &info.hostname, at)?;
            writer.describe(info)?;
            *file = Some(TableFile {
                date: Some(date),
                writer,
            });
        }
        Ok(())
    }
}

/// Adds the intervals of a step: those that end within a multiple of its length since the Unix epoch.
struct Step {
    length_ns: Option<u64>,
    sum: Option<Snapshot>,
}

impl Step {
    /// Without a length, each interval is a step.
    fn new(length_ns: Option<u64>) -> Self {
        Step {
            length_ns,
            sum: None,
        }
    }

    /// The number of the step in which an interval ends.
    fn number(length_ns: u64, snapshot: &Snapshot) -> u64 {
        step_number(length_ns, snapshot.time_unix_ns)
    }

    /// Adds an interval; the step before, if it begins another one.
    fn add(&mut self, snapshot: Snapshot) -> Option<Snapshot> {
        let Some(length_ns) = self.length_ns else {
            return Some(snapshot);
        };
        match &mut self.sum {
            Some(sum) if Self::number(length_ns, sum) == Self::number(length_ns, &snapshot) => {
                sum.add(&snapshot);
                None
            }
            sum => {
                let before = sum.replace(snapshot)?;
                Some(Self::ended(length_ns, before))
            }
        }
    }

    /// The step under way.
    fn end(&mut self) -> Option<Snapshot> {
        let length_ns = self.length_ns?;
        Some(Self::ended(length_ns, self.sum.take()?))
    }

    /// The time of a step is its end, so that those of several hosts are equal.
    fn ended(length_ns: u64, sum: Snapshot) -> Snapshot {
        let end = (Self::number(length_ns, &sum) + 1).saturating_mul(length_ns);
        Snapshot {
            time_unix_ns: end,
            ..sum
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture;

    use super::*;

    #[test]
    fn a_component_brings_its_parts() {
        let info = fixture::info();
        let wanted = with_parts(&info.components, "rx_softirq");
        assert!(wanted.contains("rx_softirq") && wanted.contains("gro"));
        assert!(!wanted.contains("network") && !wanted.contains("tx_syscall"));
    }

    #[test]
    fn intervals_that_end_within_a_step_are_one_row_and_its_time_is_its_end() {
        let interval = |time_unix_ns| Snapshot {
            time_unix_ns,
            interval_ns: 5,
            ..Snapshot::default()
        };
        let mut step = Step::new(Some(10));
        let mut ended = Vec::new();
        for time in [5, 10, 15, 35] {
            ended.extend(step.add(interval(time)));
        }
        ended.extend(step.end());
        let ended: Vec<_> = ended
            .iter()
            .map(|interval| (interval.time_unix_ns, interval.interval_ns))
            .collect();
        assert_eq!(ended, [(10, 10), (20, 5), (40, 5)]);

        let mut each = Step::new(None);
        assert_eq!(each.add(interval(7)), Some(interval(7)));
        assert_eq!(each.end(), None);
    }
}
