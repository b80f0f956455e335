//! Encodes consecutive messages so that small changes between them compress well. Lossless:
//! decoding gives the same bytes.
//!
//! ```text
//! streams   = skeletons, modes, then for each position of a table: values, differences
//! skeletons = for each message: its length without tables, number of tables,
//!             for each: its offset, 1 (same shape as the last one at this position) or 0, shape
//!             the message without its tables
//! shape     = unit, number of rows, for each: length + 1 or 0 (absent); length, bytes (sums)
//! modes     = for each run of tables of one shape, for each row: 0 (all of it 0), or
//!             1 + 2 × predictor + (1 if numbers are written as indices, see `steps`)
//! ```
//!
//! The tables (`packed`) at the same position in each message form a run, which is encoded row by
//! row. A number is written as it is, or as its difference from a prediction: the previous number
//! of the same CPU, or the mean since the beginning of the run. All are integers of variable
//! length; the sign of differences is in the lowest bit, so that small ones are short.

use std::borrow::Cow;

use super::sums::{self, Interval, Sums};
use super::walk;
use metrics_common::packed::{self, Damaged, MOST_ROWS, RawTable, Reader, put};
use metrics_common::steps;

/// Most values of a table, by the limits of rows and CPUs.
const MOST_VALUES: usize = MOST_ROWS * packed::MOST_CPUS;

/// Messages as streams, each compressed separately.
pub(super) struct EncodedColumns {
    pub(super) streams: Vec<Vec<u8>>,
    /// The work of decoding: about the number of bytes and values.
    pub(super) work: u64,
}

/// The prediction of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Predictor {
    Nothing,
    Last,
    Mean,
}

impl Predictor {
    /// Reads a row of a table, of which this many precede it in the run; `past` is by column the last
    /// number, or the sum of all.
    fn restore(
        self,
        count: u64,
        past: &mut [u64],
        numbers: &mut [u64],
        values: &mut Reader<'_>,
        differences: &mut Reader<'_>,
    ) -> Result<(), Damaged> {
        match (count, self) {
            (0, _) | (_, Predictor::Nothing) => {
                values.numbers(numbers)?;
                past.copy_from_slice(numbers);
            }
            (_, Predictor::Last) => {
                differences.numbers(numbers)?;
                for (number, past) in numbers.iter_mut().zip(past) {
                    *number = unfold(*number, *past);
                    *past = *number;
                }
            }
            (_, Predictor::Mean) => {
                differences.numbers(numbers)?;
                for (number, past) in numbers.iter_mut().zip(past) {
                    *number = unfold(*number, mean(*past, count));
                    *past = past.wrapping_add(*number);
                }
            }
        }
        Ok(())
    }
}

const PREDICTORS: [Predictor; 3] = [Predictor::Nothing, Predictor::Last, Predictor::Mean];

/// The shape of a table, which is the same throughout a run.
#[derive(PartialEq, Eq)]
struct TableShape {
    unit: u64,
    lengths: Vec<Option<usize>>,
    /// How many of them there are.
    rows: usize,
    rest: Vec<u8>,
}

impl TableShape {
    fn of(table: &RawTable) -> TableShape {
        let length = |row: &Option<Vec<u64>>| row.as_ref().map(Vec::len);
        TableShape {
            unit: table.unit,
            lengths: table.rows.iter().map(length).collect(),
            rows: table.rows.iter().flatten().count(),
            rest: table.rest.clone(),
        }
    }

