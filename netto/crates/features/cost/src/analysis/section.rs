//! Fills the section `cost`, CPU by CPU. Only allocates each row, once.

use metrics_common::component::CLOCK_KINDS;
use metrics_common::sections::Rows;
use metrics_common::{COMPONENTS, Cost, Kind, SplitBasis, confidence};

use super::attribute::Split;
use netto_analysis::plan::Capabilities;
use netto_estimate::mean_length::OfCpus;

/// Fills a section in every interval.
#[derive(Debug, Default)]
pub struct Filling {
    cost: Cost,
    /// Expected number of columns, and number of columns so far.
    cpus: usize,
    filled: usize,
    /// Components whose entries are counted, with their clock kinds.
    counted: Vec<(usize, usize)>,
    /// By component that is split.
    basis: Vec<SplitBasis>,
    /// RX softirqs that are known by their number.
    received: Option<OfCpus>,
}

/// The data of one CPU other than times.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    /// Entries of each clock kind in the interval.
    pub entries: [u64; CLOCK_KINDS],
    /// RX softirq time in ksoftirqd, nanoseconds; `None` if not measured.
    pub ksoftirqd_rx_ns: Option<u64>,
    /// Stacks taken.
    pub taken: u64,
    /// Stacks lost.
    pub lost: u64,
    /// Number of sample times; `None` if it is not sampled, or only for detection.
    pub due: Option<u64>,
    /// The same with those of the tick, if it takes samples.
    pub due_in_tasks: Option<u64>,
}

impl Filling {
    /// Begins the section of an interval with this many CPUs.
    pub fn begin(&mut self, capabilities: &Capabilities, cpus: usize) {
        self.counted.clear();
        self.counted.extend(counted_kinds(capabilities));
        self.basis.clear();
        self.cpus = cpus;
        self.filled = 0;
        self.received = None;
        let mut entries = vec![None; COMPONENTS.len()];
        for (row, _) in &self.counted {
            entries[*row] = Some(vec![0; cpus]);
        }
        self.cost = Cost {
            entries,
            stacks_taken: Vec::with_capacity(cpus),
            stacks_lost: Vec::with_capacity(cpus),
            ..Cost::NOTHING
        };
    }

    /// Adds a CPU. All CPUs have the same measured rows as the first.
    pub fn add(&mut self, split: &Split, cpu: &Cpu) {
        if self.filled == self.cpus {
            return;
        }
        let (cost, cpus, column) = (&mut self.cost, self.cpus, self.filled);
        self.filled += 1;
        fill(&mut cost.components, &split.time_ns, column, cpus);
        // Without stacks, no row has samples.
        if column == 0 || cpu.taken > 0 {
            fill(&mut cost.samples, &split.samples, column, cpus);
        }
        for &(row, kind) in &self.counted {
            if let Some(row) = &mut cost.entries[row] {
                row[column] = cpu.entries[kind];
            }
        }
        if let Some(ns) = cpu.ksoftirqd_rx_ns {
            let row = cost.ksoftirqd_rx_ns.get_or_insert_with(|| vec![0; cpus]);
            row[column] = ns;
        }
        cost.stacks_taken.push(cpu.taken);
        cost.stacks_lost.push(cpu.lost);
        for (fewest, due) in [
            (&mut cost.fewest_due, cpu.due),
            (&mut cost.fewest_due_in_tasks, cpu.due_in_tasks),
        ] {
            *fewest = [*fewest, due].into_iter().flatten().min();
        }
        if let Some(known) = split.received {
            self.received.get_or_insert_default().add(known);
        }
        if column == 0 {
            let rows = split.basis.iter().zip(0..);
            let split = rows.filter_map(|(basis, component)| basis.map(|_| component));
            self.basis.extend(split.map(|component| SplitBasis {
                component,
                ..SplitBasis::default()
            }));
        }
        for sum in &mut self.basis {
            if let Some(basis) = split.basis[sum.component as usize] {
                sum.stacks_ns += basis.stacks_ns;
                sum.past_ns += basis.past_ns;
                sum.host_ns += basis.host_ns;
                sum.nothing_ns += basis.nothing_ns;
            }
        }
    }

    /// Returns the section, with the events missed by probes in the interval.
    pub fn end(&mut self, probe_missed: Vec<u64>) -> Cost {
        let received = self.received.map(OfCpus::figure);
        Cost {
            received_ns_ms: received.map(|figure| confidence::ns_ms(figure.variance)),
            received_shared_ns: received.map(|figure| figure.shared.ceil() as u64),
            split_basis: self.basis.clone(),
            probe_missed,
            ..std::mem::replace(&mut self.cost, Cost::NOTHING)
        }
    }
}

/// The components whose entries are counted, with their clock kinds.
fn counted_kinds(capabilities: &Capabilities) -> impl Iterator<Item = (usize, usize)> {
    let rows = COMPONENTS.iter().zip(&capabilities.counted).enumerate();
    rows.filter_map(|(row, (component, counted))| match component.kind {
        Kind::Timed(source, _) if *counted => Some((row, usize::from(source.clock_kind()))),
        _ => None,
    })
}

