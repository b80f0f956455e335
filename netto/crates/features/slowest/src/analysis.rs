//! What is known of each slow softirq. Pure.

use std::cmp::Reverse;

use metrics_common::sections::{SOFTIRQS, SlowSoftirq};
use metrics_common::{COMPONENTS, Owner, OwnerKind};
use netto_analysis::escapes::shown;
use netto_analysis::long_softirqs::{LongSoftirq, Tally, place_of};
use netto_analysis::tagged::{SampleTag, TaggedSample};

/// These softirqs, the slowest first. `owners` has cause and payer of each, or is empty where nobody
/// looks for them.
pub(crate) fn slowest(
    found: &[LongSoftirq],
    owners: &[[Owner; 2]],
    samples: &[TaggedSample],
    unix_ns: impl Fn(u64) -> u64,
) -> Vec<SlowSoftirq> {
    let mut parts = vec![Tally::default(); found.len()];
    if !found.is_empty() {
        for sample in samples {
            if let Some(place) = place_of(found, sample.cpu, sample.tag.time_ns) {
                parts[place].add(sample.part.unwrap_or(sample.event));
            }
        }
    }
    let slow_softirq = |(place, (softirq, parts)): (usize, (&LongSoftirq, &Tally<usize>))| {
        let named = owners.get(place).cloned();
        let unnamed = || [Owner::single(OwnerKind::Unknown), interrupted(&softirq.tag)];
        let [cause, payer] = named.unwrap_or_else(unnamed);
        let part = parts.most().and_then(|row| COMPONENTS.get(row));
        SlowSoftirq {
            began_unix_ns: unix_ns(softirq.began_ns()),
            length_ns: softirq.length_ns,
            cpu: softirq.cpu as u32,
            softirq: SOFTIRQS
                .get(usize::from(softirq.vector))
                .map_or("", |name| name)
                .to_owned(),
            part: part.map(|part| part.slug.to_owned()),
            samples: parts.count(),
            cause,
            payer,
        }
    };
    let mut all: Vec<SlowSoftirq> = found
        .iter()
        .zip(&parts)
        .enumerate()
        .map(slow_softirq)
        .collect();
    all.sort_by_key(|slow| Reverse(slow.length_ns));
    all
}

/// The interrupted task as a process.
fn interrupted(task: &SampleTag) -> Owner {
    if task.thread == 0 {
        return Owner::single(OwnerKind::Idle);
    }
    if task.is_of_kernel {
        return Owner::single(OwnerKind::Kernel);
    }
    let end = task.comm.iter().position(|byte| *byte == 0);
    Owner {
        pid: task.process,
        started_ns: task.started_ns,
        comm: shown(&task.comm[..end.unwrap_or(task.comm.len())]),
        ..Owner::single(OwnerKind::Process)
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;

    use super::*;

    fn task(thread: u32, time_ns: u64) -> SampleTag {
        SampleTag {
            process: 70,
            thread,
            comm: *b"victim\xff\0garbage!",
            time_ns,
            ..SampleTag::default()
        }
    }

    fn sample(cpu: usize, time_ns: u64, part: Option<&str>) -> TaggedSample {
        TaggedSample {
            cpu,
            event: index_of("rx_softirq").unwrap(),
            part: part.and_then(index_of),
            has_met_packet: false,
            is_of_window: false,
            weight: 1.0,
            program: None,
            tag: task(0, time_ns),
        }
    }

    fn softirq(length_ns: u64, tag: SampleTag) -> LongSoftirq {
        LongSoftirq {
            cpu: 1,
            vector: 3,
            length_ns,
            tag,
        }
    }

    #[test]
    fn a_slow_softirq_has_its_beginning_and_the_part_of_most_of_its_samples() {
        let found = [
            softirq(1_000, task(71, 10_000)),
            softirq(2_000, task(0, 20_000)),
        ];
        let samples = [
            sample(1, 18_500, Some("gro")),
            sample(1, 19_000, Some("local_delivery_v4")),
            sample(1, 19_900, Some("local_delivery_v4")),
            sample(0, 19_500, Some("gro")),
            sample(1, 12_000, Some("gro")),
        ];
        let all = slowest(&found, &[], &samples, |ns| 1_000_000 + ns);
        let [slow, less] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!((slow.length_ns, slow.began_unix_ns), (2_000, 1_018_000));
        assert_eq!((slow.cpu, &*slow.softirq, slow.samples), (1, "NET_RX", 3));
        assert_eq!(slow.part.as_deref(), Some("local_delivery_v4"));
        assert_eq!(
            (slow.payer.kind, slow.cause.kind),
            (OwnerKind::Idle, OwnerKind::Unknown)
        );
        assert_eq!((less.part.as_deref(), less.samples), (None, 0));
        assert_eq!((&*less.payer.comm, less.payer.pid), ("victim\\xff", 70));
        let event = slowest(&found, &[], &[sample(1, 9_500, None)], |ns| ns);
        assert_eq!(event[1].part.as_deref(), Some("rx_softirq"));
    }

    #[test]
    fn owners_stand_where_they_were_looked_for_and_threads_of_the_kernel_have_no_name() {
        let thread = SampleTag {
            is_of_kernel: true,
            ..task(9, 10_000)
        };
        let found = [softirq(1_000, thread), softirq(2_000, task(71, 20_000))];
        let group = |cgroup: &str| Owner {
            cgroup: cgroup.to_owned(),
            ..Owner::single(OwnerKind::Cgroup)
        };
        let owners = [[group("/a"), group("/b")], [group("/c"), group("/d")]];
        let named = slowest(&found, &owners, &[], |ns| ns);
        let names: Vec<_> = named
            .iter()
            .map(|slow| (&*slow.cause.cgroup, &*slow.payer.cgroup))
            .collect();
        assert_eq!(names, [("/c", "/d"), ("/a", "/b")]);
        assert_eq!(
            slowest(&found, &[], &[], |ns| ns)[1].payer.kind,
            OwnerKind::Kernel
        );
    }
}