    fn work(&self) -> u64 {
        let values: usize = self.lengths.iter().flatten().sum();
        (values + self.lengths.len() + self.rest.len() + 16) as u64
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.unit);
        put(bytes, self.lengths.len() as u64);
        for length in &self.lengths {
            put(bytes, length.map_or(0, |length| length as u64 + 1));
        }
        put(bytes, self.rest.len() as u64);
        bytes.extend_from_slice(&self.rest);
    }

    fn take(reader: &mut Reader<'_>) -> Result<TableShape, Damaged> {
        let unit = reader.number()?;
        let rows = reader.number()?;
        if rows > MOST_ROWS as u64 {
            return Err(Damaged);
        }
        let mut left = MOST_VALUES as u64;
        let mut lengths = Vec::with_capacity(rows as usize);
        let mut present = 0;
        for _ in 0..rows {
            let length = reader.number()?.checked_sub(1);
            left = left.checked_sub(length.unwrap_or(0)).ok_or(Damaged)?;
            present += usize::from(length.is_some());
            lengths.push(length.map(|length| length as usize));
        }
        let rest = reader.number()?;
        let rest = reader.bytes(usize::try_from(rest).map_err(|_| Damaged)?)?;
        Ok(TableShape {
            unit,
            lengths,
            rows: present,
            rest: rest.to_vec(),
        })
    }
}

/// Encodes messages as streams.
pub(super) fn encode(messages: &[Vec<u8>]) -> EncodedColumns {
    let (mut skeletons, mut modes) = (Vec::new(), Vec::new());
    let mut work = 0;
    // By position in a message: runs of tables of one shape.
    let mut places: Vec<Vec<(TableShape, Vec<RawTable>)>> = Vec::new();
    for message in messages {
        let (skeleton, tables) = take_apart(message);
        put(&mut skeletons, skeleton.len() as u64);
        put(&mut skeletons, tables.len() as u64);
        work += skeleton.len() as u64 + 8;
        for (place, (at, table)) in tables.into_iter().enumerate() {
            if places.len() == place {
                places.push(Vec::new());
            }
            put(&mut skeletons, at as u64);
            let shape = TableShape::of(&table);
            work += shape.work();
            match places[place].last_mut() {
                Some((last, run)) if *last == shape => {
                    skeletons.push(1);
                    run.push(table);
                }
                _ => {
                    skeletons.push(0);
                    shape.put(&mut skeletons);
                    places[place].push((shape, vec![table]));
                }
            }
        }
        skeletons.extend_from_slice(&skeleton);
    }
    let mut streams = Vec::new();
    for runs in &places {
        let (mut values, mut differences) = (Vec::new(), Vec::new());
        for (shape, run) in runs {
            for row in 0..shape.lengths.len() {
                let rows: Vec<&[u64]> = run
                    .iter()
                    .filter_map(|table| table.rows.get(row)?.as_deref())
                    .collect();
                if !rows.is_empty() {
                    modes.push(encode_rows(&rows, &mut values, &mut differences));
                }
            }
        }
        streams.push(values);
        streams.push(differences);
    }
    streams.insert(0, modes);
    streams.insert(0, skeletons);
    EncodedColumns { streams, work }
}

/// A message without its tables, and the tables with their offsets in the remaining bytes.
fn take_apart(message: &[u8]) -> (Vec<u8>, Vec<(usize, RawTable)>) {
    let (mut skeleton, mut tables) = (Vec::new(), Vec::new());
    let mut at = 0;
    for (whole, content) in walk::binaries(message).unwrap_or_default() {
        if message[whole.start..content.start] != walk::head(content.len()) {
            continue;
        }
        if let Some(table) = RawTable::of(&message[content], MOST_VALUES) {
            skeleton.extend_from_slice(&message[at..whole.start]);
            tables.push((skeleton.len(), table));
            at = whole.end;
        }
    }
    skeleton.extend_from_slice(&message[at..]);
    (skeleton, tables)
}

/// Writes a row of each table of a run in the form that is likely shortest; returns its mode.
fn encode_rows(rows: &[&[u64]], values: &mut Vec<u8>, differences: &mut Vec<u8>) -> u8 {
    if rows.iter().all(|row| row.iter().all(|&value| value == 0)) {
        return 0;
    }
    let indices: Option<Vec<Vec<u64>>> = rows
        .iter()
        .map(|row| row.iter().map(|&value| steps::index(value)).collect())
        .collect();
    let by_index = indices.is_some();
    let numbers = indices.unwrap_or_else(|| rows.iter().map(|row| row.to_vec()).collect());
    let cost = |predictor: Predictor| {
        let mut counts = Counts::new();
        predict(&numbers, predictor, |number, predicted| {
            counts.add(match predicted {
                None => number,
                Some(predicted) => fold(number, predicted),
            });
        });
        counts.bits()
    };
    let best = (0..PREDICTORS.len())
        .map(|at| (at, cost(PREDICTORS[at])))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0, |(at, _)| at);
    predict(
        &numbers,
        PREDICTORS[best],
        |number, predicted| match predicted {
            None => put(values, number),
            Some(predicted) => put(differences, fold(number, predicted)),
        },
    );
    1 + 2 * best as u8 + u8::from(by_index)
}

