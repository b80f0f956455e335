//! The long form as a Parquet file, written in row groups, so that memory does not grow with the
//! log. The schema has the types, the metadata the host.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use metrics_common::Info;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::long_form::{LongForm, Row};
use super::source::{Source, about};
use crate::output::Output;
use netto_log::read::{Findings, SeriesItem};

/// The columns and their types. Numbers that cannot be negative have unsigned types.
const SCHEMA: &str = "
    message netto {
        required int64 time (TIMESTAMP(NANOS, true));
        required int64 interval_ns (INTEGER(64, false));
        required int32 cpu (INTEGER(32, false));
        required binary component (STRING);
        optional binary parent (STRING);
        required int64 cpu_ns (INTEGER(64, false));
        optional int32 samples (INTEGER(32, false));
        optional int64 entries (INTEGER(64, false));
    }";

/// Rows of a group: some megabytes in memory.
const ROWS_IN_GROUP: usize = 1 << 17;

/// Writes all rows of a series, as they are read.
pub(super) fn write(
    source: &Source<'_>,
    component: Option<&str>,
    path: Option<&Path>,
) -> anyhow::Result<Findings> {
    let output = Output::to(path)?;
    if output.is_terminal() {
        anyhow::bail!("a Parquet file cannot be written to a terminal: use --output FILE");
    }
    let schema = Arc::new(parse_message_type(SCHEMA).context("the schema is wrong")?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer =
        SerializedFileWriter::new(output, schema, Arc::new(properties)).context(CANNOT)?;
    let mut form = LongForm::of(component);
    let mut group = Group::default();
    let mut has_metadata = false;
    let findings = source.for_each(|entry| {
        match entry {
            SeriesItem::Described(info) => {
                if !has_metadata {
                    for (key, value) in metadata(&info)? {
                        writer.append_key_value_metadata(KeyValue::new(key, value));
                    }
                    has_metadata = true;
                }
                form.describe(info);
            }
            SeriesItem::Interval(snapshot) => {
                for row in form.rows(&snapshot) {
                    group.push(&row);
                    if group.times.len() == ROWS_IN_GROUP {
                        group.write(writer.next_row_group().context(CANNOT)?)?;
                    }
                }
            }
            SeriesItem::Digest(_) | SeriesItem::Missing(_) | SeriesItem::Stacks(_) => {}
        }
        Ok(())
    })?;
    if !group.times.is_empty() {
        group.write(writer.next_row_group().context(CANNOT)?)?;
    }
    let output = writer.into_inner().context(CANNOT)?;
    output.finish()?;
    Ok(findings)
}

const CANNOT: &str = "cannot write the Parquet file";

/// The host and the methods of measurement, from the first interval.
fn metadata(info: &Arc<Info>) -> anyhow::Result<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = about(info)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let components = serde_json::to_string(&info.components)?;
    all.push(("netto_components".to_owned(), components));
    Ok(all)
}

/// Rows by column.
#[derive(Default)]
struct Group {
    times: Vec<i64>,
    intervals: Vec<i64>,
    cpus: Vec<i32>,
    components: Vec<ByteArray>,
    parents: Optional<ByteArray>,
    cpu_ns: Vec<i64>,
    samples: Optional<i32>,
    entries: Optional<i64>,
    /// Slugs in use; rows share their bytes.
    slugs: HashMap<String, ByteArray>,
}

/// A column with optional values.
struct Optional<T> {
    values: Vec<T>,
    /// 1 for a value, 0 for none.
    levels: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Self {
        Optional {
            values: Vec::new(),
            levels: Vec::new(),
        }
    }
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

impl Group {
    /// Unsigned numbers are stored in the bits of signed ones, as the format requires.
    fn push(&mut self, row: &Row<'_>) {
        self.times
            .push(i64::try_from(row.time_unix_ns).unwrap_or(i64::MAX));
        self.intervals.push(row.interval_ns.cast_signed());
        self.cpus.push(row.cpu.cast_signed());
        let component = self.slug(row.slug);
        self.components.push(component);
        let parent = row.parent.map(|parent| self.slug(parent));
        self.parents.push(parent);
        self.cpu_ns.push(row.cpu_ns.cast_signed());
        self.samples.push(row.samples.map(u32::cast_signed));
        self.entries.push(row.entries.map(u64::cast_signed));
    }

    fn slug(&mut self, slug: &str) -> ByteArray {
        if let Some(known) = self.slugs.get(slug) {
            return known.clone();
        }
        let bytes = ByteArray::from(slug);
        self.slugs.insert(slug.to_owned(), bytes.clone());
        bytes
    }

    /// Writes the rows, and removes them.
    fn write(&mut self, mut group: SerializedRowGroupWriter<'_, Output>) -> anyhow::Result<()> {
        for column in 0.. {
            let Some(mut writer) = group.next_column().context(CANNOT)? else {
                break;
            };
            let of = |values: &[i64], levels: Option<&[i16]>, writer: &mut _| {
                typed::<Int64Type>(writer, values, levels)
            };
            match column {
                0 => of(&self.times, None, &mut writer),
                1 => of(&self.intervals, None, &mut writer),
                2 => typed::<Int32Type>(&mut writer, &self.cpus, None),
                3 => typed::<ByteArrayType>(&mut writer, &self.components, None),
                4 => {
                    let parents = &self.parents;
                    typed::<ByteArrayType>(&mut writer, &parents.values, Some(&parents.levels))
                }
                5 => of(&self.cpu_ns, None, &mut writer),
                6 => {
                    let samples = &self.samples;
                    typed::<Int32Type>(&mut writer, &samples.values, Some(&samples.levels))
                }
                _ => of(
                    &self.entries.values,
                    Some(&self.entries.levels),
                    &mut writer,
                ),
            }
            .context(CANNOT)?;
            writer.close().context(CANNOT)?;
        }
        group.close().context(CANNOT)?;
        self.times.clear();
        self.intervals.clear();
        self.cpus.clear();
        self.components.clear();
        self.parents.clear();
        self.cpu_ns.clear();
        self.samples.clear();
        self.entries.clear();
        // A foreign log may have any number of names.
        self.slugs.clear();
        Ok(())
    }
}

fn typed<T: parquet::data_type::DataType>(
    writer: &mut parquet::file::writer::SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> parquet::errors::Result<usize> {
    writer.typed::<T>().write_batch(values, levels, None)
}