/// Fills a column; the first one decides which rows exist.
fn fill<T: Copy + Default + PartialEq>(
    rows: &mut Rows<T>,
    cells: &[Option<T>],
    column: usize,
    cpus: usize,
) {
    if column == 0 {
        let row = |cell: &Option<T>| cell.map(|_| vec![T::default(); cpus]);
        rows.extend(cells.iter().map(row));
    }
    for (row, cell) in rows.iter_mut().zip(cells) {
        // Most cells stay 0.
        if let (Some(row), Some(cell)) = (row, cell)
            && *cell != T::default()
        {
            row[column] = *cell;
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::Source;
    use metrics_common::component::index_of;
    use metrics_common::confidence::NS_PER_MS;

    use super::*;
    use crate::analysis::attribute::Basis;
    use netto_estimate::Figure;
    use netto_estimate::mean_length::Estimate;

    fn row(slug: &str) -> usize {
        index_of(slug).unwrap()
    }

    /// Everything is measured except this component.
    fn all_but(slug: &str) -> Capabilities {
        let mut capabilities = Capabilities {
            available: vec![true; COMPONENTS.len()],
            counted: vec![true; COMPONENTS.len()],
            timed: vec![true; COMPONENTS.len()],
        };
        capabilities.available[row(slug)] = false;
        capabilities.counted[row(slug)] = false;
        capabilities
    }

    fn cpu(number: u64) -> Cpu {
        Cpu {
            entries: std::array::from_fn(|kind| 100 * kind as u64 + number),
            ksoftirqd_rx_ns: Some(number),
            taken: 10 + number,
            lost: 20 + number,
            due: Some(50 - number),
            due_in_tasks: Some(90 - number),
        }
    }

    /// CPU time: the CPU's number in every row; the RX softirq rests on stacks alone.
    fn split(capabilities: &Capabilities, number: u64) -> Split {
        let basis = |row| Basis {
            stacks_ns: 1000 + row,
            ..Basis::default()
        };
        let rows = 0..COMPONENTS.len();
        Split {
            time_ns: capabilities
                .available
                .iter()
                .map(|available| available.then_some(number))
                .collect(),
            samples: rows.clone().map(|_| Some(number as u32)).collect(),
            basis: rows
                .map(|at| (at == row("rx_softirq")).then_some(basis(number)))
                .collect(),
            received: Some(Estimate {
                figure: Figure {
                    variance: 2.9 * NS_PER_MS,
                    shared: 5.0,
                    ..Figure::default()
                },
                ..Estimate::default()
            }),
        }
    }

    #[test]
    fn cpus_become_columns_and_what_is_not_measured_has_no_row() {
        let capabilities = all_but("tx_syscall");
        let mut filling = Filling::default();
        // The second section is independent of the first.
        for missed in [7, 8] {
            filling.begin(&capabilities, 2);
            for number in [0, 1] {
                filling.add(&split(&capabilities, number), &cpu(number));
            }
            let cost = filling.end(vec![missed]);
            assert_eq!(cost.cpu_ns(row("gro")), Some(&[0, 1][..]));
            assert_eq!(cost.cpu_ns(row("tx_syscall")), None);
            assert_eq!(cost.samples_of(row("rx_softirq")), Some(&[0, 1][..]));
            let receive = u64::from(Source::SocketReceive.clock_kind());
            let entered = [100 * receive, 100 * receive + 1];
            assert_eq!(cost.entries_of(row("rx_syscall")), Some(&entered[..]));
            assert_eq!(cost.entries_of(row("tx_syscall")), None, "not timed");
            assert_eq!(cost.entries_of(row("gro")), None, "nobody enters it");
            assert_eq!(cost.ksoftirqd_rx_ns.as_deref(), Some(&[0, 1][..]));
            assert_eq!(
                (cost.stacks_taken, cost.stacks_lost),
                (vec![10, 11], vec![20, 21])
            );
            assert_eq!(cost.fewest_due, Some(49));
            assert_eq!(cost.fewest_due_in_tasks, Some(89));
            assert_eq!(cost.received_ns_ms, Some(6), "independent");
            assert_eq!(cost.received_shared_ns, Some(10), "one error");
            assert_eq!(cost.probe_missed, [missed]);
            let [basis] = cost.split_basis[..] else {
                panic!("one row is split: {:?}", cost.split_basis);
            };
            assert_eq!(basis.component as usize, row("rx_softirq"));
            assert_eq!((basis.stacks_ns, basis.nothing_ns), (2001, 0));
        }
    }

    #[test]
    fn a_cpu_that_is_left_alone_says_nothing_of_how_seldom_others_are_sampled() {
        let capabilities = all_but("tx_syscall");
        let mut filling = Filling::default();
        for (due, fewest) in [
            ([None, None], None),
            ([None, Some(7)], Some(7)),
            ([Some(0), Some(7)], Some(0)),
        ] {
            filling.begin(&capabilities, 2);
            for due in due {
                filling.add(&split(&capabilities, 0), &Cpu { due, ..cpu(0) });
            }
            assert_eq!(filling.end(Vec::new()).fewest_due, fewest);
        }
    }

    #[test]
    fn without_a_clock_no_time_of_ksoftirqd_is_known() {
        let capabilities = all_but("tx_syscall");
        let mut filling = Filling::default();
        filling.begin(&capabilities, 1);
        let clockless = Cpu {
            ksoftirqd_rx_ns: None,
            ..cpu(0)
        };
        filling.add(&split(&capabilities, 0), &clockless);
        assert_eq!(filling.end(Vec::new()).ksoftirqd_rx_ns, None);
    }
}
