//! Divides the time of each component and CPU among its owners. The parts sum to the component's
//! time, to the nanosecond.
//!
//! The time of RX softirqs is divided as the time that was charged to their packets was, of the
//! interval or earlier ones; samples tell which parts of the softirq were whose (`fit.rs`). All else
//! is divided in proportion to its samples, and so are RX softirqs where nothing was charged.
//!
//! A component without samples in the interval uses those of its event, then earlier ones of that
//! CPU, then the host's. Samples whose payer alone is known keep it: their cause is taken from
//! samples with the same payer, else it is unknown.

use metrics_common::component::{children, index_of, index_of_source};
use metrics_common::confidence::{self, NS_PER_MS};
use metrics_common::sections::{OwnerBasis, SampledFigure, Samples};
use metrics_common::{COMPONENTS, Cost, Kind, Source};
use netto_analysis::fading::LEAST;
use netto_estimate::crossed::{Of, Worth};

use super::fit::fit;
use super::owner_table::{NOBODY, UNKNOWN};
use super::pool::{Evidence, Known, Open, Pair, Pool, Weights, divide};
use super::precision::Precision;

/// Charged time that weighs as much as a sample, nanoseconds.
const CHARGE_NS: f64 = 100_000.0;

/// A sample with its owner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attributed {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// Row of the event.
    pub event: usize,
    /// Row without parts that it belongs to.
    pub leaf: usize,
    /// The owners that caused it and paid. The cause is [`NOBODY`] for [`Evidence::Nothing`] and
    /// [`UNKNOWN`] for [`Evidence::Unknown`].
    pub pair: Pair,
    /// How that was found.
    pub found: Evidence,
    /// Whether it stands for no time, and is only evidence for others.
    pub is_of_window: bool,
    /// For how much time it stands, in periods of its CPU.
    pub weight: f64,
}

/// Time that an owner caused of a component on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// Row of the component.
    pub leaf: usize,
    /// Column of the CPU.
    pub column: usize,
    /// The owners that caused it and paid.
    pub pair: Pair,
    /// CPU time, nanoseconds.
    pub ns: u64,
}

/// The nature of an event, for finding its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    /// Done by a task for itself.
    Task,
    /// Received: done in a softirq or by a thread for the socket that is met.
    Received,
    /// Sent later, by timers and the like: work without a known owner is divided as sends are.
    Sent,
    /// Interrupts, which are not sampled: divided as the softirqs that they raise.
    Interrupt,
}

/// An event, with the leaf rows that make up its time.
#[derive(Debug, Clone)]
struct Event {
    row: usize,
    nature: Nature,
    leaves: Vec<usize>,
}

/// Whether an event's work is done for other owners than the running task.
pub fn works_for_others(event: usize) -> bool {
    matches!(nature_of(event), Nature::Received | Nature::Sent)
}

/// Whether an event's time is taken from the interrupted task.
pub fn interrupts(event: usize) -> bool {
    matches!(
        COMPONENTS[event].kind,
        Kind::Timed(Source::Softirq(_) | Source::NicInterrupt, _)
            | Kind::Carved(Source::Softirq(_), _)
    )
}

/// Whether a leaf's time is taken from the interrupted task.
pub fn takes(leaf: usize) -> bool {
    let event = COMPONENTS[leaf].parent.and_then(index_of);
    interrupts(leaf) || event.is_some_and(interrupts)
}

fn nature_of(event: usize) -> Nature {
    let component = &COMPONENTS[event];
    match component.kind {
        Kind::Timed(Source::NET_RX, _) => Nature::Received,
        Kind::Timed(Source::NicInterrupt, _) => Nature::Interrupt,
        Kind::Timed(Source::Softirq(_), _) | Kind::Carved(Source::Softirq(_), _) => Nature::Sent,
        Kind::Estimated(_) if ["napi_thread", "xdp_cpumap"].contains(&component.slug) => {
            Nature::Received
        }
        _ => Nature::Task,
    }
}

/// Whether a part of the RX softirq serves all packets and handles none itself: polling queues,
/// waking other CPUs for receive packet steering, probes. Without an owner it is divided as the
/// others are.
fn is_for_all(leaf: usize) -> bool {
    ["napi_loop", "backlog", "rx_unattributed", "tracing"].contains(&COMPONENTS[leaf].slug)
}

