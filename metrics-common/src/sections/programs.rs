//! CPU time of the kernel's BPF programs on the way of packets.

use serde::{Deserialize, Serialize, Serializer};

use super::columns::Columns;
use super::owners::{Bounds, Owner};
use super::recorded::Recorded;
use super::section::Section;
use crate::confidence::figure;
use crate::packed::{self, Damaged, Packed};
use crate::rounding::{Carry, TIME_UNIT_NS};
use crate::sort::sort_by_key;

mod causes;
mod view;

pub use causes::{Cause, Causes, MOST_CAUSES};
pub use view::PROGRAMS;

/// Most programs named in a snapshot or a sum; the time of further ones is summed.
pub const MOST_PROGRAMS: usize = 64;

/// CPU time of BPF programs on the way of packets, from sampled stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Programs {
    /// Programs, those with the most time first; 64 at most.
    pub programs: Vec<Program>,
    /// CPU time of others by CPU, nanoseconds: of further programs, and of code whose program is
    /// not certain.
    pub other_cpu_ns: Vec<u64>,
    /// Samples that this rests on.
    pub other_samples: u64,
}

/// A BPF program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "ProgramView<'static>")
)]
pub struct Program {
    /// The program, with what its times rest on.
    pub about: About,
    /// CPU time within networking by CPU, nanoseconds: of its own code and of what it calls, other
    /// than further programs.
    pub cpu_ns: Vec<u64>,
    /// The variance of this time over all CPUs, nanoseconds × milliseconds; `None` in what an older netto
    /// has written, and in a sum that contains it.
    pub variance_ns_ms: Option<u64>,
    /// Whose packets it ran for; `None` where owners are not measured.
    pub causes: Option<Causes>,
}

/// A program without its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct About {
    /// Its number since the kernel started, never used again.
    pub id: u32,
    /// Its name; empty if it has none.
    pub name: String,
    /// Its type, by libbpf's name: `xdp`, `sched_cls`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The hash of its instructions, in hexadecimal digits.
    pub tag: String,
    /// Whether it is netto's own.
    pub is_own: bool,
    /// Where it is attached, as far as known.
    pub attached: Vec<Attachment>,
    /// Why nothing is known of that; absent if something is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unattached: String,
    /// Samples that its time rests on.
    pub samples: u64,
    /// By how much its time may be off whatever their number, because the time of softirqs is
    /// found by samples, too; nanoseconds.
    #[serde(default)]
    pub systematic_ns: u64,
    /// How many packets it had, where and while that is known; null if never.
    pub packets: Option<Packets>,
    /// Why packets are not known; absent if they are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uncounted: String,
}

/// A place where a program is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attachment {
    /// The kind of place: `xdp`, `tcx_ingress`, `cgroup_inet_egress`, `tracepoint`.
    pub hook: String,
    /// Interface, control group, or function; empty if there is none.
    pub target: String,
}

/// Packets of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Packets {
    /// Number of packets: of the program's interfaces, or of its runs.
    pub count: u64,
    /// Its CPU time while they were counted, nanoseconds over all CPUs.
    pub cpu_ns: u64,
    /// Whether the kernel counted runs, not the interfaces their packets.
    pub are_runs: bool,
}

