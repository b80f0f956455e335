//! Flows in the intervals of the daemon: the tables are read at the end of each, and the programs kept
//! within the budget.

use std::time::Duration;

use anyhow::bail;
use metrics_common::component::index_of;
use metrics_common::sections::{Evidence, HostName};
use metrics_common::{Sections, SoftnetCount};
use netto_feature::instruments::Instrument;
use netto_pipeline::options::FeatureOptions;
use netto_platform::overhead::{Limit, ProbeGroup, RegisteredGroup};
use netto_platform::{FlowTime, Platform, Tick};

use crate::command::unix_offset_ns;
use crate::export::Exporter;
use crate::flow::Direction;
use crate::interfaces::Interfaces;
use crate::kernel::collector::{Collector, Drained};
use crate::names::{self, Names};
use crate::options::Request;
use crate::sampling::{self, ENTRY_NS, Load, SEEN_NS};
use crate::shares::{self, Received, Shown, Times};
use crate::table::Table;
use crate::talkers;
use crate::{NAME, TURNED_OFF};

/// Topics of notes.
const SAMPLED: &str = "flows, sampled";
const LOST: &str = "flows, lost";
const FLOOD: &str = "flows, by prefix";
const EXPORT: &str = "flows, export";
const DISPLACED: &str = "flows, displaced";

/// How long the last records may take to their collector.
const LAST_EXPORT: Duration = Duration::from_secs(1);

/// Its programs; an event is a packet that is sampled.
const GROUP: ProbeGroup = ProbeGroup {
    name: NAME,
    label: "packets of flows",
    event_ns: SEEN_NS + ENTRY_NS,
    limit: Limit::Sampling,
    note_while_off: "",
};

/// State kept from interval to interval.
struct FlowCounter {
    collector: Collector,
    interfaces: Interfaces,
    table: Table,
    most_flows: u32,
    /// One in so many packets was sampled in the interval.
    one_in: u64,
    group: RegisteredGroup,
    exporter: Option<Exporter>,
    names: Option<Names>,
}

/// Begins with the next packet.
///
/// # Errors
/// Flows are not asked for, or cannot be counted at one of the interfaces, or not exported.
pub(crate) fn start(
    platform: &mut Platform,
    options: &FeatureOptions,
) -> anyhow::Result<Box<dyn Instrument>> {
    for topic in [SAMPLED, LOST, FLOOD, EXPORT, DISPLACED] {
        platform.tell(topic, None);
    }
    let Some(request) = options.of::<Request>(NAME) else {
        bail!(TURNED_OFF);
    };
    let cpus = platform.readers.possible_cpus;
    let mut collector =
        Collector::load(request.most_flows, request.headers, &platform.roots, cpus)?;
    let (devices, at) = (&request.interfaces, request.at);
    let interfaces = Interfaces::start(devices, at, &platform.roots, &mut collector)?;
    let export = request.export.as_ref();
    let exporter = export.map(|target| Exporter::start(target, request.most_flows));
    let exporter = exporter.transpose()?;
    if let Some(target) = export {
        tracing::info!("flows: exported to {target}");
    }
    let start_names = || Names::start(names::of_system);
    let names = request.names.then(start_names).transpose()?;
    let group = platform.overhead.register(GROUP, Vec::new())?;
    platform.tell(NAME, interfaces.notes());
    if let Some(bytes) = collector.table_bytes() {
        let megabytes = bytes as f64 / 1e6;
        let most = request.most_flows;
        tracing::info!("flows: at most {most}, in {megabytes:.1} MB of the kernel's memory");
    }
    Ok(Box::new(FlowCounter {
        collector,
        interfaces,
        table: Table::new(request.timeouts, request.most_flows as usize),
        most_flows: request.most_flows,
        one_in: 1,
        group,
        exporter,
        names,
    }))
}

impl FlowCounter {
    /// Keeps the programs within the budget in the next interval.
    fn keep_to_budget(&mut self, tick: &mut Tick<'_>, drained: &Drained) {
        let loads = Load::of(drained);
        let of_cpu = |cpu: &u32| loads.get(*cpu as usize).map_or(0, Load::events);
        let events = tick.cpus.iter().map(of_cpu).collect();
        let platform = &mut *tick.platform;
        platform.overhead.count(&self.group, events);
        let most = platform.overhead.max_ratio();
        self.one_in = sampling::one_in(self.one_in, &loads, tick.interval_ns, most);
        self.collector.sample_one_in(self.one_in);
        let note = (self.one_in > 1).then(|| {
            "Conversations are estimated from sampled packets: there are so many that counting all to \
             their flows would cost too much; a larger --max-overhead ends that. Totals have all."
                .to_owned()
        });
        platform.tell(SAMPLED, note);
    }
}

