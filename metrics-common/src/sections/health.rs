//! The host's health: what a score of it and the choice between hosts depend on. Storage, page cache,
//! connections, interfaces, drives, pressure.
//!
//! Counts are of the interval, and add up; everything else is as it was read last. What is not known
//! is absent, and [`Health::missing`] says why. The page does not read it.

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::recorded::Recorded;
use super::section::Section;
use crate::packed::Damaged;

/// Most block devices, interfaces, drives, resources and missing figures, each.
pub const MOST_OF_HEALTH: usize = 16;
/// Most control groups, all others together as one of them.
pub const MOST_READING_GROUPS: usize = 32;

/// The host's health in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Health {
    /// For how much time counts stand, nanoseconds.
    pub measured_ns: u64,
    /// The expected time that gets the full score, if one was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_ns: Option<u64>,
    /// The block devices that the score is about.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub devices: Vec<BlockDevice>,
    /// Times that reads looked into the page cache, for files of these devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_lookups: Option<u64>,
    /// Reads by control group, of files and devices of any kind: the largest, and all others together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 32)))]
    pub groups: Vec<GroupReads>,
    /// Time in which tasks waited for a resource.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub pressure: Vec<Pressure>,
    /// TCP's connections and listening sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpHealth>,
    /// Interfaces that are up, without loopback.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub links: Vec<LinkHealth>,
    /// Drives that tell of themselves.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub drives: Vec<DriveHealth>,
    /// Share of the CPUs' time that is not idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub cpu_ratio: Option<f64>,
    /// Share of memory that is not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub memory_ratio: Option<f64>,
    /// What is not known here, and why.
    pub missing: Vec<MissingFigure>,
}

/// A block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockDevice {
    /// Its name.
    pub name: String,
    /// What it is: `nvme`, `ssd`, `rotational`, `virtual` (its host knows), `loop` or `stacked`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["nvme", "ssd", "rotational", "virtual", "loop", "stacked"])))]
    pub class: String,
    /// Reads.
    pub reads: Requests,
    /// Writes.
    pub writes: Requests,
    /// Time of all requests under way, together: by the length of the time it is their mean number.
    pub outstanding_ns: u64,
}

/// Requests of one direction that a device completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Requests {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time from being made to completion, as the kernel's statistics have it.
    pub whole_ns: u64,
    /// Those that probes have timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed: Option<Timed>,
}

/// Requests that probes have timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timed {
    /// How many.
    pub count: u64,
    /// Time until the device got them, together.
    pub queue_ns: u64,
    /// Time in the device, together.
    pub service_ns: u64,
    /// Those that failed.
    pub errors: u64,
}

/// Reads of the tasks of a control group (version 2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupReads {
    /// Its path below the mount; absent of all others together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Times that its reads of files looked into the page cache.
    pub lookups: u64,
    /// Reads that its tasks gave to devices themselves. What threads of the kernel gave to them for
    /// somebody is among all others.
    pub requests: u64,
}

/// Time in which tasks waited for a resource (pressure stall information).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// `cpu`, `io` or `memory`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["cpu", "io", "memory"])))]
    pub resource: String,
    /// Time in which some task waited.
    pub some_ns: u64,
    /// Time in which all of them did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_ns: Option<u64>,
}

/// TCP's connections that are established, without those within the host, and listening sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpHealth {
    /// Connections that were looked at.
    pub connections: u64,
    /// The median of their smoothed round-trip times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<u64>,
    /// Segments that they sent.
    pub sent_segments: u64,
    /// Of these, segments sent again.
    pub retransmitted: u64,
    /// The accept queue that is fullest: its length and its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_queue: Option<(u64, u64)>,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkHealth {
    /// Its name.
    pub name: String,
    /// Its speed, if the driver tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that the device dropped or missed.
    pub dropped: u64,
    /// Bytes that wait in its queueing discipline; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_bytes: Option<u64>,
    /// Packets that the queueing discipline dropped.
    pub qdisc_dropped: u64,
}

/// What a drive tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriveHealth {
    /// Its name.
    pub name: String,
    /// Part of its life that is used, per cent; may be more than 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_percent: Option<u64>,
    /// Times that data could not be read or were not as written, since it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<u64>,
    /// Its temperature, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<i64>,
    /// The temperature from which on it warns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_celsius: Option<i64>,
}

/// A figure that is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingFigure {
    /// Which.
    pub figure: String,
    /// Why.
    pub reason: String,
}

