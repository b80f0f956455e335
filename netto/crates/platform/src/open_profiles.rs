//! Profiles that are being recorded: added to by the measurement at the end of each interval, begun
//! and ended by readers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use netto_analysis::profile::{IntervalProfile, ProfileRecorder};
use netto_pipeline::profile::MOST_PROFILES;

/// How long the end of a recording without any interval waits for one: longer than an interval of a
/// quiet host.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct OpenProfiles {
    active: Mutex<Vec<(u64, ProfileRecorder)>>,
    has_grown: Condvar,
    /// Their number, so that the measurement need not take the lock.
    count: AtomicUsize,
    next: AtomicUsize,
}

impl OpenProfiles {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, ProfileRecorder)>> {
        // At worst one profile has a part of an interval.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are any.
    pub(crate) fn are_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Begins one; its number.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn begin(&self) -> anyhow::Result<u64> {
        let mut active = self.lock();
        if active.len() >= MOST_PROFILES {
            bail!(
                "{MOST_PROFILES} profiles are being recorded already; try again when one has ended"
            );
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) as u64;
        active.push((number, ProfileRecorder::default()));
        self.count.store(active.len(), Ordering::Relaxed);
        Ok(number)
    }

    /// Adds an interval to all.
    pub(crate) fn add(&self, interval: &IntervalProfile, length_ns: u64) {
        for (_, recorder) in self.lock().iter_mut() {
            recorder.add(interval, length_ns);
        }
        self.has_grown.notify_all();
    }

    /// Ends one, with at least one interval unless none comes.
    pub(crate) fn end(&self, number: u64) -> Option<ProfileRecorder> {
        let is_empty = |active: &mut Vec<(u64, ProfileRecorder)>| {
            let found = active.iter().find(|(candidate, _)| *candidate == number);
            found.is_some_and(|(_, recorder)| recorder.length_ns == 0)
        };
        let waited = self
            .has_grown
            .wait_timeout_while(self.lock(), PATIENCE, is_empty);
        let mut active = waited.unwrap_or_else(PoisonError::into_inner).0;
        let place = active
            .iter()
            .position(|(candidate, _)| *candidate == number)?;
        let (_, recorder) = active.swap_remove(place);
        self.count.store(active.len(), Ordering::Relaxed);
        Some(recorder)
    }

    /// Drops one that nobody waits for any more.
    pub(crate) fn abandon(&self, number: u64) {
        let mut active = self.lock();
        active.retain(|(candidate, _)| *candidate != number);
        self.count.store(active.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_recording_has_the_intervals_between_its_begin_and_its_end() {
        let profiles = OpenProfiles::default();
        assert!(!profiles.are_any());
        let first = profiles.begin().unwrap();
        let interval = IntervalProfile::default();
        profiles.add(&interval, 5);
        let second = profiles.begin().unwrap();
        profiles.add(&interval, 7);
        assert_eq!(profiles.end(first).unwrap().length_ns, 12);
        assert_eq!(profiles.end(second).unwrap().length_ns, 7);
        assert!(profiles.end(second).is_none() && !profiles.are_any());
    }

    #[test]
    fn there_are_only_so_many_at_once_and_an_abandoned_one_makes_room() {
        let profiles = OpenProfiles::default();
        let numbers: Vec<u64> = (0..MOST_PROFILES)
            .map(|_| profiles.begin().unwrap())
            .collect();
        assert!(
            profiles
                .begin()
                .unwrap_err()
                .to_string()
                .contains("already")
        );
        profiles.abandon(numbers[0]);
        profiles.begin().unwrap();
    }
}
