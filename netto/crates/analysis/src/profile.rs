//! Collects the stacks of one or many intervals for a profile: equal ones together, in bounded
//! memory. Pure; names are looked up by the reader.

use rustc_hash::FxHashMap;

use super::repeated::{Most, Numbered, Repeated};

/// Most distinct stacks and labels, some 6 MB.
const MOST: Most = Most {
    known: 1 << 14,
    words: 1 << 19,
};
/// Most owners of a profile; samples of further ones have none.
const MOST_NAMES: usize = 1 << 12;
/// In a key: no such label.
const NONE: u64 = u64::MAX;

/// A sample of networking in the interval under way.
#[derive(Debug, Clone)]
struct Recorded {
    cpu: usize,
    event: usize,
    part: Option<usize>,
    /// Its place among the tagged samples.
    tagged: Option<usize>,
    owner: Option<u32>,
    /// In periods of its CPU.
    weight: f64,
    worth_ns: u64,
    /// Its functions in [`IntervalProfile::functions`].
    begin: usize,
    end: usize,
}

/// The samples of the interval under way.
#[derive(Debug, Default)]
pub struct IntervalProfile {
    samples: Vec<Recorded>,
    /// Starts of functions, innermost first, of one sample after the other.
    functions: Vec<u64>,
    names: Vec<String>,
}

impl IntervalProfile {
    /// Adds a sample: its CPU, rows of its event and part, its place among the tagged samples if it
    /// is one, for how many periods of its CPU it stands, and the starts of its functions, innermost first.
    pub fn add(
        &mut self,
        (cpu, event, part): (usize, usize, Option<usize>),
        tagged: Option<usize>,
        weight: f64,
        functions: &[u64],
    ) {
        let begin = self.functions.len();
        self.functions.extend_from_slice(functions);
        self.samples.push(Recorded {
            cpu,
            event,
            part,
            tagged,
            owner: None,
            weight,
            worth_ns: 0,
            begin,
            end: self.functions.len(),
        });
    }

    /// Sets the time for which a sample of weight 1 stands on each CPU.
    pub fn set_worth(&mut self, worth_ns: impl Fn(usize) -> u64) {
        for sample in &mut self.samples {
            sample.worth_ns = (sample.weight * worth_ns(sample.cpu) as f64) as u64;
        }
    }

    /// Sets who caused the tagged samples: the number of each by its place, and the name by number.
    pub fn set_causes(
        &mut self,
        owner_of: impl Fn(usize) -> Option<u32>,
        mut name_of: impl FnMut(u32) -> String,
    ) {
        let mut known: FxHashMap<u32, u32> = FxHashMap::default();
        for sample in &mut self.samples {
            sample.owner = sample.tagged.and_then(&owner_of).map(|owner| {
                *known.entry(owner).or_insert_with(|| {
                    self.names.push(name_of(owner));
                    self.names.len() as u32 - 1
                })
            });
        }
    }
}

/// Equal samples of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The CPU.
    pub cpu: u32,
    /// Row of the event.
    pub event: usize,
    /// Row of the part that the stack shows.
    pub part: Option<usize>,
    /// The owner's name.
    pub owner: Option<&'a str>,
    /// Starts of the functions, innermost first.
    pub functions: &'a [u64],
    /// Number of samples.
    pub count: u64,
    /// CPU time for which they stand, nanoseconds.
    pub cpu_ns: u64,
}

/// The samples of the intervals so far.
#[derive(Debug)]
pub struct ProfileRecorder {
    /// CPU, event, part and owner, then the functions.
    keys: Repeated,
    /// Number of samples and time, by key.
    sums: Vec<(u64, u64)>,
    names: Vec<String>,
    name_numbers: FxHashMap<String, u64>,
    /// Length of the intervals, nanoseconds.
    pub length_ns: u64,
    /// Samples without room.
    pub left_out: u64,
}