/// The leaf row of a sample: the part that its stack shows, else the remainder of the event.
pub fn leaf_of(event: usize, part: Option<usize>) -> usize {
    let is_rest = |row: &&usize| COMPONENTS[**row].kind == Kind::Remainder;
    part.or_else(|| children(event).iter().find(is_rest).copied())
        .unwrap_or(event)
}

/// See the head of this file.
#[derive(Debug)]
pub struct Division {
    events: Vec<Event>,
    /// Row of sends.
    sends: Option<usize>,
    /// By CPU and row: of leaf rows and of events.
    cpus: Vec<Vec<Pool>>,
    /// By row, of the host.
    host: Vec<Pool>,
    precision: Precision,
    /// Who pays and loses nothing.
    spared: [u32; 2],
    /// By event and figure, its time × the time for which one independent sample stands, square
    /// nanoseconds.
    figures: Vec<(usize, Of<u32>, f64)>,
    /// Row of RX softirqs, and whether their time is an estimate.
    received: Option<usize>,
    is_estimate: bool,
    /// Their charged time, by CPU, and of the host.
    charged: Vec<Pool>,
    host_charged: Pool,
}

impl Default for Division {
    fn default() -> Self {
        let network = index_of("network").unwrap_or(0);
        let event = |&row: &usize| Event {
            row,
            nature: nature_of(row),
            leaves: match children(row) {
                [] => vec![row],
                parts => parts.to_vec(),
            },
        };
        Division {
            events: children(network).iter().map(event).collect(),
            sends: index_of_source(Source::SocketSend),
            cpus: Vec::new(),
            host: vec![Pool::default(); COMPONENTS.len()],
            precision: Precision::default(),
            spared: [UNKNOWN; 2],
            figures: Vec::new(),
            received: index_of_source(Source::NET_RX),
            is_estimate: false,
            charged: Vec::new(),
            host_charged: Pool::default(),
        }
    }
}

impl Division {
    /// Starts an interval of this length.
    pub fn begin(&mut self, interval_ns: u64, possible_cpus: usize) {
        if self.cpus.len() < possible_cpus {
            let nothing = vec![Pool::default(); COMPONENTS.len()];
            self.cpus.resize(possible_cpus, nothing);
            self.charged.resize(possible_cpus, Pool::default());
        }
        self.pools().for_each(|pool| pool.begin(interval_ns));
        self.precision.begin(interval_ns);
    }

    /// Sets whether the time of RX softirqs is an estimate in this interval, and which payers lose
    /// nothing.
    pub fn set_estimate(&mut self, is_estimate: bool, spared: [u32; 2]) {
        (self.is_estimate, self.spared) = (is_estimate, spared);
    }

    /// By event and figure of what was divided, its time × the time for which one independent sample
    /// stands, square nanoseconds.
    #[cfg(test)]
    pub(super) fn figures(&self) -> &[(usize, Of<u32>, f64)] {
        &self.figures
    }

    /// For how much time samples stand of each figure of what was divided, for owners with these places.
    pub fn samples(&self, place: impl Fn(u32) -> Option<u32>) -> Samples {
        let sampled = |&(event, figure, squares): &(usize, Of<u32>, f64)| {
            let figure = match figure {
                Of::Cause(cause) => SampledFigure::Caused(place(cause)?, event as u32),
                _ if !interrupts(event) => return None,
                Of::OthersPaid(cause) => SampledFigure::MadeOthersPay(place(cause)?),
                Of::Payer(payer) => SampledFigure::Stalled(place(payer)?),
                Of::ForOthers(payer) => SampledFigure::OthersTook(place(payer)?),
                Of::Pair(cause, payer) => SampledFigure::Taken(place(cause)?, place(payer)?),
            };
            Some((figure, confidence::ns_ms(squares)))
        };
        Samples::of(self.figures.iter().filter_map(sampled).collect())
    }

    fn pools(&mut self) -> impl Iterator<Item = &mut Pool> {
        let samples = self.cpus.iter_mut().flatten().chain(&mut self.host);
        samples
            .chain(&mut self.charged)
            .chain([&mut self.host_charged])
    }

    /// Adds time of an RX softirq that was charged to a packet; [`Evidence::Nothing`] if it met none.
    pub fn add_charge(&mut self, cpu: usize, pair: Pair, found: Evidence, ns: u64) {
        let (Some(event), Some(charged)) = (self.received, self.charged.get_mut(cpu)) else {
            return;
        };
        let weight = ns as f64 / CHARGE_NS;
        let known = match found {
            Evidence::Nothing => Known::handed_on(pair.payer),
            _ => Known { pair, found },
        };
        charged.add_evidence(known, weight);
        self.host_charged.add_evidence(known, weight);
        if !known.is_handed_on() {
            let place = (event, cpu);
            self.precision.add_cause(place, pair.cause, weight, true);
        }
        self.precision.add_payer((event, cpu), pair.payer, weight);
    }