impl Program {
    /// Its CPU time over all CPUs, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        total(&self.cpu_ns)
    }

    /// Adds the owners of a later interval, before its time is added.
    fn add_causes(&mut self, later: &Program) {
        let before_ns = self.total_ns();
        match (&mut self.causes, &later.causes) {
            (Some(causes), Some(more)) => causes.add_later(more),
            (Some(causes), None) => causes.add_unknown(later.total_ns()),
            (missing @ None, Some(more)) => {
                let mut causes = more.clone();
                causes.add_unknown(before_ns);
                *missing = Some(causes);
            }
            (None, None) => {}
        }
    }

    /// Its time by the owner of the packets, to the nanosecond: those with the most first, what is
    /// unknown last. None where owners are not measured.
    pub fn causes(&self) -> Vec<Cause<'_>> {
        let causes = self.causes.as_ref();
        causes.map_or(Vec::new(), |causes| causes.of_time(self.total_ns()))
    }

    /// CPU time for each packet, nanoseconds; `None` without packets.
    pub fn ns_per_packet(&self) -> Option<f64> {
        let packets = self.about.packets.filter(|packets| packets.count > 0)?;
        Some(packets.cpu_ns as f64 / packets.count as f64)
    }

    /// Half of the 95 % interval of its time, by the number of samples and what else may be wrong, as
    /// a share of it; `None` without samples.
    pub fn margin_ratio(&self) -> Option<f64> {
        let total_ns = self.total_ns().max(1) as f64;
        let (low, high) = figure(total_ns, self.variance_ns_ms?).interval(0.0);
        let by_number = (high - low) / 2.0 / total_ns;
        let otherwise = self.about.systematic_ns as f64 / total_ns;
        // Both may be wrong the same way.
        (self.about.samples > 0).then_some(by_number + otherwise + by_number * otherwise)
    }

    fn interval_ns(&self) -> Option<Bounds> {
        let ns = self.total_ns() as f64;
        let half_ns = ns * self.margin_ratio()?;
        Some(((ns - half_ns).max(0.0) as u64, (ns + half_ns).ceil() as u64))
    }
}

/// A BPF program, as JSON has it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ProgramView<'a> {
    #[serde(flatten)]
    about: &'a About,
    /// Its CPU time within networking, with what it calls, per CPU; nanoseconds, an estimate.
    cpu_ns: &'a [u64],
    /// Where the sum of `cpu_ns` lies with a confidence of 95 %, nanoseconds: by the number of
    /// samples and `systematic_ns`. Absent without samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ns: Option<Bounds>,
    /// The owners of the packets that it ran for, those with the most time first, `unknown` last; 8
    /// at most, further ones are `other`. They sum to its time. Absent where owners are not
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    owners: Option<Vec<CauseView<'a>>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CauseView<'a> {
    /// Its name for people.
    label: String,
    #[serde(flatten)]
    owner: &'a Owner,
    /// The program's CPU time for its packets, nanoseconds over all CPUs.
    total_ns: u64,
    /// Where `total_ns` lies with a confidence of 95 %, nanoseconds, the program's time taken as
    /// given. Absent of what is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ns: Option<Bounds>,
}

impl<'a> CauseView<'a> {
    fn of(cause: Cause<'a>) -> CauseView<'a> {
        CauseView {
            label: cause.owner.label(),
            owner: cause.owner,
            total_ns: cause.ns,
            interval_ns: cause.interval_ns,
        }
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let owners = || self.causes().into_iter().map(CauseView::of).collect();
        let view = ProgramView {
            about: &self.about,
            cpu_ns: &self.cpu_ns,
            interval_ns: self.interval_ns(),
            owners: self.causes.as_ref().map(|_| owners()),
        };
        view.serialize(serializer)
    }
}

impl About {
    /// Name for people: `xdp_filter (17)`.
    pub fn label(&self) -> String {
        match self.name.as_str() {
            "" => format!("without a name ({})", self.id),
            name => format!("{name} ({})", self.id),
        }
    }

    /// Where it is attached, for people: `xdp eth0, tcx_ingress eth1`; else why that is not known.
    pub fn places(&self) -> String {
        if self.attached.is_empty() {
            return self.unattached.clone();
        }
        let one = |attachment: &Attachment| format!("{} {}", attachment.hook, attachment.target);
        let all: Vec<String> = self.attached.iter().map(one).collect();
        all.join(", ").trim_end().to_owned()
    }

