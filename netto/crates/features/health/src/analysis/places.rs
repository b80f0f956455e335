//! Which devices have the places in the programs' records: those that the score is about, and those that
//! files of theirs are on. A place whose device was quiet is given back where another wants one. Pure.

use std::collections::HashMap;

use crate::abi;
use crate::analysis::devices::Number;

/// After so many readings without a request or a lookup a device may lose its place.
const QUIET_READINGS: u32 = 10;

/// A device that is to have a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) number: Number,
    /// Whether it did anything since the last reading, as far as that is known.
    pub(crate) is_active: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Free,
    /// Given back. A program that still counts there ends before the next reading.
    Resting,
    Taken {
        by: Number,
        quiet_readings: u32,
    },
}

/// The places, as programs find them.
#[derive(Debug)]
pub(crate) struct Places([Place; abi::HEALTH_DEVICES]);

impl Default for Places {
    fn default() -> Self {
        Places([Place::Free; abi::HEALTH_DEVICES])
    }
}

impl Places {
    /// Gives places to devices, active ones first, and takes them from those that are not wanted any
    /// more. Returns the active devices that have none.
    pub(crate) fn arrange(&mut self, wanted: &[Wanted]) -> Vec<Number> {
        let mut waiting: HashMap<Number, bool> = wanted
            .iter()
            .map(|device| (device.number, device.is_active))
            .collect();
        for place in &mut self.0 {
            *place = match *place {
                Place::Free | Place::Resting => Place::Free,
                Place::Taken { by, quiet_readings } => match waiting.remove(&by) {
                    None => Place::Resting,
                    Some(is_active) => Place::Taken {
                        by,
                        quiet_readings: if is_active { 0 } else { quiet_readings + 1 },
                    },
                },
            };
        }
        let wants = |device: &&Wanted| waiting.contains_key(&device.number);
        let (active, quiet): (Vec<&Wanted>, Vec<&Wanted>) = wanted
            .iter()
            .filter(wants)
            .partition(|device| device.is_active);
        let mut left = active.iter().chain(&quiet).map(|device| device.number);
        let free = self.0.iter_mut().filter(|place| **place == Place::Free);
        let mut given = 0;
        for (place, by) in free.zip(&mut left) {
            given += 1;
            *place = Place::Taken {
                by,
                quiet_readings: 0,
            };
        }
        let without: Vec<Number> = active
            .iter()
            .skip(given)
            .map(|device| device.number)
            .collect();
        self.give_back(without.len());
        without
    }

    /// So many places of those that were quiet for longest.
    fn give_back(&mut self, count: usize) {
        let quiet = |place: &&mut Place| match place {
            Place::Taken { quiet_readings, .. } => Some(*quiet_readings),
            Place::Free | Place::Resting => None,
        };
        let mut taken: Vec<&mut Place> = self.0.iter_mut().collect();
        taken.retain(|place| quiet(place).is_some_and(|readings| readings >= QUIET_READINGS));
        taken.sort_by_key(|place| std::cmp::Reverse(quiet(place)));
        for place in taken.into_iter().take(count) {
            *place = Place::Resting;
        }
    }

    /// The device of each place; 0 if it has none.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|place| match place {
            Place::Taken { by, .. } => by.0,
            Place::Free | Place::Resting => 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = abi::HEALTH_DEVICES as u64;

    /// Devices of these numbers, of which those that `is_active` says are.
    fn devices(
        numbers: std::ops::RangeInclusive<u64>,
        is_active: impl Fn(u64) -> bool,
    ) -> Vec<Wanted> {
        let device = |number| Wanted {
            number: Number(number),
            is_active: is_active(number),
        };
        numbers.map(device).collect()
    }

    fn with_place(places: &Places) -> Vec<u64> {
        let mut numbers: Vec<u64> = places.numbers().filter(|number| *number != 0).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn each_wanted_device_has_a_place_while_there_are_enough_and_keeps_it() {
        let mut places = Places::default();
        let wanted = devices(1..=ALL, |_| false);
        for _ in 0..3 * QUIET_READINGS {
            assert_eq!(places.arrange(&wanted), []);
            assert!(places.numbers().eq(1..=ALL));
        }
    }

    #[test]
    fn active_devices_come_first_and_those_without_a_place_are_told() {
        let mut places = Places::default();
        let wanted = devices(1..=ALL + 8, |number| number > 4);
        let without = places.arrange(&wanted);
        assert_eq!(without, (ALL + 5..=ALL + 8).map(Number).collect::<Vec<_>>());
        assert_eq!(with_place(&places), (5..=ALL + 4).collect::<Vec<_>>());
        // Nobody is quiet: nobody loses a place.
        for _ in 0..3 * QUIET_READINGS {
            assert_eq!(places.arrange(&wanted).len(), 4);
        }
        assert_eq!(with_place(&places), (5..=ALL + 4).collect::<Vec<_>>());
    }

    #[test]
    fn a_quiet_device_gives_its_place_back_and_it_rests_for_a_reading() {
        let mut places = Places::default();
        let before = devices(1..=ALL, |number| number != 7);
        for _ in 0..=QUIET_READINGS {
            assert_eq!(places.arrange(&before), []);
        }
        let with_newcomer = devices(1..=ALL + 1, |number| number != 7);
        assert_eq!(places.arrange(&with_newcomer), [Number(ALL + 1)]);
        assert!(!with_place(&places).contains(&7));
        assert!(
            !with_place(&places).contains(&(ALL + 1)),
            "programs may still count there"
        );
        assert_eq!(places.arrange(&with_newcomer), []);
        assert!(with_place(&places).contains(&(ALL + 1)));
        // The quiet one has a place again as soon as it does something.
        let awake = devices(1..=ALL + 1, |number| number != 9);
        assert_eq!(places.arrange(&awake), [Number(7)]);
        for _ in 0..QUIET_READINGS {
            places.arrange(&awake);
        }
        assert!(with_place(&places).contains(&7) && !with_place(&places).contains(&9));
    }

    #[test]
    fn devices_that_come_and_go_leave_no_place_taken() {
        let mut places = Places::default();
        for first in 1..=50 * ALL {
            let without = places.arrange(&devices(first..=first + 3, |_| true));
            assert_eq!(without, []);
        }
        assert_eq!(with_place(&places).len(), 4);
        places.arrange(&[]);
        assert_eq!(with_place(&places).len(), 0);
    }
}