    /// What was charged on a CPU in the interval, else earlier; `None` if nothing was.
    fn charged(&self, cpu: usize) -> Option<&Pool> {
        let charged = self.charged.get(cpu)?;
        (!charged.evidence().is_empty() || !charged.past().is_empty()).then_some(charged)
    }

    /// Adds a sample of the interval.
    pub fn add(&mut self, sample: Attributed) {
        let Attributed {
            cpu,
            event,
            leaf,
            pair,
            found,
            is_of_window,
            weight,
        } = sample;
        let is_charged = Some(event) == self.received && self.charged(cpu).is_some();
        let place = (event, cpu);
        let Some(cpu) = self.cpus.get_mut(cpu) else {
            return;
        };
        let is_sent = nature_of(event) == Nature::Sent;
        // A received packet that met neither a socket nor an interface has no owner.
        let is_open = match found {
            Evidence::Nothing => is_sent || is_for_all(leaf),
            Evidence::Unknown => true,
            _ => false,
        };
        let open = Open {
            payer: interrupts(event).then_some(pair.payer),
            is_shared: is_sent || is_for_all(leaf),
            otherwise: pair.cause,
        };
        let known = if !is_open {
            Some(Known { pair, found })
        } else if found == Evidence::Nothing && !is_sent {
            Some(Known::handed_on(pair.payer))
        } else {
            None
        };
        if let Some(known) = known.filter(|known| !known.is_handed_on() && !is_charged) {
            let is_for_others = works_for_others(event);
            self.precision
                .add_cause(place, known.pair.cause, weight, is_for_others);
        }
        if interrupts(event) && !is_of_window && !is_charged {
            self.precision.add_payer(place, pair.payer, weight);
        }
        for pools in [cpu, &mut self.host] {
            for row in [Some(leaf), (event != leaf).then_some(event)] {
                let Some(pool) = row.map(|row| &mut pools[row]) else {
                    continue;
                };
                if let Some(known) = known {
                    pool.add_evidence(known, weight);
                }
                if is_of_window {
                    continue;
                }
                if is_open {
                    pool.add_open(open, weight);
                } else {
                    pool.add(Known { pair, found }, weight);
                }
            }
        }
    }

    /// Divides the time of all components; also returns how owners were found.
    pub fn divide(
        &mut self,
        cost: &Cost,
        cpus: &[u32],
        mut portion: impl FnMut(Portion),
    ) -> Vec<OwnerBasis> {
        let mut bases = Vec::new();
        self.figures.clear();
        let mut precision = std::mem::take(&mut self.precision);
        for event in &self.events {
            precision.begin_event();
            let mut basis = OwnerBasis {
                component: event.row as u32,
                ..OwnerBasis::default()
            };
            // An event without parts here has its time itself.
            let is_split = event.leaves.iter().any(|&leaf| cost.cpu_ns(leaf).is_some());
            let leaves = if is_split {
                &event.leaves[..]
            } else {
                std::slice::from_ref(&event.row)
            };
            for (column, &cpu) in cpus.iter().enumerate() {
                let cpu = cpu as usize;
                let ns = |&leaf: &usize| {
                    let ns = cost.cpu_ns(leaf)?.get(column).copied();
                    ns.filter(|ns| *ns > 0).map(|ns| (leaf, ns))
                };
                let times: Vec<(usize, u64)> = leaves.iter().filter_map(ns).collect();
                let all_ns = times.iter().map(|(_, ns)| ns).sum();
                let is_for_others = event.nature != Nature::Task;
                precision.end(event.row, cpu, all_ns, is_for_others);
                let charged = self.weigh_charged(event, &times, cpu);
                let is_charged = charged.is_some();
                let mut parts = charged.into_iter().flatten();
                for &(leaf, ns) in &times {
                    let weights = parts.next();
                    let weights = weights.unwrap_or_else(|| self.weigh(event, leaf, cpu));
                    divide(ns, &weights, |Known { pair, found }, ns| {
                        *way(&mut basis, found) += ns;
                        precision.add_time(pair, ns, self.spared);
                        portion(Portion {
                            leaf,
                            column,
                            pair,
                            ns,
                        });
                    });
                }
                if all_ns > 0 {
                    let time_ns = self.time_worth_ns(cost, event.row, is_charged);
                    let worth = self.worth(&precision, event, cpu, time_ns);
                    precision.add_cpu(all_ns, worth, self.evidence(event, cpu), self.spared);
                }
            }
            let total_ns = basis.total_ns() as f64;
            let ns_ms = |sample_ns: f64| confidence::ns_ms(total_ns * sample_ns);
            let [cause_ns, payer_ns] = precision.worths();
            basis.cause_ns_ms = Some(ns_ms(cause_ns));
            basis.payer_ns_ms = interrupts(event.row).then(|| ns_ms(payer_ns));
            let figures = precision.figures();
            self.figures
                .extend(figures.map(|(figure, squares)| (event.row, figure, squares)));
            bases.push(basis);
        }
        self.precision = precision;
        bases
    }

