//! Packets that the kernel dropped: the reason, and the function. A drop is wasted CPU time.

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::estimated::{self, Estimable, Estimated, stretch};
use super::recorded::{Quantity, Recorded, Unit};
use super::section::Section;
use crate::info::Info;
use crate::packed::{self, Damaged, Packed};
use crate::sort::sort_by_key;

/// Most places named in a snapshot or a sum; packets of further places are summed.
pub const MOST_PLACES: usize = 128;

/// Packets dropped for one reason in one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropPlace {
    /// The kernel's name of the reason (`enum skb_drop_reason`) without its prefix, such as
    /// `NO_SOCKET`; empty where the kernel gives none (before 5.17).
    pub reason: String,
    /// The dropping function; empty if it has no name.
    pub function: String,
    /// Number of packets in the interval.
    pub packets: u64,
}

/// Packets dropped in an interval, of all network namespaces (`skb:kfree_skb`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drops {
    /// Places by number of packets, descending. A place is named some seconds after its first
    /// drop; that interval then includes its earlier packets.
    pub places: Vec<DropPlace>,
    /// Packets dropped at further places: 128 at most are listed.
    pub other_packets: u64,
    /// All dropped packets by CPU, including those of places without a name yet.
    pub cpus: Vec<u64>,
    /// How the packets were estimated, where not all of them were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Estimated>,
}

impl Drops {
    /// All dropped packets.
    pub fn total(&self) -> u64 {
        self.cpus
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// [`Drops`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct DropsWire {
    places: Vec<DropPlace>,
    other_packets: u64,
    /// One row.
    cpus: Packed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimated: Option<estimated::Wire>,
}

impl Section for Drops {
    type Wire = DropsWire;

    fn to_wire(&self) -> DropsWire {
        DropsWire {
            places: self.places.clone(),
            other_packets: self.other_packets,
            cpus: packed::pack(std::iter::once(Some(self.cpus.as_slice()))),
            estimated: Estimated::to_wire(self.estimated.as_ref()),
        }
    }

    fn from_wire(wire: DropsWire, cpus: usize) -> Result<Self, Damaged> {
        let [Some(cpus)] =
            <[_; 1]>::try_from(packed::unpack(&wire.cpus, cpus)?).map_err(|_| Damaged)?
        else {
            return Err(Damaged);
        };
        if wire.places.len() > MOST_PLACES {
            return Err(Damaged);
        }
        Ok(Drops {
            places: wire.places,
            other_packets: wire.other_packets,
            cpus,
            estimated: wire.estimated.map(Estimated::from),
        })
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        let Drops {
            places,
            other_packets,
            cpus,
            estimated,
        } = self;
        Estimated::add(estimated, later.estimated.as_ref());
        *other_packets = other_packets.saturating_add(later.other_packets);
        columns.add(cpus, &later.cpus);
        for more in &later.places {
            let is_same = |place: &&mut DropPlace| {
                place.function == more.function && place.reason == more.reason
            };
            let has_room = places.len() < MOST_PLACES;
            match places.iter_mut().find(is_same) {
                Some(place) => place.packets = place.packets.saturating_add(more.packets),
                None if has_room => places.push(more.clone()),
                None => *other_packets = other_packets.saturating_add(more.packets),
            }
        }
        sort_by_key(places, |place| std::cmp::Reverse(place.packets));
    }
}

impl Estimable for Drops {
    fn join(&mut self, later: &Self, cpus: &[u32]) {
        self.add(later, &Columns::join(&mut cpus.to_vec(), cpus));
    }

    fn stretch(&mut self, factor: f64) {
        let places = self.places.iter_mut().map(|place| &mut place.packets);
        let all = places.chain([&mut self.other_packets]);
        all.chain(&mut self.cpus)
            .for_each(|count| stretch(count, factor));
    }

    fn set_estimated(&mut self, estimated: Estimated) {
        self.estimated = Some(estimated);
    }
}

/// One series: packets dropped per second.
impl Recorded for Drops {
    fn series(_: &Info) -> Vec<Quantity> {
        vec![Quantity {
            name: "packets".to_owned(),
            unit: Unit::PerSecond,
        }]
    }

    fn value(&self, _: usize, interval_ns: u64) -> Option<f64> {
        Some(self.total() as f64 / interval_ns as f64 * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reason: &str, function: &str, packets: u64) -> Drops {
        Drops {
            places: vec![DropPlace {
                reason: reason.to_owned(),
                function: function.to_owned(),
                packets,
            }],
            other_packets: 1,
            cpus: vec![packets, 1],
            estimated: None,
        }
    }

    #[test]
    fn one_function_drops_for_several_reasons() {
        let mut sum = Drops::default();
        for drops in [
            of("NO_SOCKET", "__udp4_lib_rcv", 2),
            of("UDP_CSUM", "__udp4_lib_rcv", 9),
            of("NO_SOCKET", "__udp4_lib_rcv", 3),
        ] {
            sum.add(&drops, &Columns::join(&mut vec![0, 1], &[0, 1]));
        }
        let shown: Vec<_> = sum
            .places
            .iter()
            .map(|place| (place.reason.as_str(), place.packets))
            .collect();
        assert_eq!(shown, [("UDP_CSUM", 9), ("NO_SOCKET", 5)]);
        assert_eq!(
            (sum.other_packets, sum.cpus.clone(), sum.total()),
            (3, vec![14, 3], 17)
        );
        assert_eq!(sum.sum().cpus, [17]);
    }

    #[test]
    fn a_sum_of_ever_other_places_does_not_grow_for_ever_and_loses_no_packet() {
        let mut sum = Drops::default();
        for number in 0..1_000 {
            sum.add(&of("NO_SOCKET", &number.to_string(), 2), &Columns::folded());
        }
        assert_eq!(sum.places.len(), MOST_PLACES);
        let named: u64 = sum.places.iter().map(|place| place.packets).sum();
        assert_eq!(named + sum.other_packets, sum.total());
    }
}
