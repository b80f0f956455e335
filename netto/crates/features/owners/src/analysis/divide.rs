//! Divides the time of each component and CPU among its owners, in proportion to its samples; a
//! component without samples uses those of its event, then other evidence of that CPU. The parts
//! sum to the component's time, to the nanosecond.

use metrics_common::component::{children, index_of, index_of_source};
use metrics_common::sections::OwnerBasis;
use metrics_common::{COMPONENTS, Cost, Kind, Source};

use super::pool::{Pair, Pool, divide};

/// The unknown owner: always the first number.
pub const NOBODY: u32 = 0;

/// All of the time, without an owner.
const NOBODYS: &[(Pair, f64)] = &[(
    Pair {
        cause: NOBODY,
        payer: NOBODY,
    },
    1.0,
)];

/// How a sample's owner was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// By the task that ran.
    Task,
    /// By a socket.
    Socket,
    /// By an interface.
    Interface,
    /// Not at all.
    Nothing,
}

/// A sample with its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributed {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// Row of the event.
    pub event: usize,
    /// Row without parts that it belongs to.
    pub leaf: usize,
    /// The owners that caused it and paid; unknown if [`Evidence::Nothing`].
    pub pair: Pair,
    /// How that was found.
    pub found: Evidence,
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
/// waking other CPUs for receive packet steering. Without an owner it is divided as the others are.
fn is_for_all(leaf: usize) -> bool {
    ["napi_loop", "backlog", "rx_unattributed"].contains(&COMPONENTS[leaf].slug)
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
    /// By event's row: number of samples by how their owners were found, in the interval.
    found: Vec<[u64; 4]>,
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
            found: vec![[0; 4]; COMPONENTS.len()],
        }
    }
}

impl Division {
    /// Starts an interval of this length.
    pub fn begin(&mut self, interval_ns: u64, possible_cpus: usize) {
        if self.cpus.len() < possible_cpus {
            let nothing = vec![Pool::default(); COMPONENTS.len()];
            self.cpus.resize(possible_cpus, nothing);
        }
        let pools = self.cpus.iter_mut().flatten().chain(&mut self.host);
        pools.for_each(|pool| pool.begin(interval_ns));
        self.found.iter_mut().for_each(|found| *found = [0; 4]);
    }

    /// Adds a sample of the interval.
    pub fn add(&mut self, sample: Attributed) {
        self.found[sample.event][sample.found as usize] += 1;
        let is_known = sample.found != Evidence::Nothing;
        // A packet without a socket has no owner; sent ones are divided as the sends are.
        if !is_known && (nature_of(sample.event) == Nature::Sent || is_for_all(sample.leaf)) {
            return;
        }
        let Some(cpu) = self.cpus.get_mut(sample.cpu) else {
            return;
        };
        for pools in [cpu, &mut self.host] {
            pools[sample.leaf].add(sample.pair);
            if sample.event != sample.leaf {
                pools[sample.event].add(sample.pair);
            }
        }
    }

    /// Divides the time of all components; also returns how owners were found.
    pub fn divide(
        &self,
        cost: &Cost,
        cpus: &[u32],
        mut portion: impl FnMut(Portion),
    ) -> Vec<OwnerBasis> {
        let mut bases = Vec::new();
        for event in &self.events {
            let mut own_ns = 0;
            let mut borrowed_ns = 0;
            let mut nobodys_ns = 0;
            // An event without parts here has its time itself.
            let is_split = event.leaves.iter().any(|&leaf| cost.cpu_ns(leaf).is_some());
            let leaves = match is_split {
                true => &event.leaves[..],
                false => std::slice::from_ref(&event.row),
            };
            for &leaf in leaves {
                let Some(row) = cost.cpu_ns(leaf) else {
                    continue;
                };
                for (column, (&ns, &cpu)) in row.iter().zip(cpus).enumerate() {
                    if ns == 0 {
                        continue;
                    }
                    let (weights, rests_on) = self.weigh(event, leaf, cpu as usize);
                    match rests_on {
                        Rests::Own => own_ns += ns,
                        Rests::Others => borrowed_ns += ns,
                        Rests::Nothing => nobodys_ns += ns,
                    }
                    divide(ns, weights, |pair, ns| {
                        portion(Portion {
                            leaf,
                            column,
                            pair,
                            ns,
                        });
                    });
                }
            }
            let found = &self.found[event.row];
            bases.push(basis(event, found, [own_ns, borrowed_ns, nobodys_ns]));
        }
        bases
    }

    /// The weights for the time of a component on a CPU: its own samples of the interval, or its
    /// event's, so that in the long run each sample counts once; without any, those of the past.
    fn weigh(&self, event: &Event, leaf: usize, cpu: usize) -> (&[(Pair, f64)], Rests) {
        let stand_in = match event.nature {
            Nature::Sent => self.sends,
            Nature::Interrupt => index_of_source(Source::NET_RX),
            Nature::Received => index_of_source(Source::SocketReceive),
            Nature::Task => None,
        };
        let rows = [Some(leaf), Some(event.row), stand_in];
        let rows = || rows.into_iter().flatten();
        let own = self.cpus.get(cpu);
        let own = || {
            own.into_iter()
                .flat_map(|pools| rows().map(|row| &pools[row]))
        };
        let host = || rows().map(|row| &self.host[row]);
        let own_now = own().map(Pool::now);
        let others = own().map(Pool::past);
        let others = others
            .chain(host().map(Pool::now))
            .chain(host().map(Pool::past));
        let is_own = own_now.take(2).find(|weights| !weights.is_empty());
        if let Some(weights) = is_own {
            return (weights, Rests::Own);
        }
        let stand_in = stand_in.and_then(|row| Some(self.cpus.get(cpu)?[row].now()));
        let mut others = stand_in.into_iter().chain(others);
        match others.find(|weights| !weights.is_empty()) {
            Some(weights) => (weights, Rests::Others),
            None => (NOBODYS, Rests::Nothing),
        }
    }

    /// Renumbers owners by `renamed`; owners that share a number are merged.
    pub fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        let pools = self.cpus.iter_mut().flatten().chain(&mut self.host);
        pools.for_each(|pool| pool.rename(&renamed));
    }
}

/// The evidence of a division.
enum Rests {
    /// Samples of the component or its event, in this interval.
    Own,
    /// Earlier ones, or those of something else.
    Others,
    /// None.
    Nothing,
}

/// How the owners of an event's time were found.
fn basis(event: &Event, found: &[u64; 4], [own_ns, others_ns, nobodys_ns]: [u64; 3]) -> OwnerBasis {
    let all: u64 = found.iter().sum();
    let share = |count: u64| {
        let part = u128::from(own_ns) * u128::from(count);
        part.checked_div(u128::from(all)).unwrap_or(0) as u64
    };
    let mut parts = found.map(share);
    // The rounding remainder goes to the most frequent way.
    let left_ns = own_ns - parts.iter().sum::<u64>();
    let most = found
        .iter()
        .zip(&mut parts)
        .max_by_key(|(count, _)| **count);
    if let Some((_, part)) = most {
        *part += left_ns;
    }
    let [task_ns, socket_ns, interface_ns, unknown_ns] = parts;
    let goes_by_sends = event.nature == Nature::Sent;
    OwnerBasis {
        component: event.row as u32,
        task_ns,
        socket_ns,
        interface_ns,
        proportion_ns: others_ns + if goes_by_sends { unknown_ns } else { 0 },
        nothing_ns: nobodys_ns + if goes_by_sends { 0 } else { unknown_ns },
    }
}

#[cfg(test)]
mod tests;