impl Default for ProfileRecorder {
    fn default() -> Self {
        ProfileRecorder {
            keys: Repeated::new(MOST),
            sums: Vec::new(),
            names: Vec::new(),
            name_numbers: FxHashMap::default(),
            length_ns: 0,
            left_out: 0,
        }
    }
}

impl ProfileRecorder {
    /// Adds an interval of this length.
    pub fn add(&mut self, interval: &IntervalProfile, length_ns: u64) {
        self.length_ns = self.length_ns.saturating_add(length_ns);
        for sample in &interval.samples {
            let name = sample
                .owner
                .and_then(|owner| interval.names.get(owner as usize));
            let owner = name.map_or(NONE, |name| self.owner(name));
            let key = [
                sample.cpu as u64,
                sample.event as u64,
                sample.part.map_or(NONE, |part| part as u64),
                owner,
            ];
            let functions = &interval.functions[sample.begin..sample.end];
            let at = match self.keys.number(key, functions) {
                Numbered::Again(at) => at,
                Numbered::New(at) => {
                    self.sums.push((0, 0));
                    at
                }
                Numbered::NoRoom => {
                    self.left_out += 1;
                    continue;
                }
            };
            let (count, cpu_ns) = &mut self.sums[at];
            *count += 1;
            *cpu_ns = cpu_ns.saturating_add(sample.worth_ns);
        }
    }

    fn owner(&mut self, name: &str) -> u64 {
        if let Some(number) = self.name_numbers.get(name) {
            return *number;
        }
        if self.names.len() == MOST_NAMES {
            return NONE;
        }
        let number = self.names.len() as u64;
        self.names.push(name.to_owned());
        self.name_numbers.insert(name.to_owned(), number);
        number
    }

    /// All samples, equal ones together.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.keys.iter().zip(&self.sums).filter_map(|(key, sums)| {
            let ([cpu, event, part, owner], functions) = key.split_first_chunk()?;
            Some(Row {
                cpu: *cpu as u32,
                event: *event as usize,
                part: (*part != NONE).then_some(*part as usize),
                owner: self.names.get(*owner as usize).map(String::as_str),
                functions,
                count: sums.0,
                cpu_ns: sums.1,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_samples_are_one_row_and_owners_are_known_by_name() {
        let mut recorder = ProfileRecorder::default();
        for numbers in [[7, 8], [8, 7]] {
            let mut interval = IntervalProfile::default();
            interval.add((0, 3, Some(4)), Some(0), 1.0, &[10, 20]);
            interval.add((0, 3, Some(4)), Some(1), 1.0, &[10, 20]);
            interval.add((1, 3, None), None, 2.0, &[30]);
            interval.set_worth(|cpu| 100 + cpu as u64);
            // Owners get other numbers from interval to interval.
            let name = |number| String::from(if number == numbers[0] { "web" } else { "db" });
            interval.set_causes(|place| numbers.get(place).copied(), name);
            recorder.add(&interval, 500);
        }
        let rows: Vec<Row<'_>> = recorder.rows().collect();
        let owned = Row {
            cpu: 0,
            event: 3,
            part: Some(4),
            owner: Some("web"),
            functions: &[10, 20],
            count: 2,
            cpu_ns: 200,
        };
        assert_eq!(
            rows,
            [
                owned,
                Row {
                    owner: Some("db"),
                    ..owned
                },
                Row {
                    cpu: 1,
                    part: None,
                    owner: None,
                    functions: &[30],
                    count: 2,
                    cpu_ns: 404,
                    ..owned
                }
            ]
        );
        assert_eq!((recorder.length_ns, recorder.left_out), (1000, 0));
    }

    #[test]
    fn samples_beyond_the_room_are_counted() {
        let mut recorder = ProfileRecorder::default();
        let mut interval = IntervalProfile::default();
        for function in 0..MOST.known as u64 + 5 {
            interval.add((0, 1, None), None, 1.0, &[function]);
        }
        recorder.add(&interval, 1);
        assert_eq!(recorder.rows().count(), MOST.known);
        assert_eq!(recorder.left_out, 5);
    }
}
