//! The kernel's answer to "which interfaces are there" (RTM_GETLINK, `rtnetlink(7)`): messages of
//! attributes, each with its length in front. Nothing here trusts a length.

use metrics_common::InterfaceCounts;

/// A request for all interfaces, with this number. The kernel leaves out what it counts of each
/// for IPv6 and of virtual functions (RTEXT_FILTER_SKIP_STATS), which is most of an answer.
pub fn request(sequence: u32) -> Vec<u8> {
    const GET_LINK: u16 = 18;
    const REQUEST_AND_DUMP: u16 = 0x301;
    const EXTENT: u16 = 29;
    const SKIP_STATS: u32 = 8;
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(40_u32.to_ne_bytes());
    bytes.extend(GET_LINK.to_ne_bytes());
    bytes.extend(REQUEST_AND_DUMP.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4 + LINK_HEAD]);
    bytes.extend(8_u16.to_ne_bytes());
    bytes.extend(EXTENT.to_ne_bytes());
    bytes.extend(SKIP_STATS.to_ne_bytes());
    bytes
}

/// Bytes of `struct nlmsghdr`, and of the `struct ifinfomsg` after it.
const HEAD: usize = 16;
const LINK_HEAD: usize = 16;
/// Bytes before an attribute's value.
const ATTRIBUTE_HEAD: usize = 4;
/// More than a host can have.
const MOST_LINKS: usize = 1 << 16;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const STATS64: u16 = 23;
const TX_QUEUES: u16 = 31;
const RX_QUEUES: u16 = 32;
/// Says that an attribute holds others, and in which order its bytes are.
const TYPE_MASK: u16 = 0x3fff;
/// ARPHRD_LOOPBACK.
const LOOPBACK: u16 = 772;

/// An interface as the kernel describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number of it, which no other has had before.
    pub index: i32,
    /// Its name, any bytes but `/` and blanks.
    pub name: Vec<u8>,
    /// Whether it is a loopback.
    pub is_loopback: bool,
    /// What kind of virtual device it is, if it is one.
    pub kind: Option<String>,
    /// Its receive queues.
    pub rx_queues: u32,
    /// Its transmit queues.
    pub tx_queues: u32,
    /// What it has counted since it is there.
    pub counts: InterfaceCounts,
}

/// Why an answer is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The bytes end too early, or lengths contradict each other.
    #[error("its answer about interfaces is damaged")]
    Damaged,
    /// The kernel refuses, with this number of an error.
    #[error("it does not say which interfaces there are (error {0})")]
    Refused(i32),
}

/// Adds the interfaces of a datagram; whether it was the last one. What answers another request
/// than this one is passed over.
///
/// # Errors
/// If it is damaged, or a refusal.
pub fn read(datagram: &[u8], sequence: u32, links: &mut Vec<Link>) -> Result<bool, LinkError> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let length = word(rest, 0).ok_or(LinkError::Damaged)? as usize;
        let message = rest.get(..length).filter(|message| message.len() >= HEAD);
        let message = message.ok_or(LinkError::Damaged)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        if word(message, 8) != Some(sequence) {
            continue;
        }
        match half(message, 4) {
            Some(DONE) => return Ok(true),
            Some(ERROR) => {
                let number = word(message, HEAD).ok_or(LinkError::Damaged)? as i32;
                return Err(LinkError::Refused(number.wrapping_neg()));
            }
            Some(NEW_LINK) if links.len() < MOST_LINKS => {
                links.push(link(&message[HEAD..]).ok_or(LinkError::Damaged)?);
            }
            _ => {}
        }
    }
    Ok(false)
}

