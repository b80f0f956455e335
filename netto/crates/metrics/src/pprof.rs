//! Profiles in pprof's format (github.com/google/pprof, `proto/profile.proto`), which `go tool pprof`,
//! Parca and Pyroscope read: samples and CPU time by stack, with CPU, event, part and owner as labels.
//!
//! The messages are the part of the format that netto uses, with its field numbers. Addresses are
//! left out: they would tell where the kernel lies in memory.

use netto_pipeline::profile::{Profile, Texts};
use prost::Message;

/// The media type; the message is compressed by gzip.
pub const CONTENT_TYPE: &str = "application/octet-stream";

#[derive(Clone, PartialEq, Message)]
struct ProfileMessage {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The place of a text in the message.
fn place(texts: &mut Texts, text: &str) -> i64 {
    texts.number(text).into()
}

/// A number as the format has it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The message, not yet compressed.
pub fn encode(profile: &Profile) -> Vec<u8> {
    const KERNEL: u64 = 1;
    let mut texts = Texts::default();
    // The format demands that the first is empty.
    place(&mut texts, "");
    let mut value_type = |kind: &str, unit: &str| ValueType {
        kind: place(&mut texts, kind),
        unit: place(&mut texts, unit),
    };
    let count = value_type("samples", "count");
    let time = value_type("cpu", "nanoseconds");
    let kernel = place(&mut texts, "[kernel.kallsyms]");
    let functions = profile.functions.iter().zip(1..);
    let function: Vec<Function> = functions
        .map(|(name, id)| {
            let name = place(&mut texts, name);
            Function {
                id,
                name,
                system_name: name,
                filename: kernel,
            }
        })
        .collect();
    let location = function.iter().map(|function| Location {
        id: function.id,
        mapping_id: KERNEL,
        line: vec![Line {
            function_id: function.id,
        }],
    });
    let location = location.collect();
    let sample = profile.samples.iter().map(|sample| {
        let labels = &sample.labels;
        let cpu = labels.cpu.map(|cpu| cpu.to_string());
        let named = [
            ("event", Some(labels.event.as_str())),
            ("part", labels.part),
            ("cpu", cpu.as_deref()),
            ("owner", labels.owner.as_deref()),
        ];
        let label = named.into_iter().filter_map(|(key, text)| {
            Some(Label {
                key: place(&mut texts, key),
                text: place(&mut texts, text?),
            })
        });
        let label = label.collect();
        Sample {
            location_id: sample
                .stack
                .iter()
                .map(|place| u64::from(*place) + 1)
                .collect(),
            value: vec![signed(sample.count), signed(sample.cpu_ns)],
            label,
        }
    });
    let sample = sample.collect();
    let comment = match profile.left_out {
        0 => Vec::new(),
        left_out => vec![place(
            &mut texts,
            &format!("{left_out} samples had no room"),
        )],
    };
    let message = ProfileMessage {
        sample_type: vec![count, time],
        sample,
        mapping: vec![Mapping {
            id: KERNEL,
            filename: kernel,
            has_functions: true,
        }],
        location,
        function,
        time_nanos: signed(profile.begun_unix_ns),
        duration_nanos: signed(profile.length_ns),
        period_type: Some(time),
        period: signed(profile.period_ns()),
        comment,
        default_sample_type: time.kind,
        string_table: texts.into_all(),
    };
    message.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use netto_pipeline::profile::{Labels, ProfileSample};

    use super::*;

    /// Samples of two clocks, or of CPUs with rates of their own, stand for different times.
    #[test]
    fn the_period_is_the_time_for_which_a_sample_stands_on_average() {
        let of = |samples: &[(u64, u64)]| {
            let sample = |&(count, cpu_ns): &(u64, u64)| ProfileSample {
                stack: Vec::new(),
                labels: Labels {
                    cpu: None,
                    event: "rx_softirq".into(),
                    part: None,
                    owner: None,
                },
                count,
                cpu_ns,
            };
            let profile = Profile {
                begun_unix_ns: 0,
                length_ns: 1_000_000_000,
                functions: Vec::new(),
                samples: samples.iter().map(sample).collect(),
                left_out: 0,
            };
            let read = ProfileMessage::decode(&encode(&profile)[..]).unwrap();
            let values = read.sample.iter().map(|sample| &sample.value);
            let [count, cpu_ns] = [0, 1].map(|at| values.clone().map(|value| value[at]).sum());
            (read.period, count, cpu_ns)
        };
        let (period, count, cpu_ns): (i64, i64, i64) = of(&[(2, 8_000_000), (6, 6_000_000)]);
        assert_eq!((period, cpu_ns), (1_750_000, period * count));
        assert_eq!(of(&[]).0, 0, "no sample stands for anything");
    }

    #[test]
    fn a_profile_has_stacks_values_labels_and_its_time() {
        let profile = Profile {
            begun_unix_ns: 5,
            length_ns: 7,
            functions: vec!["net_rx_action".into(), "ip_rcv".into()],
            samples: vec![ProfileSample {
                stack: vec![1, 0],
                labels: Labels {
                    cpu: Some(3),
                    event: "rx_softirq".into(),
                    part: Some("ipv4"),
                    owner: Some("web".into()),
                },
                count: 2,
                cpu_ns: 2_000_000,
            }],
            left_out: 4,
        };
        let read = ProfileMessage::decode(&encode(&profile)[..]).unwrap();
        let text = |place: i64| read.string_table[place as usize].as_str();
        assert_eq!(read.string_table[0], "");
        let types = read
            .sample_type
            .iter()
            .map(|value_type| (text(value_type.kind), text(value_type.unit)));
        assert_eq!(
            types.collect::<Vec<_>>(),
            [("samples", "count"), ("cpu", "nanoseconds")]
        );
        assert_eq!(text(read.period_type.unwrap().kind), "cpu");
        assert_eq!(
            (read.time_nanos, read.duration_nanos, read.period),
            (5, 7, 1_000_000)
        );
        let [sample] = &read.sample[..] else {
            panic!("{read:?}");
        };
        assert_eq!(sample.value, [2, 2_000_000]);
        let named = sample.location_id.iter().map(|id| {
            let location = read
                .location
                .iter()
                .find(|location| location.id == *id)
                .unwrap();
            let function = location.line[0].function_id;
            let function = read
                .function
                .iter()
                .find(|candidate| candidate.id == function)
                .unwrap();
            text(function.name)
        });
        assert_eq!(named.collect::<Vec<_>>(), ["ip_rcv", "net_rx_action"]);
        let labels = sample
            .label
            .iter()
            .map(|label| (text(label.key), text(label.text)));
        assert_eq!(
            labels.collect::<Vec<_>>(),
            [
                ("event", "rx_softirq"),
                ("part", "ipv4"),
                ("cpu", "3"),
                ("owner", "web")
            ]
        );
        assert!(text(read.comment[0]).starts_with('4'));
    }
}
