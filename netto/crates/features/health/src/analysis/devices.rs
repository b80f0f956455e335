//! Block devices: the kernel's statistics of them (`/proc/diskstats`), and what probes have timed.

use std::collections::HashMap;

use metrics_common::sections::{BlockDevice, MOST_OF_HEALTH, Requests, Timed};

use crate::abi;

const SECTOR_BYTES: u64 = 512;
const MS: u64 = 1_000_000;
const MINOR_BITS: u32 = 20;

/// The kernel's number of a device: its major and minor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Number(pub(crate) u64);

impl Number {
    pub(crate) fn of(major: u64, minor: u64) -> Self {
        Number((major << MINOR_BITS) | minor)
    }

    /// As in `/sys/dev/block`.
    pub(crate) fn path(self) -> String {
        let minor = self.0 & ((1 << MINOR_BITS) - 1);
        format!("{}:{minor}", self.0 >> MINOR_BITS)
    }
}

/// The statistics of a device since it is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Completed, their sectors, and milliseconds, of reads and of writes.
    directions: [[u64; 3]; 2],
    outstanding_ms: u64,
}

/// A device of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) number: Number,
    pub(crate) name: String,
    pub(crate) statistics: Statistics,
}

/// The lines of `/proc/diskstats`, those that cannot be read left out.
pub(crate) fn parse(text: &str) -> Vec<Listed> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let number = Number::of(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.next()?.to_owned();
        let values: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let at = |place: usize| values.get(place).copied();
        Some(Listed {
            number,
            name,
            statistics: Statistics {
                directions: [[at(0)?, at(2)?, at(3)?], [at(4)?, at(6)?, at(7)?]],
                outstanding_ms: at(10)?,
            },
        })
    };
    text.lines().filter_map(line).collect()
}

/// What probes have counted of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OfDevice {
    pub(crate) lookups: u64,
    /// Of reads and of writes.
    pub(crate) timed: [Timed; 2],
}

/// What probes have counted, by device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timings {
    pub(crate) devices: HashMap<Number, OfDevice>,
    pub(crate) other_lookups: u64,
}

impl Timings {
    /// Of the devices in the slots, and the words of all records together.
    pub(crate) fn of(slots: &[Number], words: &[u64]) -> Self {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let timed = |row: usize| Timed {
            count: word(abi::HEALTH_COUNT + row),
            queue_ns: word(abi::HEALTH_QUEUE_NS + row),
            service_ns: word(abi::HEALTH_SERVICE_NS + row),
            errors: word(abi::HEALTH_ERRORS + row),
        };
        let devices = slots.iter().enumerate().filter(|(_, number)| number.0 != 0);
        let devices = devices.map(|(slot, number)| {
            let of_device = OfDevice {
                lookups: word(abi::HEALTH_LOOKUPS + slot),
                timed: [timed(slot), timed(abi::HEALTH_DEVICES + slot)],
            };
            (*number, of_device)
        });
        Timings {
            devices: devices.collect(),
            other_lookups: word(abi::HEALTH_ELSEWHERE),
        }
    }
}

/// Follows the statistics of chosen devices from one reading to the next.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    before: HashMap<Number, Statistics>,
    /// Requests of the newest interval at devices without a slot.
    pub(crate) untimed_requests: u64,
}

impl Follower {
    /// Whether a device has completed anything since the last reading.
    pub(crate) fn is_active(&self, device: &Listed) -> bool {
        let last = self.before.get(&device.number);
        last.is_some_and(|last| last.directions != device.statistics.directions)
    }