fn link(message: &[u8]) -> Option<Link> {
    let mut link = Link {
        index: word(message, 4)? as i32,
        is_loopback: half(message, 2)? == LOOPBACK,
        ..Link::default()
    };
    for attribute in Attributes(message.get(LINK_HEAD..)?) {
        let (kind, value) = attribute?;
        match kind {
            NAME => link.name = text(value).to_vec(),
            TX_QUEUES => link.tx_queues = word(value, 0)?,
            RX_QUEUES => link.rx_queues = word(value, 0)?,
            STATS64 => link.counts = counts(value)?,
            LINK_INFO => {
                for attribute in Attributes(value) {
                    let (kind, value) = attribute?;
                    if kind == INFO_KIND {
                        link.kind = Some(String::from_utf8_lossy(text(value)).into_owned());
                    }
                }
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

/// The first words of `struct rtnl_link_stats64`, of which kernels have added more at its end.
fn counts(value: &[u8]) -> Option<InterfaceCounts> {
    let long = |place: usize| {
        let bytes = value.get(8 * place..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    Some(InterfaceCounts {
        rx_packets: long(0)?,
        tx_packets: long(1)?,
        rx_bytes: long(2)?,
        tx_bytes: long(3)?,
        rx_errors: long(4)?,
        tx_errors: long(5)?,
        rx_dropped: long(6)?,
        tx_dropped: long(7)?,
        rx_missed: long(15)?,
    })
}

/// Types and values, up to the first that is damaged.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Option<(u16, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let length = usize::from(half(bytes, 0).unwrap_or(0));
        let attribute = bytes.get(..length);
        let Some(attribute) = attribute.filter(|bytes| bytes.len() >= ATTRIBUTE_HEAD) else {
            return Some(None);
        };
        self.0 = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = half(attribute, 2).unwrap_or(0) & TYPE_MASK;
        Some(Some((kind, &attribute[ATTRIBUTE_HEAD..])))
    }
}

/// A text that ends with a zero.
fn text(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == 0);
    &value[..end.unwrap_or(value.len())]
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((ATTRIBUTE_HEAD + value.len()) as u16)
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEAD + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    /// What the kernel says of a veth with these words of statistics.
    fn veth(sequence: u32, name: &[u8], words: &[u64]) -> Vec<u8> {
        let mut body = vec![0; LINK_HEAD];
        body[2..4].copy_from_slice(&1_u16.to_ne_bytes());
        body[4..8].copy_from_slice(&7_i32.to_ne_bytes());
        body.extend(attribute(NAME, &[name, &[0]].concat()));
        body.extend(attribute(TX_QUEUES, &4_u32.to_ne_bytes()));
        body.extend(attribute(RX_QUEUES, &2_u32.to_ne_bytes()));
        let statistics: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend(attribute(STATS64, &statistics));
        let kind = attribute(INFO_KIND, b"veth\0");
        body.extend(attribute(LINK_INFO | 0x8000, &kind));
        message(NEW_LINK, sequence, &body)
    }

    fn words() -> Vec<u64> {
        (100..125).collect()
    }

    #[test]
    fn an_interface_is_what_its_attributes_say() {
        let mut links = Vec::new();
        let datagram = [veth(5, b"v\"\xff", &words()), message(DONE, 5, &[0; 4])].concat();
        assert_eq!(read(&datagram, 5, &mut links), Ok(true));
        let expected = Link {
            index: 7,
            name: b"v\"\xff".to_vec(),
            is_loopback: false,
            kind: Some("veth".to_owned()),
            rx_queues: 2,
            tx_queues: 4,
            counts: InterfaceCounts {
                rx_packets: 100,
                tx_packets: 101,
                rx_bytes: 102,
                tx_bytes: 103,
                rx_errors: 104,
                tx_errors: 105,
                rx_dropped: 106,
                tx_dropped: 107,
                rx_missed: 115,
            },
        };
        assert_eq!(links, [expected]);
    }

    #[test]
    fn answers_to_an_earlier_request_are_passed_over() {
        let mut links = Vec::new();
        let datagram = [veth(4, b"late", &words()), message(DONE, 4, &[0; 4])].concat();
        assert_eq!(read(&datagram, 5, &mut links), Ok(false));
        assert_eq!(links, []);
    }

    #[test]
    fn a_refusal_says_why_and_damage_is_an_error_wherever_it_is() {
        let refusal = message(ERROR, 1, &(-1_i32).to_ne_bytes());
        assert_eq!(
            read(&refusal, 1, &mut Vec::new()),
            Err(LinkError::Refused(1))
        );
        let whole = veth(1, b"eth0", &words());
        for end in 1..whole.len() {
            let mut cut = whole[..end].to_vec();
            assert_eq!(
                read(&cut, 1, &mut Vec::new()),
                Err(LinkError::Damaged),
                "{end}"
            );
            // A length that fits, so that an attribute is cut.
            if end > HEAD {
                cut[..4].copy_from_slice(&(end as u32).to_ne_bytes());
                let mut links = Vec::new();
                assert!(read(&cut, 1, &mut links).is_err() || links.len() == 1);
            }
        }
        let short = veth(1, b"eth0", &words()[..9]);
        assert_eq!(read(&short, 1, &mut Vec::new()), Err(LinkError::Damaged));
    }

    #[test]
    fn a_request_is_a_message_of_its_own_length() {
        let request = request(9);
        assert_eq!(word(&request, 0), Some(request.len() as u32));
        assert_eq!(word(&request, 8), Some(9));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0_usize..150,
            byte in any::<u8>(),
        ) {
            let _ = read(&bytes, 0, &mut Vec::new());
            let mut flipped = veth(0, b"eth0", &words());
            flipped[at] = byte;
            let _ = read(&flipped, 0, &mut Vec::new());
        }
    }
}