    /// For how long one of the samples stands by which an event's time on a CPU is known, if it is not
    /// timed: of RX softirqs, whose packets alone tell owners.
    fn time_worth_ns(&self, cost: &Cost, event: usize, is_charged: bool) -> f64 {
        if !self.is_estimate || !is_charged {
            return 0.0;
        }
        let total_ns = cost.total_ns(event).unwrap_or(0).max(1) as f64;
        let by_samples = cost.sample_ns_ms.as_ref().and_then(|row| row.get(event));
        match (cost.received(), by_samples) {
            (Some(received), _) => received.deviation().powi(2) / total_ns,
            (None, Some(ns_ms)) => confidence::variance(*ns_ms) / total_ns,
            (None, None) => 0.0,
        }
    }

    /// For how long one independent sample stands, milliseconds, of those by which an event's time on a CPU is
    /// divided among causes.
    pub fn sample_ms(&self, event: usize, cpu: usize) -> f64 {
        let event = self.events.iter().find(|known| known.row == event);
        event.map_or(0.0, |event| {
            self.worth(&self.precision, event, cpu, 0.0).cause / NS_PER_MS
        })
    }

    /// For how long one independent sample stands, of those by which an event is divided on a CPU.
    fn worth(&self, precision: &Precision, event: &Event, cpu: usize, time: f64) -> Worth {
        let stand_ins = match event.nature {
            Nature::Interrupt => [self.received; 2],
            Nature::Sent => [self.sends, None],
            Nature::Task | Nature::Received => [None; 2],
        };
        precision.worth((event.row, cpu), stand_ins, time)
    }

    /// What owners are expected of an event's time on a CPU by earlier intervals: its own, and the host's. By
    /// those of the interval, errors would be larger where more was found, and sums of many too large.
    fn evidence(&self, event: &Event, cpu: usize) -> [Vec<(Pair, f64)>; 2] {
        let charged = self.charged(cpu);
        let charged = charged.filter(|_| Some(event.row) == self.received);
        let (of_cpu, host) = match charged {
            Some(charged) => (Some(charged), &self.host_charged),
            None => (
                self.cpus.get(cpu).map(|pools| &pools[event.row]),
                &self.host[event.row],
            ),
        };
        [of_cpu, Some(host)].map(|pool| {
            let past = pool.into_iter().flat_map(|pool| match pool.past() {
                [] => pool.evidence(),
                past => past,
            });
            let known = past.filter(|(known, _)| !known.is_handed_on());
            known.map(|(known, weight)| (known.pair, *weight)).collect()
        })
    }

    /// The weights of each part of RX softirqs on a CPU, with its time, by what was charged there;
    /// `None` of other events, and where nothing was.
    fn weigh_charged(
        &self,
        event: &Event,
        times: &[(usize, u64)],
        cpu: usize,
    ) -> Option<Vec<Weights>> {
        let charged = self
            .charged(cpu)
            .filter(|_| Some(event.row) == self.received)?;
        let is_past = charged.evidence().is_empty();
        let charged = if is_past {
            charged.past()
        } else {
            charged.evidence()
        };
        let pools = self.cpus.get(cpu)?;
        let samples = |&(leaf, ns): &(usize, u64)| {
            let pool = &pools[leaf];
            let seen: Weights = [pool.evidence(), pool.past()].concat();
            (ns, seen)
        };
        let parts: Vec<_> = times.iter().map(samples).collect();
        let fitted = fit(charged, &parts);
        let settled = fitted.into_iter().zip(times).map(|(weights, &(leaf, _))| {
            let serves_all = is_for_all(leaf) || leaf == event.row;
            let mut settled = self.settle(weights, || {
                serves_all.then(|| self.elsewhere(event, cpu)).flatten()
            });
            if is_past {
                settled = settled.into_iter().map(in_proportion).collect();
            }
            settled
        });
        Some(settled.collect())
    }