impl Requests {
    fn add(&mut self, later: &Self) {
        self.count = self.count.saturating_add(later.count);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.whole_ns = self.whole_ns.saturating_add(later.whole_ns);
        if let Some(later) = later.timed {
            let timed = self.timed.get_or_insert_default();
            timed.count = timed.count.saturating_add(later.count);
            timed.queue_ns = timed.queue_ns.saturating_add(later.queue_ns);
            timed.service_ns = timed.service_ns.saturating_add(later.service_ns);
            timed.errors = timed.errors.saturating_add(later.errors);
        }
    }
}

/// Adds each of `later` to the one with the same key, and takes up new ones while there is room.
fn join<T: Clone>(
    all: &mut Vec<T>,
    later: &[T],
    key: impl Fn(&T) -> &String,
    add: impl Fn(&mut T, &T),
) {
    for more in later {
        let has_room = all.len() < MOST_OF_HEALTH;
        match all.iter_mut().find(|member| key(member) == key(more)) {
            Some(member) => add(member, more),
            None if has_room => all.push(more.clone()),
            None => {}
        }
    }
}

/// Adds reads by group. A new group has a place of its own while there is one: no sum that somebody
/// follows becomes less.
fn join_groups(all: &mut Vec<GroupReads>, later: &[GroupReads]) {
    for more in later {
        // One place is for all others.
        let named = all.iter().filter(|group| group.path.is_some()).count();
        let is_known = all.iter().any(|group| group.path == more.path);
        let has_room = is_known || named + 1 < MOST_READING_GROUPS;
        let path = if has_room { more.path.as_ref() } else { None };
        let place = all.iter().position(|group| group.path.as_ref() == path);
        let place = place.unwrap_or_else(|| {
            all.push(GroupReads {
                path: path.cloned(),
                ..GroupReads::default()
            });
            all.len() - 1
        });
        let group = &mut all[place];
        group.lookups = group.lookups.saturating_add(more.lookups);
        group.requests = group.requests.saturating_add(more.requests);
    }
}

impl Section for Health {
    type Wire = Health;

    fn to_wire(&self) -> Health {
        self.clone()
    }

    fn from_wire(wire: Health, _: usize) -> Result<Self, Damaged> {
        let lengths = [
            wire.devices.len(),
            wire.pressure.len(),
            wire.links.len(),
            wire.drives.len(),
            wire.missing.len(),
        ];
        let is_bounded = lengths.iter().all(|length| *length <= MOST_OF_HEALTH)
            && wire.groups.len() <= MOST_READING_GROUPS;
        is_bounded.then_some(wire).ok_or(Damaged)
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        // An interval without it says nothing of the host.
        if later.measured_ns == 0 {
            return;
        }
        self.measured_ns = self.measured_ns.saturating_add(later.measured_ns);
        self.reference_ns = later.reference_ns;
        join(
            &mut self.devices,
            &later.devices,
            |device| &device.name,
            |device, later| {
                device.class.clone_from(&later.class);
                device.reads.add(&later.reads);
                device.writes.add(&later.writes);
                device.outstanding_ns = device.outstanding_ns.saturating_add(later.outstanding_ns);
            },
        );
        self.cache_lookups = match (self.cache_lookups, later.cache_lookups) {
            (Some(lookups), Some(later)) => Some(lookups.saturating_add(later)),
            (lookups, later) => later.or(lookups),
        };
        join_groups(&mut self.groups, &later.groups);
        join(
            &mut self.pressure,
            &later.pressure,
            |pressure| &pressure.resource,
            |pressure, later| {
                pressure.some_ns = pressure.some_ns.saturating_add(later.some_ns);
                if let Some(later) = later.full_ns {
                    pressure.full_ns = Some(pressure.full_ns.unwrap_or(0).saturating_add(later));
                }
            },
        );
        if let Some(later) = later.tcp {
            let tcp = self.tcp.get_or_insert_default();
            *tcp = TcpHealth {
                sent_segments: tcp.sent_segments.saturating_add(later.sent_segments),
                retransmitted: tcp.retransmitted.saturating_add(later.retransmitted),
                ..later
            };
        }
        // An interface that is gone has no health.
        self.links
            .retain(|link| later.links.iter().any(|later| later.name == link.name));
        join(
            &mut self.links,
            &later.links,
            |link| &link.name,
            |link, later| {
                *link = LinkHealth {
                    tx_bytes: link.tx_bytes.saturating_add(later.tx_bytes),
                    dropped: link.dropped.saturating_add(later.dropped),
                    qdisc_dropped: link.qdisc_dropped.saturating_add(later.qdisc_dropped),
                    ..later.clone()
                };
            },
        );
        self.drives.clone_from(&later.drives);
        self.cpu_ratio = later.cpu_ratio;
        self.memory_ratio = later.memory_ratio;
        self.missing.clone_from(&later.missing);
    }
}

