//! What a verdict on a long time needs besides the sums of components. Pure, and bounded.

use super::{Course, Courses, Whose, reason};
use metrics_common::info::Info;
use metrics_common::sections::{Columns, Owners, Section};
use metrics_common::snapshot::Snapshot;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Evidence {
    info: Option<Info>,
    owners: Option<Owners>,
    owners_ns: u64,
    courses: Courses,
}

impl Evidence {
    /// Sets the meaning of the following intervals.
    pub fn describe(&mut self, info: &Info) {
        self.info = Some(info.clone());
    }

    /// Adds an interval, or a sum of some.
    pub fn add(&mut self, snapshot: &Snapshot) {
        if let Some(owners) = &snapshot.sections.owners {
            let sum = self.owners.get_or_insert_default();
            sum.add(owners, &Columns::folded());
            self.owners_ns = self.owners_ns.saturating_add(snapshot.interval_ns);
        }
        if let Some(info) = &self.info {
            self.courses.add(info, snapshot);
        }
    }

    /// Whose it is on this many CPUs, or why that is unknown.
    pub fn whose(&self, cpus: usize) -> Result<Whose, String> {
        match (&self.owners, &self.info) {
            (Some(owners), _) => Ok(Whose::of(owners, self.owners_ns, cpus)),
            (None, Some(info)) => Err(reason(info, "owners")),
            (None, None) => Err("there is no interval".to_owned()),
        }
    }

    /// Whether latency goes up with cost, or why that is unknown.
    pub fn course(&self) -> Result<Course, String> {
        match &self.info {
            Some(info) => self.courses.found(info),
            None => Err("there is no interval".to_owned()),
        }
    }
}
