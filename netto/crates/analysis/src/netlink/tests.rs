//! Recorded answers of a kernel (6.18, x86-64), made-up ones, and damaged ones.

use proptest::prelude::*;

use super::*;

/// A veth whose other end is in another namespace; `ip -d link`'s `nettovA@if2`. All but three of
/// the unused attributes are left out.
const VETH: &str = "6c000000 1000 0000 07000000 fa460000 \
    00000100 07000000 02100000 00000000 \
    0c000300 6e6574746f764100 \
    08000d00 e8030000 \
    0a000100 72f5ee258db00000 \
    10001200 09000100 76657468 00000000 \
    08002500 00000000 \
    08000500 02000000 \
    09000600 6e6f6f7000000000";
/// The id of a namespace, a namespace without one, and a missing process.
const NSID: &str = "1c000000 5800 0000 08000000 fa460000 00000000 08000100 00000000";
const NO_NSID: &str = "1c000000 5800 0000 09000000 fa460000 00000000 08000100 ffffffff";
const NO_PROCESS: &str = "30000000 0200 0000 0a000000 fa460000 fdffffff \
    1c000000 5a00 0100 0a000000 00000000 00000000 08000200 00093d00";
/// No such interface.
const NO_LINK: &str = "3c000000 0200 0000 07000000 fa460000 edffffff \
    28000000 1200 0100 07000000 00000000 00000000 9f860100 00000000 00000000 08001d00 08000000";
