//! The figures that rules of advice look at, from intervals added up. What was not measured is not a
//! number, and meets no condition.

use crate::efficiency::whole_work;
use crate::verdict::{InUnit, Loss, of_host};
use metrics_common::component::index_of;
use metrics_common::sections::{
    Interface, InterfaceSetup, LOOPBACK, Owner, ProtocolCount, Setup, SoftnetCount, Traffic,
    WorkCount,
};
use metrics_common::snapshot::Snapshot;

/// Figures of some time; see the head of this file.
#[derive(Clone, Copy)]
pub struct Figures<'a> {
    sum: &'a Snapshot,
    /// The reader's unit of CPU time.
    in_unit: InUnit<'a>,
}

/// Softirq work of one owner that another paid for, with both.
pub(super) struct Taken<'a> {
    pub(super) loss: Loss,
    pub(super) payer: &'a Owner,
}

impl<'a> Figures<'a> {
    /// The figures of these intervals.
    pub fn of(sum: &'a Snapshot) -> Self {
        Figures::in_unit(sum, &of_host)
    }

    /// The same, with CPU time in the reader's unit.
    pub(super) fn in_unit(sum: &'a Snapshot, in_unit: InUnit<'a>) -> Self {
        Figures { sum, in_unit }
    }

    /// So many CPUs of this host in words.
    pub(super) fn said(&self, cpus: f64) -> String {
        (self.in_unit)(cpus, self.sum.cpus.len())
    }

