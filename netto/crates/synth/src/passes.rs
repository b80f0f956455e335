//! All packets of all passes over the records, with their times since the first.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::Context as _;

use crate::intake::{Intake, Tally, Terms};
use crate::packet::Packet;
use crate::plan::{InOrder, Jitter, Schedule};
use crate::read::Records;

/// From the last packet of a pass to the first of the next.
const BETWEEN_NS: u64 = 1_000_000;

/// A packet and its time.
#[derive(Debug, Clone, Copy)]
pub struct Timed {
    /// Since the first packet of all, as the records have it.
    pub offset_ns: u64,
    /// What is sent.
    pub packet: Packet,
}

/// How records are played.
#[derive(Debug, Clone)]
pub struct Order {
    /// What is done with each record.
    pub terms: Terms,
    /// How far packets are from being even.
    pub jitter: Jitter,
    /// How many records are looked ahead to put them in order.
    pub look_ahead: usize,
    /// How often the records are played.
    pub passes: u64,
}

/// The packets.
pub struct Passes<O> {
    open: O,
    order: Order,
    schedule: Option<Schedule<InOrder<Intake>>>,
    tally: Rc<RefCell<Tally>>,
    say: fn(&str),
    done: u64,
    /// Time of the pass's first packet, on the records' clock and since the first packet of all.
    base_ns: u64,
    begin_ns: u64,
    last_ns: u64,
    /// Time of the very first packet, on the records' clock.
    start_ns: u64,
    moved: u64,
    most_under_way: usize,
}

impl<O: FnMut() -> anyhow::Result<Records>> Passes<O> {
    /// Plays what `open` gives at each pass.
    pub fn new(open: O, order: Order, say: fn(&str)) -> Self {
        Passes {
            open,
            order,
            schedule: None,
            tally: Rc::default(),
            say,
            done: 0,
            base_ns: 0,
            begin_ns: 0,
            last_ns: 0,
            start_ns: 0,
            moved: 0,
            most_under_way: 0,
        }
    }

    /// The next packet; none after the last one.
    ///
    /// # Errors
    /// The records cannot be read, or one is wrong and the terms are strict.
    pub fn next(&mut self) -> anyhow::Result<Option<Timed>> {
        loop {
            let Some(schedule) = &mut self.schedule else {
                if self.done == self.order.passes {
                    return Ok(None);
                }
                self.begin()?;
                continue;
            };
            let due = schedule.next();
            if let Some(failure) = self.tally.borrow_mut().failure.take() {
                return Err(failure);
            }
            if let Some(due) = due {
                let offset_ns = self.begin_ns + (due.at_ns - self.base_ns);
                self.last_ns = offset_ns;
                let packet = due.packet;
                return Ok(Some(Timed { offset_ns, packet }));
            }
            let is_empty = self
                .schedule
                .as_ref()
                .is_some_and(|of| of.most_under_way() == 0);
            self.end();
            // Another pass would be as empty.
            if is_empty {
                self.done = self.order.passes;
            }
        }
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        let records = (self.open)().context("cannot read the records")?;
        // The first pass has told of the records that cannot be used.
        let say = if self.done == 0 {
            self.say
        } else {
            |_: &str| {}
        };
        let intake = Intake::new(records, self.order.terms.clone(), self.tally.clone(), say);
        let flows = InOrder::new(intake, self.order.look_ahead);
        let schedule = Schedule::new(flows, self.order.jitter);
        self.base_ns = schedule.start_ns().unwrap_or_default();
        if self.done == 0 {
            self.start_ns = self.base_ns;
        } else {
            self.begin_ns = self.last_ns + BETWEEN_NS;
        }
        self.schedule = Some(schedule);
        Ok(())
    }

    fn end(&mut self) {
        self.moved = self.moved();
        self.most_under_way = self.most_under_way();
        self.schedule = None;
        self.done += 1;
    }

    /// Time of the first packet on the records' clock.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// What has become of the records so far.
    pub fn tally(&self) -> std::cell::Ref<'_, Tally> {
        self.tally.borrow()
    }

    /// Records that came too late, and were moved.
    pub fn moved(&self) -> u64 {
        let now = self.schedule.as_ref().map_or(0, |of| of.source().moved());
        self.moved + now
    }

    /// The most flows that were under way at once.
    pub fn most_under_way(&self) -> usize {
        let now = self.schedule.as_ref().map_or(0, Schedule::most_under_way);
        self.most_under_way.max(now)
    }

    /// Whether this is the last pass, and the end of its flows so far, since the first packet of all.
    pub fn end_ns(&self) -> Option<u64> {
        let schedule = self.schedule.as_ref()?;
        let is_last = self.done + 1 == self.order.passes;
        is_last.then(|| self.begin_ns + schedule.last_end_ns().saturating_sub(self.base_ns))
    }

    /// Passes that are over.
    pub fn done(&self) -> u64 {
        self.done
    }
}