const ESRCH: i32 = 3;
const ENODEV: i32 = 19;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_ascii_whitespace().collect();
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((ATTRIBUTE_BYTES + value.len()) as u16)
        .to_ne_bytes()
        .to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn encoded(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

fn statistics(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The kernel's message about a veth with these words of statistics.
fn veth(sequence: u32, name: &[u8], words: &[u64]) -> Vec<u8> {
    let mut body = vec![0; LINK_BYTES];
    body[2..4].copy_from_slice(&1_u16.to_ne_bytes());
    body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
    body.extend(attribute(IFLA_IFNAME, &[name, &[0]].concat()));
    body.extend(attribute(IFLA_NUM_TX_QUEUES, &4_u32.to_ne_bytes()));
    body.extend(attribute(IFLA_NUM_RX_QUEUES, &2_u32.to_ne_bytes()));
    body.extend(attribute(IFLA_STATS64, &statistics(words)));
    let kind = attribute(IFLA_INFO_KIND, b"veth\0");
    body.extend(attribute(IFLA_LINKINFO | 0x8000, &kind));
    encoded(RTM_NEWLINK, 0, sequence, &body)
}

fn words() -> Vec<u64> {
    (100..125).collect()
}

fn counts_of_words() -> InterfaceCounts {
    InterfaceCounts {
        rx_packets: 100,
        tx_packets: 101,
        rx_bytes: 102,
        tx_bytes: 103,
        rx_errors: 104,
        tx_errors: 105,
        rx_dropped: 106,
        tx_dropped: 107,
        rx_missed: 115,
    }
}

/// The messages with the sequence number of their request, up to the first damage.
fn all(received: &[u8]) -> Vec<Result<(u32, Message), Damaged>> {
    let messages = messages(received);
    messages
        .map(|received| received.map(|message| (message.sequence, message.message)))
        .collect()
}

#[test]
fn an_interface_is_what_its_attributes_say() {
    let datagram = [
        veth(5, b"v\"\xff", &words()),
        encoded(NLMSG_DONE, 0, 5, &[0; 4]),
    ];
    let expected = Link {
        index: 7,
        name: b"v\"\xff".to_vec(),
        kind: Some("veth".to_owned()),
        rx_queues: 2,
        tx_queues: 4,
        counts: counts_of_words(),
        ..Link::default()
    };
    assert_eq!(
        all(&datagram.concat()),
        [Ok((5, Message::Link(expected))), Ok((5, Message::Done))]
    );
}

#[test]
fn counts_come_without_anything_else_too() {
    let mut body = vec![0; STATS_BYTES];
    body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
    body.extend(attribute(0, &[]));
    body.extend(attribute(IFLA_STATS_LINK_64, &statistics(&words())));
    let datagram = encoded(RTM_NEWSTATS, 2, 6, &body);
    assert_eq!(
        all(&datagram),
        [Ok((6, Message::Counts(7, counts_of_words())))]
    );
}

#[test]
fn a_veth_says_where_its_other_end_is() {
    let expected = Link {
        index: 7,
        name: b"nettovA".to_vec(),
        kind: Some("veth".to_owned()),
        peer_nsid: Some(0),
        ..Link::default()
    };
    assert_eq!(all(&bytes(VETH)), [Ok((7, Message::Link(expected)))]);
}

#[test]
fn programs_stand_in_interfaces_and_filters() {
    let mut body = vec![0; LINK_BYTES];
    body.extend(attribute(IFLA_IFNAME, b"eth0\0"));
    let number = |kind, program: u32| attribute(kind, &program.to_ne_bytes());
    // In one mode, the number stands twice; the second attribute is the mode.
    let programs = [attribute(2, &[2]), number(6, 9), number(4, 9)].concat();
    body.extend(attribute(IFLA_XDP, &programs));
    let expected = Link {
        name: b"eth0".to_vec(),
        xdp_programs: vec![9],
        ..Link::default()
    };
    let link = encoded(RTM_NEWLINK, 0, 7, &body);
    assert_eq!(all(&link), [Ok((7, Message::Link(expected)))]);
    let filter = |options: &[u8]| {
        let mut body = vec![0; FILTER_BYTES];
        body.extend(attribute(1, b"bpf\0"));
        body.extend(attribute(TCA_OPTIONS, options));
        encoded(RTM_NEWTFILTER, 2, 8, &body)
    };
    let both = [filter(&number(TCA_BPF_ID, 17)), filter(&number(3, 17))].concat();
    let expected = [Ok((8, Message::Filter(17))), Ok((8, Message::Other))];
    assert_eq!(all(&both), expected);
    let request = Request::Filters {
        interface: 5,
        are_egress: true,
    };
    let request = request.encode(1);
    assert_eq!(request.len(), HEADER_BYTES + FILTER_BYTES);
    let words = |at: usize| u32::from_ne_bytes(*request[at..].first_chunk().unwrap());
    assert_eq!((words(20), words(28)), (5, TC_EGRESS));
}

#[test]
fn a_neighbour_has_an_ethernet_address_where_it_is_known() {
    let ethernet = [2, 0, 0, 0, 0, 7];
    let v6 = "fe80::7".parse::<std::net::Ipv6Addr>().unwrap();
    let entry = |state: u16, address: &[u8], lower: &[u8]| {
        let mut body = vec![0; NEIGHBOUR_BYTES];
        body[4..8].copy_from_slice(&5_u32.to_ne_bytes());
        body[8..10].copy_from_slice(&state.to_ne_bytes());
        body.extend(attribute(NDA_DST, address));
        body.extend(attribute(NDA_LLADDR, lower));
        encoded(RTM_NEWNEIGH, 2, 8, &body)
    };
    let reachable = 2;
    let datagram = [
        entry(reachable, &[10, 0, 0, 2], &ethernet),
        entry(reachable, &v6.octets(), &ethernet),
        entry(0x20, &[10, 0, 0, 3], &ethernet),
        entry(reachable, &[10, 0, 0, 4], &[1, 2, 3, 4]),
    ];
    let known = |address| {
        Message::Neighbour(Neighbour {
            interface: 5,
            address,
            ethernet,
        })
    };
    assert_eq!(
        all(&datagram.concat()),
        [
            Ok((8, known([10, 0, 0, 2].into()))),
            Ok((8, known(v6.into()))),
            Ok((8, Message::Other)),
            Ok((8, Message::Other)),
        ]
    );
}

#[test]
fn namespaces_have_a_number_or_none() {
    let both = [bytes(NSID), bytes(NO_NSID)].concat();
    assert_eq!(
        all(&both),
        [
            Ok((8, Message::Namespace(Some(0)))),
            Ok((9, Message::Namespace(None)))
        ]
    );
}

#[test]
fn a_refusal_has_its_error() {
    let both = [bytes(NO_PROCESS), bytes(NO_LINK)].concat();
    assert_eq!(
        all(&both),
        [
            Ok((10, Message::Refused(ESRCH))),
            Ok((7, Message::Refused(ENODEV)))
        ]
    );
}

#[test]
fn a_list_that_changed_meanwhile_is_told() {
    for (flags, expected) in [(2, false), (2 | NLM_F_DUMP_INTR, true)] {
        let done = encoded(NLMSG_DONE, flags, 1, &[0; 4]);
        let received = messages(&done).next().unwrap().unwrap();
        assert_eq!(received.is_interrupted, expected);
    }
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    let whole = veth(1, b"eth0", &words());
    for end in 1..whole.len() {
        let mut cut = whole[..end].to_vec();
        assert_eq!(all(&cut), [Err(Damaged)], "{end}");
        // A length that fits, so that an attribute is cut.
        if end > HEADER_BYTES {
            cut[..4].copy_from_slice(&(end as u32).to_ne_bytes());
            assert_eq!(all(&cut).len(), 1);
        }
    }
    let short = veth(1, b"eth0", &words()[..9]);
    assert_eq!(all(&short), [Err(Damaged)]);
}

/// The kernel answered the first two with the refusals above, and accepts the others.
#[test]
fn requests_are_as_the_kernel_takes_them() {
    let asked = "28000000 1200 0100 07000000 00000000 00000000 9f860100 00000000 00000000 08001d00 08000000";
    assert_eq!(Request::Link(99_999).encode(7), bytes(asked));
    let asked = "1c000000 5a00 0100 0a000000 00000000 00000000 08000200 00093d00";
    assert_eq!(Request::NamespaceOf(4_000_000).encode(10), bytes(asked));
    let asked = "28000000 1200 0103 09000000 00000000 00000000 00000000 00000000 00000000 08001d00 08000000";
    assert_eq!(Request::Links.encode(9), bytes(asked));
    let asked = "1c000000 5e00 0103 09000000 00000000 00000000 00000000 01000000";
    assert_eq!(Request::Counts.encode(9), bytes(asked));
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        which in 0_usize..5,
        at in 0_usize..150,
        byte in any::<u8>(),
        length in 0_usize..400,
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = all(&noise);
        let mut damaged = match which {
            4 => veth(0, b"eth0", &words()),
            _ => bytes([VETH, NSID, NO_PROCESS, NO_LINK][which]),
        };
        damaged.truncate(length);
        if let Some(place) = damaged.get_mut(at) {
            *place = byte;
        }
        for message in all(&damaged).into_iter().flatten() {
            if let (_, Message::Link(link)) = message {
                prop_assert!(link.name.len() <= 400, "{link:?}");
            }
        }
    }
}

#[test]
fn queues_are_told_of_the_disciplines_of_interfaces_and_not_of_those_within_them() {
    let queue = |parent: u32, backlog: u32, dropped: u32| {
        let mut body = vec![0; FILTER_BYTES];
        body[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        body[12..16].copy_from_slice(&parent.to_ne_bytes());
        let words = [3, backlog, dropped, 0, 0].map(u32::to_ne_bytes).concat();
        let counts = attribute(TCA_STATS_QUEUE, &words);
        body.extend(attribute(TCA_STATS2 | 0x8000, &counts));
        encoded(RTM_NEWQDISC, 0, 1, &body)
    };
    let both = [queue(TC_ROOT, 1_500, 2), queue(0x8001_0001, 9, 9)].concat();
    let both: Vec<Message> = messages(&both)
        .map(|message| message.unwrap().message)
        .collect();
    let root = Qdisc {
        interface: 7,
        backlog_bytes: 1_500,
        dropped: 2,
    };
    assert_eq!(both, [Message::Qdisc(root), Message::Other]);
    let asked = Request::Qdiscs.encode(1);
    assert_eq!((half(&asked, 4), asked.len()), (Some(RTM_GETQDISC), 36));
}
