//! How many packets a program had: those of the interfaces at which it sees all of them.

use metrics_common::Interfaces;
use metrics_common::sections::Attachment;

/// Which packets of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Received,
    Sent,
}

/// The packets of an interface that a hook sees; `None` if it sees others.
fn seen_by(hook: &str) -> Option<Direction> {
    match hook {
        "xdp" | "tc_ingress" | "tcx_ingress" => Some(Direction::Received),
        "tc_egress" | "tcx_egress" => Some(Direction::Sent),
        _ => None,
    }
}

/// The packets in an interval of a program that is attached here.
///
/// # Errors
/// Why they are not known.
pub(crate) fn packets_of(
    attached: &[Attachment],
    interfaces: Option<&Interfaces>,
) -> Result<u64, &'static str> {
    if attached.is_empty() {
        return Err("it is not known where it is attached");
    }
    let mut sum = 0_u64;
    for Attachment { hook, target } in attached {
        let direction = seen_by(hook).ok_or(
            "the kernel does not count what passes there; with sysctl kernel.bpf_stats_enabled=1 \
             it counts the program's runs",
        )?;
        let named = interfaces.map_or(&[][..], |interfaces| &interfaces.named);
        let interface = named.iter().find(|interface| interface.name == *target);
        let counts = interface.ok_or("the packets of its interface are not known")?;
        sum = sum.saturating_add(match direction {
            Direction::Received => counts.counts.rx_packets,
            Direction::Sent => counts.counts.tx_packets,
        });
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use metrics_common::{Interface, InterfaceCounts};

    use super::*;

    fn at(hook: &str, target: &str) -> Attachment {
        Attachment {
            hook: hook.to_owned(),
            target: target.to_owned(),
        }
    }

    #[test]
    fn a_program_has_the_packets_of_all_its_interfaces() {
        let interface = |name: &str, rx_packets, tx_packets| Interface {
            name: name.to_owned(),
            counts: InterfaceCounts {
                rx_packets,
                tx_packets,
                ..InterfaceCounts::default()
            },
            ..Interface::default()
        };
        let interfaces = Interfaces {
            named: vec![interface("eth0", 5, 7), interface("eth1", 100, 200)],
            ..Interfaces::default()
        };
        let packets = |attached: &[Attachment]| packets_of(attached, Some(&interfaces));
        assert_eq!(packets(&[at("xdp", "eth0")]), Ok(5));
        let both = [at("tcx_ingress", "eth0"), at("tc_egress", "eth1")];
        assert_eq!(packets(&both), Ok(205));
        for attached in [
            &[][..],
            &[at("xdp", "eth0"), at("cgroup_inet_ingress", "/")],
            &[at("xdp", "interface 5 of another network namespace")],
        ] {
            assert!(packets(attached).is_err(), "{attached:?}");
        }
        assert!(packets_of(&[at("xdp", "eth0")], None).is_err());
    }
}
