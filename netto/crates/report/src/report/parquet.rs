//! A table as a Parquet file, written in row groups, so that memory does not grow with the log. The
//! schema has the types, the metadata the host.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use metrics_common::Info;
use metrics_common::view::{Cell, Column, Table, Values};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::row_writer::{Writer, columns};
use super::source::about;
use crate::output::Output;

/// Rows of a group: some megabytes in memory.
const ROWS_IN_GROUP: usize = 1 << 17;
/// Nanoseconds of a time's unit: microseconds, which every reader can calculate with.
const TIME_UNIT_NS: u64 = 1_000;

const CANNOT: &str = "cannot write the Parquet file";

/// The file of a table.
pub(super) struct File {
    writer: SerializedFileWriter<Output>,
    group: Group,
}

impl File {
    /// Empty.
    ///
    /// # Errors
    /// If the output is a terminal or cannot be written.
    pub(super) fn new(output: Output, table: &Table) -> anyhow::Result<Self> {
        if output.is_terminal() {
            anyhow::bail!("a Parquet file cannot be written to a terminal: use --output FILE");
        }
        let fields = columns(table).map(field).collect::<Result<Vec<_>, _>>();
        let schema = Type::group_type_builder("netto")
            .with_fields(fields.context("the schema is wrong")?)
            .build()
            .context("the schema is wrong")?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        Ok(File {
            writer: SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))
                .context(CANNOT)?,
            group: Group::of(columns(table)),
        })
    }

    fn end_group(&mut self) -> anyhow::Result<()> {
        let mut group = self.writer.next_row_group().context(CANNOT)?;
        for column in &self.group.columns {
            let writer = group.next_column().context(CANNOT)?;
            let mut writer = writer.context("the schema lacks a column")?;
            column.write(&mut writer).context(CANNOT)?;
            writer.close().context(CANNOT)?;
        }
        group.close().context(CANNOT)?;
        self.group.clear();
        Ok(())
    }
}

/// The form of a column.
fn field(column: &Column) -> parquet::errors::Result<Arc<Type>> {
    let (physical, logical) = match column.values {
        Values::Count | Values::Length | Values::CpuTime => {
            (Physical::INT64, Some(LogicalType::integer(64, false)))
        }
        Values::Number | Values::Ratio => (Physical::DOUBLE, None),
        Values::Text | Values::Title => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Values::Time => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
        ),
    };
    let repetition = if column.is_optional {
        Repetition::OPTIONAL
    } else {
        Repetition::REQUIRED
    };
    let field = Type::primitive_type_builder(column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

impl Writer for File {
    /// The host and the methods of measurement, from the first interval.
    fn describe(&mut self, info: &Arc<Info>) -> anyhow::Result<()> {
        let components = serde_json::to_string(&info.components)?;
        let about = about(info).into_iter();
        let about = about.map(|(key, value)| (key.to_owned(), value));
        for (key, value) in about.chain([("netto_components".to_owned(), components)]) {
            self.writer
                .append_key_value_metadata(KeyValue::new(key, value));
        }
        Ok(())
    }

    fn row(&mut self, cells: &mut dyn Iterator<Item = &Cell<'_>>) -> anyhow::Result<()> {
        self.group.push(cells);
        match self.group.rows {
            ROWS_IN_GROUP => self.end_group(),
            _ => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        if self.group.rows > 0 {
            self.end_group()?;
        }
        self.writer.into_inner().context(CANNOT)?.finish()
    }
}

/// Rows by column.
struct Group {
    columns: Vec<Cells>,
    rows: usize,
    /// Texts in use; rows share their bytes.
    texts: HashMap<String, ByteArray>,
}

/// The cells of a column.
struct Cells {
    values: Stored,
    /// Of an optional column: 1 for a value, 0 for none.
    levels: Option<Vec<i16>>,
}

/// The values of a column, as they are stored.
enum Stored {
    /// Unsigned numbers, in the bits of signed ones, as the format requires; times.
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Texts(Vec<ByteArray>),
}

impl Group {
    fn of<'a>(columns: impl Iterator<Item = &'a Column>) -> Self {
        let cells = |column: &Column| Cells {
            values: match column.values {
                Values::Count | Values::Length | Values::CpuTime | Values::Time => {
                    Stored::Integers(Vec::new())
                }
                Values::Number | Values::Ratio => Stored::Numbers(Vec::new()),
                Values::Text | Values::Title => Stored::Texts(Vec::new()),
            },
            levels: column.is_optional.then(Vec::new),
        };
        Group {
            columns: columns.map(cells).collect(),
            rows: 0,
            texts: HashMap::new(),
        }
    }

    fn push(&mut self, cells: &mut dyn Iterator<Item = &Cell<'_>>) {
        self.rows += 1;
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            if let Some(levels) = &mut column.levels {
                levels.push(i16::from(*cell != Cell::Absent));
                if *cell == Cell::Absent {
                    continue;
                }
            }
            match (&mut column.values, cell) {
                (Stored::Integers(values), Cell::Count(count)) => values.push(count.cast_signed()),
                (Stored::Integers(values), Cell::Time(ns)) => {
                    // A time of 64 bits in microseconds is below the largest signed number.
                    values.push((ns / TIME_UNIT_NS).cast_signed());
                }
                (Stored::Numbers(values), Cell::Number(number)) => values.push(*number),
                (Stored::Texts(values), Cell::Text(text)) => {
                    // Of many rows in a row, a text is the same.
                    let same = values.last().filter(|last| last.data() == text.as_bytes());
                    let same = same.cloned();
                    values.push(same.unwrap_or_else(|| shared(&mut self.texts, text)));
                }
                (values, cell) => {
                    debug_assert!(false, "{cell:?} is no value of its column");
                    // A column of another length would make the file unreadable.
                    match values {
                        Stored::Integers(values) => values.push(0),
                        Stored::Numbers(values) => values.push(f64::NAN),
                        Stored::Texts(values) => values.push(ByteArray::from("")),
                    }
                }
            }
        }
    }

    /// Removes the rows.
    fn clear(&mut self) {
        self.rows = 0;
        // A foreign log may have any number of names.
        self.texts.clear();
        for column in &mut self.columns {
            if let Some(levels) = &mut column.levels {
                levels.clear();
            }
            match &mut column.values {
                Stored::Integers(values) => values.clear(),
                Stored::Numbers(values) => values.clear(),
                Stored::Texts(values) => values.clear(),
            }
        }
    }
}

fn shared(texts: &mut HashMap<String, ByteArray>, text: &str) -> ByteArray {
    if let Some(known) = texts.get(text) {
        return known.clone();
    }
    let bytes = ByteArray::from(text);
    texts.insert(text.to_owned(), bytes.clone());
    bytes
}

impl Cells {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> parquet::errors::Result<usize> {
        let levels = self.levels.as_deref();
        match &self.values {
            Stored::Integers(values) => typed::<Int64Type>(writer, values, levels),
            Stored::Numbers(values) => typed::<DoubleType>(writer, values, levels),
            Stored::Texts(values) => typed::<ByteArrayType>(writer, values, levels),
        }
    }
}

fn typed<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> parquet::errors::Result<usize> {
    writer.typed::<T>().write_batch(values, levels, None)
}
