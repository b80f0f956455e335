//! From records to flows: what is not understood or cannot be made is counted and told.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::anyhow;

use crate::plan::Flow;
use crate::read::{Fault, Records};
use crate::rewrite::{Rewrite, rewrite};

/// How many records are told of one by one.
const MOST_TOLD: u64 = 10;

/// What is done with each record.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Networks that take others' places.
    pub rewrites: Vec<Rewrite>,
    /// Bytes of a packet at most, IP header included.
    pub mtu: u16,
    /// For the numbers that are chosen.
    pub seed: u64,
    /// Whether a record that is not understood or refused is the end.
    pub is_strict: bool,
}

/// What has become of the records so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Records that were understood.
    pub records: u64,
    /// Records that were not.
    pub not_understood: u64,
    /// Records that were understood, and cannot be made.
    pub refused: u64,
    /// Packets that have no record, as the records say themselves.
    pub not_listed_packets: u64,
    /// Why there is no further record.
    pub failure: Option<anyhow::Error>,
}

impl Tally {
    fn troubles(&self) -> u64 {
        self.not_understood + self.refused
    }
}

/// Flows of records.
pub struct Intake {
    records: Records,
    terms: Terms,
    tally: Rc<RefCell<Tally>>,
    say: fn(&str),
}

impl Intake {
    /// The flows of these records; lines for the user go to `say`.
    pub fn new(records: Records, terms: Terms, tally: Rc<RefCell<Tally>>, say: fn(&str)) -> Self {
        Intake {
            records,
            terms,
            tally,
            say,
        }
    }

    /// Tells of a record, of which it is the last with `is_strict`.
    fn trouble(&self, text: String) {
        let mut tally = self.tally.borrow_mut();
        match tally.troubles() {
            _ if self.terms.is_strict => tally.failure = Some(anyhow!("{text} (--strict)")),
            count if count <= MOST_TOLD => (self.say)(&text),
            count if count == MOST_TOLD + 1 => {
                (self.say)("further records that cannot be used are only counted");
            }
            _ => {}
        }
    }
}

impl Iterator for Intake {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        while self.tally.borrow().failure.is_none() {
            let mut record = match self.records.next()? {
                Ok(record) => record,
                Err(Fault::Note(text)) => {
                    (self.say)(&text);
                    continue;
                }
                Err(Fault::NotListed(packets)) => {
                    let mut tally = self.tally.borrow_mut();
                    tally.not_listed_packets = tally.not_listed_packets.saturating_add(packets);
                    continue;
                }
                Err(Fault::Record(error)) => {
                    self.tally.borrow_mut().not_understood += 1;
                    self.trouble(error.to_string());
                    continue;
                }
                Err(error @ Fault::Broken(_)) => {
                    self.tally.borrow_mut().failure = Some(error.into());
                    return None;
                }
            };
            self.tally.borrow_mut().records += 1;
            record.addresses = rewrite(&self.terms.rewrites, record.addresses);
            match Flow::new(record, self.terms.mtu, self.terms.seed) {
                Ok(flow) => return Some(flow),
                Err(refusal) => {
                    let number = {
                        let mut tally = self.tally.borrow_mut();
                        tally.refused += 1;
                        tally.records
                    };
                    let addresses = record.addresses;
                    self.trouble(format!("record {number} ({addresses}): {refusal}"));
                }
            }
        }
        None
    }
}