    /// The weights for the time of a component on a CPU: its own samples of the interval, or its
    /// event's, so that in the long run each sample counts once; without any, other evidence.
    fn weigh(&self, event: &Event, leaf: usize, cpu: usize) -> Weights {
        if let Some(weights) = self.weigh_samples(event, leaf, cpu) {
            return weights;
        }
        if event.nature == Nature::Interrupt
            && let Some(received) = self.received
            && let Some(received) = self.events.iter().find(|event| event.row == received)
        {
            let charged = self.weigh_charged(received, &[(received.row, 1)], cpu);
            let weights = charged.and_then(|mut parts| parts.pop());
            let weights = weights.or_else(|| self.weigh_samples(received, received.row, cpu));
            if let Some(weights) = weights {
                return weights.into_iter().map(in_proportion).collect();
            }
        }
        let sends_now = self.stand_in(event, cpu).map(Pool::now);
        let evidence = sends_now
            .into_iter()
            .chain(self.other_evidence(event, leaf, cpu));
        match evidence
            .map(<[_]>::to_vec)
            .find(|weights| !weights.is_empty())
        {
            Some(weights) => {
                let settled = self.settle(weights, || self.elsewhere(event, cpu));
                settled.into_iter().map(in_proportion).collect()
            }
            None => {
                let pair = Pair {
                    cause: UNKNOWN,
                    payer: UNKNOWN,
                };
                let found = Evidence::Unknown;
                vec![(Known { pair, found }, 1.0)]
            }
        }
    }

    /// By samples of the interval on that CPU; `None` without any.
    fn weigh_samples(&self, event: &Event, leaf: usize, cpu: usize) -> Option<Weights> {
        let pools = self.cpus.get(cpu)?;
        for pool in [leaf, event.row].map(|row| &pools[row]) {
            let mut weights = pool.now().to_vec();
            for (open, weight) in pool.open() {
                self.close(event, leaf, cpu, open, *weight, &mut weights);
            }
            if !weights.is_empty() {
                return Some(weights);
            }
        }
        None
    }

    /// Gives a sample without a known cause to the causes of other samples.
    fn close(
        &self,
        event: &Event,
        leaf: usize,
        cpu: usize,
        open: &Open,
        weight: f64,
        weights: &mut Weights,
    ) {
        let pools = &self.cpus[cpu];
        let rows = [leaf, event.row];
        let of_payer = rows
            .map(|row| pools[row].evidence())
            .into_iter()
            .chain(rows.map(|row| pools[row].past()))
            .map(|evidence| open.of_its_payer(evidence));
        let of_all = || {
            let sends = self.stand_in(event, cpu).map(Pool::now);
            let now = rows.into_iter().map(|row| pools[row].evidence());
            let others = self.other_evidence(event, leaf, cpu);
            let all = now.chain(sends).chain(others);
            all.map(|all| open.of_owners(all))
                .find(|all| !all.is_empty())
        };
        // A softirq that has met no packet has handed packets to another CPU.
        let is_for_another =
            open.is_shared && open.otherwise == NOBODY && event.nature == Nature::Received;
        let of_another = is_for_another.then(|| self.elsewhere(event, cpu)).flatten();
        let evidence = of_another.or_else(|| of_payer.into_iter().find(|some| !some.is_empty()));
        let evidence = evidence.or_else(|| open.is_shared.then(of_all).flatten());
        let evidence =
            evidence.map(|evidence| self.settle(evidence, || self.elsewhere(event, cpu)));
        let pair_of = |cause| Pair {
            cause,
            payer: open.payer.unwrap_or(cause),
        };
        let Some(evidence) = evidence else {
            let found = match open.otherwise {
                UNKNOWN => Evidence::Unknown,
                _ => Evidence::Nothing,
            };
            let pair = pair_of(open.otherwise);
            weights.push((Known { pair, found }, weight));
            return;
        };
        let all: f64 = evidence.iter().map(|(_, weight)| weight).sum();
        for (known, part) in evidence {
            let pair = pair_of(known.pair.cause);
            let (known, _) = in_proportion((Known { pair, ..known }, part));
            weights.push((known, weight * part / all));
        }
    }