/// The frequency of each number in a row, to estimate its compressed size.
struct Counts {
    /// Counts of numbers below the length of the array, then of larger ones by their number of
    /// bits.
    counts: [u32; 192],
    bits_of_large: u64,
}

impl Counts {
    const SMALL: u64 = 128;

    fn new() -> Counts {
        Counts {
            counts: [0; 192],
            bits_of_large: 0,
        }
    }

    fn add(&mut self, number: u64) {
        let place = if number < Counts::SMALL {
            number
        } else {
            let bits = 63 - u64::from(number.leading_zeros());
            self.bits_of_large += bits;
            Counts::SMALL + bits
        };
        self.counts[place as usize] += 1;
    }

    /// Size in an ideal code, bits.
    fn bits(&self) -> f64 {
        let sum: u32 = self.counts.iter().sum();
        let bits_of = |&count: &u32| match count {
            0 => 0.0,
            _ => f64::from(count) * (f64::from(sum) / f64::from(count)).log2(),
        };
        self.counts.iter().map(bits_of).sum::<f64>() + self.bits_of_large as f64
    }
}

/// Calls `each` with each number and its prediction, in the order of writing.
fn predict(rows: &[Vec<u64>], predictor: Predictor, mut each: impl FnMut(u64, Option<u64>)) {
    let mut past = Past::new(predictor);
    for row in rows {
        for (column, &number) in row.iter().enumerate() {
            each(number, past.predict(column));
            past.add(column, number);
        }
        past.end_row();
    }
}

/// The previous numbers of a row, by column.
struct Past {
    predictor: Predictor,
    rows: u64,
    /// The last number, or the sum.
    columns: Vec<u64>,
}

impl Past {
    fn new(predictor: Predictor) -> Past {
        Past {
            predictor,
            rows: 0,
            columns: Vec::new(),
        }
    }

    fn predict(&self, column: usize) -> Option<u64> {
        let past = self.columns.get(column).filter(|_| self.rows > 0)?;
        match self.predictor {
            Predictor::Nothing => None,
            Predictor::Last => Some(*past),
            Predictor::Mean => Some(mean(*past, self.rows)),
        }
    }

    fn add(&mut self, column: usize, number: u64) {
        match self.columns.get_mut(column) {
            None => self.columns.push(number),
            Some(past) if self.predictor == Predictor::Mean => *past = past.wrapping_add(number),
            Some(past) => *past = number,
        }
    }

    fn end_row(&mut self) {
        self.rows += 1;
    }
}

/// The mean of so many numbers of this sum.
fn mean(sum: u64, count: u64) -> u64 {
    let sum = sum.wrapping_add(count / 2);
    // Of small numbers, a division takes half the time.
    match (u32::try_from(sum), u32::try_from(count)) {
        (Ok(sum), Ok(count)) => u64::from(sum / count),
        _ => sum / count,
    }
}

/// Maps a difference to an unsigned number; small differences of either sign give small numbers.
fn fold(number: u64, predicted: u64) -> u64 {
    let difference = number.wrapping_sub(predicted) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn unfold(folded: u64, predicted: u64) -> u64 {
    let difference = (folded >> 1) as i64 ^ -((folded & 1) as i64);
    predicted.wrapping_add(difference as u64)
}

/// What is wanted of snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The names of their sections; `None` stands for all.
    pub sections: Option<Vec<&'static str>>,
    /// Which of them are added, if components alone are wanted.
    pub sums: Option<Sums>,
}

