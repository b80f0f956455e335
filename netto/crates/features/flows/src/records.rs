//! The records of a measurement that is shown at its end, up to a bound; what is beyond it is counted.
//! Pure.

use serde::Serialize;

use crate::table::Record;

/// Records, and what had no room.
#[derive(Debug)]
pub(crate) struct Records {
    most: usize,
    pub listed: Vec<Record>,
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
            left_out: LeftOut::default(),
        }
    }
}

impl Extend<Record> for Records {
    fn extend<T: IntoIterator<Item = Record>>(&mut self, more: T) {
        for record in more {
            if self.listed.len() < self.most {
                self.listed.push(record);
                continue;
            }
            self.left_out.records += 1;
            self.left_out.packets += record.counts.packets;
            self.left_out.bytes += record.counts.bytes;
        }
    }
}