    /// Adds a later interval of the same program.
    fn add(&mut self, later: &About) {
        self.samples = self.samples.saturating_add(later.samples);
        self.systematic_ns = self.systematic_ns.saturating_add(later.systematic_ns);
        self.attached.clone_from(&later.attached);
        self.unattached.clone_from(&later.unattached);
        match (&mut self.packets, &later.packets) {
            (Some(packets), Some(more)) => {
                packets.count = packets.count.saturating_add(more.count);
                packets.cpu_ns = packets.cpu_ns.saturating_add(more.cpu_ns);
                packets.are_runs &= more.are_runs;
            }
            (packets @ None, Some(more)) => *packets = Some(*more),
            (_, None) => {}
        }
        match self.packets {
            Some(_) => self.uncounted.clear(),
            None => self.uncounted.clone_from(&later.uncounted),
        }
    }
}

impl Programs {
    /// CPU time of all programs, nanoseconds over all CPUs.
    pub fn total_ns(&self) -> u64 {
        let named = self.programs.iter().map(Program::total_ns);
        named.fold(total(&self.other_cpu_ns), u64::saturating_add)
    }
}

fn total(row: &[u64]) -> u64 {
    row.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
}

/// [`Programs`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct ProgramsWire {
    programs: Vec<About>,
    other_samples: u64,
    /// A row for each program, and one for others.
    cpu_ns: Packed,
    /// Of each program; none in what an older netto has written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Option<Causes>>,
    /// Likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    variances_ns_ms: Vec<Option<u64>>,
}

impl Section for Programs {
    type Wire = ProgramsWire;

    fn to_wire(&self) -> ProgramsWire {
        let rows = self
            .programs
            .iter()
            .map(|program| program.cpu_ns.as_slice());
        let rows = rows.chain([self.other_cpu_ns.as_slice()]);
        ProgramsWire {
            programs: self
                .programs
                .iter()
                .map(|program| program.about.clone())
                .collect(),
            other_samples: self.other_samples,
            cpu_ns: packed::pack(rows.map(Some)),
            causes: if self.programs.iter().any(|program| program.causes.is_some()) {
                self.programs
                    .iter()
                    .map(|program| program.causes.clone())
                    .collect()
            } else {
                Vec::new()
            },
            variances_ns_ms: self
                .programs
                .iter()
                .map(|program| program.variance_ns_ms)
                .collect(),
        }
    }

    fn from_wire(wire: ProgramsWire, cpus: usize) -> Result<Self, Damaged> {
        let rows = packed::unpack(&wire.cpu_ns, cpus)?.into_iter();
        let mut rows: Vec<Vec<u64>> = rows.collect::<Option<_>>().ok_or(Damaged)?;
        let other_cpu_ns = rows.pop().ok_or(Damaged)?;
        if wire.programs.len() != rows.len() || rows.len() > MOST_PROGRAMS {
            return Err(Damaged);
        }
        let mut causes = wire.causes;
        if causes.is_empty() {
            causes.resize(rows.len(), None);
        }
        let mut variances_ns_ms = wire.variances_ns_ms;
        variances_ns_ms.resize(rows.len(), None);
        if causes.len() != rows.len() || !causes.iter().flatten().all(Causes::is_bounded) {
            return Err(Damaged);
        }
        let programs = wire
            .programs
            .into_iter()
            .zip(rows)
            .zip(causes)
            .zip(variances_ns_ms);
        Ok(Programs {
            programs: programs
                .map(|(((about, cpu_ns), causes), variance_ns_ms)| Program {
                    about,
                    cpu_ns,
                    variance_ns_ms,
                    causes,
                })
                .collect(),
            other_cpu_ns,
            other_samples: wire.other_samples,
        })
    }