/// A decoded message, or one for several snapshots that are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    /// Number of messages that it stands for.
    pub(super) messages: usize,
    /// The head of a sum; in the bytes is that of the first.
    pub(super) sum: Option<Interval>,
}

impl Decoded {
    /// As it was encoded.
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Decoded {
            bytes,
            messages: 1,
            sum: None,
        }
    }
}

/// The decoded messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// As they were encoded, byte for byte.
    #[default]
    Same,
    /// With tables in the form that is read fastest, and only these sections: they decode to the
    /// same values.
    Quick(Wanted),
}

/// Where a message has a table.
struct TablePosition {
    /// Offset in the message without tables.
    offset: usize,
    /// Its index in the message, as it was encoded.
    index: usize,
    /// Indices of its run and in that.
    run: usize,
    table: usize,
    /// Whether it is added to those of other snapshots.
    is_added: bool,
}

/// A message without its tables.
struct Skeleton<'a> {
    bytes: Cow<'a, [u8]>,
    places: Vec<TablePosition>,
    /// The head of a snapshot that may be added to others.
    interval: Option<Interval>,
}

impl Skeleton<'_> {
    /// Removes all sections of a snapshot but these.
    fn keep(&mut self, wanted: &[&str]) {
        let offsets: Vec<usize> = self.places.iter().map(|place| place.offset).collect();
        let Some(found) = walk::sections(&self.bytes, &offsets) else {
            return;
        };
        let interval = Interval::of(&found);
        let added = found.of_cost.iter();
        for (_, table) in added.filter(|(name, _)| sums::TABLES.contains(name)) {
            if let Some(place) = self.places.get_mut(*table) {
                place.is_added = true;
            }
        }
        let is_wanted = |name: &[u8]| wanted.iter().any(|wanted| wanted.as_bytes() == name);
        let (kept, rest) = {
            let all = found.all.into_iter();
            all.map(|(name, bytes, tables)| (is_wanted(name), bytes, tables))
                .partition::<Vec<_>, _>(|(is_wanted, ..)| *is_wanted)
        };
        // A map of more would have a longer head.
        if kept.len() > 15 || found.head.len() != 1 {
            return;
        }
        let mut bytes = self.bytes.to_vec();
        bytes[found.head.start] = 0x80 | kept.len() as u8;
        for (_, range, tables) in rest.into_iter().rev() {
            for place in &mut self.places[tables.end..] {
                // Those of damaged messages may lie anywhere.
                place.offset = place.offset.saturating_sub(range.len());
            }
            bytes.drain(range);
            self.places.drain(tables);
        }
        self.bytes = bytes.into();
        self.interval = interval;
    }

    /// The tables that are added to those of other snapshots.
    fn added(&self) -> impl Iterator<Item = &TablePosition> {
        self.places.iter().filter(|place| place.is_added)
    }

    /// Whether it and the next one are snapshots with tables of the same shapes, to be added.
    fn is_added_to(&self, next: &Self, sums: &Sums) -> bool {
        let (Some(interval), Some(others)) = (&self.interval, &next.interval) else {
            return false;
        };
        let is_next = |(position, next): (&TablePosition, &TablePosition)| {
            (position.index, position.run, position.table + 1) == (next.index, next.run, next.table)
        };
        sums.has_both(interval, others)
            && self.added().count() == sums::TABLES.len()
            && next.added().count() == sums::TABLES.len()
            && self.added().zip(next.added()).all(is_next)
    }
}

/// Consecutive tables of one shape at one position, being decoded.
struct Run<'a> {
    shape: TableShape,
    /// For each table, the first one of those it is added to, or itself.
    targets: Vec<usize>,
    /// Whether all of them are tables that are added.
    is_added: bool,
    /// The mode of each row that is not absent.
    modes: &'a [u8],
    /// Number of values of a table, without rows of mode 0.
    width: usize,
    /// Those of each table, one table after the other; what is added to another is 0.
    values: Vec<u64>,
}

impl<'a> Run<'a> {
    fn of(shape: TableShape) -> Self {
        Run {
            shape,
            targets: Vec::new(),
            is_added: true,
            modes: &[],
            width: 0,
            values: Vec::new(),
        }
    }

