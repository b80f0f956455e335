//! What is understood of good and of damaged records.

use std::io::{Cursor, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

use metrics_common::codec::ServerMessage;
use metrics_common::sections::{Amount, Conversation, FlowEnd, Flows, SampledTime};
use metrics_common::{Sections, Snapshot, fixture};
use netto_log_format::LogBuilder;
use proptest::prelude::*;

use super::*;
use crate::record::Addresses;

const LINES: &str = "\
# start,end,source,destination,ports,protocol,ToS,flags,packets,bytes,rest
1500000000.000000001,1500000001.5,192.0.2.1,198.51.100.7,40000,443,6,0,27,10,5000,1,2,64500,64501
1500000000.25,1500000000.25,2001:db8::1,2001:db8::2,5353,53,17,46,0,1,90,1,2,0,0
1500000002,1500000003,192.0.2.1,192.0.2.9,0,2048,1,0,0,4,336
";

const NFDUMP: &str = "\
ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt
2017-07-14 02:40:00,2017-07-14 02:40:01,1.500,192.0.2.1,198.51.100.7,40000,443,TCP,...AP.SF,0,0,10,5000,0,0
2017-07-14 02:40:02,2017-07-14 02:40:03,1.000,192.0.2.1,192.0.2.9,0,8.0,ICMP,........,0,0,4,336,0,0
Summary
flows,bytes,packets,avg_bps,avg_pps,avg_bpp
2,5336,14,1,1,1
";

fn read(bytes: &[u8]) -> (Vec<FlowRecord>, Vec<RecordError>) {
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    for item in records(Cursor::new(bytes.to_vec())).expect("the beginning is there") {
        match item {
            Ok(record) => good.push(record),
            Err(Fault::Record(error)) => wrong.push(error),
            Err(Fault::Note(_) | Fault::NotListed(_)) => {}
            Err(Fault::Broken(error)) => panic!("{error}"),
        }
    }
    (good, wrong)
}

fn tcp() -> FlowRecord {
    FlowRecord {
        start_ns: 1_500_000_000_000_000_001,
        end_ns: 1_500_000_001_500_000_000,
        addresses: Addresses::V4 {
            source: Ipv4Addr::new(192, 0, 2, 1),
            destination: Ipv4Addr::new(198, 51, 100, 7),
        },
        source_port: 40_000,
        destination_port: 443,
        protocol: 6,
        tos: 0,
        tcp_flags: 27,
        packets: 10,
        bytes: 5000,
        is_estimate: false,
        vlan: None,
    }
}

fn udp_v6() -> FlowRecord {
    FlowRecord {
        start_ns: 1_500_000_000_250_000_000,
        end_ns: 1_500_000_000_250_000_000,
        addresses: Addresses::V6 {
            source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
            destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        },
        source_port: 5353,
        destination_port: 53,
        protocol: 17,
        tos: 46,
        tcp_flags: 0,
        packets: 1,
        bytes: 90,
        is_estimate: false,
        vlan: None,
    }
}

#[test]
fn lines_without_a_header_are_in_the_sources_order() {
    let (good, wrong) = read(LINES.as_bytes());
    assert_eq!(wrong, []);
    assert_eq!(good.len(), 3);
    assert_eq!(good[..2], [tcp(), udp_v6()]);
    assert_eq!((good[2].protocol, good[2].destination_port), (1, 0x0800));
}

#[test]
fn lines_of_nfdump_are_read_by_their_header_up_to_the_summary() {
    let (good, wrong) = read(NFDUMP.as_bytes());
    assert_eq!(wrong, []);
    let first = FlowRecord {
        start_ns: 1_500_000_000_000_000_000,
        ..tcp()
    };
    assert_eq!(good[0], first, "the duration has the fraction of the end");
    assert_eq!((good[1].protocol, good[1].destination_port), (1, 0x0800));
    assert_eq!(good.len(), 2);
}

#[test]
fn compressed_records_are_the_same_records() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(LINES.as_bytes())
        .expect("a vector takes all");
    let gzip = gzip.finish().expect("a vector takes all");
    // Two members one behind the other are what `cat a.gz b.gz` makes.
    let twice = [gzip.clone(), gzip.clone()].concat();
    let zstd = zstd::encode_all(LINES.as_bytes(), 1).expect("a vector takes all");
    let plain = read(LINES.as_bytes());
    assert_eq!(read(&gzip), plain);
    assert_eq!(read(&zstd), plain);
    assert_eq!(read(&twice).0.len(), 2 * plain.0.len());
}

