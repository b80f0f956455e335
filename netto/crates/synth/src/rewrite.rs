//! Addresses of one network moved to another: `--rewrite-prefix 192.0.2.0/24=10.7.0.0/24`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::record::Addresses;

/// A network, as its first address in the upper bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix {
    bits: u128,
    length: u32,
    is_v6: bool,
}

/// One network that takes another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrite {
    from: Prefix,
    to: Prefix,
}

/// The bits that a prefix of this length keeps.
fn mask(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length).unwrap_or(0)
}

/// An IPv4 address in the upper bits.
fn v4_bits(address: Ipv4Addr) -> u128 {
    u128::from(u32::from(address)) << 96
}

fn v4_of(bits: u128) -> Ipv4Addr {
    Ipv4Addr::from((bits >> 96) as u32)
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("takes networks such as 192.0.2.0/24, not \"{text}\"");
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let length: u32 = length.parse().map_err(|_| wrong())?;
        let (bits, most) = match address {
            IpAddr::V4(address) => (v4_bits(address), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        if length > most {
            return Err(format!("takes a length of 0 to {most}, not \"{text}\""));
        }
        if bits & !mask(length) != 0 {
            return Err(format!(
                "{text} is an address, not a network: its last bits must be zero"
            ));
        }
        Ok(Prefix {
            bits,
            length,
            is_v6: address.is_ipv6(),
        })
    }
}

impl FromStr for Rewrite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text
            .split_once('=')
            .ok_or_else(|| format!("takes NETWORK=NETWORK, not \"{text}\""))?;
        let (from, to): (Prefix, Prefix) = (from.parse()?, to.parse()?);
        if (from.is_v6, from.length) != (to.is_v6, to.length) {
            return Err(format!(
                "takes two networks of one family and length, not \"{text}\""
            ));
        }
        Ok(Rewrite { from, to })
    }
}

impl Rewrite {
    fn bits(&self, bits: u128) -> Option<u128> {
        let mask = mask(self.from.length);
        (bits & mask == self.from.bits).then_some(bits & !mask | self.to.bits)
    }
}

/// The addresses, each rewritten by the first of these that is for its network.
pub fn rewrite(rules: &[Rewrite], addresses: Addresses) -> Addresses {
    if rules.is_empty() {
        return addresses;
    }
    let one = |bits: u128, is_v6: bool| {
        let mut rules = rules.iter().filter(|rule| rule.from.is_v6 == is_v6);
        rules.find_map(|rule| rule.bits(bits)).unwrap_or(bits)
    };
    match addresses {
        Addresses::V4 {
            source,
            destination,
        } => Addresses::V4 {
            source: v4_of(one(v4_bits(source), false)),
            destination: v4_of(one(v4_bits(destination), false)),
        },
        Addresses::V6 {
            source,
            destination,
        } => Addresses::V6 {
            source: Ipv6Addr::from(one(source.into(), true)),
            destination: Ipv6Addr::from(one(destination.into(), true)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_keep_their_place_in_the_network() {
        let rules: Vec<Rewrite> = ["192.0.2.0/24=10.7.1.0/24", "2001:db8::/32=fd00:1::/32"]
            .iter()
            .map(|text| text.parse().expect("it is a rule"))
            .collect();
        let v4 = Addresses::V4 {
            source: Ipv4Addr::new(192, 0, 2, 99),
            destination: Ipv4Addr::new(192, 0, 3, 1),
        };
        let moved = Addresses::V4 {
            source: Ipv4Addr::new(10, 7, 1, 99),
            destination: Ipv4Addr::new(192, 0, 3, 1),
        };
        assert_eq!(rewrite(&rules, v4), moved);
        let v6 = Addresses::V6 {
            source: Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 7),
            destination: Ipv6Addr::LOCALHOST,
        };
        let moved = Addresses::V6 {
            source: Ipv6Addr::new(0xfd00, 1, 5, 0, 0, 0, 0, 7),
            destination: Ipv6Addr::LOCALHOST,
        };
        assert_eq!(rewrite(&rules, v6), moved);
        let all: Rewrite = "0.0.0.0/0=0.0.0.0/0".parse().expect("it is a rule");
        assert_eq!(rewrite(&[all], v4), v4);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "192.0.2.0/24",
            "192.0.2.0/24=10.0.0.0/8",
            "192.0.2.0/24=fd00::/24",
            "192.0.2.1/24=10.0.0.0/24",
            "192.0.2.0/33=10.0.0.0/33",
            "x/1=y/1",
        ] {
            assert!(text.parse::<Rewrite>().is_err(), "{text}");
        }
    }
}