    /// Decodes the rows of all tables; of those that are added, only these if they are given.
    fn decode(
        &mut self,
        wanted: Option<&[bool]>,
        values: &mut Reader<'_>,
        differences: &mut Reader<'_>,
    ) -> Result<(), Damaged> {
        let mut is_wanted = vec![true; self.shape.lengths.len()];
        if let Some(wanted) = wanted.filter(|_| self.is_added) {
            for (row, wanted) in is_wanted.iter_mut().zip(wanted) {
                *row = *wanted;
            }
            packed::mark_parts(&self.shape.rest, &mut is_wanted)?;
        }
        let rows = self.shape.lengths.iter().flatten().zip(self.modes);
        self.width = rows
            .map(|(length, &mode)| if mode == 0 { 0 } else { *length })
            .sum();
        self.values = vec![0; self.width * self.targets.len()];
        let (mut begin, mut past, mut numbers) = (0, Vec::new(), Vec::new());
        let rows = self.shape.lengths.iter().zip(is_wanted);
        let rows = rows.filter_map(|(length, is_wanted)| Some(((*length)?, is_wanted)));
        for ((length, is_wanted), &mode) in rows.zip(self.modes) {
            if length == 0 || mode == 0 {
                continue;
            }
            let predictor = *PREDICTORS.get(usize::from((mode - 1) / 2)).ok_or(Damaged)?;
            if !is_wanted {
                let all = length * self.targets.len();
                let firsts = match predictor {
                    Predictor::Nothing => all,
                    Predictor::Last | Predictor::Mean => length,
                };
                values.skip(firsts)?;
                differences.skip(all - firsts)?;
                begin += length;
                continue;
            }
            let by_index = mode % 2 == 0;
            // By column, the last number or the sum.
            past.clear();
            past.resize(length, 0);
            numbers.resize(length, 0);
            for (count, &target) in (0..).zip(&self.targets) {
                predictor.restore(count, &mut past, &mut numbers, values, differences)?;
                if by_index {
                    for number in &mut numbers {
                        *number = steps::number(*number).ok_or(Damaged)?;
                    }
                }
                let sums = &mut self.values[self.width * target + begin..][..length];
                for (sum, number) in sums.iter_mut().zip(&numbers) {
                    *sum = sum.saturating_add(*number);
                }
            }
            begin += length;
        }
        Ok(())
    }

    /// Writes a table as a binary value.
    fn put(&self, table: usize, form: &Form, scratch: &mut Vec<u8>, message: &mut Vec<u8>) {
        let mut values = &self.values[self.width * table..][..self.width];
        let mut modes = self.modes.iter();
        scratch.clear();
        put(scratch, self.shape.unit);
        put(scratch, self.shape.lengths.len() as u64);
        for length in &self.shape.lengths {
            let Some(length) = *length else {
                put(scratch, 0);
                continue;
            };
            put(scratch, length as u64 + 1);
            if modes.next() == Some(&0) {
                packed::put_zeros(scratch, length);
                continue;
            }
            let row;
            (row, values) = values.split_at(length);
            match form {
                Form::Same => packed::put_row(scratch, row),
                Form::Quick(_) => packed::put_wide_row(scratch, row),
            }
        }
        scratch.extend_from_slice(&self.shape.rest);
        message.extend(walk::head(scratch.len()));
        message.extend_from_slice(scratch);
    }
}