/// What is known of each CPU besides its frames; `None` if the RX softirq has no time.
fn received(cpus: &[u32], sections: &Sections) -> Option<Vec<Received>> {
    let row = index_of("rx_softirq")?;
    let times_ns = sections.cost.as_ref()?.cpu_ns(row)?;
    let traffic = sections.traffic.as_ref();
    let packets = traffic.and_then(|traffic| traffic.softnet_of(SoftnetCount::Packets));
    let of_cpu = |(column, &cpu): (usize, &u32)| Received {
        cpu,
        rx_softirq_ns: times_ns.get(column).copied().unwrap_or(0),
        packets: packets
            .and_then(|row| row.get(column))
            .copied()
            .unwrap_or(0),
    };
    Some(cpus.iter().enumerate().map(of_cpu).collect())
}

impl Drop for FlowCounter {
    /// Exports what was under way at the end of the last interval.
    fn drop(&mut self) {
        let Some(exporter) = self.exporter.take() else {
            return;
        };
        exporter.export(self.table.finish(), unix_offset_ns(), Duration::ZERO);
        if let Some(lost) = exporter.end(LAST_EXPORT) {
            tracing::warn!("at the end of flows, {lost}");
        }
    }
}

/// What is known of the time of the interval; `shown` is what samples show, if they show flows.
fn times(cpus: &[u32], sections: &Sections, shown: Option<Vec<FlowTime>>) -> Times {
    let rows = ["rx_softirq", "tx_syscall"].map(index_of);
    let directions = [Direction::In, Direction::Out];
    let received = received(cpus, sections);
    let Some(shown) = shown else {
        return Times {
            received,
            ..Times::default()
        };
    };
    let of_flow = |time: FlowTime| {
        let direction = rows.iter().position(|row| *row == Some(time.event))?;
        Some(Shown {
            cpu: time.cpu,
            direction: directions[direction],
            flow: time.flow,
            ns: time.ns,
            sample_ms: time.sample_ms,
        })
    };
    let shown: Vec<Shown> = shown.into_iter().filter_map(of_flow).collect();
    let evidence = |at: usize| {
        let mut all = sections.owners.as_ref()?.basis.iter();
        let basis = all.find(|basis| Some(basis.component as usize) == rows[at])?;
        Some(Evidence {
            ns: basis.total_ns(),
            sample_ns_ms: basis.cause_ns_ms,
        })
    };
    let cost = sections.cost.as_ref();
    Times {
        received,
        evidence: [evidence(0), evidence(1)],
        sends_ns: rows[1].and_then(|row| cost?.total_ns(row)),
        shown: Some(shown),
    }
}

impl Instrument for FlowCounter {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let mut drained = self.collector.drain()?;
        // At the end of the interval, so that what comes back is there for the next.
        self.interfaces.follow(&mut self.collector, tick.now_ns);
        tick.platform.tell(NAME, self.interfaces.notes());
        let displaced = self.interfaces.displaced();
        tick.platform.tell_quietly(DISPLACED, displaced);
        let one_in = self.one_in;
        self.keep_to_budget(tick, &drained);
        let totals = sampling::scale(&mut drained);
        let shown = tick.platform.flow_times.take();
        let times = times(tick.cpus, sections, shown);
        let charged = shares::charge(&mut drained, &times);
        for (key, counts) in drained.flows() {
            self.table.take(key, counts);
        }
        self.table.expire(tick.now_ns);
        let name_of = |index| self.interfaces.name_of(index);
        let mut flows = talkers::section(&drained, &totals, &times, &charged, name_of);
        if let Some(names) = &mut self.names {
            let ends = flows
                .conversations
                .iter()
                .flat_map(|conversation| conversation.ends);
            let known = names.known(ends.map(|end| end.address));
            let known = known.into_iter();
            flows.names = known
                .map(|(address, name)| HostName { address, name })
                .collect();
        }
        flows.active = self.table.under_way().len() as u64;
        let ended = self.table.take_ended();
        flows.ended = ended.len() as u64;
        if let Some(exporter) = &mut self.exporter {
            exporter.export(ended, unix_offset_ns(), Duration::ZERO);
            let note = exporter.note().map(|note| format!("{note}."));
            tick.platform.tell_quietly(EXPORT, note);
        }
        flows.one_in = one_in;
        let flood = (flows.prefix_packets > 0).then(|| {
            let most = self.most_flows;
            format!(
                "Packets are counted by prefix, not to flows, because more than {most} flows had \
                 packets in an interval: --flows-max sets how many may."
            )
        });
        tick.platform.tell(FLOOD, flood);
        let lost = (flows.lost_packets > 0).then(|| {
            "Packets are in no flow and in no prefix: both tables were full. Totals have all."
                .to_owned()
        });
        tick.platform.tell(LOST, lost);
        sections.flows = Some(flows);
        Ok(())
    }
}