/// Nothing of it is kept.
impl Recorded for Health {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::fixture;
    use crate::{Sections, Snapshot};

    fn health() -> Health {
        let requests = Requests {
            count: 3,
            bytes: 4_096,
            whole_ns: 50,
            timed: Some(Timed {
                count: 2,
                queue_ns: 10,
                service_ns: 30,
                errors: 1,
            }),
        };
        Health {
            measured_ns: 100,
            devices: vec![BlockDevice {
                name: "sda".to_owned(),
                reads: requests,
                outstanding_ns: 60,
                ..BlockDevice::default()
            }],
            cache_lookups: Some(7),
            links: vec![LinkHealth {
                name: "eth0".to_owned(),
                tx_bytes: 9,
                backlog_bytes: Some(5),
                ..LinkHealth::default()
            }],
            ..fixture::health()
        }
    }

    #[test]
    fn counts_add_up_and_states_are_the_latest() {
        let mut sum = Health::default();
        sum.add(&health(), &Columns::folded());
        sum.add(&Health::default(), &Columns::folded());
        let mut later = health();
        later.links[0].backlog_bytes = None;
        later.drives[0].celsius = Some(50);
        sum.add(&later, &Columns::folded());
        assert_eq!(sum.measured_ns, 200);
        let reads = sum.devices[0].reads;
        assert_eq!((reads.count, reads.bytes), (6, 8_192));
        assert_eq!(
            reads.timed.map(|timed| (timed.count, timed.errors)),
            Some((4, 2))
        );
        assert_eq!(sum.devices[0].outstanding_ns, 120);
        assert_eq!(sum.cache_lookups, Some(14));
        let link = &sum.links[0];
        assert_eq!((link.tx_bytes, link.backlog_bytes), (18, None));
        assert_eq!(sum.drives[0].celsius, Some(50));
        later.links.clear();
        sum.add(&later, &Columns::folded());
        assert_eq!(sum.links, [], "it is gone");
    }

    #[test]
    fn groups_add_up_and_those_without_a_place_are_among_the_others() {
        let group = |path: Option<String>, lookups| GroupReads {
            path,
            lookups,
            requests: 1,
        };
        let all = |from: usize| -> Vec<GroupReads> {
            let named = (from..from + MOST_READING_GROUPS - 1)
                .map(|number| group(Some(format!("/{number}")), 10));
            named.chain([group(None, 5)]).collect()
        };
        let mut sum = Health::default();
        for from in [0, 1] {
            let later = Health {
                groups: all(from),
                ..health()
            };
            sum.add(&later, &Columns::folded());
        }
        assert_eq!(sum.groups.len(), MOST_READING_GROUPS);
        let counts_of = |path: Option<&str>| {
            let found = sum
                .groups
                .iter()
                .find(|group| group.path.as_deref() == path);
            found.map(|group| (group.lookups, group.requests))
        };
        assert_eq!(
            (counts_of(Some("/0")), counts_of(Some("/1"))),
            (Some((10, 1)), Some((20, 2)))
        );
        assert_eq!(
            counts_of(None),
            Some((5 + 5 + 10, 3)),
            "the newest has no place"
        );
        let lookups: u64 = sum.groups.iter().map(|group| group.lookups).sum();
        assert_eq!(lookups, 2 * (31 * 10 + 5));
    }

    #[test]
    fn what_is_written_is_read_and_no_list_is_longer_than_it_may_be() {
        let written = Snapshot {
            sections: Sections {
                health: Some(health()),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let read: Snapshot = codec::decode(&codec::encode(&written).unwrap()).unwrap();
        assert_eq!(read, written);
        let mut many = health();
        many.drives = vec![DriveHealth::default(); MOST_OF_HEALTH + 1];
        assert!(Health::from_wire(many, 0).is_err());
        let mut many = health();
        many.groups = vec![GroupReads::default(); MOST_READING_GROUPS + 1];
        assert!(Health::from_wire(many, 0).is_err());
    }
}
