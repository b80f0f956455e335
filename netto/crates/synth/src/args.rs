//! The options of `netto synth`, as they are typed.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, ValueEnum};
use netto_questions::values::in_range;

use crate::plan::Speed;
use crate::rewrite::Rewrite;

/// The exit codes of `netto synth`.
pub const EXIT_CODES: &str = "\
docs/SYNTH.md has the formats of records, and what is made of each.

Exit codes:
  0  all went well, records that were passed over included; ended by a signal, too
  1  the records cannot be read, packets cannot be written or sent, or a record is wrong (--strict)
  2  wrong usage: an unknown option or an impossible value";

/// Which packets, and where to.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("target").required(true).args(["to", "pcap"])))]
pub struct SynthArgs {
    /// Records of flows: CSV, nfdump's CSV, IPFIX or netto's log, as they are or compressed by gzip
    /// or zstd; - is standard input
    #[arg(value_name = "RECORDS")]
    pub records: PathBuf,
    /// Send the packets to this interface
    #[arg(long, value_name = "IFACE")]
    pub to: Option<String>,
    /// Write the packets to this file
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Send to an interface of the host's own network, where the packets may reach others
    #[arg(long, conflicts_with = "pcap")]
    pub yes_really: bool,
    /// How fast time passes: 2x, 0.5x, or max (in a file: as recorded)
    #[arg(long, value_name = "SPEED", default_value = "1x")]
    pub speed: Speed,
    /// Packets per second at most
    #[arg(long, value_name = "COUNT", value_parser = in_range(1..=1_000_000_000_u64, ""))]
    pub limit_pps: Option<u64>,
    /// How often the records are played, one time after the other
    #[arg(long = "loop", value_name = "COUNT", default_value = "1", value_parser = in_range(1..=u64::MAX, ""))]
    pub passes: u64,
    /// How far packets are from being even, as per cent of the gap between two
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = in_range(0..=100_u8, ""))]
    pub jitter: u8,
    /// Another number gives other sequence numbers and jitter
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    /// Move addresses of one network to another, such as 192.0.2.0/24=10.7.0.0/24; may be repeated
    #[arg(long, value_name = "NETWORK=NETWORK")]
    pub rewrite_prefix: Vec<Rewrite>,
    /// Hardware address of the sender [default: the interface's own; in a file 02:00:00:00:00:01]
    #[arg(long, value_name = "MAC")]
    pub from_mac: Option<Mac>,
    /// Hardware address of the receiver [default: broadcast; in a file 02:00:00:00:00:02]
    #[arg(long, value_name = "MAC")]
    pub to_mac: Option<Mac>,
    /// Resolve the hardware address of the receiver: that of this neighbour, a host or a router
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with_all = ["to_mac", "pcap"]
    )]
    pub via: Option<IpAddr>,
    /// VLAN of packets whose record has none
    #[arg(long, value_name = "ID", value_parser = in_range(1..=4094_u16, ""))]
    pub vlan: Option<u16>,
    /// Bytes of a packet at most, IP header included [default: the interface's; in a file 1500]
    #[arg(long, value_name = "BYTES", value_parser = in_range(68..=65_535_u16, ""))]
    pub mtu: Option<u16>,
    /// How many records to look ahead, to put them in the order of their starts
    #[arg(long, value_name = "COUNT", default_value = "65536", value_parser = in_range(1..=100_000_000_usize, ""))]
    pub look_ahead: usize,
    /// How to send: auto (ring, if the kernel has it), ring or sendmmsg
    #[arg(
        long,
        value_name = "WAY",
        default_value = "auto",
        hide_possible_values = true,
        conflicts_with = "pcap"
    )]
    pub send_by: SendBy,
    /// End with an error at the first record that cannot be used
    #[arg(long)]
    pub strict: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Ways to send, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SendBy {
    /// The best that the kernel has
    Auto,
    /// A ring of frames in shared memory
    Ring,
    /// Many messages in one call
    Sendmmsg,
}

/// A hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("takes an address such as 02:00:00:00:00:01, not \"{text}\"");
        let mut address = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut address {
            let part = parts.next().ok_or_else(wrong)?;
            let is_hex = part.len() <= 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            let parsed = u8::from_str_radix(part, 16).ok();
            *byte = parsed.filter(|_| is_hex).ok_or_else(wrong)?;
        }
        match parts.next() {
            None => Ok(Mac(address)),
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_six_bytes() {
        assert_eq!("02:00:00:00:00:aB".parse(), Ok(Mac([2, 0, 0, 0, 0, 0xab])));
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "02:00:00:00:00:+1",
            "x",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
