//! The records of a measurement that is shown at its end, up to a bound; what is beyond it is counted.
//! Pure.

use std::collections::HashMap;

use serde::Serialize;

use crate::flow::{Counts, Key};
use crate::kernel::collector::Prefix;
use crate::table::Record;

/// Most prefixes that are listed.
const MOST_PREFIXES: usize = 10_000;

/// Records, and what had no room.
#[derive(Debug)]
pub(crate) struct Records {
    most: usize,
    pub listed: Vec<Record>,
    /// What came of flows without room, and how many flows it were at least.
    pub prefixes: HashMap<Key, (Counts, u64)>,
    pub left_out: LeftOut,
}

/// Records that are not listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LeftOut {
    pub records: u64,
    pub packets: u64,
    pub bytes: u64,
}

impl Records {
    /// None yet, of so many at most.
    pub(crate) fn new(most: usize) -> Records {
        Records {
            most,
            listed: Vec::new(),
            prefixes: HashMap::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Adds what came by prefix.
    pub(crate) fn add_prefixes(&mut self, prefixes: &[Prefix]) {
        for Prefix { part, flows } in prefixes {
            let has_room = self.prefixes.len() < MOST_PREFIXES;
            match self.prefixes.get_mut(&part.key) {
                Some((counts, least_flows)) => {
                    counts.add(&part.counts);
                    *least_flows = (*least_flows).max(*flows);
                }
                None if has_room => {
                    self.prefixes.insert(part.key, (part.counts, *flows));
                }
                None => self.left_out.add(&part.counts),
            }
        }
    }
}

impl LeftOut {
    fn add(&mut self, counts: &Counts) {
        self.records += 1;
        self.packets += counts.packets;
        self.bytes += counts.bytes;
    }
}

impl Extend<Record> for Records {
    fn extend<T: IntoIterator<Item = Record>>(&mut self, more: T) {
        for record in more {
            if self.listed.len() < self.most {
                self.listed.push(record);
                continue;
            }
            self.left_out.add(&record.counts);
        }
    }
}