    fn round(&mut self, carry: &mut Carry) {
        // In an order that only changes when a program comes or goes.
        sort_by_key(&mut self.programs, |program| program.about.id);
        let rows = self.programs.iter_mut().map(|program| &mut program.cpu_ns);
        let mut rows: Vec<_> = std::iter::once(&mut self.other_cpu_ns)
            .chain(rows)
            .collect();
        let mut table: Vec<_> = rows
            .iter_mut()
            .map(|row| Some(std::mem::take(*row)))
            .collect();
        carry.round_rows("cpu_ns", &mut table, TIME_UNIT_NS);
        for (row, rounded) in rows.into_iter().zip(table) {
            *row = rounded.unwrap_or_default();
        }
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        let Programs {
            programs,
            other_cpu_ns,
            other_samples,
        } = self;
        // A log may have several boots, which number their programs anew.
        let is_same = |a: &About, b: &About| a.id == b.id && a.tag == b.tag && a.name == b.name;
        columns.add(other_cpu_ns, &later.other_cpu_ns);
        *other_samples = other_samples.saturating_add(later.other_samples);
        for program in programs.iter_mut() {
            let mut more = later.programs.iter();
            match more.find(|more| is_same(&program.about, &more.about)) {
                Some(more) => {
                    program.add_causes(more);
                    program.about.add(&more.about);
                    program.variance_ns_ms = (program.variance_ns_ms.zip(more.variance_ns_ms))
                        .map(|(sum, more)| sum.saturating_add(more));
                    columns.add(&mut program.cpu_ns, &more.cpu_ns);
                }
                None => columns.add(&mut program.cpu_ns, &[]),
            }
        }
        for more in &later.programs {
            if programs
                .iter()
                .any(|program| is_same(&program.about, &more.about))
            {
                continue;
            }
            let cpu_ns = columns.placed(&more.cpu_ns);
            if programs.len() < MOST_PROGRAMS {
                programs.push(Program {
                    cpu_ns,
                    ..more.clone()
                });
            } else {
                let sums = other_cpu_ns.iter_mut().zip(cpu_ns);
                sums.for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
                *other_samples = other_samples.saturating_add(more.about.samples);
            }
        }
        sort_by_key(programs, |program| std::cmp::Reverse(program.total_ns()));
    }
}

/// Nothing of it is kept.
impl Recorded for Programs {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::sections::OwnerKind;
    use crate::{Sections, Snapshot};

    fn program(id: u32, cpu_ns: &[u64], packets: Option<u64>) -> Program {
        let uncounted = match packets {
            Some(_) => String::new(),
            None => "no count".to_owned(),
        };
        let packets = packets.map(|count| Packets {
            count,
            cpu_ns: total(cpu_ns),
            are_runs: false,
        });
        Program {
            about: About {
                id,
                name: "filter".to_owned(),
                samples: 4,
                packets,
                uncounted,
                ..About::default()
            },
            cpu_ns: cpu_ns.to_vec(),
            variance_ns_ms: Some(0),
            causes: None,
        }
    }

    fn caused(mut program: Program, by: &[(OwnerKind, u64)]) -> Program {
        let mut causes = Causes::default();
        by.iter()
            .for_each(|(kind, ns)| causes.add(&Owner::single(*kind), *ns, Some(*ns)));
        program.causes = Some(causes);
        program
    }