#[test]
fn a_compressed_file_that_is_cut_is_broken_and_does_not_end_silently() {
    let zstd = zstd::encode_all(LINES.as_bytes(), 1).expect("a vector takes all");
    let cut = zstd[..zstd.len() - 5].to_vec();
    // So short a file is broken at its beginning already.
    assert!(records(Cursor::new(cut)).is_err());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(LINES.as_bytes())
        .expect("a vector takes all");
    let mut gzip = gzip.finish().expect("a vector takes all");
    gzip.truncate(gzip.len() - 50);
    let items = records(Cursor::new(gzip)).expect("the beginning is there");
    assert!(matches!(items.last(), Some(Err(Fault::Broken(_)))));
}

#[test]
fn what_is_wrong_is_told_with_line_and_column() {
    let good = LINES.lines().nth(1).expect("the second line is a record");
    for (column, wrong) in [
        (1, "x"),
        (2, "1499999999"),
        (3, "192.0.2"),
        (4, "2001:db8::1"),
        (5, "65536"),
        (6, "-1"),
        (7, "256"),
        (8, "ToS"),
        (9, "?"),
        (10, "many"),
        (11, "99999999999999999999"),
    ] {
        let mut fields: Vec<&str> = good.split(',').collect();
        fields[column - 1] = wrong;
        let text = format!("{good}\n{}\n{good}\n", fields.join(","));
        let (records, errors) = read(text.as_bytes());
        assert_eq!(records.len(), 2, "{text}");
        let place = Location::Field { line: 2, column };
        let [error] = errors.as_slice() else {
            panic!("{errors:?}");
        };
        assert_eq!(error.place, place, "{error}");
    }
    let (_, errors) = read(b"1,2,192.0.2.1\n");
    assert!(
        errors[0].why.contains("3 fields and needs 11"),
        "{errors:?}"
    );
    let (_, errors) = read(b"ts,te,sa,da,pr,ipkt\n");
    assert!(errors[0].why.contains("no column ibyt"), "{errors:?}");
}

#[test]
fn an_endless_line_takes_no_memory_and_is_one_error() {
    let endless = io::repeat(b'7').take(10_000_000);
    let mut lines = csv::Csv::new(BufReader::new(endless));
    assert!(matches!(lines.next(), Some(Err(Fault::Record(_)))));
    assert!(lines.next().is_none());
}

/// A message around sets.
fn message(sets: &[Vec<u8>]) -> Vec<u8> {
    let body = sets.concat();
    let mut out = vec![0, 10];
    out.extend(((16 + body.len()) as u16).to_be_bytes());
    out.extend(1_500_000_100_u32.to_be_bytes());
    out.extend([0; 8]);
    out.extend(body);
    out
}

fn set(id: u16, body: &[u8]) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend(((4 + body.len()) as u16).to_be_bytes());
    out.extend(body);
    out
}

fn template(id: u16, elements: &[(u16, u16)]) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend((elements.len() as u16).to_be_bytes());
    for (number, length) in elements {
        out.extend(number.to_be_bytes());
        out.extend(length.to_be_bytes());
        if number & 0x8000 != 0 {
            out.extend([0, 0, 0, 9]);
        }
    }
    out
}

fn ntp(unix_ns: u64) -> [u8; 8] {
    let seconds = unix_ns / 1_000_000_000 + 2_208_988_800;
    let fraction = ((unix_ns % 1_000_000_000) << 32).div_ceil(1_000_000_000);
    (seconds << 32 | fraction).to_be_bytes()
}

/// The first record of the lines, with an element of an enterprise and one of variable length.
fn ipfix() -> Vec<u8> {
    let elements = [
        (8, 4),
        (12, 4),
        (7, 2),
        (11, 2),
        (4, 1),
        (5, 1),
        (6, 2),
        (2, 4),
        (0x8001, 3),
        (82, 65535),
        (1, 8),
        (156, 8),
        (157, 8),
    ];
    let record = tcp();
    let mut data = vec![192, 0, 2, 1, 198, 51, 100, 7];
    data.extend(record.source_port.to_be_bytes());
    data.extend(record.destination_port.to_be_bytes());
    data.extend([6, 0, 0, 27]);
    data.extend(10_u32.to_be_bytes());
    data.extend([1, 2, 3]);
    data.extend(b"\x04eth0");
    data.extend(record.bytes.to_be_bytes());
    data.extend(ntp(record.start_ns));
    data.extend(ntp(record.end_ns));
    let templates = set(2, &template(256, &elements));
    let twice = [data.clone(), data.clone(), vec![0, 0, 0]].concat();
    [
        message(&[templates, set(256, &twice)]),
        message(&[set(256, &data)]),
    ]
    .concat()
}