/// The inverse of [`encode`], within this amount of work, for so many streams; `open` gives each
/// that is needed.
///
/// # Errors
/// If the streams were not made by it.
pub(super) fn decode<'a>(
    streams: usize,
    mut open: impl FnMut(usize) -> Result<Cow<'a, [u8]>, Damaged>,
    mut work: u64,
    form: &Form,
) -> Result<Vec<Decoded>, Damaged> {
    let mut spend = |more: u64| -> Result<(), Damaged> {
        work = work.checked_sub(more).ok_or(Damaged)?;
        Ok(())
    };
    let (skeletons, modes) = (open(0)?, open(1)?);
    let mut reader = Reader(&skeletons);
    let mut messages: Vec<Skeleton<'_>> = Vec::new();
    let mut runs: Vec<Vec<Run<'_>>> = Vec::new();
    runs.resize_with(streams.saturating_sub(2) / 2, Vec::new);
    let mut is_needed = vec![false; runs.len()];
    while !reader.0.is_empty() {
        let length = usize::try_from(reader.number()?).map_err(|_| Damaged)?;
        let tables = reader.number()?;
        spend((length as u64).saturating_add(8))?;
        if tables > runs.len() as u64 {
            return Err(Damaged);
        }
        let mut places = Vec::new();
        for (index, runs) in runs.iter_mut().take(tables as usize).enumerate() {
            let offset = usize::try_from(reader.number()?).map_err(|_| Damaged)?;
            if reader.bytes(1)? != [1] {
                runs.push(Run::of(TableShape::take(&mut reader)?));
            }
            let run = runs.len().checked_sub(1).ok_or(Damaged)?;
            let current = &mut runs[run];
            spend(current.shape.work())?;
            let table = current.targets.len();
            places.push(TablePosition {
                offset,
                index,
                run,
                table,
                is_added: false,
            });
            current.targets.push(table);
        }
        let bytes = reader.bytes(length)?.into();
        let mut message = Skeleton {
            bytes,
            places,
            interval: None,
        };
        if let Form::Quick(Wanted {
            sections: Some(sections),
            ..
        }) = form
        {
            message.keep(sections);
        }
        for place in &message.places {
            is_needed[place.index] = true;
            runs[place.index][place.run].is_added &= place.is_added;
        }
        messages.push(message);
    }
    let sums = match form {
        Form::Quick(Wanted { sums, .. }) => sums.as_ref(),
        Form::Same => None,
    };
    let groups = groups(&messages, sums);
    let rows = sums.and_then(|sums| sums.rows.as_deref());
    for group in &groups {
        let (first, others) = group.split_at(1);
        let added = |next| first[0].added().zip(Skeleton::added(next));
        for (place, position) in others.iter().flat_map(added) {
            runs[position.index][position.run].targets[position.table] = place.table;
        }
    }
    let mut modes = Reader(&modes);
    for (index, runs) in runs.iter_mut().enumerate() {
        for run in runs.iter_mut() {
            run.modes = modes.bytes(run.shape.rows)?;
        }
        if !is_needed[index] {
            continue;
        }
        let (values, differences) = (open(2 + 2 * index)?, open(3 + 2 * index)?);
        let (mut values, mut differences) = (Reader(&values), Reader(&differences));
        for run in runs {
            run.decode(rows, &mut values, &mut differences)?;
        }
    }
    let mut scratch = Vec::new();
    let decoded = groups.into_iter().map(|group| {
        let Skeleton { bytes, places, .. } = &group[0];
        let mut message = Vec::with_capacity(2 * bytes.len());
        let mut at = 0;
        for place in places {
            message.extend_from_slice(bytes.get(at..place.offset).ok_or(Damaged)?);
            at = place.offset;
            let run = &runs[place.index][place.run];
            run.put(place.table, form, &mut scratch, &mut message);
        }
        message.extend_from_slice(bytes.get(at..).ok_or(Damaged)?);
        let heads = group.iter().filter_map(|message| message.interval.as_ref());
        Ok(Decoded {
            bytes: message,
            messages: group.len(),
            sum: sums::joined(heads).filter(|_| group.len() > 1),
        })
    });
    decoded.collect()
}

/// Consecutive messages that are read as one; most are alone.
fn groups<'a, 'b>(messages: &'a [Skeleton<'b>], sums: Option<&Sums>) -> Vec<&'a [Skeleton<'b>]> {
    let intervals = messages
        .iter()
        .filter_map(|message| message.interval.as_ref());
    let sums = sums.filter(|_| sums::is_in_order(intervals));
    let is_one = |one: &Skeleton<'_>, next: &Skeleton<'_>| {
        sums.is_some_and(|sums| one.is_added_to(next, sums))
    };
    messages.chunk_by(is_one).collect()
}

#[cfg(test)]
mod tests;