    /// Replaces what was handed to another CPU by those who receive on others; by nobody if they
    /// are not known.
    fn settle(&self, evidence: Weights, elsewhere: impl FnOnce() -> Option<Weights>) -> Weights {
        if !evidence.iter().any(|(known, _)| known.is_handed_on()) {
            return evidence;
        }
        let others = elsewhere().unwrap_or_else(|| {
            let pair = Pair {
                cause: NOBODY,
                payer: NOBODY,
            };
            let found = Evidence::Nothing;
            vec![(Known { pair, found }, 1.0)]
        });
        let all: f64 = others.iter().map(|(_, weight)| weight).sum();
        let mut settled = Weights::new();
        for (known, weight) in evidence {
            if !known.is_handed_on() {
                settled.push((known, weight));
                continue;
            }
            settled.extend(others.iter().map(|(other, part)| {
                let pair = Pair {
                    cause: other.pair.cause,
                    ..known.pair
                };
                (Known { pair, ..*other }, weight * part / all)
            }));
        }
        settled
    }

    /// Owners that all other CPUs have met in an event: in the interval, else earlier.
    fn elsewhere(&self, event: &Event, cpu: usize) -> Option<Weights> {
        let is_charged = Some(event.row) == self.received;
        let charged = (&self.host_charged, &self.charged[cpu]);
        let sampled = (&self.host[event.row], &self.cpus[cpu][event.row]);
        let of_others = |all: &[(Known, f64)], of_cpu: &[(Known, f64)]| -> Weights {
            let owned = all
                .iter()
                .filter(|(known, _)| known.found != Evidence::Nothing);
            let others = owned.map(|(known, weight)| {
                let same = of_cpu.iter().find(|(candidate, _)| candidate == known);
                (*known, weight - same.map_or(0.0, |(_, weight)| *weight))
            });
            // Past weights are rounded.
            others.filter(|(_, weight)| *weight >= LEAST).collect()
        };
        let pools = [is_charged.then_some(charged), Some(sampled)];
        let found = pools.into_iter().flatten().flat_map(|(host, of_cpu)| {
            [
                of_others(host.evidence(), of_cpu.evidence()),
                of_others(host.past(), of_cpu.past()),
            ]
        });
        { found }.find(|others| !others.is_empty())
    }

    /// Evidence of that CPU, of now or earlier, then that of the host.
    fn other_evidence(
        &self,
        event: &Event,
        leaf: usize,
        cpu: usize,
    ) -> impl Iterator<Item = &[(Known, f64)]> {
        let sends = self.sends.filter(|_| event.nature == Nature::Sent);
        let rows = [Some(leaf), Some(event.row), sends].into_iter().flatten();
        let of_cpu = self.cpus.get(cpu).into_iter();
        let of_cpu = of_cpu.flat_map({
            let rows = rows.clone();
            move |pools| {
                let now = rows.clone().map(|row| pools[row].evidence());
                now.chain(rows.clone().map(|row| pools[row].past()))
            }
        });
        let now = rows.clone().map(|row| self.host[row].evidence());
        let past = rows.map(|row| self.host[row].past());
        of_cpu.chain(now).chain(past)
    }

    /// The sends of that CPU, by which work that is sent later is divided.
    fn stand_in(&self, event: &Event, cpu: usize) -> Option<&Pool> {
        let sends = self.sends.filter(|_| event.nature == Nature::Sent)?;
        Some(&self.cpus.get(cpu)?[sends])
    }

    /// Renumbers owners by `renamed`; owners that share a number are merged.
    pub fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        self.pools().for_each(|pool| pool.rename(&renamed));
        self.precision.rename(&renamed);
    }
}

fn in_proportion((known, weight): (Known, f64)) -> (Known, f64) {
    let found = match known.pair.cause {
        NOBODY => Evidence::Nothing,
        _ => Evidence::Proportion,
    };
    (Known { found, ..known }, weight)
}

fn way(basis: &mut OwnerBasis, found: Evidence) -> &mut u64 {
    match found {
        Evidence::Task => &mut basis.task_ns,
        Evidence::Socket => &mut basis.socket_ns,
        Evidence::Interface => &mut basis.interface_ns,
        Evidence::Proportion => &mut basis.proportion_ns,
        Evidence::Nothing => &mut basis.nothing_ns,
        Evidence::Unknown => &mut basis.unknown_ns,
    }
}

#[cfg(test)]
mod tests;