#[test]
fn ipfix_is_read_by_its_templates() {
    let (good, wrong) = read(&ipfix());
    assert_eq!(wrong, []);
    assert_eq!(good, [tcp(), tcp(), tcp()]);
}

#[test]
fn ipfix_times_are_understood_in_every_unit() {
    let base = [(8, 4), (12, 4), (4, 1), (2, 1), (1, 1)];
    let values = [192, 0, 2, 1, 192, 0, 2, 2, 17, 1, 60];
    let seconds: u64 = 1_500_000_000;
    let four = |value: u64| (value as u32).to_be_bytes().to_vec();
    let eight = |value: u64| value.to_be_bytes().to_vec();
    for (start, end) in [
        ((150, four(seconds)), (151, four(seconds + 2))),
        (
            (152, eight(seconds * 1000)),
            (153, eight(seconds * 1000 + 2000)),
        ),
        (
            (154, ntp(seconds * 1_000_000_000).to_vec()),
            (155, ntp((seconds + 2) * 1_000_000_000).to_vec()),
        ),
        ((158, four(100_000_000)), (159, four(98_000_000))),
        ((152, eight(seconds * 1000)), (161, four(2000))),
    ] {
        let times = [&start, &end].map(|(id, bytes)| (*id, bytes.len() as u16));
        let elements = [base.as_slice(), &times].concat();
        let data = [values.as_slice(), &start.1, &end.1].concat();
        let file = message(&[set(2, &template(300, &elements)), set(300, &data)]);
        let (good, wrong) = read(&file);
        assert_eq!(wrong, []);
        let times = (good[0].start_ns, good[0].end_ns);
        assert_eq!(
            times,
            (seconds * 1_000_000_000, (seconds + 2) * 1_000_000_000),
            "{}",
            start.0
        );
    }
}

#[test]
fn data_without_its_template_is_an_error_and_the_next_message_is_read() {
    let whole = ipfix();
    let unknown = message(&[set(999, &[1, 2, 3, 4])]);
    let (good, wrong) = read(&[unknown, whole].concat());
    assert_eq!(good.len(), 3);
    assert!(wrong[0].why.contains("template 999"), "{wrong:?}");
}

#[test]
fn a_template_of_more_elements_than_any_exporter_has_takes_no_memory() {
    let endless = set(2, &template(300, &[(1, 0); 1025]));
    let (good, wrong) = read(&[message(&[endless]), ipfix()].concat());
    assert_eq!(good.len(), 3);
    assert!(wrong[0].why.contains("1025 elements"), "{wrong:?}");
}

#[test]
fn a_cut_at_any_byte_gives_what_is_before_it_and_tells_of_the_rest() {
    let whole = ipfix();
    let first = u16::from_be_bytes([whole[2], whole[3]]) as usize;
    for cut in 4..whole.len() {
        let (good, wrong) = read(&whole[..cut]);
        let expected = if cut < first { 0 } else { 2 };
        assert_eq!(good.len(), expected, "cut at {cut}");
        assert_eq!(wrong.len(), usize::from(cut != first), "cut at {cut}");
    }
    for cut in 0..LINES.len() {
        let (good, wrong) = read(&LINES.as_bytes()[..cut]);
        // The header and each whole line; a line that is cut within its last number is a record.
        assert!(good.len() + wrong.len() <= 3, "cut at {cut}");
    }
}

/// A conversation of which one in four packets was sampled, and an answered echo.
fn conversations() -> Vec<Conversation> {
    let end = |host: u8, port| FlowEnd {
        address: [192, 0, 2, host].into(),
        port,
    };
    let amount = |packets, bytes| Amount { packets, bytes };
    let echo = Conversation {
        interface: "lan".to_owned(),
        vlans: vec![7],
        protocol: 1,
        ends: [end(1, None), end(2, None)],
        sent: amount(2, 168),
        received: amount(1, 84),
        sampled_packets: 3,
        packets_variance: Some(0),
        cpu_ns: None,
        sampled: SampledTime::default(),
    };
    let download = Conversation {
        protocol: 6,
        vlans: Vec::new(),
        ends: [end(1, Some(40_000)), end(2, Some(443))],
        sent: amount(0, 0),
        received: amount(10, 15_040),
        ..echo.clone()
    };
    vec![download, echo]
}