    fn programs(all: Vec<Program>) -> Programs {
        let cpus = all.first().map_or(2, |program| program.cpu_ns.len());
        Programs {
            programs: all,
            other_cpu_ns: vec![1; cpus],
            other_samples: 1,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = Snapshot {
            cpus: vec![0, 1],
            sections: Sections {
                programs: Some(programs(vec![
                    caused(program(1, &[5, 7], Some(3)), &[(OwnerKind::Nobody, 12)]),
                    program(2, &[0, 1], None),
                ])),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let read: Snapshot = codec::decode(&codec::encode(&written).unwrap()).unwrap();
        assert_eq!(read, written);
    }

    #[test]
    fn intervals_add_up_by_program_and_cpu_whatever_comes_and_goes() {
        let mut sum = programs(vec![
            program(1, &[5, 7], Some(3)),
            program(2, &[1, 1], None),
        ]);
        let mut cpus = vec![0, 1];
        let later = programs(vec![program(2, &[50], Some(25)), program(3, &[2], None)]);
        sum.add(&later, &Columns::join(&mut cpus, &[1]));
        let rows: Vec<_> = sum
            .programs
            .iter()
            .map(|program| &program.cpu_ns[..])
            .collect();
        assert_eq!(rows, [&[1, 51][..], &[5, 7], &[0, 2]]);
        assert_eq!(sum.programs[0].ns_per_packet(), Some(2.0));
        assert_eq!(sum.programs[0].about.uncounted, "");
        assert_eq!(sum.programs[2].about.uncounted, "no count");
        assert_eq!(
            (sum.other_cpu_ns.clone(), sum.other_samples),
            (vec![1, 2], 2)
        );
        assert_eq!(sum.sum().total_ns(), sum.total_ns());
        assert_eq!(sum.programs[0].margin_ratio(), Some(0.0));
        sum.programs[0].cpu_ns = vec![52_000_000, 0];
        // Of 52 samples, each of which stands for a millisecond.
        sum.programs[0].variance_ns_ms = Some(52_000_000);
        let margin = sum.programs[0].margin_ratio().unwrap();
        assert!((margin - 1.96 / 52_f64.sqrt()).abs() < 0.02, "{margin}");
        sum.programs[0].about.systematic_ns = 52_000_000;
        assert!(sum.programs[0].margin_ratio() > Some(1.0));
    }

    #[test]
    fn owners_add_up_to_the_programs_time_and_where_they_were_not_measured_are_unknown() {
        let one = || {
            let program = caused(program(1, &[30, 10], None), &[(OwnerKind::Nobody, 40)]);
            programs(vec![program])
        };
        let other = || programs(vec![program(1, &[0, 60], None)]);
        for intervals in [[one(), other()], [other(), one()]] {
            let mut sum = Programs::default();
            for interval in &intervals {
                sum.add(interval, &Columns::folded());
            }
            let causes = sum.programs[0].causes();
            let times: Vec<_> = causes
                .iter()
                .map(|cause| (cause.owner.kind, cause.ns))
                .collect();
            assert_eq!(times, [(OwnerKind::Nobody, 40), (OwnerKind::Unknown, 60)]);
        }
        let mut sum = other();
        sum.add(&other(), &Columns::folded());
        assert!(sum.programs[0].causes().is_empty());
        let json = serde_json::to_string(&sum.programs[0]).unwrap();
        assert!(!json.contains("owners"), "{json}");
        let json = serde_json::to_string(&one().programs[0]).unwrap();
        let expected = r#""owners":[{"label":"no owner","kind":"nobody","total_ns":40,"#;
        assert!(json.contains(expected), "{json}");
    }

    #[test]
    fn rounded_times_have_the_same_sum() {
        let mut carry = Carry::default();
        let (mut exact, mut rounded) = (Programs::default(), Programs::default());
        for interval in 0..100 {
            let times = [[1_234_567 + interval, 0], [20_777, 5_000_003 * interval]];
            let two = [2, 1].map(|id| program(id, &times[id as usize - 1], None));
            let mut interval = programs(two.to_vec());
            exact.add(&interval, &Columns::folded());
            interval.round(&mut carry);
            assert_eq!(interval.programs[0].about.id, 1);
            rounded.add(&interval, &Columns::folded());
        }
        for (program, exact) in rounded.programs.iter().zip(&exact.programs) {
            assert_eq!(program.about.id, exact.about.id);
            let error_ns = program.total_ns().abs_diff(exact.total_ns());
            assert!(error_ns < 10_000_000, "{error_ns}");
        }
    }

    #[test]
    fn a_sum_of_ever_other_programs_does_not_grow_for_ever_and_loses_no_time() {
        let mut sum = Programs::default();
        for id in 1..=1_000 {
            sum.add(&programs(vec![program(id, &[2], None)]), &Columns::folded());
        }
        assert_eq!(sum.programs.len(), MOST_PROGRAMS);
        assert_eq!(sum.total_ns(), 3_000);
    }
}
