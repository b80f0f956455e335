//! Interfaces from one interval to the next, identified by index, which is never reused.

use std::collections::HashMap;

use metrics_common::sections::{LOOPBACK, MOST_INTERFACES};
use metrics_common::{Interface, InterfaceCounts, Interfaces};

use netto_analysis::netlink::Link;

/// Data about an interface that only sysfs has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Whether there is a device behind the interface.
    pub is_hardware: bool,
    /// Its driver, if that has a name.
    pub driver: Option<String>,
}

/// Follows all interfaces.
#[derive(Debug, Default)]
pub struct Follower(HashMap<u32, InterfaceCounts>);

impl Follower {
    /// The increase of each interface's counts since the last reading. A new interface, or one
    /// whose counts decreased, starts at zero: it may have counted elsewhere before. `device` is
    /// called for named ones.
    pub fn advance(
        &mut self,
        mut links: Vec<Link>,
        mut device: impl FnMut(&Link) -> Device,
    ) -> Interfaces {
        // A list that changed while it was made may have duplicates.
        links.sort_by_key(|link| link.index);
        links.dedup_by_key(|link| link.index);
        let before = std::mem::take(&mut self.0);
        let now = links.iter().map(|link| (link.index, link.counts));
        self.0 = now.collect();
        let grown = |link: &Link| {
            let before = before.get(&link.index);
            let grown = before.and_then(|before| link.counts.since(before));
            grown.unwrap_or_default()
        };
        // By their counts since creation, so that the named ones stay the same.
        links.sort_by_key(|link| (u64::MAX - link.counts.packets(), link.index));
        let others = links.split_off(links.len().min(MOST_INTERFACES));
        links.sort_by_key(|link| link.index);
        let interface = |link: &Link| {
            let Device {
                is_hardware,
                driver,
            } = device(link);
            let virtual_kind = || link.kind.clone().unwrap_or_default();
            Interface {
                name: shown(&link.name),
                driver: if link.is_loopback {
                    LOOPBACK.to_owned()
                } else {
                    driver.unwrap_or_else(virtual_kind)
                },
                is_hardware,
                rx_queues: link.rx_queues,
                tx_queues: link.tx_queues,
                counts: grown(link),
            }
        };
        let nothing = InterfaceCounts::default();
        Interfaces {
            named: links.iter().map(interface).collect(),
            others: others.len() as u32,
            other: others
                .iter()
                .fold(nothing, |sum, link| sum.plus(&grown(link))),
        }
    }
}

/// A name as text; invalid bytes become `\xNN`.
fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for piece in name.utf8_chunks() {
        text.push_str(piece.valid());
        text.extend(piece.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, packets: u64) -> Link {
        Link {
            index,
            name: name.as_bytes().to_vec(),
            kind: Some("veth".to_owned()),
            counts: InterfaceCounts {
                rx_packets: packets,
                ..InterfaceCounts::default()
            },
            ..Link::default()
        }
    }

    /// Names and packets.
    fn next(follower: &mut Follower, links: Vec<Link>) -> Vec<(String, u64)> {
        let interfaces = follower.advance(links, |_| Device::default());
        let named = interfaces.named.into_iter();
        named
            .map(|interface| (interface.name, interface.counts.rx_packets))
            .collect()
    }

    #[test]
    fn an_interface_counts_from_its_second_reading_on() {
        let mut follower = Follower::default();
        let packets = |(name, packets): &(&str, u64)| ((*name).to_owned(), *packets);
        let all = |expected: &[(&str, u64)]| expected.iter().map(packets).collect::<Vec<_>>();
        assert_eq!(
            next(&mut follower, vec![link(1, "a", 1000)]),
            all(&[("a", 0)])
        );
        let two = vec![link(1, "a", 1004), link(2, "b", 50)];
        assert_eq!(next(&mut follower, two), all(&[("a", 4), ("b", 0)]));
        // Another interface of the same name, and one whose counts restart.
        let others = vec![link(3, "a", 2), link(2, "b", 3)];
        assert_eq!(next(&mut follower, others), all(&[("b", 0), ("a", 0)]));
        let renamed = vec![link(3, "c", 5), link(2, "b", 4), link(2, "b", 4)];
        assert_eq!(next(&mut follower, renamed), all(&[("b", 1), ("c", 3)]));
    }

    #[test]
    fn those_with_most_packets_are_named_and_no_packet_of_the_others_is_lost() {
        let mut follower = Follower::default();
        let links = |packets: u64| {
            let all = (0..200)
                .map(|index| link(index, &format!("veth{index}"), packets * u64::from(index)));
            all.collect::<Vec<_>>()
        };
        follower.advance(links(1), |_| Device::default());
        let mut asked = 0;
        let interfaces = follower.advance(links(2), |_| {
            asked += 1;
            Device::default()
        });
        assert_eq!(
            (interfaces.named.len(), asked),
            (MOST_INTERFACES, MOST_INTERFACES)
        );
        assert_eq!(interfaces.named[0].name, "veth136");
        assert_eq!(interfaces.others, 136);
        let named: u64 = interfaces
            .named
            .iter()
            .map(|interface| interface.counts.rx_packets)
            .sum();
        assert_eq!(named + interfaces.other.rx_packets, (0..200).sum::<u64>());
    }

    #[test]
    fn a_device_has_its_driver_and_what_is_made_of_nothing_its_kind() {
        let mut loopback = link(1, "lo", 1);
        (loopback.is_loopback, loopback.kind) = (true, None);
        let all = vec![loopback, link(2, "v", 1), link(3, "eth0", 1)];
        let interfaces = Follower::default().advance(all, |link| Device {
            is_hardware: link.index == 3,
            driver: (link.index == 3).then(|| "ena".to_owned()),
        });
        let drivers: Vec<&str> = interfaces
            .named
            .iter()
            .map(|interface| interface.driver.as_str())
            .collect();
        assert_eq!(drivers, [LOOPBACK, "veth", "ena"]);
        assert!(interfaces.named[2].is_hardware);
    }

    #[test]
    fn a_name_of_any_bytes_is_text() {
        assert_eq!(shown(b"ok\xff<\xe2\x82"), "ok\\xff<\\xe2\\x82");
        assert_eq!(shown("größe".as_bytes()), "größe");
    }
}