    /// The intervals themselves.
    pub(crate) fn sum(&self) -> &'a Snapshot {
        self.sum
    }

    /// Its CPUs, by column.
    pub(super) fn cpus(&self) -> &'a [u32] {
        &self.sum.cpus
    }

    pub(super) fn setup(&self) -> Option<&'a Setup> {
        self.sum.sections.advice.as_ref()
    }

    /// How an interface is set up.
    pub(super) fn setup_of(&self, name: &str) -> Option<&'a InterfaceSetup> {
        let mut all = self.setup()?.interfaces.iter();
        all.find(|interface| interface.name == name)
    }

    pub(crate) fn traffic(&self) -> Option<&'a Traffic> {
        self.sum.sections.traffic.as_ref()
    }

    fn seconds(&self) -> f64 {
        self.sum.interval_ns as f64 / 1e9
    }

    /// A count by second.
    pub(crate) fn rate(&self, count: Option<u64>) -> f64 {
        known(count) / self.seconds()
    }

    /// CPU time by time of these components, as far as they are measured.
    pub(crate) fn worth(&self, slugs: &[&str]) -> f64 {
        let rows = slugs.iter().filter_map(|slug| index_of(slug));
        let measured = rows.filter_map(|row| self.sum.total_ns(row));
        let all = measured.reduce(u64::saturating_add);
        known(all) / self.sum.interval_ns as f64
    }

    /// The column with most of this row, and its share of that CPU's time.
    pub(crate) fn most_of(&self, row: Option<&[u64]>) -> Option<(usize, f64)> {
        let (column, ns) = row?.iter().enumerate().max_by_key(|(_, ns)| **ns)?;
        Some((column, *ns as f64 / self.sum.interval_ns as f64))
    }

    /// The column with most RX softirq, and its share of that CPU.
    pub(super) fn rx(&self) -> Option<(usize, f64)> {
        self.most_of(self.sum.cost().cpu_ns(index_of("rx_softirq")?))
    }

    /// The same of the part in ksoftirqd.
    pub(crate) fn ksoftirqd(&self) -> Option<(usize, f64)> {
        self.most_of(self.sum.cost().ksoftirqd_rx_ns.as_deref())
    }

    /// The idle share of each CPU.
    pub(super) fn idle(&self) -> Option<Vec<f64>> {
        let modes = &self.sum.sections.modes.as_ref()?.cpus;
        let share = |idle: u64, all: u64| idle as f64 / all.max(1) as f64;
        let ratios = modes
            .iter()
            .map(|cpu| share(cpu.idle_ns.saturating_add(cpu.iowait_ns), cpu.total_ns()));
        (modes.len() == self.sum.cpus.len()).then(|| ratios.collect())
    }

    /// The mean idle share of all CPUs but that of this column.
    pub(super) fn others_idle(&self, column: usize) -> f64 {
        let idle = self.idle().unwrap_or_default();
        let others = idle
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != column);
        let (sum, count) = others.fold((0.0, 0), |(sum, count), (_, idle)| (sum + idle, count + 1));
        sum / f64::from(count)
    }

    /// A count of the receive path by second: of the column with most, and of all.
    pub(crate) fn softnet(&self, count: SoftnetCount) -> Option<(usize, f64, f64)> {
        let row = self.traffic()?.softnet_of(count)?;
        let (column, most) = row.iter().enumerate().max_by_key(|(_, count)| **count)?;
        let all = row.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
        Some((column, self.rate(Some(*most)), self.rate(Some(all))))
    }

    /// Packets up the stack by second.
    pub(crate) fn packets(&self) -> f64 {
        self.softnet(SoftnetCount::Packets)
            .map_or(f64::NAN, |(_, _, all)| all)
    }

    /// CPU time of the RX softirq for a packet, seconds.
    pub(super) fn rx_seconds_per_packet(&self) -> f64 {
        self.worth(&["rx_softirq"]) / self.packets()
    }

    /// A count of a protocol by second.
    pub(crate) fn protocol(&self, count: ProtocolCount) -> f64 {
        self.rate(self.traffic().and_then(|traffic| traffic.protocol(count)))
    }

    /// A count of probes by second, if they counted all the time.
    pub(crate) fn work(&self, count: WorkCount) -> f64 {
        self.rate(whole_work(self.sum).and_then(|work| work.of(count)))
    }

    /// The interfaces, without loopback.
    fn interfaces(&self) -> impl Iterator<Item = &'a Interface> {
        let all = self
            .traffic()
            .and_then(|traffic| traffic.interfaces.as_ref());
        let named = all.into_iter().flat_map(|all| &all.named);
        named.filter(|interface| interface.driver != LOOPBACK)
    }

    /// The interface that received most packets, of those that are wanted.
    pub(super) fn busiest(&self, wanted: impl Fn(&Interface) -> bool) -> Option<&'a Interface> {
        let received = self
            .interfaces()
            .filter(|interface| interface.counts.rx_packets > 0);
        received
            .filter(|interface| wanted(interface))
            .max_by_key(|interface| interface.counts.rx_packets)
    }

    /// The interface that sent most packets.
    pub(super) fn sender(&self) -> Option<&'a Interface> {
        let sent = self
            .interfaces()
            .filter(|interface| interface.counts.tx_packets > 0);
        sent.max_by_key(|interface| interface.counts.tx_packets)
    }

    /// Packets that an interface received by second, and bytes of each.
    pub(super) fn received(&self, interface: &Interface) -> (f64, f64) {
        let counts = &interface.counts;
        let each = counts.rx_bytes as f64 / counts.rx_packets.max(1) as f64;
        (self.rate(Some(counts.rx_packets)), each)
    }

    /// The largest of what one owner takes from another.
    pub(super) fn taken(&self) -> Option<Taken<'a>> {
        let owners = self.sum.sections.owners.as_ref()?;
        let pair = owners.largest_pair()?;
        Some(Taken {
            loss: Loss::of(owners, self.sum.interval_ns)?,
            payer: owners.owners.get(pair.payer as usize)?,
        })
    }

    /// The owner that causes most of a component, and its share of it.
    pub(super) fn leading_owner(&self, slug: &str) -> Option<(String, f64)> {
        let component = index_of(slug)?;
        let owners = self.sum.sections.owners.as_ref()?.of_component(component);
        let accounts = owners.accounts();
        let named = owners.owners.iter().zip(&accounts);
        let named =
            named.filter(|(owner, account)| !owner.kind.is_single() && account.caused_ns > 0);
        let (owner, account) = named.max_by_key(|(_, account)| account.caused_ns)?;
        let all = self.sum.total_ns(component).filter(|all| *all > 0)?;
        Some((owner.label(), account.caused_ns as f64 / all as f64))
    }

    /// netto's share of the CPU of which it takes most, and its CPU time by time on all of them.
    pub(super) fn own(&self) -> Option<(u32, f64, f64)> {
        let own_cost = self.sum.sections.own.as_ref()?;
        let costliest = own_cost.costliest?;
        let all = known(own_cost.taken_total_ns()) / self.sum.interval_ns as f64;
        Some((costliest.cpu, costliest.ratio, all))
    }

    /// Networking's power, watts for each second of its CPU time.
    pub(super) fn watts_per_cpu(&self) -> Option<f64> {
        let power = self.sum.sections.power.as_ref()?;
        let watts = power.network_energy_joules / self.seconds();
        Some(watts / self.worth(&["network"])).filter(|watts| watts.is_finite())
    }
}

/// What is not known is no number.
fn known(value: Option<u64>) -> f64 {
    value.map_or(f64::NAN, |value| value as f64)
}
