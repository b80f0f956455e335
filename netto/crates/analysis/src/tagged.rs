//! Samples with their classification (`analysis::classify`) and the tag recorded with the stack,
//! for features that divide time by them. Pure.

use std::net::{IpAddr, Ipv6Addr};

use metrics_common::sections::FlowEnd;

/// What is recorded beside each stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tags {
    /// Nothing.
    #[default]
    None,
    /// Whose work it may be.
    Owners,
    /// And of which flow.
    Ends,
}

/// The ends of a flow, in order, whichever direction it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowEnds {
    /// Protocol in the IP header.
    pub protocol: u8,
    /// The lesser first.
    pub ends: [FlowEnd; 2],
}

impl FlowEnds {
    /// Sorts the ends.
    pub fn new(protocol: u8, mut ends: [FlowEnd; 2]) -> FlowEnds {
        ends.sort_unstable();
        FlowEnds { protocol, ends }
    }

    /// As the programs write it (`netto_ends` in `ends.bpf.h`); `None` if it was not known.
    pub fn from_words([one, other, far, far_other, talk]: [u64; 5]) -> Option<FlowEnds> {
        if talk == 0 {
            return None;
        }
        let address = |words: [u64; 2]| -> IpAddr {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
            bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
            Ipv6Addr::from(bytes).to_canonical()
        };
        let protocol = (talk >> 32) as u8;
        let port = |port: u64| has_ports(protocol).then_some(port as u16);
        let end = |words, talk| FlowEnd {
            address: address(words),
            port: port(talk),
        };
        let ends = [end([one, other], talk), end([far, far_other], talk >> 16)];
        Some(FlowEnds::new(protocol, ends))
    }
}

/// TCP, UDP, SCTP and UDP-Lite.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132 | 136)
}

/// The task that ran when a stack was taken, and the owner it may have worked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleTag {
    /// The task's process.
    pub process: u32,
    /// The thread; 0 is the idle task.
    pub thread: u32,
    /// Whether it is a thread of the kernel, and not a virtual machine's vhost worker.
    pub is_of_kernel: bool,
    /// Identity of its cgroup, the inode's number.
    pub cgroup: u64,
    /// Start of the process, nanoseconds since boot.
    pub started_ns: u64,
    /// The process' name, padded with zero bytes.
    pub comm: [u8; 16],
    /// Time of the stack, CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// Number under which the owner of the work is looked up, or the flow of the task's own; 0 if there
    /// is nothing to look up.
    pub number: u64,
    /// The last packet that the softirq or thread had met; all 0 if none.
    pub last: Met,
}

/// A packet whose socket or interface is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Met {
    /// Control group of the socket; 0 if there is none.
    pub cgroup: u64,
    /// Number of its inode; 0 if no process has it.
    pub inode: u64,
    /// Interface by which the packet came; 0 if it did not come by one.
    pub from: u32,
    /// Interface by which it went; 0 if it did not.
    pub to: u32,
    /// Inode of the interfaces' network namespace; 0 if there is none.
    pub netns: u64,
    /// Its flow, where flows are told and this one is known.
    pub flow: Option<FlowEnds>,
}

/// One sample of networking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaggedSample {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// Row of its event.
    pub event: usize,
    /// Row of the part shown by the stack, if any.
    pub part: Option<usize>,
    /// Whether the stack shows that the packet's socket was known.
    pub has_met_packet: bool,
    /// The BPF program that worked, or [`super::programs::UNCERTAIN`]; `None` if none did, or
    /// programs are not told apart.
    pub program: Option<u32>,
    /// Whether it was taken in addition, while a window was open: evidence of owners, but it stands
    /// for no time.
    pub is_of_window: bool,
    /// For how much time it stands, in periods of its CPU; 1 of one that stands for no time.
    pub weight: f64,
    /// The task that ran.
    pub tag: SampleTag,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(address: &str, port: Option<u16>) -> FlowEnd {
        FlowEnd {
            address: address.parse().unwrap(),
            port,
        }
    }

    fn words(address: &str) -> [u64; 2] {
        let address: IpAddr = address.parse().unwrap();
        let bytes = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let (words, _) = bytes.as_chunks::<8>();
        [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])]
    }

    fn read_ends(near: &str, far: &str, talk: u64) -> Option<FlowEnds> {
        let ([one, other], [far, far_other]) = (words(near), words(far));
        FlowEnds::from_words([one, other, far, far_other, talk])
    }

    #[test]
    fn both_directions_of_a_flow_are_one() {
        let sent = read_ends("192.0.2.1", "192.0.2.2", 6 << 32 | 443 << 16 | 5000);
        let received = read_ends("192.0.2.2", "192.0.2.1", 6 << 32 | 5000 << 16 | 443);
        let ends = [end("192.0.2.1", Some(5000)), end("192.0.2.2", Some(443))];
        assert_eq!(sent, Some(FlowEnds { protocol: 6, ends }));
        assert_eq!(received, sent);
        assert_eq!(read_ends("192.0.2.2", "192.0.2.1", 0), None);
    }

    #[test]
    fn what_has_no_ports_has_none() {
        let ping = read_ends("2001:db8::1", "2001:db8::2", 58 << 32).unwrap();
        assert_eq!(ping.ends[0], end("2001:db8::1", None));
    }
}