    /// What came since the last reading, of the devices for which `class` gives one: those with most
    /// requests. A device that is met the first time has nothing yet.
    pub(crate) fn advance(
        &mut self,
        listed: &[Listed],
        timings: Option<&Timings>,
        class: impl Fn(&Listed) -> Option<String>,
    ) -> Vec<BlockDevice> {
        let mut before = std::mem::take(&mut self.before);
        let mut devices = Vec::new();
        self.untimed_requests = 0;
        for device in listed {
            let last = before.remove(&device.number);
            self.before.insert(device.number, device.statistics);
            let Some(class) = class(device) else { continue };
            let last = last.unwrap_or(device.statistics);
            // Without a slot no probe has timed it.
            let timed = timings.and_then(|all| Some(all.devices.get(&device.number)?.timed));
            let requests = |side: usize| {
                let (now, last) = (device.statistics.directions[side], last.directions[side]);
                let grown = |at: usize| now[at].saturating_sub(last[at]);
                Requests {
                    count: grown(0),
                    bytes: grown(1) * SECTOR_BYTES,
                    whole_ns: grown(2) * MS,
                    timed: timed.map(|both| both[side]),
                }
            };
            let outstanding_ms = device.statistics.outstanding_ms;
            let (reads, writes) = (requests(0), requests(1));
            if timings.is_some() && timed.is_none() {
                self.untimed_requests += reads.count + writes.count;
            }
            devices.push(BlockDevice {
                name: device.name.clone(),
                class,
                reads,
                writes,
                outstanding_ns: outstanding_ms.saturating_sub(last.outstanding_ms) * MS,
            });
        }
        devices.sort_by_key(|device| std::cmp::Reverse(device.reads.count + device.writes.count));
        devices.truncate(MOST_OF_HEALTH);
        devices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = " 254       0 vda 10 1 80 30 20 2 160 70 3 90 100 0 0 0 0 0 0\n";

    #[test]
    fn a_reading_is_compared_with_the_one_before() {
        let mut follower = Follower::default();
        let class = |_: &Listed| Some("ssd".to_owned());
        let first = follower.advance(&parse(LINE), None, class);
        assert_eq!(first[0].reads, Requests::default());
        let later = LINE
            .replace("vda 10 1 80 30 20", "vda 14 1 88 50 21")
            .replace("90 100", "95 130");
        let now = parse(&later);
        let timed = Timed {
            count: 3,
            queue_ns: 1,
            service_ns: 9,
            errors: 0,
        };
        let of_device = OfDevice {
            lookups: 5,
            timed: [timed, Timed::default()],
        };
        let timings = Timings {
            devices: [(now[0].number, of_device)].into(),
            other_lookups: 0,
        };
        let device = &follower.advance(&now, Some(&timings), class)[0];
        assert_eq!(
            (
                device.reads.count,
                device.reads.bytes,
                device.reads.whole_ns
            ),
            (4, 4_096, 20 * MS)
        );
        assert_eq!(device.reads.timed, Some(timed));
        assert_eq!((device.writes.count, device.outstanding_ns), (1, 30 * MS));
        assert!(!follower.is_active(&now[0]));
        assert!(follower.is_active(&parse(LINE)[0]), "it is another reading");
        let without = Timings::default();
        let device = &follower.advance(&now, Some(&without), class)[0];
        assert_eq!(device.reads.timed, None, "it has no slot");
        follower.advance(
            &parse(&later.replace("vda 14", "vda 19")),
            Some(&without),
            class,
        );
        assert_eq!(follower.untimed_requests, 5);
        assert_eq!(follower.advance(&now, None, |_| None), []);
    }

    #[test]
    fn lines_that_are_none_are_left_out_and_numbers_are_paths() {
        assert_eq!(parse("x y z\n1 2 name 3\n\n"), []);
        let all = parse(LINE);
        assert_eq!(
            (all[0].number.path(), &*all[0].name),
            ("254:0".to_owned(), "vda")
        );
    }

    #[test]
    fn what_slots_have_counted_belongs_to_their_devices() {
        let mut words = vec![0; abi::HEALTH_BYTES / 8];
        words[abi::HEALTH_ELSEWHERE] = 2;
        words[abi::HEALTH_LOOKUPS + 1] = 7;
        words[abi::HEALTH_COUNT + abi::HEALTH_DEVICES + 1] = 3;
        let timings = Timings::of(&[Number(0), Number::of(8, 0)], &words);
        assert_eq!((timings.devices.len(), timings.other_lookups), (1, 2));
        let of_device = timings.devices[&Number::of(8, 0)];
        assert_eq!(
            (
                of_device.lookups,
                of_device.timed[0].count,
                of_device.timed[1].count
            ),
            (7, 0, 3)
        );
    }
}