/// A log of netto's with intervals of these numbers, a second each.
fn netto_log(sequences: &[u64]) -> Vec<u8> {
    let mut log = LogBuilder::default();
    let mut push = |message| log.push(&message).expect("it is small");
    push(ServerMessage::Hello(Box::new(fixture::info())));
    for &sequence in sequences {
        let flows = Flows {
            conversations: conversations(),
            packets: 20,
            one_in: 4,
            ..Flows::default()
        };
        push(ServerMessage::Snapshot(Box::new(Snapshot {
            sequence,
            time_unix_ns: (1_500_000_000 + sequence) * 1_000_000_000,
            interval_ns: 1_000_000_000,
            sections: Sections {
                flows: Some(flows),
                ..Sections::default()
            },
            ..Snapshot::default()
        })));
    }
    log.finish()
}

#[test]
fn conversations_of_nettos_log_are_a_record_for_each_direction_and_interval() {
    let (good, wrong) = read(&netto_log(&[1, 2, 2]));
    assert_eq!(wrong, []);
    assert_eq!(
        good.len(),
        2 * 3,
        "an interval that is there twice counts once"
    );
    let Addresses::V4 { source, .. } = good[0].addresses else {
        panic!("{:?}", good[0]);
    };
    let ports = (good[0].source_port, good[0].destination_port);
    assert_eq!((source, ports), ([192, 0, 2, 2].into(), (443, 40_000)));
    assert_eq!((good[0].tcp_flags, good[0].is_estimate), (16, true));
    assert_eq!(
        (good[1].destination_port, good[2].destination_port),
        (0x0800, 0)
    );
    assert_eq!(
        (good[1].packets, good[1].bytes, good[1].vlan),
        (2, 168, Some(7))
    );
    for (number, record) in good.iter().enumerate() {
        let begin_ns = (1_500_000_000 + number as u64 / 3) * 1_000_000_000;
        let interval = begin_ns..begin_ns + 1_000_000_000;
        assert!(interval.contains(&record.start_ns) && interval.contains(&record.end_ns));
        let gaps = record.packets - 1;
        let gap_ns = 1_000_000_000 / record.packets;
        assert_eq!(record.end_ns - record.start_ns, gap_ns * gaps);
    }
}

#[test]
fn what_nettos_log_does_not_have_is_said() {
    let items = |bytes: Vec<u8>| -> Vec<_> {
        let items = records(Cursor::new(bytes)).expect("the beginning is there");
        items.filter_map(Result::err).collect()
    };
    let not_listed = |faults: &[Fault]| -> Vec<u64> {
        let faults = faults.iter().filter_map(|fault| match fault {
            Fault::NotListed(packets) => Some(*packets),
            _ => None,
        });
        faults.collect()
    };
    let whole = netto_log(&[1, 2]);
    let said = items(whole.clone());
    assert!(matches!(&said[0], Fault::Note(text) if text.contains("TCP has ACK only")));
    assert_eq!(not_listed(&said), [7, 7]);
    let Some(Fault::Broken(error)) = items(netto_log(&[])).pop() else {
        panic!("a log without flows has no records");
    };
    assert!(error.to_string().contains("--flows"), "{error}");
    let mut damaged = whole;
    damaged[60] ^= 1;
    let said = items(damaged);
    let is_told = |fault: &Fault| matches!(fault, Fault::Record(error) if error.why.contains("cannot be read"));
    assert!(said.iter().any(is_told), "{said:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn damaged_bytes_make_no_panic_and_every_line_is_a_record_or_an_error(
        which in 0..4_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = [LINES.as_bytes().to_vec(), NFDUMP.as_bytes().to_vec(), ipfix(), netto_log(&[1, 2, 3])][which].clone();
        for (place, byte) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        // A changed magic number may make the file a compressed one, which is then broken.
        let Ok(items) = records(Cursor::new(bytes.clone())) else { return Ok(()) };
        let items: Vec<_> = items.take(10_000).collect();
        prop_assert!(items.len() < 10_000, "the stream ends");
        let is_broken = items.iter().any(|item| matches!(item, Err(Fault::Broken(_))));
        if which == 0 && !is_broken && !bytes.starts_with(&[0, 10]) {
            let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty() && !line.trim_ascii().starts_with(b"#"));
            prop_assert!(items.len() <= lines.count());
        }
    }

    #[test]
    fn any_bytes_at_all_make_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), is_ipfix in any::<bool>()) {
        let bytes = if is_ipfix { [vec![0, 10], bytes].concat() } else { bytes };
        if let Ok(items) = records(Cursor::new(bytes)) {
            prop_assert!(items.take(10_000).count() < 10_000);
        }
    }
}
